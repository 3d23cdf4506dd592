"""One question over a range of message sizes: which answer is the best from which size on.

The sizes are doubled from the smallest to the largest; where two neighbours have different answers,
the sizes between are halved until the change is known to a hundredth. Answers differ in placement
and program, and in what one does for them: the line that is set, and whether that gains anything
over the default, which changes with the size too. Programs are compared one by one: stripes, which
differ a little from size to size, are left out.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import isqrt
from typing import Self

from grammar import Instruction
from hierarchies import InputError, System
from synth.plan.candidates import Found
from synth.plan.how_to_get import to_set, worth_measuring
from synth.plan.library import Library
from synth.plan.placements import Placed, PlacementSearch, how_many
from synth.plan.planner import Wanted, answers_to
from synth.plan.request import Against, Answer, Noting, Quiet, Request, Watcher
from synth.price.step_prices import Simulator
from synth.search.forks import forked

_NEAR = 1.01
"""Sizes whose quotient is below this count as one."""
Choice = tuple[tuple[tuple[int, ...], ...], tuple[tuple[Instruction, ...], ...]]
"""A placement's matrix, and the steps of its programs."""


@dataclass(frozen=True)
class Told:
    """What people are told of a size's answer, but for its figures.

    ``line``: what is set for it; ``against``: the default, and whether a run that decides between
    them is ``worth`` it.
    """

    choice: Choice
    line: str
    against: Against
    worth: bool

    @classmethod
    def of(cls, found: Found, answer: Answer) -> Self:
        """Of an answer to one size."""
        worth = worth_measuring(answer) is not None
        return cls(choice_of(found), to_set(answer), answer.against_default, worth)


@dataclass(frozen=True)
class Stretch:
    """Neighbouring sizes whose best answers have the same placement and program, are had alike and
    gain alike over the default.

    ``first`` and ``last`` are its answers at the ends; the payloads are theirs, in bytes.
    """

    from_bytes: int
    until_bytes: int
    first: Answer
    last: Answer


@dataclass(frozen=True)
class Sweep:
    """The stretches from the smallest to the largest size, and every size that was asked.

    ``complete`` is False if the work was stopped: then sizes are missing, or answers may not be
    the best.
    """

    system: System
    request: Request
    smallest_bytes: int
    largest_bytes: int
    stretches: tuple[Stretch, ...]
    sizes: tuple[tuple[int, Answer], ...]
    complete: bool


def sweep(
    system: System,
    request: Request,
    smallest_bytes: int,
    largest_bytes: int,
    watcher: Watcher | None = None,
) -> Sweep:
    """The best answer for every size of a range; the request's own payload and k do not matter.

    Raises InputError for a range that is empty or begins below one byte, and for what ``answers``
    refuses.
    """
    watcher = watcher or Watcher()
    asker = _Asker(system, request, watcher, Library(request.language, watcher.searching))
    asker.ask(grid(smallest_bytes, largest_bytes))
    sizes = tuple(sorted(asker.answers.items()))
    stretches = [
        Stretch(sizes[first][0], sizes[last][0], sizes[first][1], sizes[last][1])
        for first, last in spans([asker.chosen[size] for size, _ in sizes])
    ]
    return Sweep(
        system, request, smallest_bytes, largest_bytes, tuple(stretches), sizes, asker.complete
    )


def check_range(smallest_bytes: int, largest_bytes: int) -> None:
    """Raises InputError for a range that is empty or begins below one byte."""
    if not 1 <= smallest_bytes <= largest_bytes:
        raise InputError(
            f"the sizes go from {smallest_bytes} to {largest_bytes} bytes",
            hint="the smallest comes first, as in 1KiB..4GiB",
        )


