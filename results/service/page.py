"""The generated part of the results page about the service."""
from __future__ import annotations
from typing import Any
def section(data: dict[str, Any]) -> str:
    return ""
