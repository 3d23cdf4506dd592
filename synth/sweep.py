"""One question over a range of message sizes: which answer is the best from which size on.

The sizes are doubled from the smallest to the largest; where two neighbours have different answers,
the sizes between are halved until the change is known to a hundredth. Programs are compared one by
one: stripes, which differ a little from size to size, are left out.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from math import isqrt

from grammar import Program
from hierarchies import InputError, Placement, System
from synth.library import Library
from synth.plan import answers
from synth.request import Answer, Report, Request, Watcher

_NEAR = 1.01
"""Sizes whose quotient is below this are not told apart."""


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
    if not 1 <= smallest_bytes <= largest_bytes:
        raise InputError(
            f"the sizes go from {smallest_bytes} to {largest_bytes} bytes",
            hint="the smallest comes first, as in 1KiB..4GiB",
        )
    asker = _Asker(system, request, watcher or Watcher())
    grid = [smallest_bytes]
    while grid[-1] < largest_bytes:
        grid.append(min(2 * grid[-1], largest_bytes))
    for size in grid:
        asker.ask(size)
    for low, high in pairwise(grid):
        asker.refine(low, high)
    told = sorted(asker.told.items())
    return Sweep(
        system,
        request,
        smallest_bytes,
        largest_bytes,
        tuple(_stretches(told)),
        tuple(told),
        asker.complete,
    )


class _Asker:
    """Asks for one size after the other, unless it has been stopped. Mutable, one use."""

    def __init__(self, system: System, request: Request, watcher: Watcher) -> None:
        self._system = system
        self._request = request
        self._watcher = watcher
        self._library = Library(request.language, watcher.searching)
        self.told: dict[int, Answer] = {}
        self.complete = True

    def ask(self, size: int) -> bool:
        """Whether an answer was found; where there is time for none else, for the first size."""
        self.complete = self.complete and (not self.told or self._watcher.go_on())
        if not self.complete:
            return False
        request = replace(
            self._request, payload_bytes=size, k=1, per_placement=False, stripes=False
        )
        report: Report = answers(self._system, request, self._watcher, self._library)
        self.complete = report.complete
        if report.answers:
            self.told[size] = report.answers[0]
        return size in self.told

    def refine(self, low: int, high: int) -> None:
        """Ask for sizes between two whose answers differ."""
        if not (low in self.told and high in self.told) or high <= low * _NEAR or high - low < 2:
            return
        if _choice(self.told[low]) == _choice(self.told[high]):
            return
        middle = max(low + 1, isqrt(low * high))
        if self.ask(middle):
            self.refine(low, middle)
            self.refine(middle, high)


def _choice(answer: Answer) -> tuple[Placement, tuple[Program, ...]]:
    candidate = answer.candidate
    return candidate.reduction.placement, tuple(part.program for part in candidate.parts)


def _stretches(told: list[tuple[int, Answer]]) -> list[Stretch]:
    found: list[Stretch] = []
    for size, answer in told:
        if found and _choice(found[-1].last) == _choice(answer):
            found[-1] = replace(found[-1], until_bytes=size, last=answer)
        else:
            found.append(Stretch(size, size, answer, answer))
    return found
