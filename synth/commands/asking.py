"""How every command asks: the flags to the house, the exit code back."""

from __future__ import annotations

import logging
import sys
from typing import Annotated, Any

import typer


def ask_and_exit(
    verb: str, as_json: bool, budget: float | None = None, output: str | None = None, **flags: Any
) -> None:
    """Put a question, print the answer, and exit as it ended."""
    # Not at the top of the file: it loads numpy, z3 and pydantic, and --help must not wait for it.
    from synth.shell import ask

    code = ask(verb, flags, as_json=as_json, budget_seconds=budget, output=output)
    if code:
        raise typer.Exit(code)


def _log(wanted: bool) -> None:
    if wanted:
        logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(name)s: %(message)s")


Verbose = Annotated[
    bool, typer.Option("--verbose", "-v", callback=_log, help="Log to standard error.")
]
