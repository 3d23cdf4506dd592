"""How every command asks: it passes its flags on, and exits as the answer ended."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any

import typer

from synth.cache.choice import cache_off

if TYPE_CHECKING:
    from synth.service.cache import Cache

chosen_store: ContextVar[str | None] = ContextVar("chosen_store", default=None)
"""The URL given before the command, or by the environment."""


def ask_and_exit(
    verb: str,
    flags: Mapping[str, Any],
    *,
    as_json: bool,
    in_lines: bool = False,
    budget: float | None = None,
    output: str | None = None,
    page: str | None = None,
    apart: Mapping[str, str | None] = MappingProxyType({}),
) -> None:
    """Put a question, print the answer, and exit as it ended."""
    # Not at the top of the file: it loads numpy, z3 and pydantic, and --help must not wait for it.
    from synth.cli.ask import ask

    url = chosen_store.get()
    more = {} if url is None else {"before": partial(_open_answers, url)}
    to = {ending: file for ending, file in apart.items() if file is not None}
    code = ask(
        verb,
        flags,
        as_json=as_json,
        in_lines=in_lines,
        budget_seconds=budget,
        output=output,
        page=page,
        apart=to,
        **more,
    )
    if code:
        raise typer.Exit(code)


@contextmanager
def _open_answers(url: str) -> Iterator[Cache]:
    """The answers kept in a store. Raises InputError where it cannot be used."""
    try:
        # Not at the top of the file: it loads what the extra server installs.
        from synth.service.cache import open_cache
    except ModuleNotFoundError as error:
        # Not at the top of the file: it loads numpy, and --help must not wait for it.
        from hierarchies import InputError

        hint = "pip install 'collsynth[server]'"
        raise InputError(
            f"{error.name} is not installed here", where="--store", hint=hint
        ) from None
    with open_cache(url) as cache:
        yield cache


def _choose(url: str | None) -> None:
    chosen_store.set(url or None)


@contextmanager
def log_to(handler: logging.Handler, level: int = logging.INFO) -> Iterator[None]:
    """Send what the process logs to one handler, as long as a command runs.

    Afterwards the log goes where it went before: a stream that is closed by then is not written to.
    """
    root = logging.getLogger()
    handlers, before = root.handlers[:], root.level
    root.handlers[:] = [handler]
    root.setLevel(level)
    try:
        yield
    finally:
        root.handlers[:] = handlers
        root.setLevel(before)


def _log(context: typer.Context, wanted: bool) -> None:
    if wanted:
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(logging.Formatter("%(name)s: %(message)s"))
        context.with_resource(log_to(handler))


def _use_no_cache(wanted: bool) -> None:
    cache_off.set(wanted)


NoCache = Annotated[
    bool,
    typer.Option(
        "--no-cache",
        callback=_use_no_cache,
        help="Neither read nor write the cache. COLLSYNTH_CACHE names its folder, or none.",
    ),
]
Verbose = Annotated[
    bool, typer.Option("--verbose", "-v", callback=_log, help="Log to standard error.")
]
Store = Annotated[
    str | None,
    typer.Option(
        "--store",
        envvar="COLLSYNTH_STORE",
        metavar="URL",
        callback=_choose,
        help="Store that keeps answers: sqlite:///FILE or postgresql://USER@HOST/NAME.",
    ),
]
