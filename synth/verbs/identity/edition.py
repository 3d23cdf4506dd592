"""Which code answers: the version, and a digest of the sources that answers come from.

An answer may be kept and given again only to a question put to the same code. Versions alone do
not tell: a checkout changes between them. Nor do all sources: how a table is drawn, or a page
served, changes no answer, and should not make anybody work out again what is known.

So the digest has what answers are made by, and nobody lists it: the module that carries questions
out, every module of ours that it reaches by imports, and the data that lies in their packages.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterator
from functools import cache
from hashlib import sha256
from importlib import resources
from importlib.metadata import version
from importlib.resources.abc import Traversable

from synth.verbs.partition import carry_out

_OURS = ("hierarchies", "grammar", "synth")
_DATA = (".lark", ".toml", ".jinja")
_IMPORT = re.compile(
    rb"^[ \t]*(?:from[ \t]+([\w.]+)[ \t]+import[ \t]+(?:\(([^)]*)\)|([^\n(]*))"
    rb"|import[ \t]+([^\n]*))",
    re.MULTILINE,
)
"""An import wherever it stands in a file. What only looks like one, in a text, may be followed too:
a module too many in the digest does no harm. Parsing each file would take ten times as long."""
_NAMES = re.compile(rb"[\w.]+")
_COMMENT = re.compile(rb"#[^\n]*")


@cache
def edition() -> str:
    """The version and the first 12 hex digits of the digest, as in ``0.1.0+3f5c0a9d2b71``."""
    digest = sha256()
    for name, content in sorted(sources(carry_out.__module__).items()):
        digest.update(f"{name}\0{len(content)}\0".encode() + content)
    return f"{version('collsynth')}+{digest.hexdigest()[:12]}"


def sources(module: str) -> dict[str, bytes]:
    """A module, all of ours that it reaches by imports, and their packages' data, by path."""
    there = {path: file for ours in _OURS for path, file in _below(resources.files(ours), ours)}
    found: dict[str, bytes] = {}
    waiting, met = [module], {module}
    while waiting:
        place = waiting.pop().replace(".", "/")
        for path in (f"{place}.py", f"{place}/__init__.py"):
            if path in there:
                found[path] = there[path].read_bytes()
                fresh = set(_imported(found[path])) - met
                met |= fresh
                waiting += fresh
    for path, file in there.items():
        if path.endswith(_DATA) and _package(path, there) in found:
            found[path] = file.read_bytes()
    return found


def _below(folder: Traversable, place: str) -> Iterator[tuple[str, Traversable]]:
    """The files in and below a folder, by their paths."""
    for entry in folder.iterdir():
        path = f"{place}/{entry.name}"
        if entry.name.endswith((".py", *_DATA)):
            yield path, entry
        elif entry.is_dir():
            yield from _below(entry, path)


def _package(path: str, there: Container[str]) -> str:
    """The file that makes a package of the innermost folder of a path that is one."""
    while path:
        path = path.rpartition("/")[0]
        if f"{path}/__init__.py" in there:
            break
    return f"{path}/__init__.py"


def _imported(source: bytes) -> Iterator[str]:
    """What a source imports: modules, packages around them, and what may be modules inside them."""
    for module, bracketed, plain, several in _IMPORT.findall(source):
        names = _NAMES.findall(_COMMENT.sub(b"", bracketed or plain or several))
        if module:
            names = [module, *(b"%b.%b" % (module, name) for name in names)]
        for name in names:
            parts = name.decode().split(".")
            if parts[0] in _OURS:
                yield from (".".join(parts[:count]) for count in range(1, len(parts) + 1))
