"""The folder of the cache, and whether the user turned the cache off."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from contextvars import ContextVar
from pathlib import Path

VARIABLE = "COLLSYNTH_CACHE"
"""The environment variable with the folder to use, or ``NONE``."""

NONE = "none"

cache_off: ContextVar[bool] = ContextVar("cache_off", default=False)
"""Whether this command neither reads nor writes the cache: ``--no-cache``."""


def is_kept(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether the cache is used, in memory or on disk."""
    return not cache_off.get() and environment.get(VARIABLE) != NONE


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
