"""Rows that may gain, though they tie with the default, and the runs that decide.

For one size these are the row with the least expected time, and the best row that only needs an
environment variable; for a range of sizes, each stretch; for a job, each collective whose gain
would reduce the exposed communication of a step. Terminal, report and page use these functions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from rich.console import RenderableType

from hierarchies.units import format_bytes, format_duration
from synth.ask.answers.degraded import UnevenReply
from synth.ask.answers.parts import ALTERNATE_RUNS, AdviceKind, DecidingRunPart
from synth.ask.answers.planning import PlanReply
from synth.ask.answers.ranked import (
    DefaultComparison,
    PlacedAnswer,
    RankingReply,
    StretchPart,
    SweepReply,
)
from synth.collective.price.resolution import FINEST
from synth.show.terminal.rows import Ranking, RankingRow
from synth.show.terminal.style import Columns, table_of

_WIDE = 1.5
"""A stretch of sizes that ends at less than so many times its first is too narrow for a rule."""
_MAYBE_LEGEND = "x?: predicted speed-up within prediction error of the default"
_FIRST = "host0:"
_WRITE = "First write this from ANSWER.json, the output of this command with --json:"
_RUN_LEGEND = (
    "run: time as the runtime executes it; no variable selects the algorithms of the price"
)


@dataclass(frozen=True)
class RowRun:
    """A run that decides about a row: the position of the row from 0, its name, and the run."""

    row: int
    name: str
    worth: DecidingRunPart


@dataclass(frozen=True)
class EmittedFile:
    """The file that a command of ``emit`` writes: its target, name and size.

    The size is None where the answer is of one size.
    """

    target: str
    name: str
    size_bytes: int | None = None

    @property
    def module(self) -> str:
        """The name of the module in Python."""
        return self.name.removesuffix(".py")


def parse_emit_command(command: str) -> EmittedFile:
    """Return the file of ``collsynth emit --from ANSWER.json ... --target torch -o FILE``."""
    given = dict(pairwise(command.split()))
    size = given.get("--bytes")
    target = given["--target"]
    file = given.get("-o", f"collsynth_{target}.py")  # answers of old say no file
    return EmittedFile(target, file, int(size) if size else None)


@dataclass(frozen=True)
class ToDo:
    """One thing to do about a row, counted from 0: what it is, and the lines to set, run or paste.

    ``name``: of the row, the sizes or the entry; ``sets``: what is set or pasted where it is taken.
    ``expected``: its speed-up over the default; where a run decides it lies ``between`` two, and is
    taken if it is measured to take less than ``under``. ``file``: what the lines need;
    ``emits`` the command that writes it.
    """

    row: int
    name: str
    what: str
    lines: str
    sets: str
    expected: str
    between: str = ""
    under: str = ""
    file: EmittedFile | None = None
    emits: str = ""

    @property
    def pastes(self) -> bool:
        """Whether what is taken is its file; else that is only run to decide about a variable."""
        return self.file is not None and self.sets.startswith(self.file.name)

    @property
    def besides(self) -> str:
        """The settings besides the file."""
        return self.sets.partition("; ")[2]


def to_do_of_run(run: RowRun) -> ToDo:
    """Return the commands that decide about a row, with the file that they run."""
    worth, how = run.worth, "run this to decide; it also times the default"
    low, high = worth.speedup_interval
    hosts = " (on every host; host0 is the first)" * any(
        _FIRST in command for command in worth.commands
    )
    emits, lines = worth.commands[:1] * worth.emits, worth.commands[worth.emits :]
    file = parse_emit_command(emits[0]) if emits else None
    sets = worth.advice.text
    if worth.advice.by is AdviceKind.ENVIRONMENT:
        how = "run without and with the variable to decide"
    elif file:
        sets = "; ".join([file.name, *sets.split("; ")[1:]])
    return ToDo(
        run.row,
        run.name,
        f"{run.name}: {how}{hosts}",
        "\n".join(lines),
        sets,
        f"{worth.speedup:.2f}x",
        f"{low:.2f}x to {high:.2f}x",
        format_duration(worth.default_seconds / worth.decides_speedup),
        file,
        "".join(emits),
    )


def decision_rule(runs: Sequence[RowRun]) -> str:
    """Return the rule by which measurements decide; empty without runs."""
    if not runs:
        return ""
    least = max(run.worth.decides_speedup for run in runs)
    takes = dict.fromkeys(format_duration(run.worth.default_seconds) for run in runs)
    default = f"of {next(iter(takes))}" if len(takes) == 1 else "as predicted"
    return (
        f"{ALTERNATE_RUNS}; take a row if it is measured to be {least:.2f} times as fast as the"
        f" default, or more; the last column assumes a default {default}"
    )


def find_deciding_runs(reply: Ranking) -> list[RowRun]:
    """Return the runs that are worth measuring, in the order of rows."""
    match reply:
        case RankingReply():
            if any(answer.against_best is DefaultComparison.FASTER for answer in reply.answers):
                return []  # there is something to do without a run
            found = [
                RowRun(row, row_name(answer, reply.answers), answer.worth_measuring)
                for row, answer in enumerate(reply.answers)
                if answer.worth_measuring
            ]
            return _keep_best_and_variable(sorted(found, key=lambda run: run.worth.seconds))
        case SweepReply():
            return [
                run
                for row, stretch in enumerate(reply.stretches)
                if is_wide(reply, row)
                for run in _stretch_runs(row, stretch)
            ]
        case PlanReply():
            least = FINEST * reply.default_exposed_seconds
            return [
                RowRun(row, entry.name, entry.answer.worth_measuring)
                for row, entry in enumerate(reply.entries)
                if entry.answer.worth_measuring
                and entry.default_exposed_seconds - entry.runtime_exposed_seconds > least
            ]
        case UnevenReply():
            return []


def _keep_best_and_variable(found: Sequence[RowRun]) -> list[RowRun]:
    """Of runs, the fastest first: that one, and the fastest that only sets a variable, by rows.

    That is tried in a minute, and what gains more by a file gains it over this.
    """
    quick = [run for run in found if run.worth.advice.by is AdviceKind.ENVIRONMENT][:1]
    both = [*quick, *(run for run in found[:1] if run not in quick)]
    return sorted(both, key=lambda run: run.row)


def has_multiple_placements(answers: Sequence[PlacedAnswer]) -> bool:
    """Whether answers are on more than one placement."""
    return len({str(answer.placement) for answer in answers}) > 1


def row_name(answer: PlacedAnswer, answers: Sequence[PlacedAnswer]) -> str:
    """``row 1``; where several placements are ranked, with its own."""
    where = f" on {answer.placement}" if has_multiple_placements(answers) else ""
    return f"row {answer.rank}{where}"


def is_wide(reply: SweepReply, row: int) -> bool:
    """Whether a stretch of sizes is worth a rule of its own, not only a row.

    Message sizes vary: users with 580 KiB today have 620 KiB tomorrow. The first and the last
    stretch may continue beyond the range of the question.
    """
    stretch = reply.stretches[row]
    inside = 0 < row < len(reply.stretches) - 1
    return not inside or stretch.until_bytes >= _WIDE * stretch.from_bytes


def _stretch_runs(row: int, stretch: StretchPart) -> Iterator[RowRun]:
    """Yield the run that decides about a stretch, at a round size, if it is worth measuring."""
    if trial := stretch.trial:
        ends = dict.fromkeys(map(format_bytes, (stretch.from_bytes, stretch.until_bytes)))
        yield RowRun(
            row, f"{' to '.join(ends)}, at {format_bytes(trial.bytes)}", trial.worth_measuring
        )


SETS = "set this, or paste this file"
FIGURES: Columns[ToDo] = {
    "expected": lambda choice: choice.expected,
    "range": lambda choice: choice.between,
    "take it if under": lambda choice: choice.under,
}
"""The figures of a choice, by the headings of columns."""


def render_choices(of: str, to_do: Sequence[ToDo], how_decided: str) -> Iterator[RenderableType]:
    """Yield the choices for a terminal: a table, the rule that decides, and the commands in order.

    ``of``: what each is about, a row, sizes or an entry.
    """
    if how_decided or len(to_do) > 1:
        told = list(FIGURES.items())[: None if how_decided else 1]
        cells: Columns[ToDo] = {
            of: lambda choice: choice.name.removeprefix("row "),
            SETS: lambda choice: choice.sets,
            **dict(told),
        }
        yield table_of(to_do, cells, right="expected,take it if under", wraps=SETS)
        if how_decided:
            yield f"{how_decided}\n"
    if emits := [f"  {choice.emits}" for choice in to_do if choice.emits]:
        yield "\n".join([_WRITE, *emits])
    for choice in to_do:
        if (
            len(to_do) == 1 or choice.under
        ):  # else the table has it, and the file says how it is used
            yield "\n".join([choice.what, *(f"  {line}" for line in choice.lines.splitlines())])


def mark_lines(found: Iterable[RankingRow]) -> Iterator[str]:
    """Yield the legends of a question mark after a speed-up and of a second time."""
    marked = list(found)
    if any(text.endswith("?") for row in marked for text in row.speedup):
        yield _MAYBE_LEGEND
    if any(row.as_run for row in marked):
        yield _RUN_LEGEND
