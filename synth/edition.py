"""Which code answers: the version, and a digest of the sources that answers come from.

An answer may be kept and given again only to a question put to the same code. Versions alone do
not tell: a checkout changes between them.
"""

from __future__ import annotations

from functools import cache
from hashlib import sha256
from importlib import resources
from importlib.metadata import version
from importlib.resources.abc import Traversable

_ROOMS = ("hierarchies", "grammar", "synth")
_SOURCES = (".py", ".lark", ".toml", ".jinja")
_FACES = frozenset({"synth/service", "synth/commands"})
"""What puts questions and shows answers, and changes none."""


@cache
def edition() -> str:
    """The version and the first 12 hex digits of the digest, as in ``0.1.0+3f5c0a9d2b71``."""
    digest = sha256()
    for room in _ROOMS:
        for name, content in _sources(resources.files(room), room):
            digest.update(f"{name}\0{len(content)}\0".encode() + content)
    return f"{version('collsynth')}+{digest.hexdigest()[:12]}"


def _sources(folder: Traversable, name: str) -> list[tuple[str, bytes]]:
    """The source files in and below a folder by their names, sorted."""
    found: list[tuple[str, bytes]] = []
    for entry in sorted(folder.iterdir(), key=lambda one: one.name):
        place = f"{name}/{entry.name}"
        if entry.is_dir() and place not in _FACES:
            found += _sources(entry, place)
        elif entry.is_file() and entry.name.endswith(_SOURCES):
            found.append((place, entry.read_bytes()))
    return found
