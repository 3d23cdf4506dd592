"""One question over a range of message sizes: which answer is the best from which size on.

The sizes are doubled from the smallest to the largest; where two neighbours have different answers,
the sizes between are halved until the change is known to a hundredth. Programs are compared one by
one: stripes, which differ a little from size to size, are left out.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import isqrt

from grammar import Instruction
from hierarchies import InputError, System
from synth.plan.candidates import Found
from synth.plan.library import Library
from synth.plan.placements import PlacementSearch
from synth.plan.planner import Wanted, answers_to
from synth.plan.request import Answer, Request, Unranked, Watcher
from synth.price.step_prices import Simulator

_NEAR = 1.01
"""Sizes whose quotient is below this count as one."""
Choice = tuple[tuple[tuple[int, ...], ...], tuple[tuple[Instruction, ...], ...]]
"""A placement's matrix, and the steps of its programs."""


@dataclass(frozen=True)
class Stretch:
    """Neighbouring sizes that have the same placement and program as their best answer.

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
    asker = Asker(system, request, watcher, Library(request.language, watcher.searching))
    wanted = grid(smallest_bytes, largest_bytes)
    while wanted:
        for size in wanted:
            asker.ask(size)
        wanted = between(asker.chosen) if asker.complete else []
    sizes = tuple(sorted(asker.answers.items()))
    stretches = [
        Stretch(sizes[first][0], sizes[last][0], sizes[first][1], sizes[last][1])
        for first, last in spans([asker.chosen[size] for size, _ in sizes])
    ]
    return Sweep(
        system, request, smallest_bytes, largest_bytes, tuple(stretches), sizes, asker.complete
    )


def grid(smallest_bytes: int, largest_bytes: int) -> list[int]:
    """The sizes that are asked for first: doubled from one end to the other, both among them.

    From 1 KiB to 5 KiB: 1, 2, 4 and 5 KiB.

    Raises InputError for a range that is empty or begins below one byte.
    """
    if not 1 <= smallest_bytes <= largest_bytes:
        raise InputError(
            f"the sizes go from {smallest_bytes} to {largest_bytes} bytes",
            hint="the smallest comes first, as in 1KiB..4GiB",
        )
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


class Asker:
    """Asks for one size after the other, unless it has been stopped. Mutable, one use.

    ``answers`` and ``chosen`` have the answer and the choice of each size, ``complete`` whether
    that is all.
    """

    def __init__(
        self, system: System, request: Request, watcher: Watcher, library: Library
    ) -> None:
        self._simulator = Simulator(system, request.choice)
        self._request = request
        self._watcher = Unranked(watcher)
        self._library = library
        self.answers: dict[int, Answer] = {}
        self.chosen: dict[int, Choice] = {}
        self.complete = True

    def ask(self, size: int) -> None:
        """Find and prove the best for a size; once the work is stopped, for the first size only."""
        self.complete = self.complete and (not self.answers or self._watcher.go_on())
        if not self.complete:
            return
        request, simulator, library = at(self._request, size), self._simulator, self._library
        searched = PlacementSearch(simulator, request, self._watcher, library).run()
        wanted = [Wanted(1, one.distinct, size) for one in searched.best]
        answered, complete = answers_to(simulator, wanted, self._watcher, library)
        self.complete = searched.looked.complete and complete
        for one, answer in zip(searched.best, answered, strict=True):
            self.chosen[size] = choice_of(one.found)
            self.answers[size] = replace(answer, by_size=True)
