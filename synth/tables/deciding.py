"""What is worth measuring: rows that may gain, though prices do not tell them from the default.

Of a size that is the row that is expected to take least, and before it the best that is a variable
alone; of a range of sizes each stretch; of a job each collective whose gain would be seen in what a
step waits. Terminal, report and page say the same from here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from hierarchies.units import volume
from synth.plan.how_to_get import By
from synth.plan.request import Against
from synth.price.resolution import FINEST
from synth.tables.rows import Ranking, Row
from synth.verbs.answers.degraded import UnevenReply
from synth.verbs.answers.parts import WorthMeasuring
from synth.verbs.answers.planning import PlanReply
from synth.verbs.answers.ranked import Answer, RankingReply, Stretch, SweepReply

_MAYBE = "x?: expected, but prices do not tell it from the default"
_AS_RUN = "run: as the runtime runs it, which no variable tells to take its calls as priced"


@dataclass(frozen=True)
class Run:
    """A run that decides about a row, by its position from 0 and what it is called."""

    row: int
    name: str
    worth: WorthMeasuring


def worth_a_run(reply: Ranking) -> list[Run]:
    """The runs that are worth it, in the order of rows."""
    match reply:
        case RankingReply():
            if any(one.against_best is Against.FASTER for one in reply.answers):
                return []  # there is something to do without a run
            found = [
                Run(row, row_name(one, reply.answers), one.worth_measuring)
                for row, one in enumerate(reply.answers)
                if one.worth_measuring
            ]
            return _first_a_variable(sorted(found, key=lambda one: one.worth.seconds))
        case SweepReply():
            return [run for row, one in enumerate(reply.stretches) for run in _of_sizes(row, one)]
        case PlanReply():
            least = FINEST * reply.default_exposed_seconds
            return [
                Run(row, one.name, one.answer.worth_measuring)
                for row, one in enumerate(reply.entries)
                if one.answer.worth_measuring
                and one.default_exposed_seconds - one.runtime_exposed_seconds > least
            ]
        case UnevenReply():
            return []


def _first_a_variable(found: Sequence[Run]) -> list[Run]:
    """Of runs, the fastest first: that one, and before it the fastest that only sets a variable.

    That is tried in a minute, and what gains more by a file gains it over this.
    """
    quick = [one for one in found if one.worth.advice.by is By.ENVIRONMENT]
    return [*quick[:1], *(one for one in found[:1] if one not in quick[:1])]


def several_placements(answers: Sequence[Answer]) -> bool:
    """Whether answers are on more than one placement."""
    return len({str(one.placement) for one in answers}) > 1


def row_name(answer: Answer, answers: Sequence[Answer]) -> str:
    """``row 1``; where several placements are ranked, with its own."""
    where = f" on {answer.placement}" if several_placements(answers) else ""
    return f"row {answer.rank}{where}"


def _of_sizes(row: int, stretch: Stretch) -> Iterator[Run]:
    """The run that decides about a stretch, if it is worth one, at a size that one would type."""
    if trial := stretch.trial:
        ends = dict.fromkeys(map(volume, (stretch.from_bytes, stretch.until_bytes)))
        yield Run(row, f"{' to '.join(ends)}, at {volume(trial.bytes)}", trial.worth_measuring)


def run_lines(reply: Ranking) -> Iterator[str]:
    """What is worth measuring, how, and which figure decides, a paragraph each."""
    for run in worth_a_run(reply):
        yield f"\n{run.name}, worth measuring: {run.worth.said}"
        yield from (f"  {command}" for command in run.worth.commands)
        yield f"  {run.worth.decides}"


def mark_lines(found: Iterable[Row]) -> Iterator[str]:
    """What a question mark behind a speed-up means, and a second time, where there is one."""
    marked = list(found)
    if any(one.endswith("?") for row in marked for one in row.speedup):
        yield _MAYBE
    if any(row.as_run for row in marked):
        yield _AS_RUN
