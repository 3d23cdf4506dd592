"""The course of a question: rounds of pieces, each round made from what came of those before.

Small questions stay one piece. A ranking is cut by placements: a first round prices some of them,
so that the others need only look for what is no dearer than the best known. A range of sizes is cut
by sizes, and by placements where these are many; each later round halves what lies between
neighbours that differ. At last what was chosen is told and proved, cut into pieces again.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import replace
from typing import Any

from hierarchies import InputError, System
from synth.bodies import Json, ranking_body, sweep_body
from synth.cutting.pieces import Piece, carry_out, sized
from synth.cutting.told import found_json, surveyed_of
from synth.finder import Found
from synth.request import Watcher
from synth.survey import Share, Surveyed, how_many, merged, ranked
from synth.sweep import between, choice_of, grid, spans
from synth.verbs.asking import Question
from synth.verbs.planning import SweepQuestion, TopQuestion, ranking_reply, swept_reply
from synth.verbs.reply import Outcome, Reply

Course = Generator[Sequence[Piece], Sequence[Json], Reply]
"""Yields a round of pieces, is sent what came of each, in their order, and returns the answer."""
LEAST_PRICED = 4
"""A piece prices at least so many placements, each size by itself; else it is not worth the way."""
_LEAST_TOLD = 8
"""A piece tells at least so many answers, if there are as many."""
_FIRST = 4
"""One of so many placements is priced in the first round of a ranking."""


def course(verb: str, question: Question, pieces: int = 1) -> Course:
    """How a question is answered where about so many pieces can be worked on at once.

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


def in_turn(rounds: Course, watcher: Watcher | None = None) -> Reply:
    """Run a course here, one piece after the other."""
    watcher = watcher or Watcher()
    try:
        wanted = next(rounds)
        while True:
            wanted = rounds.send([carry_out(Piece.of(piece.text), watcher) for piece in wanted])
    except StopIteration as stop:
        found: Reply = stop.value
        return found


def together(courses: Sequence[Course]) -> Generator[Sequence[Piece], Sequence[Json], list[Reply]]:
    """Several courses side by side: a round of theirs is the next round of each."""
    replies: dict[int, Reply] = {}
    wanted: dict[int, Sequence[Piece]] = {}

    def go_on(number: int, results: Sequence[Json] | None) -> None:
        try:
            wanted[number] = (
                next(courses[number]) if results is None else courses[number].send(results)
            )
        except StopIteration as stop:
            wanted.pop(number, None)
            replies[number] = stop.value

    for number in range(len(courses)):
        go_on(number, None)
    while wanted:
        results = iter((yield [piece for pieces in wanted.values() for piece in pieces]))
        for number, pieces in list(wanted.items()):
            go_on(number, [next(results) for _ in pieces])
    return [replies[number] for number in range(len(courses))]


def _whole(verb: str, question: Question, weight: int = 1) -> Course:
    [found] = yield [Piece("answer", {"verb": verb, "question": _plain(question)}, weight)]
    return Reply(found["body"], Outcome(found["outcome"]))


def _named(question: TopQuestion, rounds: Course) -> Course:
    """The course of one of several systems, whose mistakes say which."""
    try:
        return (yield from rounds)
    except InputError as error:
        raise error.at(question.system_name) from None


def _top(question: TopQuestion, pieces: int) -> Course:
    system = question.machine()
    if system.missing:
        return (yield from _whole("top", question))
    cut = _Cut(system, question, pieces)
    if pieces < 2 or cut.weight < 2 * LEAST_PRICED:
        return (yield from _whole("top", question, cut.weight))
    return (yield from (cut.stretches() if isinstance(question.bytes, tuple) else cut.ranking()))


