"""The commands that ask a verb: each has the flags of its question, and those of a terminal.

What the flags are is in ``verbs.json``, which a test makes from the questions (``pytest
--update-golden``): the questions load numpy and z3, and --help must not wait for them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from importlib import resources
from inspect import Parameter, Signature
from typing import Annotated, Any

import typer

from synth.cli.commands.asking import Verbose, ask_and_exit
from synth.verbs.questions.fields import Asked

_TYPES = {"switch": bool, "whole": int, "number": float, "text": str}
_FILES = "A file or folder instead of the screen; with --json, for the JSON."
_OUTPUTS = {
    "import": "A file for the description; with --json, the JSON.",
    "job": _FILES,
    "emit": _FILES,
    "calibrate": _FILES,
}
"""The help of ``-o``, for each verb whose answer has files."""
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
Budget = Annotated[
    float | None, typer.Option(help="Seconds after which to stop with what there is.")
]


def commands() -> dict[str, Callable[..., None]]:
    """A command for each verb."""
    text = resources.files(__package__).joinpath("verbs.json").read_text(encoding="utf-8")
    return {verb: _command(verb, row) for verb, row in json.loads(text).items()}


def _command(verb: str, row: Mapping[str, Any]) -> Callable[..., None]:
    """A verb's command for typer: a function whose signature lists the flags."""

    def command(
        as_json: bool,
        verbose: bool,
        budget: float | None = None,
        output: str | None = None,
        **flags: Any,
    ) -> None:
        ask_and_exit(verb, flags, as_json=as_json, budget=budget, output=output)

    taken = [
        *(_parameter(Asked(**flag)) for flag in row["flags"]),
        *_terminal(verb, row["partial"]),
    ]
    command.__doc__ = row["help"]
    command.__signature__ = Signature(taken)  # type: ignore[attr-defined]
    command.__annotations__ = {one.name: one.annotation for one in taken}
    return command


def _parameter(flag: Asked) -> Parameter:
    """A flag as typer has it."""
    kind: Any = list[str] if flag.several else _TYPES[flag.kind]
    option: Any
    if flag.is_argument:
        many = "..." if flag.several else ""
        option = typer.Argument(metavar=f"{flag.word}{many}", help=flag.help)
    else:
        option = typer.Option(flag.word, metavar=flag.metavar or None, help=flag.help)
    if flag.required:
        return _keyword(flag.name, Annotated[kind, option], Parameter.empty)
    usual = False if kind is bool else flag.default
    return _keyword(flag.name, Annotated[kind | None, option], usual)


def _terminal(verb: str, partial: bool) -> Iterator[Parameter]:
    """The flags of the terminal, such as ``--json``: they are no part of a question."""
    if verb in _OUTPUTS:
        option = typer.Option("-o", "--output", help=_OUTPUTS[verb])
        yield _keyword("output", Annotated[str | None, option], None)
    if partial:
        yield _keyword("budget", Budget, None)
    yield _keyword("as_json", Json, False)
    yield _keyword("verbose", Verbose, False)


def _keyword(name: str, annotation: Any, usual: Any) -> Parameter:
    return Parameter(name, Parameter.KEYWORD_ONLY, default=usual, annotation=annotation)
