"""A question as rounds of pieces: each round is made from the results of the rounds before.

Most questions stay one piece. A question about several systems is cut by system, and a range of
sizes by size; each later round of a range adds the sizes halfway between neighbours whose best
programs differ. A ranking is not cut: its placements are searched in the order of their bounds, and
the results of the first ones rule most others out. A worker with only a share of the placements
would lack those results, and search placements that they rule out.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any

from hierarchies import System, within
from synth.plan.placements import how_many
from synth.plan.sizes import between, grid, spans
from synth.verbs.answers.parts import Json
from synth.verbs.answers.ranked import Answer, SweepReply
from synth.verbs.partition.pieces import (
    REPLY,
    Piece,
    SizesAnswered,
    SomeSizes,
    WholeQuestion,
)
from synth.verbs.planning import SweepQuestion, TopQuestion, ranked, swept_reply
from synth.verbs.questions.question import Question
from synth.verbs.reply import Reply

Rounds = Generator[Sequence[Piece], Sequence[Json], Reply]
"""Yields a round of pieces, is sent their results in the same order, and returns the answer."""
LEAST_PRICED = 8
"""A range with fewer placements to price, summed over its sizes, stays whole: it is too quick."""


def rounds_of(verb: str, question: Question, pieces: int = 1) -> Rounds:
    """The rounds of a question, cut for workers that carry out about ``pieces`` pieces at once.

    Raises InputError, at the first round, for a question that cannot be answered.
    """
    match question:
        case TopQuestion():
            return (yield from _top(question, pieces))
        case SweepQuestion() if pieces > 1:
            tops = question.tops()
            each = -(-2 * pieces // len(tops))
            replies = yield from together([_named(one, _top(one, each)) for one in tops])
            return swept_reply(replies)
        case _:
            return (yield from _whole(verb, question))


def together(several: Sequence[Rounds]) -> Generator[Sequence[Piece], Sequence[Json], list[Reply]]:
    """Rounds of several questions side by side: each round joins the next round of each."""
    replies: dict[int, Reply] = {}
    wanted: dict[int, Sequence[Piece]] = {}

    def go_on(number: int, results: Sequence[Json] | None) -> None:
        try:
            wanted[number] = (
                next(several[number]) if results is None else several[number].send(results)
            )
        except StopIteration as stop:
            wanted.pop(number, None)
            replies[number] = stop.value

    for number in range(len(several)):
        go_on(number, None)
    while wanted:
        results = iter((yield [piece for pieces in wanted.values() for piece in pieces]))
        for number, pieces in list(wanted.items()):
            go_on(number, [next(results) for _ in pieces])
    return [replies[number] for number in range(len(several))]


def _whole(verb: str, question: Question) -> Rounds:
    [came] = yield [Piece(WholeQuestion(verb=verb, question=_plain(question)))]
    return REPLY.validate_python(came)


def _named(question: TopQuestion, rounds: Rounds) -> Rounds:
    """The rounds for one of several systems; errors in them name that system."""
    with within(question.system_name):
        return (yield from rounds)


def _top(question: TopQuestion, pieces: int) -> Rounds:
    ends = question.bytes
    if pieces < 2 or isinstance(ends, int) or question.collectives:
        return (yield from _whole("top", question))
    system = question.machine()
    if system.missing:
        return (yield from _whole("top", question))
    placements = how_many(system, question.asked_of(system))
    if placements * len(grid(*ends)) < LEAST_PRICED:
        return (yield from _whole("top", question))
    return (yield from _range(question, system, placements, pieces))


def _range(question: TopQuestion, system: System, placements: int, pieces: int) -> Rounds:
    """First the best at each size of a grid; then at sizes between neighbours that differ."""
    assert isinstance(question.bytes, tuple)
    answered: dict[int, Answer] = {}
    chosen: dict[int, str] = {}
    complete, wanted = True, grid(*question.bytes)
    while wanted:
        round_ = _dealt(wanted, pieces)
        results = yield [_sizes(question, some, placements) for some in round_]
        for found in map(SizesAnswered.model_validate, results):
            answered |= {one.bytes: one.answer for one in found.sizes}
            chosen |= {one.bytes: one.choice for one in found.sizes}
            complete = complete and found.complete
        wanted = between(chosen) if complete else []
    sizes = sorted(answered.items())
    stretches = spans([chosen[size] for size, _ in sizes])
    asked_of = (system, question.asked_of(system))
    return ranked(SweepReply.over(asked_of, question.bytes, sizes, stretches, complete))


def _sizes(question: TopQuestion, sizes: list[int], placements: int) -> Piece:
    task = SomeSizes(question=_plain(question), sizes=sizes)
    return Piece(task, len(sizes) * placements)


def _dealt(sizes: Sequence[int], hands: int) -> list[list[int]]:
    """Sizes dealt out like cards, so that each piece takes about as long: neighbours cost alike."""
    hands = min(hands, len(sizes))
    return [list(sizes[hand::hands]) for hand in range(hands)]


def _plain(question: Question) -> dict[str, Any]:
    return question.model_dump(mode="json", by_alias=True)
