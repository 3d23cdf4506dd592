"""The command line: flags to a question, the verb's answer to a table or JSON."""

from __future__ import annotations

import json
import logging
import sys
import time as clock
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from hierarchies import InputError
from synth.plan import Watcher
from synth.questions import asked
from synth.tables import TABLES, console
from synth.wire import VERBS

USAGE = 2
log = logging.getLogger("collsynth")
app = typer.Typer(
    help="Synthesize, prove and rank hierarchical collectives for a cluster.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    epilog="Exit codes: 0 ok, 1 the answer is no, 2 bad input, 4 stopped with a partial answer.",
)


class _Watcher(Watcher):
    """Shows progress on standard error where that is a terminal, and keeps the time budget."""

    def __init__(self, budget_seconds: float | None, progress: Progress) -> None:
        self._end = None if budget_seconds is None else clock.monotonic() + budget_seconds
        self._progress = progress
        self._search = progress.add_task("states explored", total=None, visible=False)
        self._task = progress.add_task("placements priced", total=None, visible=False)

    def go_on(self) -> bool:
        return self._end is None or clock.monotonic() < self._end

    def explored(self, states: int) -> None:
        if states % 1000 == 0:
            self._progress.update(self._search, completed=states, visible=states > 0)

    def placed(self, done: int, of: int) -> None:
        self._progress.update(self._task, completed=done, total=of, visible=of > 1)


@contextmanager
def _told() -> Iterator[None]:
    """A caller's mistake becomes one line on standard error and exit code 2."""
    try:
        yield
    except InputError as error:
        typer.echo(f"collsynth: {error}", err=True)
        raise typer.Exit(USAGE) from None


def _ask(verb: str, given: dict[str, Any], as_json: bool, budget: float | None = None) -> None:
    """Put a question, print the answer, and exit as it ended."""
    begun = clock.perf_counter()
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    screen = Console(stderr=True)
    with _told():
        if budget is not None and not budget > 0:
            raise InputError(f"the budget is {budget} s", hint="give seconds above 0")
        question = asked(VERBS[verb].question, given)
        log.info("asked: %s", question.model_dump_json(exclude_none=True))
        shown = Progress(*columns, console=screen, transient=True, disable=not screen.is_terminal)
        with shown:
            reply = VERBS[verb].answer(question, _Watcher(budget, shown))
    log.info("%s answered in %.3f s", verb, clock.perf_counter() - begun)
    if as_json:
        typer.echo(json.dumps(reply.body, allow_nan=False))
    else:
        console().print(TABLES[verb](reply.body))
    if reply.outcome:
        raise typer.Exit(int(reply.outcome))


def _axes(text: str | None) -> dict[str, int] | None:
    """``data=8,model=4`` to names and sizes."""
    if text is None:
        return None
    axes: dict[str, int] = {}
    for item in text.split(","):
        name, _, size = item.partition("=")
        if not size.strip().lstrip("-").isdigit():
            hint = "write names and sizes, as in data=8,model=4"
            raise InputError(f"{item!r} is not an axis", where="--axes", hint=hint)
        if name.strip() in axes:
            hint = "every axis needs a name of its own"
            raise InputError(f"axis {name.strip()!r} is given twice", where="--axes", hint=hint)
        axes[name.strip()] = int(size)
    return axes


def _names(text: str | None) -> list[str] | None:
    return None if text is None else [name.strip() for name in text.split(",") if name.strip()]


def _sizes(text: str | None) -> list[int] | None:
    """``2,8`` to sizes."""
    if text is None:
        return None
    items = [item.strip() for item in text.split(",") if item.strip()]
    if not all(item.lstrip("-").isdigit() for item in items):
        raise InputError(f"{text!r} is not a tree", where="--tree", hint="write sizes, as in 2,8")
    return [int(item) for item in items]


def _matrix(text: str | None) -> Any:
    if text is None:
        return None
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        hint = "write rows of numbers, as in [[1, 8], [4, 1]]"
        raise InputError(f"{text!r}: {error}", where="--placement", hint=hint) from None


def _program(text: str) -> str:
    """Standard input for ``-``, a file's text if there is such a file, else the text itself."""
    if text == "-":
        return sys.stdin.read()
    try:
        path = Path(text)
        if path.is_file():
            return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise InputError("the file is not text in UTF-8", where=text) from None
    except (OSError, ValueError):
        return text
    return text


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"collsynth {version('collsynth')}")
        raise typer.Exit


def _log(wanted: bool) -> None:
    if wanted:
        logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(name)s: %(message)s")


