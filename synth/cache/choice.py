"""Whether results are kept between questions, and where: a user's choice, or the cache folder."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from contextvars import ContextVar
from pathlib import Path

VARIABLE = "COLLSYNTH_CACHE"
"""The environment variable with the folder to use, or ``NONE``."""

NONE = "none"

unused: ContextVar[bool] = ContextVar("unused", default=False)
"""Whether nothing is to be kept or read: ``--no-cache``."""


def is_kept(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether anything is to be kept for later questions, in memory or on disk."""
    return not unused.get() and environment.get(VARIABLE) != NONE


def user_folder(
    environment: Mapping[str, str] = os.environ, platform: str = sys.platform
) -> Path | None:
    """Returns the folder for caches of this program, by the convention of the platform."""
    try:
        home = Path(environment.get("HOME") or Path.home())
    except RuntimeError:  # a user without a home
        return None
    if platform == "win32":
        local = Path(environment.get("LOCALAPPDATA") or home / "AppData" / "Local")
        return local / "collsynth" / "Cache"
    if platform == "darwin":
        return home / "Library" / "Caches" / "collsynth"
    given = environment.get("XDG_CACHE_HOME", "")
    return (Path(given) if Path(given).is_absolute() else home / ".cache") / "collsynth"
