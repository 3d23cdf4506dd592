"""Loaded once by the process that workers are forked from, so that each begins warm.

A terminal's Ctrl-C and a service manager's SIGTERM reach every process of a group. Both are the
server's to decide on: it ends its workers when it has what it wants of them.
"""

from __future__ import annotations

import os
import signal
from importlib import import_module

signal.signal(signal.SIGTERM, signal.SIG_IGN)
signal.signal(signal.SIGINT, signal.SIG_IGN)
os.nice(5)  # the server answers what it knows while others work
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
import_module("synth.service.workers.process")
