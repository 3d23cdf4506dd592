"""A server in a process of its own, as the command line starts it, and somebody who asks it."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from patience import PATIENCE_SECONDS

MAIN = (sys.executable, "-c", "from synth.cli.app import main; main()")
LONG = {"digits": 5, "max_steps": 8, "across": True}
"""Minutes of work for ``count``, which can come to an end at any time."""
AT_ONCE = {"Prefer": "respond-async"}


@contextmanager
def serving(store: str, *words: str) -> Iterator[tuple[subprocess.Popen[str], Any]]:
    """A server on a free port."""
    command = (*MAIN, "serve", "--port", "0", "--store", store, "--workers", "1", *words)
    with started(command, os.environ) as process:
        assert process.stdout is not None
        address = re.search(r"http://\S+", process.stdout.readline())
        assert address, process.communicate()[1][-2000:]
        with httpx.Client(base_url=address[0], timeout=PATIENCE_SECONDS, trust_env=False) as client:
            yield process, client


@contextmanager
def started(
    command: Sequence[str], environment: Mapping[str, str], cwd: Path | None = None
) -> Iterator[subprocess.Popen[str]]:
    """A process in a session of its own; killed in the end if it still runs."""
    process = subprocess.Popen(
        command,
        env=environment,
        cwd=cwd,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def status_of(client: Any, job: Any, *wanted: str) -> Any:
    """A job once its status is one of those wanted."""
    end = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < end:
        found = client.get(job["url"]).json()
        if found["status"] in wanted:
            return found
        time.sleep(0.05)
    raise AssertionError(found)


def resident_bytes(pid: int) -> int:
    """What a process has in memory, as Linux tells it."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) * 1024


def free_port() -> int:
    """A port of this machine's own address that nobody listens on."""
    with socket.socket() as made:
        made.bind(("127.0.0.1", 0))
        return int(made.getsockname()[1])