Verbose = Annotated[
    bool, typer.Option("--verbose", "-v", callback=_log, help="Log to standard error.")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
SystemName = Annotated[
    str, typer.Argument(metavar="SYSTEM", help="A catalogue name, name:N, or a TOML file.")
]
ProgramText = Annotated[
    str, typer.Argument(metavar="PROGRAM", help="A program, a file with one, or - for stdin.")
]
Axes = Annotated[str, typer.Option(help="Names and sizes, as in data=8,model=4.")]
Reduce = Annotated[str, typer.Option(help="Axes to reduce over, separated by commas.")]
Size = Annotated[str, typer.Option("--bytes", help="The whole tensor on each device, e.g. 64MiB.")]
Steps = Annotated[int, typer.Option(help="The longest programs to look at.")]
Matrix = Annotated[str | None, typer.Option(help="One placement, as in '[[1, 8], [4, 1]]'.")]
Algorithm = Annotated[str, typer.Option(help="ring, tree or auto (the fastest for each step).")]
NoCollapse = Annotated[
    bool, typer.Option("--no-collapse", help="One tree digit for each axis on a level.")
]
Across = Annotated[bool, typer.Option("--across", help="Also groups over any set of digits.")]
Budget = Annotated[
    float | None, typer.Option(help="Seconds after which to stop with what there is.")
]


@app.callback()
def _main(
    show: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Print and exit."),
    ] = False,
) -> None:
    """Results go to standard output, progress and log to standard error."""


@app.command()
def systems(
    name: Annotated[str | None, typer.Argument(help="Show this one in full.")] = None,
    as_json: Json = False,
    verbose: Verbose = False,
) -> None:
    """List the known machines, or show one with its links and their sources."""
    _ask("systems", {"system": name}, as_json)


@app.command()
def place(system: SystemName, axes: Axes, as_json: Json = False, verbose: Verbose = False) -> None:
    """List every placement of parallelism axes on a system."""
    with _told():
        given = {"system": system, "axes": _axes(axes)}
    _ask("place", given, as_json)


@app.command()
def count(
    digits: Annotated[int, typer.Option(help="Digits of the synthesis tree.")],
    max_steps: Steps = 5,
    across: Across = False,
    budget: Budget = None,
    as_json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Count the valid programs of a synthesis tree by their length."""
    given = {"digits": digits, "max_steps": max_steps, "across": across}
    _ask("count", given, as_json, budget)


@app.command()
def top(
    system: SystemName,
    axes: Axes,
    reduce: Reduce,
    size: Size = "1GiB",
    k: Annotated[int, typer.Option("-k", help="How many answers.")] = 10,
    max_steps: Steps = 5,
    algorithm: Algorithm = "auto",
    placement: Matrix = None,
    per_placement: Annotated[
        bool, typer.Option("--per-placement", help="Rank inside each placement.")
    ] = False,
    across: Across = False,
    no_collapse: NoCollapse = False,
    budget: Budget = None,
    as_json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Rank placements and programs for an all-reduce, proved, fastest first."""
    with _told():
        given = {
            "system": system,
            "axes": _axes(axes),
            "reduce": _names(reduce),
            "bytes": size,
            "k": k,
            "max_steps": max_steps,
            "algorithm": algorithm,
            "placement": _matrix(placement),
            "per_placement": per_placement,
            "across": across,
            "collapse": not no_collapse,
        }
    _ask("top", given, as_json, budget)


@app.command()
def check(
    program: ProgramText,
    system: Annotated[
        str | None, typer.Argument(metavar="[SYSTEM]", help="Where it runs, unless --tree.")
    ] = None,
    tree: Annotated[str | None, typer.Option(help="Sizes of the tree's digits, as in 2,8.")] = None,
    axes: Annotated[str | None, typer.Option(help="Names and sizes, as in data=8.")] = None,
    reduce: Annotated[str | None, typer.Option(help="Axes to reduce over.")] = None,
    placement: Matrix = None,
    no_collapse: NoCollapse = False,
    replay: Annotated[bool, typer.Option("--replay", help="Execute it on arrays too.")] = False,
    as_json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Derive and prove a program, or say which step fails, with a counterexample."""
    with _told():
        given = {
            "program": _program(program),
            "tree": _sizes(tree),
            "system": system,
            "axes": _axes(axes),
            "reduce": _names(reduce),
            "placement": _matrix(placement),
            "collapse": not no_collapse,
            "replay": replay,
        }
    _ask("check", given, as_json)


@app.command()
def lower(
    program: ProgramText,
    system: SystemName,
    axes: Axes,
    reduce: Reduce,
    placement: Matrix = None,
    size: Size = "1GiB",
    no_collapse: NoCollapse = False,
    as_json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Print the schedule: for each step the groups of real devices, and the bytes."""
    with _told():
        given = _placed(program, system, axes, reduce, placement)
    _ask("lower", given | {"bytes": size, "collapse": not no_collapse}, as_json)


@app.command()
def time(
    program: ProgramText,
    system: SystemName,
    axes: Axes,
    reduce: Reduce,
    placement: Matrix = None,
    size: Size = "1GiB",
    algorithm: Algorithm = "auto",
    no_collapse: NoCollapse = False,
    as_json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Price a program step by step, with the reason of each price."""
    with _told():
        given = _placed(program, system, axes, reduce, placement)
    more = {"bytes": size, "algorithm": algorithm, "collapse": not no_collapse}
    _ask("time", given | more, as_json)


def _placed(
    program: str, system: str, axes: str, reduce: str, placement: str | None
) -> dict[str, Any]:
    return {
        "program": _program(program),
        "system": system,
        "axes": _axes(axes),
        "reduce": _names(reduce),
        "placement": _matrix(placement),
    }


def main() -> None:
    """The ``collsynth`` command."""
    app(prog_name="collsynth")
