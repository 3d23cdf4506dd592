"""The measurements and topology files that stand beside a checkout, not in it."""

import os
from pathlib import Path

import pytest

_ROOT = Path(os.environ.get("COLLSYNTH_SHARED", Path(__file__).parents[1] / ".." / "shared"))


def shared(*parts: str) -> Path:
    """A file or folder of the shared data; skips the test where there is none."""
    path = _ROOT.joinpath("data", *parts)
    if not path.exists():
        pytest.skip(f"needs the shared data: no {'/'.join(parts)} beside this checkout")
    return path


def case(*parts: str) -> Path:
    """A file of the failing inputs that were collected; skips the test where there is none."""
    path = _ROOT.joinpath("cases", *parts)
    if not path.exists():
        pytest.skip(f"needs the shared cases: no {'/'.join(parts)} beside this checkout")
    return path
