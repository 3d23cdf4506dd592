"""Where a number comes from: the command, the commit, the day and the machine that made it.

Standard library only: ``bench.py`` measures the memory of processes that it starts, and must stay
smaller than they are.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
DATA = HERE / "data"
README = HERE / "README.md"


def commit() -> str:
    """The short id of the checkout's last commit; ``unknown`` outside a checkout."""
    asked = ["git", "rev-parse", "--short", "HEAD"]
    try:
        told = subprocess.run(asked, cwd=HERE, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return told.stdout.strip()


def origin(command: str) -> dict[str, str]:
    """What every file of results says of itself."""
    return {
        "command": command,
        "commit": commit(),
        "date": datetime.now(tz=UTC).date().isoformat(),
    }


def machine() -> dict[str, Any]:
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "system": platform.system(),
        "python": platform.python_version(),
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.machine()
    named = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return named[0] if named else platform.machine()


def write(name: str, content: dict[str, Any]) -> None:
    """Write a file of ``data/``."""
    DATA.mkdir(exist_ok=True)
    text = json.dumps(content, indent=1, ensure_ascii=False)
    (DATA / name).write_text(text + "\n", encoding="utf-8")


def read(name: str) -> dict[str, Any]:
    """Read a file of ``data/``."""
    content: dict[str, Any] = json.loads((DATA / name).read_text(encoding="utf-8"))
    return content


def section(text: str, name: str) -> str:
    """The part of a page between the markers of a section. Raises ValueError if there is none."""
    begin, end = _markers(name)
    return text[text.index(begin) + len(begin) : text.index(end)]


def replaced(text: str, name: str, body: str) -> str:
    """A page with one section's text replaced. Raises ValueError if it has no such section."""
    begin, end = _markers(name)
    return text[: text.index(begin) + len(begin)] + f"\n{body}\n" + text[text.index(end) :]


def _markers(name: str) -> tuple[str, str]:
    return f"<!-- {name}: generated, do not edit -->", f"<!-- end of {name} -->"


def table(head: list[str], rows: list[list[str]]) -> str:
    """A Markdown table."""
    lines = ["| " + " | ".join(cells) + " |" for cells in [head, ["---"] * len(head), *rows]]
    return "\n".join(lines)
