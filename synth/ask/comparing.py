"""The verb that compares two kept answers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from pydantic import ValidationError

from hierarchies import InputError
from synth.ask.answers import judge
from synth.ask.answers.comparing import (
    DiffReply,
    KeptAnswer,
    KeptPlan,
    KeptRanking,
    KeptSweep,
    LineDifference,
    Recommendation,
    Scalar,
    ValueDifference,
)
from synth.ask.questions.fields import CostLimit, File, Flag
from synth.ask.questions.question import Question
from synth.ask.reply import Outcome, Reply, reply
from synth.ask.taking import recommend
from synth.collective.ranking.request import Watcher

_KINDS: Mapping[str, type[KeptAnswer]] = {
    "ranking": KeptPlan,
    "stretches": KeptSweep,
    "answers": KeptRanking,
}
"""The model of an answer by a key that tells it; of several the first."""
_TOLERANCE = 1e-9


class DiffQuestion(Question):
    """Say how two kept answers of top or plan differ, and what of the question or machine did."""

    first: Annotated[
        dict[str, Any],
        CostLimit.TEXT,
        Flag("Output of 'top --json' or 'plan --json'", spelled="FIRST", file=File.ANSWER),
    ]
    second: Annotated[
        dict[str, Any],
        CostLimit.TEXT,
        Flag("A later answer, or one to a changed question", spelled="SECOND", file=File.ANSWER),
    ]


def diff(question: DiffQuestion, watcher: Watcher) -> Reply:
    """What two answers say differently; the outcome is NO if there is anything."""
    first, second = read_kept_answers(question)
    asked = list(_diff_values(first.asked, second.asked))
    machine = list(_diff_values(first.system.numbers, second.system.numbers))
    lines = [*_diff_recommendation(question), *_diff_lines(first, second)]
    same = not (asked or machine or lines)
    found = DiffReply.like(same=same, asked=asked, machine=machine, lines=lines)
    return reply(found, Outcome.OK if same else Outcome.NO)


def _diff_recommendation(question: DiffQuestion) -> Iterator[LineDifference]:
    """What each answer has one take now, if that differs; of answers that this code reads whole."""
    first, second = map(_recommendation_of, (question.first, question.second))
    if first and second and not _agree(first, second):
        yield LineDifference(what="to take now", first=first, second=second)


def _recommendation_of(given: Mapping[str, Any]) -> Recommendation | None:
    try:
        return recommend(judge("top").validate_python(given))
    except ValidationError:
        return None  # of another edition: its rows are compared


def read_kept_answers(question: DiffQuestion) -> tuple[KeptAnswer, KeptAnswer]:
    """Both answers, read. Raises InputError for JSON that is none, and for two of several kinds."""
    first, second = (
        _read_kept_answer(question.first, "first"),
        _read_kept_answer(question.second, "second"),
    )
    if type(first) is not type(second):
        raise InputError(
            "the two answer different questions: one size, a range of sizes, or a whole job",
            hint="give two of a kind, as two of 'collsynth top --bytes 1GiB --json'",
        )
    return first, second


def _read_kept_answer(given: Mapping[str, Any], where: str) -> KeptAnswer:
    """An answer, read. Raises InputError for JSON that is none of ``top`` or ``plan``."""
    hint = "give what 'collsynth top --json' or 'collsynth plan --json' printed"
    model = next((model for key, model in _KINDS.items() if key in given), None)
    if model is None:
        raise InputError("this is no answer of top or plan", where=where, hint=hint)
    try:
        return model.model_validate(given)
    except ValidationError as error:
        found = error.errors()[0]
        place = ".".join((where, *(str(part) for part in found["loc"])))
        raise InputError(found["msg"].lower(), where=place, hint=hint) from None


def _diff_values(
    first: Mapping[str, Scalar], second: Mapping[str, Scalar]
) -> Iterator[ValueDifference]:
    for what in dict.fromkeys((*first, *second)):
        if first.get(what) != second.get(what):
            yield ValueDifference(what=what, first=first.get(what), second=second.get(what))


def _diff_lines(first: KeptAnswer, second: KeptAnswer) -> Iterator[LineDifference]:
    """The lines that differ: prices within rounding are the same."""
    before, after = first.lines, second.lines
    for what in dict.fromkeys((*before, *after)):
        one, other = before.get(what), after.get(what)
        if not (one and other and _agree(one, other)):
            yield LineDifference(what=what, first=one, second=other)


def _agree(one: Recommendation, other: Recommendation) -> bool:
    return one.how == other.how and abs(one.seconds - other.seconds) <= _TOLERANCE * one.seconds