class _Cut:
    """One ranking, or the stretches of one range, cut into at most so many pieces a round."""

    def __init__(self, system: System, question: TopQuestion, pieces: int) -> None:
        self._system = system
        self._question = question
        self._request = question.asked()
        self._pieces = pieces
        self._of = how_many(system, self._request)
        self._grid = grid(*question.bytes) if isinstance(question.bytes, tuple) else []
        self.weight = self._of * max(1, len(self._grid))

    def ranking(self) -> Course:
        """The k best of all placements, or of each."""
        request, size = self._request, self._request.payload_bytes
        many = max(1, min(self._pieces, self._of // LEAST_PRICED))
        surveyed: Surveyed | None = None
        for shares in _rounds(many, 1 if request.per_placement else _FIRST, self._of):
            limit = surveyed.limit_ticks(request) if surveyed else None
            results = yield [self._survey([size], share, limit) for share in shares]
            parts = [
                surveyed_of(one, self._system, request) for r in results for one in r["surveys"]
            ]
            surveyed = merged([*([surveyed] if surveyed else []), *parts], request)
            if not surveyed.looked.complete:
                break
        assert surveyed is not None
        best = [(rank, size, found) for rank, found in ranked(surveyed.best, request)]
        answered, refuted, complete = yield from self._told(best)
        looked = replace(surveyed.looked, complete=surveyed.looked.complete and complete)
        body = ranking_body(self._system, request, answered, looked)
        return ranking_reply(self._question, body, refuted)

    def stretches(self) -> Course:
        """The best of every size, and of those between neighbours that differ."""
        best: dict[int, Found] = {}
        complete, wanted = True, self._grid
        while wanted:
            sizes = _dealt(wanted, self._pieces)
            apart = min(self._pieces // len(sizes), self._of // LEAST_PRICED) or 1
            round_ = [(some, Share(apart, (rest,))) for some in sizes for rest in range(apart)]
            results = yield [self._survey(some, share, None) for some, share in round_]
            found, whole = self._best(round_, results)
            best |= found
            complete = complete and whole
            chosen = {size: choice_of(one) for size, one in best.items()}
            wanted = between(chosen) if complete else []
        sizes_told = sorted(best)
        answered, refuted, all_told = yield from self._told([(1, s, best[s]) for s in sizes_told])
        ends = self._grid[0], self._grid[-1]
        body = sweep_body(
            (self._system, self._request),
            ends,
            list(zip(sizes_told, answered, strict=True)),
            spans([choice_of(best[size]) for size in sizes_told]),
            complete and all_told,
        )
        return ranking_reply(self._question, body, refuted)

    def _best(
        self, asked: Sequence[tuple[list[int], Share]], results: Sequence[Json]
    ) -> tuple[dict[int, Found], bool]:
        """The best of each size, from the surveys of its shares; whether none is missing."""
        parts: dict[int, list[Surveyed]] = {}
        complete = True
        for (sizes, _), result in zip(asked, results, strict=True):
            complete = complete and len(result["surveys"]) == len(sizes)
            for size, one in zip(sizes, result["surveys"], strict=False):
                request = sized(self._request, self._question, size)
                parts.setdefault(size, []).append(surveyed_of(one, self._system, request))
        found: dict[int, Found] = {}
        for size, some in parts.items():
            surveyed = merged(some, sized(self._request, self._question, size))
            complete = complete and surveyed.looked.complete
            if surveyed.best:
                found[size] = surveyed.best[0].found
        return found, complete

    def _survey(self, sizes: list[int], share: Share, limit_ticks: int | None) -> Piece:
        payload = {
            "question": _plain(self._question),
            "sizes": sizes,
            "divisor": share.divisor,
            "remainders": list(share.remainders),
            "limit_ticks": limit_ticks,
        }
        return Piece("survey", payload, len(sizes) * share.count(self._of))

    def _told(
        self, best: Sequence[tuple[int, int, Found]]
    ) -> Generator[Sequence[Piece], Sequence[Json], tuple[list[Json], bool, bool]]:
        """The answers as JSON; whether z3 refutes one, and whether none was left out."""
        wanted = [
            {"rank": rank, "payload_bytes": size, **found_json(found)} for rank, size, found in best
        ]
        cut = -(-len(wanted) // max(1, min(self._pieces, len(wanted) // _LEAST_TOLD)))
        parts = [wanted[first : first + cut] for first in range(0, len(wanted), cut or 1)]
        question = _plain(self._question)
        results = yield [
            Piece("tell", {"question": question, "wanted": part}, len(part)) for part in parts
        ]
        answered = [answer for result in results for answer in result["answers"]]
        refuted = any(result["refuted"] for result in results)
        return answered, refuted, all(result["complete"] for result in results)


def _rounds(many: int, first: int, of: int) -> Iterator[list[Share]]:
    """Shares of the placements, so many a round: in the first one of ``first``, then the rest.

    All at once where a piece of the first round would have too few.
    """
    if first < 2 or of < many * first * LEAST_PRICED:
        yield [Share(many, (rest,)) for rest in range(many)]
        return
    divisor = many * first
    yield [Share(divisor, (rest,)) for rest in range(many)]
    yield [Share(divisor, tuple(range(many + rest, divisor, many))) for rest in range(many)]


def _dealt(sizes: Sequence[int], hands: int) -> list[list[int]]:
    """Sizes dealt one by one, as neighbours cost about the same."""
    hands = min(hands, len(sizes))
    return [list(sizes[hand::hands]) for hand in range(hands)]


def _plain(question: Question) -> dict[str, Any]:
    return question.model_dump(mode="json", by_alias=True)
