"""Questions computed in any process, and their parts that several processes compute in parallel.

A question is sent to one worker. There, independent work is taken from a single queue by all
processes that the worker may use (``synth.search.forks``): placements in the order of their bounds,
each with the k-th price known at that time, sizes of a range, systems, stages of a plan, plans to
simulate, programs to prove. The result of an item does not depend on other processes, so the answer
has the same bytes as with one process.

>>> from synth.collective.ranking.request import Watcher
>>> from synth.ask.partition import Piece, carry_out
>>> piece = Piece(verb="count", question={"digits": 1, "max_steps": 2})
>>> carry_out(Piece.of(piece.text), Watcher())["body"]["by_length"]
[1, 2]
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

from pydantic import TypeAdapter

from synth.ask.answers.parts import AnswerPart, Json, to_json
from synth.ask.answers.ranked import BestSoFar, LeadingAnswer
from synth.ask.questions.question import parse_question
from synth.ask.reply import Reply
from synth.ask.table import VERBS
from synth.collective.ranking.library import Library
from synth.collective.ranking.request import ProvisionalResult, Watcher
from synth.collective.semantics.programs import Language
from synth.search.heap import collect_garbage_seldom

MOST_SHOWN = 10
"""The most answers shown, independent of the number requested."""


def best_so_far_json(best: Sequence[ProvisionalResult]) -> Json:
    """Return the first answers, with the same keys as in answers of ``top``."""
    shown = [LeadingAnswer.of(result) for result in best[:MOST_SHOWN]]
    return to_json(BestSoFar(answers=shown, complete=False))


NOTHING_YET = json.dumps(best_so_far_json(())).encode()
"""The best answers so far of work that ended without any."""


_MOST_LIBRARIES = 8


class LibraryCache:
    """The most recently used libraries, by language. Not thread-safe.

    A library whose search was stopped is not used again, because programs are missing from it.
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
    """Return the result of a piece as JSON. Raises InputError for an unanswerable question."""
    libraries = libraries or LibraryCache()
    verb = VERBS[piece.verb]
    question = parse_question(verb.question, piece.question)
    with collect_garbage_seldom():
        if piece.verb == "top":
            rank: Callable[..., Reply] = verb.answer
            reply = rank(question, watcher, lambda language: libraries.library(language, watcher))
        else:
            reply = verb.answer(question, watcher)
    return {"body": reply.body, "outcome": int(reply.outcome)}
