"""Lists the collectives of a plan, and those that a proved program makes faster.

A plan is simulated as advised: with a program if its advantage exceeds the resolution of prices,
otherwise with the runtime's default. A program must be installed before it can be used, so each
gain reports the seconds of the default and the seconds saved per step. Nothing is saved if
computation hides the whole collective.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from hierarchies import Reduction
from synth.collective.ranking.how_to_get import KEEP_UNTIL_MEASURED, advise, seconds_as_advised
from synth.collective.ranking.oracle import PlacedGoal, ProgramPrices
from synth.collective.ranking.request import Answer
from synth.step.search.finalists import Finalist
from synth.step.search.resolution import LEAST_GAIN
from synth.step.simulation.collected import RankCollective, list_collectives


@dataclass(frozen=True)
class CollectiveGain:
    """A collective of a step, and the best answer to it."""

    sent: RankCollective
    answer: Answer

    @property
    def seconds(self) -> float:
        """Seconds of one call as advised, as the step was simulated."""
        return seconds_as_advised(self.answer)

    @property
    def default_seconds(self) -> float:
        """Seconds of one call with the runtime's default."""
        return self.answer.baseline_seconds

    @property
    def saved_seconds(self) -> float:
        """Least seconds saved per step: computation is assumed to hide the same share of both."""
        saved = self.default_seconds - self.seconds
        return self.sent.times * (1 - self.sent.hidden) * saved

    @property
    def perhaps_saved_seconds(self) -> float:
        """Seconds saved per step if a program that is worth measuring is as fast as priced."""
        if advise(self.answer) is not KEEP_UNTIL_MEASURED:
            return 0.0
        saved = self.default_seconds - self.answer.runtime_seconds
        return self.sent.times * (1 - self.sent.hidden) * saved


def list_gains(finalist: Finalist, answers: ProgramPrices) -> tuple[CollectiveGain, ...]:
    """Lists the gains of a plan that are worth installing a program file, largest first."""
    least = LEAST_GAIN * finalist.found.seconds
    gains = list_collective_gains(finalist, answers)
    worthwhile = (gain for gain in gains if gain.saved_seconds > least)
    return tuple(sorted(worthwhile, key=lambda gain: -gain.saved_seconds))


def list_collective_gains(finalist: Finalist, answers: ProgramPrices) -> Iterator[CollectiveGain]:
    """Yields every collective of the busiest rank, the longest first."""
    placement = finalist.placement
    for sent in list_collectives(finalist.plan, finalist.found):
        if sent.times and sent.size_bytes:
            placed = PlacedGoal(sent.goal, sent.size_bytes, Reduction(placement, sent.over))
            yield CollectiveGain(sent, answers.answer(placed))
