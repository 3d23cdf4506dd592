"""Pages and parts of pages from their templates, with the files they need from beside them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import PurePath
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape

from hierarchies.units import duration, volume
from synth.tables.style import axes_text, carried, way

POLICY = (
    "default-src 'self'; object-src 'none'; base-uri 'none'; "
    "frame-ancestors 'none'; form-action 'self'"
)
_TYPES = {
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".toml": "text/plain; charset=utf-8",
    "": "text/plain; charset=utf-8",
}


@dataclass(frozen=True)
class Static:
    """A file as it is served."""

    content: bytes
    media_type: str
    etag: str


@cache
def static() -> Mapping[str, Static]:
    """Every file under static/ by its path there."""
    root = resources.files("synth.service.page") / "static"
    return dict(sorted(_files(root, "")))


def _files(folder: Traversable, before: str) -> Iterator[tuple[str, Static]]:
    for one in folder.iterdir():
        path = f"{before}{one.name}"
        if one.is_dir():
            yield from _files(one, f"{path}/")
            continue
        content = one.read_bytes()
        kind = _TYPES.get(PurePath(one.name).suffix, "application/octet-stream")
        yield path, Static(content, kind, sha256(content).hexdigest()[:16])


def address(path: str) -> str:
    """The address of a static file; it changes with the content, so that browsers fetch it anew."""
    return f"/static/{path}?v={static()[path].etag}"


@cache
def _environment() -> Environment:
    made = Environment(
        loader=PackageLoader("synth.service.page"),
        autoescape=select_autoescape(default=True, default_for_string=True),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    texts = (duration, volume, axes_text, way, carried)
    made.filters |= {text.__name__: text for text in texts} | {"pretty": _pretty}
    made.globals |= {"static": address}
    return made


def render(template: str, **given: Any) -> str:
    """A template with its values in place, all of them escaped."""
    return _environment().get_template(template).render(**given)


def _pretty(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)
