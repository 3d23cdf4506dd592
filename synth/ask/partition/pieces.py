"""A question as JSON that can be sent to any process, and a function to carry it out there."""

from __future__ import annotations

import json

from pydantic import TypeAdapter

from synth.ask.answers.parts import AnswerPart, Json, to_json
from synth.ask.heap import collect_garbage_seldom
from synth.ask.partition.library_cache import LibraryCache
from synth.ask.planning import TopQuestion, rank_programs
from synth.ask.questions.question import parse_question
from synth.ask.reply import Reply
from synth.ask.table import VERBS
from synth.collective.ranking.request import Watcher

REPLY = TypeAdapter(Reply)
"""The result of a piece."""


class Piece(AnswerPart):
    """A question for one worker, which may do parts of it by several processes at once."""

    verb: str
    question: Json

    @property
    def text(self) -> str:
        """The piece as it travels."""
        return json.dumps(to_json(self), allow_nan=False)

    @property
    def partial(self) -> bool:
        """Whether it can come to an end early, with what it has."""
        return self.verb in VERBS and VERBS[self.verb].partial

    @staticmethod
    def of(text: str) -> Piece:
        """The piece that arrived as text."""
        return Piece.model_validate_json(text)


def carry_out(piece: Piece, watcher: Watcher, libraries: LibraryCache | None = None) -> Json:
    """The result of a piece as JSON. Raises InputError for what cannot be answered."""
    libraries = libraries or LibraryCache()
    verb = VERBS[piece.verb]
    question = parse_question(verb.question, piece.question)
    with collect_garbage_seldom():
        if isinstance(question, TopQuestion):
            reply = rank_programs(
                question, watcher, lambda language: libraries.library(language, watcher)
            )
        else:
            reply = verb.answer(question, watcher)
    return {"body": reply.body, "outcome": int(reply.outcome)}
