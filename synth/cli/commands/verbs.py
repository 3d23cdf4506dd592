"""The commands of the verbs: each has the flags of its question, and those of a terminal.

The flags are listed in ``verbs.json``, which a test generates from the questions (``pytest
--update-golden``): the questions load numpy and z3, and --help must not wait for them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import resources
from inspect import Parameter, Signature
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from synth.ask.questions.fields import FlagEntry
from synth.cli.commands.asking import NoCache, Verbose, ask_and_exit

_TYPES = {"switch": bool, "whole": int, "number": float, "text": str}
_FILES = "Output file or folder; with --json, a file for the JSON."
_OUTPUTS = {
    "import": "Output file for the description; with --json, for the JSON.",
    "plan": "Output folder for the files of a model's best plan; with --json, a file for the JSON.",
    "graph": "Output file for the graph (.graphml, .json, .dot, .svg); with --json, for the JSON.",
    "job": _FILES,
    "order": "Output file for PyTorch's CSV; with --json, for the JSON.",
    "emit": _FILES,
    "trace": "Output file for the text of the step; with --json, for the JSON.",
    "shard": "Output file for the text of the sharded step; with --json, for the JSON.",
    "simulate": "Output folder for the timeline and the job; with --json, a file for the JSON.",
    "buckets": "Output file for the module of a training script; with --json, for the JSON.",
    "train": "Output file or folder for the sharded step; with --json, a file for the JSON.",
    "profile": "Output file for the profile; with --json, for the JSON.",
    "calibrate": "Output file for the description or script; with --json, for the JSON.",
}
"""The help of ``-o``, for each verb whose answer has files."""
_REPORT_VERBS = ("top", "sweep", "plan")
"""The verbs whose answers can be written as a page."""
SEPARATE_OUTPUTS = {
    "simulate": {
        "trace_out": (".trace.json", "Output file for the timeline, for ui.perfetto.dev."),
        "job_out": (".job.toml", "Output file for the collectives as a job, for plan --job."),
    },
}
"""Flags for one file of an answer: how the file's name ends, and the help."""
_ORDER = "collsynth.order"
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
JsonLines = Annotated[
    bool,
    typer.Option("--json-lines", help="Print each best so far, and the answer, as lines of JSON."),
]
Report = Annotated[
    str | None,
    typer.Option(
        metavar="FILE.html", help="Also write the answer and its drawings as an HTML page."
    ),
]
Budget = Annotated[
    float | None, typer.Option(help="Seconds after which to stop with a partial answer.")
]


class OrderedCommand(TyperCommand):
    """A command that remembers the order of its flags: some belong to the flag before them.

    Parsers keep the values of a repeated flag together, and forget what stood between them.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Note the names as they were given, each as often as it was; then parse as usual."""
        *_, order = self.make_parser(ctx).parse_args(args=list(args))
        ctx.meta[_ORDER] = [flag.name for flag in order]
        return super().parse_args(ctx, args)


def commands() -> dict[str, Callable[..., None]]:
    """A command for each verb."""
    text = resources.files(__package__).joinpath("verbs.json").read_text(encoding="utf-8")
    return {verb: _command(verb, row) for verb, row in json.loads(text).items()}


def _command(verb: str, row: Mapping[str, Any]) -> Callable[..., None]:
    """A verb's command for typer: a function whose signature lists the flags."""
    asked_for = [FlagEntry(**flag) for flag in row["flags"]]
    each = {flag.name: flag.each for flag in asked_for if flag.each}

    def command(
        context: typer.Context,
        as_json: bool,
        verbose: bool,
        budget: float | None = None,
        json_lines: bool = False,
        output: str | None = None,
        report: str | None = None,
        no_cache: bool = False,
        **flags: Any,
    ) -> None:
        apart = {
            ending: flags.pop(name) for name, (ending, _) in SEPARATE_OUTPUTS.get(verb, {}).items()
        }
        flags = _collect_in_order(flags, each, context.meta.get(_ORDER, ()))
        ask_and_exit(
            verb,
            flags,
            as_json=as_json,
            in_lines=json_lines,
            budget=budget,
            output=output,
            page=report,
            apart=apart,
        )

    taken = [
        keyword("context", typer.Context, Parameter.empty),
        *map(_parameter, asked_for),
        *_terminal(verb, row["partial"], any(flag.name == "model" for flag in asked_for)),
    ]
    command.__doc__ = row["help"]
    command.__signature__ = Signature(taken)  # type: ignore[attr-defined]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in taken}
    return command


def _collect_in_order(
    flags: Mapping[str, Any], each: Mapping[str, str], order: Sequence[str]
) -> dict[str, Any]:
    """The flags, and in the place of those of items one list of them as they were given.

    ``--reduce a --bytes 1 --reduce b``: ``[("reduce", "a"), ("bytes", "1"), ("reduce", "b")]``.
    """
    values = {name: iter(flags[name] or ()) for name in each}
    found = {name: value for name, value in flags.items() if name not in each}
    for name in order:
        if name in each:
            found.setdefault(each[name], []).append((name, next(values[name])))
    return found


def _parameter(flag: FlagEntry) -> Parameter:
    """A flag as typer has it."""
    kind: Any = list[str] if flag.several or flag.each else _TYPES[flag.kind]
    option: Any
    if flag.is_argument:
        many = "..." if flag.several else ""
        option = typer.Argument(metavar=f"{flag.word}{many}", help=flag.help)
    else:
        option = typer.Option(flag.word, metavar=flag.metavar or None, help=flag.help)
    if flag.required:
        return keyword(flag.name, Annotated[kind, option], Parameter.empty)
    usual = False if kind is bool else flag.default
    if flag.each and usual is not None:
        usual = [usual]
    return keyword(flag.name, Annotated[kind | None, option], usual)


def _terminal(verb: str, partial: bool, traces: bool) -> Iterator[Parameter]:
    """The flags of the terminal, such as ``--json``: they are no part of a question."""
    if verb in _OUTPUTS:
        option = typer.Option("-o", "--output", help=_OUTPUTS[verb])
        yield keyword("output", Annotated[str | None, option], None)
    for name, (_, said) in SEPARATE_OUTPUTS.get(verb, {}).items():
        option = typer.Option(f"--{name.replace('_', '-')}", metavar="FILE", help=said)
        yield keyword(name, Annotated[str | None, option], None)
    if verb in _REPORT_VERBS:
        yield keyword("report", Report, None)
    if partial:
        yield keyword("budget", Budget, None)
        yield keyword("json_lines", JsonLines, False)
    if traces:
        yield keyword("no_cache", NoCache, False)
    yield keyword("as_json", Json, False)
    yield keyword("verbose", Verbose, False)


def keyword(name: str, annotation: Any, usual: Any) -> Parameter:
    """A flag in the signature of a command."""
    return Parameter(name, Parameter.KEYWORD_ONLY, default=usual, annotation=annotation)
