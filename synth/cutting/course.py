"""The course of a question: rounds of pieces, each round made from what came of those before."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from typing import Any

from synth.bodies import Json
from synth.cutting.pieces import Piece, carry_out
from synth.request import Watcher
from synth.verbs.asking import Question
from synth.verbs.reply import Outcome, Reply

Course = Generator[Sequence[Piece], Sequence[Json], Reply]
"""Yields a round of pieces, is sent what came of each, in their order, and returns the answer."""


def course(verb: str, question: Question, pieces: int = 1) -> Course:
    """How a question is answered where about so many pieces can be worked on at once.

    Raises InputError, when it is first run, for a question that cannot be answered.
    """
    [found] = yield [Piece("answer", {"verb": verb, "question": _plain(question)})]
    return Reply(found["body"], Outcome(found["outcome"]))


def in_turn(rounds: Course, watcher: Watcher | None = None) -> Reply:
    """Run a course here, one piece after the other."""
    watcher = watcher or Watcher()
    try:
        wanted: Iterable[Piece] = next(rounds)
        while True:
            wanted = rounds.send([carry_out(Piece.of(piece.text), watcher) for piece in wanted])
    except StopIteration as stop:
        found: Reply = stop.value
        return found


def _plain(question: Question) -> dict[str, Any]:
    return question.model_dump(mode="json", by_alias=True)