def grid(smallest_bytes: int, largest_bytes: int) -> list[int]:
    """The sizes that are asked for first: doubled from one end to the other, both among them.

    From 1 KiB to 5 KiB: 1, 2, 4 and 5 KiB.

    Raises InputError as ``check_range``.
    """
    check_range(smallest_bytes, largest_bytes)
    sizes = [smallest_bytes]
    while sizes[-1] < largest_bytes:
        sizes.append(min(2 * sizes[-1], largest_bytes))
    return sizes


def between(chosen: Mapping[int, Hashable]) -> list[int]:
    """The sizes to ask for next: midway between neighbours whose answers differ, unless near.

    Where 1 KiB and 4 KiB have different answers, 2 KiB: a bisection on a scale of ratios. In the
    end the size at which the answer changes is known to a hundredth.
    """
    return [
        max(low + 1, isqrt(low * high))
        for low, high in pairwise(sorted(chosen))
        if chosen[low] != chosen[high] and high > low * _NEAR and high - low >= 2
    ]


def spans(choices: Sequence[Hashable]) -> list[tuple[int, int]]:
    """The positions of the first and the last of each row of neighbours that are the same.

    Of A, A, B: 0 and 1, then 2 and 2.
    """
    found: list[tuple[int, int]] = []
    for position, choice in enumerate(choices):
        if found and choices[found[-1][1]] == choice:
            found[-1] = found[-1][0], position
        else:
            found.append((position, position))
    return found


def at(request: Request, size: int) -> Request:
    """What is asked for one size of a range: the best single program."""
    return replace(request, payload_bytes=size, k=1, per_placement=False, stripes=False)


def choice_of(found: Found) -> Choice:
    """What must differ for two answers to be different ones: the placement and the steps."""
    return found.reduction.placement.matrix, tuple(part.steps for part in found.parts)


class _Asker:
    """Asks for sizes until it is known where the best changes, or it is stopped. Mutable, one use.

    ``answers`` and ``chosen`` have the answer of each size and what is told of it, ``complete``
    whether that is all.
    """

    def __init__(
        self, system: System, request: Request, watcher: Watcher, library: Library
    ) -> None:
        self._simulator = Simulator(system, request.choice)
        self._request = request
        self._watcher, self._quiet = watcher, Quiet(watcher)
        self._noting = Noting(watcher)
        self._library = library
        self._of = how_many(system, request)
        self.answers: dict[int, Answer] = {}
        self.chosen: dict[int, Told] = {}
        self.complete = True

    def ask(self, sizes: Sequence[int]) -> None:
        """Find and prove the best for these sizes, and for those between that are to be asked.

        Several sizes at once where there may be several processes. Once the work is stopped, the
        best of the first size only.
        """
        asked: list[int] = []
        found = forked(self._best, self._to_ask(sizes, asked), self._noting)
        for (best, complete), size in zip(found, asked, strict=False):
            wanted = [Wanted(1, best.distinct, size)]
            [answer], judged = answers_to(self._simulator, wanted, self._quiet, self._library)
            self.answers[size] = replace(answer, by_size=True)
            self.chosen[size] = Told.of(best.found, answer)
            expected = max(len(sizes), len(asked))
            self._watcher.placed(len(self.answers) * self._of, expected * self._of)
            self._watcher.judged(len(self.answers), expected)
            self.complete = complete and judged
            if not self.complete:
                return
        self.complete = not self._noting.stopped

    def _to_ask(self, sizes: Sequence[int], asked: list[int]) -> Iterator[int | None]:
        """The sizes, then those between, as far as they are known; all that come are noted."""
        for size in sizes:
            asked.append(size)
            yield size
        while len(self.chosen) < len(asked) or between(self.chosen):
            fresh = [size for size in between(self.chosen) if size not in asked]
            asked.extend(fresh[:1])
            yield fresh[0] if fresh else None

    def _best(self, size: int) -> tuple[Placed, bool]:
        """The best for a size, and whether all was looked at."""
        search = PlacementSearch(
            self._simulator, at(self._request, size), self._quiet, self._library
        )
        found = search.run()
        return found.best[0], found.looked.complete
