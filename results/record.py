"""Where a number comes from: the command, the commit, the day and the machine that made it."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime
from math import isclose
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
ORIGIN = ("command", "commit", "date")


def commit() -> str:
    """The short id of the checkout's last commit; ``unknown`` outside a checkout."""
    asked = ["git", "rev-parse", "--short", "HEAD"]
    try:
        told = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, check=True)
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


def made_at(entry: dict[str, Any]) -> str:
    """The commit, the day and the machine of one of several figures, in words."""
    machine = entry["machine"]
    return (
        f"commit {entry['commit']}, {entry['date']}, {machine['processor']}, "
        f"{machine['cores']} cores, Python {machine['python']}"
    )


def write(path: Path, content: dict[str, Any]) -> None:
    """Keep results as JSON."""
    text = json.dumps(content, indent=1, ensure_ascii=False)
    path.write_text(text + "\n", encoding="utf-8")


def read(path: Path) -> dict[str, Any]:
    """Results that are kept."""
    content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return content


def differences(old: Any, new: Any, at: str = "") -> Iterator[str]:
    """Where two sets of results differ; their origins may, and numbers by rounding."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted({*old, *new} - set(ORIGIN)):
            yield from differences(old.get(key), new.get(key), f"{at}.{key}" if at else key)
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for i, (one, other) in enumerate(zip(old, new, strict=True)):
            yield from differences(one, other, f"{at}[{i}]")
    elif isinstance(old, float) and isinstance(new, float):
        if not isclose(old, new, rel_tol=1e-3):
            yield f"{at}: {old} is there, {new} was found"
    elif old != new:
        yield f"{at}: {old} is there, {new} was found"
