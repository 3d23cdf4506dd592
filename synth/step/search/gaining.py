"""The collectives of a plan, and those that a proved program carries out faster than the runtime.

A plan is simulated as it is advised to run: by a program where prices can tell that it gains, else
by the runtime's own choice. Who runs it has the programs only where somebody puts them there. So of
each it is told what the runtime's own choice takes, and what that is of a step: nothing, if
something is computed beside it all the time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from synth.collective.ranking.how_to_get import KEEP_UNTIL_MEASURED, advise, seconds_as_advised
from synth.collective.ranking.request import Answer, Request
from synth.collective.semantics.programs import Language
from synth.step.redistribution.seconds import RequestAnswers
from synth.step.search.finalists import Finalist
from synth.step.simulation.collected import RankCollective, list_collectives

LEAST_GAIN = 0.001
"""Of a step: what gains less is not worth a file."""


@dataclass(frozen=True)
class CollectiveGain:
    """A collective of a step, and the best answer to it."""

    sent: RankCollective
    answer: Answer

    @property
    def seconds(self) -> float:
        """What it takes once on the clock of the step: as is advised."""
        return seconds_as_advised(self.answer)

    @property
    def default_seconds(self) -> float:
        """What the runtime's own choice takes, once."""
        return self.answer.baseline_seconds

    @property
    def saved_seconds(self) -> float:
        """Of a step, at least: what is computed beside a slower one is taken to hide as much."""
        each = self.default_seconds - self.seconds
        return self.sent.times * (1 - self.sent.hidden) * each

    @property
    def perhaps_saved_seconds(self) -> float:
        """Of a step, if a program that is worth measuring is as fast as priced."""
        if advise(self.answer) is not KEEP_UNTIL_MEASURED:
            return 0.0
        each = self.default_seconds - self.answer.runtime_seconds
        return self.sent.times * (1 - self.sent.hidden) * each


def list_gains(one: Finalist, answers: RequestAnswers) -> tuple[CollectiveGain, ...]:
    """Those of a plan that are worth a file, the one that saves most first."""
    found = [gain for gain in list_collective_gains(one, answers) if _is_worthwhile(gain, one)]
    return tuple(sorted(found, key=lambda gain: -gain.saved_seconds))


def _is_worthwhile(gain: CollectiveGain, one: Finalist) -> bool:
    return gain.saved_seconds > LEAST_GAIN * one.found.seconds


def list_collective_gains(one: Finalist, answers: RequestAnswers) -> Iterator[CollectiveGain]:
    """All that the busiest rank sends, what takes the most time first."""
    lies = one.placement
    for sent in list_collectives(one.plan, one.found):
        asked = Request(
            lies.axes,
            sent.over,
            sent.size_bytes,
            k=1,
            language=Language(goal=sent.goal),
            placement=lies.matrix,
        )
        if sent.times and sent.size_bytes:
            yield CollectiveGain(sent, answers.best(asked))
