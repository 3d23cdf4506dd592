"""The edition of the code that computes what is kept: its version, sources and libraries."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from functools import cache
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from time import time

ROOT = Path(__file__).parents[2]
"""The folder with the packages."""

SOURCES = (
    "hierarchies",
    "grammar",
    *(
        f"synth/{room}"
        for room in ("step", "collective", "compute", "primitives", "search", "events", "cache")
    ),
)
"""Folders with all code and data that a training step and its collectives depend on. Others, as
those that draw tables, change without making all that is kept useless."""

_ENDINGS = (".py", ".lark", ".toml", ".jinja")
_LIBRARIES = ("collsynth", "numpy", "scipy", "jax", "jaxlib")


_LOADED = time()


@cache
def edition() -> str:
    """Returns the versions and 16 hex digits of the sources; "" if these changed since the start.

    The digest covers contents, not times: two checkouts of one commit share what they keep. A
    server that runs on while its code is replaced must not keep results under the new name.
    """
    digest = sha256()
    for file in _list_files():
        if file.stat().st_ctime > _LOADED:
            return ""
        content = file.read_bytes()
        digest.update(f"{file.relative_to(ROOT)}\0{len(content)}\0".encode() + content)
    versions = "".join(f" {name}={_version(name)}" for name in _LIBRARIES)
    python = ".".join(map(str, sys.version_info[:3]))
    return f"{digest.hexdigest()[:16]} python={python} {sys.byteorder}{versions}"


def has_library(name: str) -> bool:
    """Whether a library is installed, without importing it."""
    return bool(_version(name))


@cache
def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return ""


def _list_files() -> Iterator[Path]:
    for folder in SOURCES:
        for place, folders, names in os.walk(ROOT / folder):
            folders[:] = sorted(name for name in folders if name != "__pycache__")
            for name in sorted(names):
                if name.endswith(_ENDINGS):
                    yield Path(place, name)
