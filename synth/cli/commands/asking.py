"""How every command asks: the flags to the house, the exit code back."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from synth.service.cache import Cache

chosen_store: ContextVar[str | None] = ContextVar("chosen_store", default=None)
"""The URL given before the command, or by the environment."""


def ask_and_exit(
    verb: str,
    flags: Mapping[str, Any],
    *,
    as_json: bool,
    budget: float | None = None,
    output: str | None = None,
) -> None:
    """Put a question, print the answer, and exit as it ended."""
    # Not at the top of the file: it loads numpy, z3 and pydantic, and --help must not wait for it.
    from synth.cli.ask import ask

    url = chosen_store.get()
    more = {} if url is None else {"before": partial(_answers_in, url)}
    code = ask(verb, flags, as_json=as_json, budget_seconds=budget, output=output, **more)
    if code:
        raise typer.Exit(code)


@contextmanager
def _answers_in(url: str) -> Iterator[Cache]:
    """The answers kept in a store. Raises InputError where it cannot be used."""
    try:
        # Not at the top of the file: it loads what the extra server installs.
        from synth.service.cache import opened
    except ModuleNotFoundError as error:
        # Not at the top of the file: it loads numpy, and --help must not wait for it.
        from hierarchies import InputError

        hint = "pip install 'collsynth[server]'"
        raise InputError(f"there is no {error.name} here", where="--store", hint=hint) from None
    with opened(url) as cache:
        yield cache


def _choose(url: str | None) -> None:
    chosen_store.set(url or None)


def _log(wanted: bool) -> None:
    if wanted:
        logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(name)s: %(message)s")


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
        help="Keep answers, and give them again: sqlite:///FILE or postgresql://USER@HOST/NAME.",
    ),
]
