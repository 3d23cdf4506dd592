"""Preloaded by the forkserver, so that each worker forked from it has all modules imported.

Ctrl-C in a terminal and SIGTERM from a service manager reach every process of a group. Workers
ignore both signals, because the server ends them when their jobs are done or requeued.
"""

from __future__ import annotations

import os
import signal
from importlib import import_module

signal.signal(signal.SIGTERM, signal.SIG_IGN)
signal.signal(signal.SIGINT, signal.SIG_IGN)
os.nice(5)  # the server must answer quickly while workers compute
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # OpenBLAS reads it when numpy is imported
import_module("synth.service.workers.process_main")
import_module("synth.ask.table").import_verbs()
