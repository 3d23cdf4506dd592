"""Questions carried out by any process, and what of them several processes do at once.

A question goes to one worker. There the work that can be done apart is taken from one queue by as
many processes as the worker may have (``synth.search.forks``): placements in the order of their
bounds, each with the k-th price found by then, sizes of a range, systems, what stages of a plan do,
plans to be simulated, programs to be proved. What each makes of its item does not depend on who
else works, so the answer has the same bytes as that of one process.

>>> from synth.collective.ranking.request import Watcher
>>> from synth.ask.partition import Piece, carry_out
>>> piece = Piece(verb="count", question={"digits": 1, "max_steps": 2})
>>> carry_out(Piece.of(piece.text), Watcher())["body"]["by_length"]
[1, 2]
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from pydantic import TypeAdapter

from synth.ask.answers.parts import AnswerPart, Json, to_json
from synth.ask.answers.ranked import BestSoFar, LeadingAnswer
from synth.ask.heap import collect_garbage_seldom
from synth.ask.planning import TopQuestion, rank_programs
from synth.ask.questions.question import parse_question
from synth.ask.reply import Reply
from synth.ask.table import VERBS
from synth.collective.ranking.library import Library
from synth.collective.ranking.request import ProvisionalResult, Watcher
from synth.collective.semantics.programs import Language

MOST_SHOWN = 10
"""How many are shown, however many were asked for."""


def best_so_far_json(best: Sequence[ProvisionalResult]) -> Json:
    """The first of them, with the keys that answers of ``top`` have for the same."""
    shown = [LeadingAnswer.of(result) for result in best[:MOST_SHOWN]]
    return to_json(BestSoFar(answers=shown, complete=False))


NOTHING_YET = json.dumps(best_so_far_json(())).encode()
"""The best so far of work that was ended before anything was found."""


_MOST_LIBRARIES = 8


class LibraryCache:
    """The libraries used last, by language. Mutable, for one thread.

    A library whose search was stopped is not used again, as programs are missing from it.
    """

    def __init__(self) -> None:
        self._libraries: dict[Language, Library] = {}
        self._watcher = Watcher()

    def library(self, language: Language, watcher: Watcher) -> Library:
        """The library of a language; from now on searches of all libraries ask this watcher."""
        self._watcher = watcher
        found = self._libraries.pop(language, None)
        if found is None or not found.complete:
            found = Library(language, lambda states: self._watcher.searching(states))
        while len(self._libraries) >= _MOST_LIBRARIES:
            del self._libraries[next(iter(self._libraries))]
        self._libraries[language] = found
        return found


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
