"""The collectives of a plan, and those that a proved program carries out faster than the runtime.

A plan is simulated as advised: with a program where prices can tell that it gains, else with the
runtime's own choice. A program must be installed to be used, so each gain states what the runtime's
own choice takes, and how much of a step that is: nothing while computing hides all of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from hierarchies import Reduction
from synth.collective.ranking.how_to_get import KEEP_UNTIL_MEASURED, advise, seconds_as_advised
from synth.collective.ranking.oracle import PlacedGoal, ProgramPrices
from synth.collective.ranking.request import Answer
from synth.step.search.finalists import Finalist
from synth.step.simulation.collected import RankCollective, list_collectives

LEAST_GAIN = 0.001
"""The share of a step that a gain must exceed to be worth a file."""


@dataclass(frozen=True)
class CollectiveGain:
    """A collective of a step, and the best answer to it."""

    sent: RankCollective
    answer: Answer

    @property
    def seconds(self) -> float:
        """Seconds of one call as advised, which is how the step was simulated."""
        return seconds_as_advised(self.answer)

    @property
    def default_seconds(self) -> float:
        """Seconds of one call with the runtime's own choice."""
        return self.answer.baseline_seconds

    @property
    def saved_seconds(self) -> float:
        """Seconds of a step saved at least: computing is assumed to hide the same share of both."""
        saved = self.default_seconds - self.seconds
        return self.sent.times * (1 - self.sent.hidden) * saved

    @property
    def perhaps_saved_seconds(self) -> float:
        """Seconds of a step saved if a program worth measuring is as fast as priced."""
        if advise(self.answer) is not KEEP_UNTIL_MEASURED:
            return 0.0
        saved = self.default_seconds - self.answer.runtime_seconds
        return self.sent.times * (1 - self.sent.hidden) * saved


def list_gains(finalist: Finalist, answers: ProgramPrices) -> tuple[CollectiveGain, ...]:
    """Lists the gains of a plan that are worth a file, largest first."""
    least = LEAST_GAIN * finalist.found.seconds
    gains = list_collective_gains(finalist, answers)
    worthwhile = (gain for gain in gains if gain.saved_seconds > least)
    return tuple(sorted(worthwhile, key=lambda gain: -gain.saved_seconds))


def list_collective_gains(finalist: Finalist, answers: ProgramPrices) -> Iterator[CollectiveGain]:
    """Yields every collective of the busiest rank, longest first."""
    placement = finalist.placement
    for sent in list_collectives(finalist.plan, finalist.found):
        if sent.times and sent.size_bytes:
            placed = PlacedGoal(sent.goal, sent.size_bytes, Reduction(placement, sent.over))
            yield CollectiveGain(sent, answers.answer(placed))
