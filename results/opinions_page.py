"""The generated part of README.md about the second opinion, from ``data/opinions.json``."""

from __future__ import annotations

from typing import Any


def sections(data: dict[str, Any]) -> dict[str, str]:
    """The text of every generated section, by its name."""
    return {}
