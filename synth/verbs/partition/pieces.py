"""A piece of a question: JSON that can be sent to any process, and a function to carry it out."""

from __future__ import annotations

import json
from dataclasses import dataclass

from pydantic import TypeAdapter

from synth.plan.request import Watcher
from synth.plan.sizes import Asker
from synth.verbs.answers.parts import Json, Part, Positive, as_json
from synth.verbs.answers.ranked import Answer
from synth.verbs.partition.library_cache import LibraryCache
from synth.verbs.planning import TopQuestion, top
from synth.verbs.questions.question import asked
from synth.verbs.reply import Reply
from synth.verbs.table import VERBS


class WholeQuestion(Part):
    """A question that is not cut."""

    verb: str
    question: Json


class SomeSizes(Part):
    """Some sizes of a range."""

    question: Json
    sizes: list[Positive]


class BestAtSize(Part):
    """The best answer at one size; ``choice`` is the same where placement and steps are."""

    bytes: Positive
    choice: str
    answer: Answer


class SizesAnswered(Part):
    """What some sizes come to; where they were stopped, the first of them."""

    sizes: list[BestAtSize]
    complete: bool


_PARTIAL = frozenset(name for name, verb in VERBS.items() if verb.partial)
_TASKS: TypeAdapter[WholeQuestion | SomeSizes] = TypeAdapter(WholeQuestion | SomeSizes)
REPLY = TypeAdapter(Reply)
"""The result of a whole question."""


@dataclass(frozen=True)
class Piece:
    """A part of a question for one worker, such as three sizes of a range; small as JSON.

    ``weight`` is how many placements it will price, as far as that is known: for progress only.
    """

    task: WholeQuestion | SomeSizes
    weight: int = 1

    @property
    def text(self) -> str:
        """The piece as it travels."""
        return json.dumps(as_json(self.task), allow_nan=False)

    @property
    def partial(self) -> bool:
        """Whether it can come to an end early, with what it has."""
        return isinstance(self.task, SomeSizes) or self.task.verb in _PARTIAL

    @staticmethod
    def of(text: str) -> Piece:
        """The piece that arrived as text."""
        return Piece(_TASKS.validate_python(json.loads(text)))


def carry_out(piece: Piece, watcher: Watcher, libraries: LibraryCache | None = None) -> Json:
    """The result of a piece as JSON. Raises InputError for what cannot be answered."""
    libraries = libraries or LibraryCache()
    match piece.task:
        case WholeQuestion():
            return _answer(piece.task, watcher, libraries)
        case SomeSizes():
            return as_json(_sizes(piece.task, watcher, libraries))


def _answer(task: WholeQuestion, watcher: Watcher, libraries: LibraryCache) -> Json:
    verb = VERBS[task.verb]
    question = asked(verb.question, task.question)
    if isinstance(question, TopQuestion):
        reply = top(question, watcher, lambda language: libraries.library(language, watcher))
    else:
        reply = verb.answer(question, watcher)
    return {"body": reply.body, "outcome": int(reply.outcome)}


def _sizes(task: SomeSizes, watcher: Watcher, libraries: LibraryCache) -> SizesAnswered:
    question = asked(TopQuestion, task.question)
    system = question.machine()
    request = question.asked_of(system)
    counting = _Counting(watcher, len(task.sizes))
    library = libraries.library(request.language, watcher)
    asker = Asker(system, request, counting, library)
    for size in task.sizes:
        asker.ask(size)
        counting.sizes_done += 1
    return SizesAnswered(
        sizes=[
            BestAtSize(bytes=size, choice=repr(asker.chosen[size]), answer=Answer.of(answer))
            for size, answer in asker.answers.items()
        ],
        complete=asker.complete,
    )


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
