"""A piece of a question: JSON that can be sent to any process, and a function to carry it out."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from synth.plan.request import Watcher
from synth.plan.sizes import Asker
from synth.verbs.answers.bodies import Json, answer_json
from synth.verbs.partition.library_cache import LibraryCache
from synth.verbs.planning import TopQuestion, top
from synth.verbs.questions import asked
from synth.verbs.table import VERBS
from synth.verify.symbolic import Refuted


@dataclass(frozen=True)
class Piece:
    """A part of the work on a question. ``part`` names what to do with ``payload``, small JSON.

    ``weight`` is how many placements it will price, as far as that is known: for progress only.
    """

    part: str
    payload: Json
    weight: int = 1

    @property
    def text(self) -> str:
        """The piece as text, to be sent."""
        return json.dumps({"part": self.part, "payload": self.payload}, allow_nan=False)

    @property
    def partial(self) -> bool:
        """Whether it can end early with a partial result."""
        return self.part != "answer" or VERBS[self.payload["verb"]].partial

    @staticmethod
    def of(text: str) -> Piece:
        """The piece that arrived as text."""
        found = json.loads(text)
        return Piece(found["part"], found["payload"])


def carry_out(piece: Piece, watcher: Watcher, libraries: LibraryCache | None = None) -> Json:
    """The result of a piece, as JSON. Raises InputError for what cannot be answered."""
    return _PARTS[piece.part](piece.payload, watcher, libraries or LibraryCache())


def _answer(payload: Json, watcher: Watcher, libraries: LibraryCache) -> Json:
    """The answer to a whole question."""
    verb = VERBS[payload["verb"]]
    question = asked(verb.question, payload["question"])
    if isinstance(question, TopQuestion):
        reply = top(question, watcher, lambda language: libraries.library(language, watcher))
    else:
        reply = verb.answer(question, watcher)
    return {"body": reply.body, "outcome": int(reply.outcome)}


def _sizes(payload: Json, watcher: Watcher, libraries: LibraryCache) -> Json:
    """The best answers at some sizes of a range; at the first of them where it is stopped.

    ``choice`` is the same text for two sizes that have the same placement and steps.
    """
    question = asked(TopQuestion, payload["question"])
    request, sizes = question.asked(), payload["sizes"]
    counting = _Counting(watcher, len(sizes))
    library = libraries.library(request.language, watcher)
    asker = Asker(question.machine(), request, counting, library)
    for size in sizes:
        asker.ask(size)
        counting.sizes_done += 1
    return {
        "sizes": [
            {"bytes": size, "choice": repr(asker.chosen[size]), "answer": answer_json(answer)}
            for size, answer in asker.told.items()
        ],
        "refuted": any(isinstance(answer.verdict, Refuted) for answer in asker.told.values()),
        "complete": asker.complete,
    }


_PARTS: Mapping[str, Callable[[Json, Watcher, LibraryCache], Json]] = {
    "answer": _answer,
    "sizes": _sizes,
}


class _Counting(Watcher):
    """Sums the progress over several sizes, so that a watcher sees one count of placements."""

    def __init__(self, watcher: Watcher, sizes: int) -> None:
        self._watcher = watcher
        self._sizes = sizes
        self.sizes_done = 0
        self.go_on = watcher.go_on  # type: ignore[method-assign]
        self.explored = watcher.explored  # type: ignore[method-assign]

    def placed(self, done: int, of: int) -> None:
        self._watcher.placed(self.sizes_done * of + done, self._sizes * of)
