"""The edition of the code that answers: the version, and a digest of the relevant sources.

A stored answer may be returned only by the code that computed it. The version alone does not
identify that code, as a checkout changes between versions. A digest of all sources would change too
often: code that draws a table or serves a page changes no answer.

Therefore the digest covers the module that answers questions, all modules of this project that it
imports directly or indirectly, and the data files in their packages. Following the imports avoids a
list that must be maintained.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterator
from functools import cache
from hashlib import sha256
from importlib import resources
from importlib.metadata import version
from importlib.resources.abc import Traversable

from synth.ask.partition import carry_out

_PACKAGES = ("hierarchies", "grammar", "synth")
_DATA = (".lark", ".toml", ".jinja")
_IMPORT = re.compile(
    rb"^[ \t]*(?:from[ \t]+([\w.]+)[ \t]+import[ \t]+(?:\(([^)]*)\)|([^\n(]*))"
    rb"|import[ \t]+([^\n]*))",
    re.MULTILINE,
)
"""Matches imports anywhere in a file, and in a text what only looks like one: a module too many in
the digest does no harm. Parsing each file would take ten times as long."""
_QUOTED = re.compile(rb"\"((?:%s)(?:\.\w+)+)\"" % "|".join(_PACKAGES).encode())
"""Matches quoted names of what is in a module, as a verb's, which is imported when it is used."""
_NAMES = re.compile(rb"[\w.]+")
_COMMENT = re.compile(rb"#[^\n]*")


@cache
def edition() -> str:
    """Return the version and 12 hex digits of the digest, as in ``0.1.0+3f5c0a9d2b71``."""
    digest = sha256()
    for name, content in sorted(sources(carry_out.__module__).items()):
        digest.update(f"{name}\0{len(content)}\0".encode() + content)
    return f"{version('collsynth')}+{digest.hexdigest()[:12]}"


def sources(module: str) -> dict[str, bytes]:
    """Return contents by path: a module, own modules that it imports, and their packages' data."""
    there = {
        path: file for ours in _PACKAGES for path, file in _walk_files(resources.files(ours), ours)
    }
    found: dict[str, bytes] = {}
    waiting, met = [module], {module}
    while waiting:
        place = waiting.pop().replace(".", "/")
        for path in (f"{place}.py", f"{place}/__init__.py"):
            if path in there:
                found[path] = there[path].read_bytes()
                fresh = set(_find_imports(found[path])) - met
                met |= fresh
                waiting += fresh
    for path, file in there.items():
        if path.endswith(_DATA) and _package(path, there) in found:
            found[path] = file.read_bytes()
    return found


def _walk_files(folder: Traversable, place: str) -> Iterator[tuple[str, Traversable]]:
    """Yield the files in and below a folder, by their paths."""
    for entry in folder.iterdir():
        path = f"{place}/{entry.name}"
        if entry.name.endswith((".py", *_DATA)):
            yield path, entry
        elif entry.is_dir():
            yield from _walk_files(entry, path)


def _package(path: str, there: Container[str]) -> str:
    """Return the ``__init__.py`` of a file's innermost package: ``a`` for ``a/b.toml``."""
    while path:
        path = path.rpartition("/")[0]
        if f"{path}/__init__.py" in there:
            break
    return f"{path}/__init__.py"


def _find_imports(source: bytes) -> Iterator[str]:
    """Return own modules that a source may import: ``from a.b import c`` gives a, a.b, a.b.c.

    The quoted name of ``a.b.c`` gives a, a.b.
    """
    for name in _QUOTED.findall(source):
        yield from _list_packages(name.rpartition(b".")[0])
    for module, bracketed, plain, several in _IMPORT.findall(source):
        names = _NAMES.findall(_COMMENT.sub(b"", bracketed or plain or several))
        if module:
            names = [module, *(b"%b.%b" % (module, name) for name in names)]
        for name in names:
            yield from _list_packages(name)


def _list_packages(name: bytes) -> Iterator[str]:
    """Yield a dotted name of ours and the packages that it is in."""
    parts = name.decode().split(".")
    if parts[0] in _PACKAGES:
        yield from (".".join(parts[:count]) for count in range(1, len(parts) + 1))
