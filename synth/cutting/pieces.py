"""What travels: a piece of a question as JSON, and what carries it out wherever it arrives."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from synth.bodies import Json
from synth.request import Watcher
from synth.verbs.asking import asked
from synth.wire import VERBS


@dataclass(frozen=True)
class Piece:
    """``part`` says what is to be done with the payload, which is JSON and small.

    ``weight`` is how many placements it will price, as far as that is known: for progress only.
    """

    part: str
    payload: Json
    weight: int = 1

    @property
    def text(self) -> str:
        """The piece as it travels."""
        return json.dumps({"part": self.part, "payload": self.payload}, allow_nan=False)

    @property
    def partial(self) -> bool:
        """Whether it can come to an end early, with what it has."""
        return self.part != "answer" or VERBS[self.payload["verb"]].partial

    @staticmethod
    def of(text: str) -> Piece:
        """The piece that arrived as text."""
        found = json.loads(text)
        return Piece(found["part"], found["payload"])


def carry_out(piece: Piece, watcher: Watcher) -> Json:
    """What a piece comes to, as JSON. Raises InputError for what cannot be answered."""
    return _PARTS[piece.part](piece.payload, watcher)


def _answer(payload: Json, watcher: Watcher) -> Json:
    """A whole question."""
    verb = VERBS[payload["verb"]]
    reply = verb.answer(asked(verb.question, payload["question"]), watcher)
    return {"body": reply.body, "outcome": int(reply.outcome)}


_PARTS: Mapping[str, Callable[[Json, Watcher], Json]] = {"answer": _answer}
