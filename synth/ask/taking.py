"""The recommendation of an answer: the default, or a row that certainly gains.

Verdicts and comparisons use the same rule. A row is recommended only if its gain exceeds prediction
error, z3 proved it, and a runtime offers it. If a run must decide, the default is kept until then.
"""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import Field

from synth.ask.answers.degraded import UnevenReply
from synth.ask.answers.parts import AnswerPart, Seconds
from synth.ask.answers.planning import PlanReply
from synth.ask.answers.ranked import PlacedAnswer, RankedAnswer, RankingReply, SweepReply
from synth.collective.price.resolution import FINEST
from synth.collective.ranking.how_to_get import AdviceKind
from synth.collective.ranking.request import DefaultComparison

_DEFAULT = "the default"


class Recommendation(AnswerPart):
    """One line of an answer: what is recommended, and what it takes."""

    how: str = Field(description="Placement and program.")
    seconds: Seconds = Field(description="Predicted.")


def is_available(answer: PlacedAnswer) -> bool:
    """Whether an answer is proved, and a line or a file away."""
    return answer.proof == "proved" and answer.advice.by in (
        AdviceKind.ENVIRONMENT,
        AdviceKind.FILE,
    )


def best_available(answers: Sequence[RankedAnswer]) -> RankedAnswer | None:
    """Return the fastest answer, as a runtime runs it, among those that gain and are available."""
    gain = (
        answer
        for answer in answers
        if answer.against_best is DefaultComparison.FASTER and is_available(answer)
    )
    return min(gain, key=lambda answer: answer.runtime_seconds, default=None)


def groups_gain(reply: UnevenReply) -> bool:
    """Whether the best program of explicit groups is proved and surely faster than one call."""
    first = reply.answers[0]
    return first.against_default is DefaultComparison.FASTER and first.proof == "proved"


def job_gains(reply: PlanReply) -> bool:
    """Whether entries of a job certainly gain, and thereby reduce exposed communication."""
    gains = (entry.answer.against_default is DefaultComparison.FASTER for entry in reply.entries)
    had = (is_available(entry.answer) and entry.is_worth_setting for entry in reply.entries)
    default_seconds, seconds = reply.default_exposed_seconds, reply.runtime_exposed_seconds
    longer = default_seconds / seconds if seconds else 1.0
    return any(map(all, zip(gains, had, strict=True))) and longer > 1 + FINEST


def recommend(reply: RankingReply | SweepReply | UnevenReply | PlanReply) -> Recommendation | None:
    """Return the recommendation and its seconds; None without results, and for a range."""
    match reply:
        case PlanReply() if reply.ranking:
            gains, ours = job_gains(reply), reply.runtime_exposed_seconds
            default = Recommendation(how=_DEFAULT, seconds=reply.default_exposed_seconds)
            return Recommendation(how="what gains", seconds=ours) if gains else default
        case UnevenReply(answers=[best, *_]):
            default = Recommendation(how=_DEFAULT, seconds=reply.flat_seconds)
            found = Recommendation(how=best.program, seconds=best.seconds)
            return found if groups_gain(reply) else default
        case RankingReply(answers=[_, *_]):
            if had := best_available(reply.answers):
                return Recommendation(how=had.program, seconds=had.runtime_seconds)
            plain = min(reply.answers, key=lambda answer: answer.baseline_seconds)
            how = f"{_DEFAULT}, {plain.default.name}" if plain.steps else "nothing to do"
            return Recommendation(how=how, seconds=plain.baseline_seconds)
    return None
