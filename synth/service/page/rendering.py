"""Pages and parts of pages from their templates, with the files they need from beside them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import PurePath
from typing import Any

from jinja2 import Environment

from synth.service.page.help import link_once, link_step, link_term
from synth.show.report.rendering import environment, style
from synth.show.terminal.deciding import FIGURES, SETS
from synth.show.terminal.rankings import LESS_IS_NO_BETTER
from synth.show.terminal.verdict import BY_SIZE

POLICY = (
    "default-src 'self'; object-src 'none'; base-uri 'none'; "
    "frame-ancestors 'none'; form-action 'self'"
)
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
    """A file as it is served."""

    content: bytes
    media_type: str
    etag: str


@cache
def static_files() -> Mapping[str, StaticFile]:
    """Every file under static/ by its path there, and the style that reports have too."""
    root = resources.files("synth.service.page") / "static"
    found = {"page.css": _static("page.css", style().encode())}
    return dict(sorted({**found, **dict(_files(root, ""))}.items()))


def _files(folder: Traversable, before: str) -> Iterator[tuple[str, StaticFile]]:
    for one in folder.iterdir():
        path = f"{before}{one.name}"
        if one.is_dir():
            yield from _files(one, f"{path}/")
        else:
            yield path, _static(path, one.read_bytes())


def media_type(path: str) -> str:
    """What a file is, by the ending of its name."""
    return _TYPES.get(PurePath(path).suffix, "application/octet-stream")


def _static(path: str, content: bytes) -> StaticFile:
    return StaticFile(content, media_type(path), sha256(content).hexdigest()[:16])


def address(path: str) -> str:
    """The address of a static file; it changes with the content, so that browsers fetch it anew."""
    return f"/static/{path}?v={static_files()[path].etag}"


@cache
def _environment() -> Environment:
    made = environment("synth.service.page")
    made.globals |= {
        "static": address,
        "term": link_term,
        "step": link_step,
        "once": link_once,
        "no_forms": set,
        "less_is_no_better": LESS_IS_NO_BETTER,
    }
    made.globals |= {"sets": SETS, "figures": FIGURES, "by_size": BY_SIZE}
    return made


def render(template: str, **given: Any) -> str:
    """A template with its values in place, all of them escaped."""
    return _environment().get_template(template).render(**given)
