"""Asks the judge: another interpreter, one that has simgrid, in processes of its own."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from shutil import which
from typing import Any

JUDGE = Path(__file__).with_name("judge.py")
CANDIDATES = ("/usr/bin/python3", "python3", "python3.11", "python3.12", "python3.13")
MISSING = (
    "no interpreter here has simgrid: on Debian, apt-get install python3-simgrid "
    "(for the system's python3); elsewhere, pip install simgrid for any python3 on the PATH"
)


@cache
def interpreter() -> str | None:
    """An interpreter that can import simgrid, or None."""
    for name in CANDIDATES:
        path = which(name)
        if path:
            tried = subprocess.run([path, "-c", "import simgrid"], capture_output=True, check=False)
            if tried.returncode == 0:
                return path
    return None


def version() -> str:
    """Of the simgrid that judges."""
    ask = "import simgrid; print(simgrid.simgrid_version)"
    asked = [interpreter() or "", "-c", ask]
    told = subprocess.run(asked, capture_output=True, text=True, check=True)
    return told.stdout.strip()


def verdicts(problems: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """What the judge says of each problem, one after the other.

    Raises RuntimeError where no interpreter has simgrid, or where the judge fails.
    """
    python = interpreter()
    if python is None:
        raise RuntimeError(MISSING)
    asked = [python, "-u", str(JUDGE)]
    with subprocess.Popen(
        asked, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as judge:
        assert judge.stdin is not None
        assert judge.stdout is not None
        for problem in problems:
            judge.stdin.write(json.dumps(problem) + "\n")
            judge.stdin.flush()
            line = judge.stdout.readline()
            told = json.loads(line) if line else {"error": "no answer"}
            if "error" in told:
                raise RuntimeError(f"the judge failed: {told['error']}")
            yield told
        judge.stdin.close()
