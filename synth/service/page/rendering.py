"""Renders pages and parts of pages from templates, and loads their static files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from importlib import resources
from pathlib import PurePath
from typing import Any

from jinja2 import Environment

from synth.service.page.help import link_once, link_step, link_term
from synth.service.page.help.documents import files_below
from synth.show.report.rendering import environment, style
from synth.show.terminal.deciding import FIGURES, SETS
from synth.show.terminal.rankings import LESS_IS_NO_BETTER
from synth.show.terminal.verdict import BY_SIZE

POLICY = (
    "default-src 'self'; object-src 'none'; base-uri 'none'; "
    "frame-ancestors 'none'; form-action 'self'"
)
REDOC_POLICY = (
    f"{POLICY}; img-src 'self' data:; worker-src blob:; style-src 'self' "
    "'sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=' "
    "'sha256-QMIg+bpjm3JdElJ388KYke01izlUW0UoNOeKjpMxdgc='"
)
"""Redoc searches in a worker, and adds two style elements: an empty one, and that of its scrollbar.

The policy admits both by their hashes. It forbids Redoc's request to another site for its logo.
"""
_TYPES = {
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".csv": "text/plain; charset=utf-8",
    ".json": "application/json",
    ".toml": "text/plain; charset=utf-8",
    "": "text/plain; charset=utf-8",
}


@dataclass(frozen=True)
class StaticFile:
    """A static file as it is served."""

    content: bytes
    media_type: str
    etag: str


@cache
def static_files() -> Mapping[str, StaticFile]:
    """Return every file under static/ by path, and the stylesheet that reports share."""
    root = resources.files("synth.service.page") / "static"
    own = {path: file.read_bytes() for path, file in files_below(root)}
    contents = {"page.css": style().encode(), **own}
    return {path: _static(path, content) for path, content in sorted(contents.items())}


def media_type(path: str) -> str:
    """Return the media type of a file by its suffix."""
    return _TYPES.get(PurePath(path).suffix, "application/octet-stream")


def _static(path: str, content: bytes) -> StaticFile:
    return StaticFile(content, media_type(path), sha256(content).hexdigest()[:16])


def address(path: str) -> str:
    """Return the URL of a static file; it changes with the content, so that caches refetch it."""
    return f"/static/{path}?v={static_files()[path].etag}"


@cache
def _environment() -> Environment:
    jinja = environment("synth.service.page")
    jinja.globals |= {
        "static": address,
        "term": link_term,
        "step": link_step,
        "once": link_once,
        "no_forms": set,
        "less_is_no_better": LESS_IS_NO_BETTER,
    }
    jinja.globals |= {"sets": SETS, "figures": FIGURES, "by_size": BY_SIZE}
    return jinja


def render(template: str, **context: Any) -> str:
    """Render a template with escaped values."""
    return _environment().get_template(template).render(**context)
