"""Runs concurrent processes: if one fails all are killed, and none outlives this process."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from itertools import dropwhile, islice, takewhile
from pathlib import Path

from synth.collective.run.trial import RunError

_POLL_SECONDS = 0.02
_GRACE_SECONDS = 3.0
_LAST_LINES = 4
_EXCEPTION = re.compile(r"[A-Za-z_.]+(Error|Exception): ")
_AFTER = re.compile(r"-+$|\[[EIW]\d* ")
"""Text that follows a message: JAX's rule above its note, or a log line of PyTorch."""
_TRACEBACK = "Traceback (most recent call last):\n"
_UNLESS_ORPHANED = ("sh", "-c", 'test "$PPID" = "$0" && exec "$@"')
"""A parent that died before setpriv asked for its signal sends none: then do not start."""


@dataclass(frozen=True)
class Command:
    """One process: its name in messages, its command line, and additions to its environment."""

    name: str
    words: Sequence[str]
    environment: Mapping[str, str] = field(default_factory=dict)


def supervise(
    commands: Sequence[Command],
    folder: Path,
    timeout_seconds: float,
    go_on: Callable[[], bool] = lambda: True,
) -> str:
    """Runs commands concurrently to their end; returns the standard output of the first.

    They run in ``folder`` and leave their output there. If one fails, on a timeout, or if
    ``go_on`` returns False or raises, all are killed, with every process they have started.
    Raises RunError with the name of the process and the last lines of its output.
    """
    running: list[subprocess.Popen[bytes]] = []
    failed: list[int] = []
    end = time.monotonic() + timeout_seconds
    try:
        for number, command in enumerate(commands):
            running.append(_start(command, folder, number))
        while alive := [process for process in running if process.poll() is None]:
            if failed := _failed_processes(running):
                break
            if time.monotonic() > end:
                raise RunError(
                    f"{len(alive)} of {len(commands)} processes were not done "
                    f"after {timeout_seconds:g} s",
                    hint="give more time with --timeout, or a smaller --bytes",
                )
            if not go_on():
                raise RunError("stopped before the end", hint="the budget is used up")
            time.sleep(_POLL_SECONDS)
    finally:
        _end(running)
    if failed := failed or _failed_processes(running):
        raise _failure(commands[failed[0]], running[failed[0]].returncode, folder, failed[0])
    return _output(folder, 0, "out").read_text(encoding="utf-8", errors="replace")


def _start(command: Command, folder: Path, number: int) -> subprocess.Popen[bytes]:
    """Starts a process in its own session, so that its descendants can be killed with it.

    Where Linux's setpriv exists, the process also ends when this process is killed.
    """
    guard = _guard_command()
    words = list(command.words)
    if guard:
        words = [guard, "--pdeathsig", "TERM", *_UNLESS_ORPHANED, str(os.getpid()), *words]
    with (
        _output(folder, number, "out").open("wb") as out,
        _output(folder, number, "err").open("wb") as err,
    ):
        return subprocess.Popen(
            words,
            cwd=folder,
            env={**os.environ, **command.environment},
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            start_new_session=True,
        )


@cache
def _guard_command() -> str | None:
    """Returns Linux's setpriv, if it can end a child when its parent dies."""
    found = shutil.which("setpriv")
    if found is None:
        return None
    printed = subprocess.run([found, "--help"], capture_output=True, text=True, check=False)
    return found if "--pdeathsig" in printed.stdout else None


def _output(folder: Path, number: int, kind: str) -> Path:
    return folder / f"process{number}.{kind}"


def _failed_processes(running: Sequence[subprocess.Popen[bytes]]) -> list[int]:
    return [number for number, process in enumerate(running) if process.poll() not in (None, 0)]


def _end(running: Sequence[subprocess.Popen[bytes]]) -> None:
    """Sends SIGTERM to all that still run, then SIGKILL."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        for process in running:
            if process.poll() is None:
                _signal(process, number)
        end = time.monotonic() + _GRACE_SECONDS
        while any(process.poll() is None for process in running) and time.monotonic() < end:
            time.sleep(_POLL_SECONDS)
    # A process that has ended may have left others running in its session.
    for process in running:
        _signal(process, signal.SIGKILL)
        process.wait()


def _signal(process: subprocess.Popen[bytes], how: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, how)


def _failure(command: Command, code: int, folder: Path, number: int) -> RunError:
    text = _output(folder, number, "err").read_text(encoding="utf-8", errors="replace")
    text = text or _output(folder, number, "out").read_text(encoding="utf-8", errors="replace")
    said = last_message(text)
    how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"
    words = f"; it said: {said}" if said else ""
    return RunError(f"{command.name} {how}, so all were ended{words}")


def last_message(text: str) -> str:
    """Returns the message of the last exception in a process's output, else its last lines.

    Python underlines the code of a traceback, and JAX lists below it which frames it omits:
    neither is the message.
    """
    # PyTorch writes the rank before each line of a traceback.
    text = re.sub(r"^\[rank\d+\]: ?", "", text, flags=re.MULTILINE)
    _, found, trace = text.rpartition(_TRACEBACK)
    lines = (trace if found else text).splitlines()
    if not found:
        return " | ".join([line.strip() for line in lines if line.strip()][-_LAST_LINES:])
    # Ranks of mpiexec share a stream, where tracebacks interleave: search for exception lines.
    begun = [number for number, line in enumerate(lines) if _EXCEPTION.match(line)]
    message = (
        iter(lines[begun[-1] :])
        if begun
        else dropwhile(lambda line: not line.strip() or line[0].isspace(), lines)
    )
    whole = takewhile(lambda line: line.strip() and not _AFTER.match(line), message)
    return " | ".join(line.strip() for line in islice(whole, _LAST_LINES))
