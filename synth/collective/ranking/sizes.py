"""One question over a range of message sizes: what to do from which size on.

The sizes are doubled from the smallest to the largest; where two neighbours have different answers,
the change between them is looked for until it is known to a hundredth. Answers differ in placement
and program, in the line that is set for one, and in whether that gains anything over the default;
where nothing does, as far as prices can tell, the default is kept, whatever program they would
have. What surely gains comes before what is faster as priced, and not told to gain: as of one
size. Programs are compared one by one: stripes, which differ a little from size to size, are left
out.

To ask a size is to search for its best program. Where both neighbours have the same, only how it is
had, or what it gains, changes between them: that takes no search, but its price there. So only the
two sizes around the change are asked; else, or if these do not bear it out, the size midway.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import isqrt
from typing import Self

from grammar import Instruction
from hierarchies import InputError, System
from synth.collective.price.resolution import is_beyond
from synth.collective.price.step_prices import Simulator
from synth.collective.ranking.answers import resize_answer, unproved_answer
from synth.collective.ranking.how_to_get import environment_line, find_deciding_run
from synth.collective.ranking.library import Library
from synth.collective.ranking.placements import (
    PlacedCandidate,
    PlacementSearch,
    placements_in_question,
)
from synth.collective.ranking.planner import AnswerRequest, make_answers
from synth.collective.ranking.request import (
    Answer,
    DefaultComparison,
    QuietWatcher,
    Request,
    StopFlag,
    Watcher,
)
from synth.search.forks import map_in_forks

_NEAR = 1.01
"""Sizes whose quotient is below this count as one."""
_SEVERAL = 3
"""Of so many answers for a size one may be told to gain where the first is not."""
Choice = tuple[tuple[tuple[int, ...], ...], tuple[tuple[Instruction, ...], ...]]
"""A placement's matrix, and the steps of its programs."""


@dataclass(frozen=True)
class SizeSummary:
    """What people are told of a size's answer, but for its figures.

    ``line``: what is set for it; ``against``: the default, and whether a run that decides between
    them is ``worth`` it. Where the default is kept, it is nobody's matter which program that is
    not told from it: there are no steps.
    """

    choice: Choice
    line: str
    against: DefaultComparison
    worth: bool

    @classmethod
    def of(cls, answer: Answer) -> Self:
        """Of an answer to one size."""
        candidate, against = answer.candidate, answer.against_default
        matrix = candidate.reduction.placement.matrix
        worth = find_deciding_run(answer) is not None
        if not worth and against in (DefaultComparison.SAME, DefaultComparison.SLOWER):
            return cls((matrix, ()), "", DefaultComparison.SAME, worth)
        steps = tuple(part.derivation.instructions for part in candidate.parts)
        return cls((matrix, steps), environment_line(answer), against, worth)


@dataclass(frozen=True)
class SizeRange:
    """Neighbouring sizes for which one does the same: their best answers have the same placement
    and program, are had alike and gain alike over the default; or the default is kept.

    ``first`` and ``last`` are its answers at the ends; the payloads are theirs, in bytes. ``trial``
    is the one to measure, where that is worth it: of a size that one would type.
    """

    from_bytes: int
    until_bytes: int
    first: Answer
    last: Answer
    trial: Answer | None = None


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
    stretches: tuple[SizeRange, ...]
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
    asker = _SizeSearch(system, request, watcher, Library(request.language, watcher.searching))
    asker.ask(grid(smallest_bytes, largest_bytes))
    asker.ask(asker.to_measure())
    sizes = tuple(sorted(asker.answers.items()))
    return Sweep(
        system, request, smallest_bytes, largest_bytes, asker.stretches(), sizes, asker.complete
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


def find_open_gaps(chosen: Mapping[int, Hashable]) -> list[tuple[int, int]]:
    """The neighbours between which there is something to ask: they differ, and are not near."""
    return [
        (low, high)
        for low, high in pairwise(sorted(chosen))
        if chosen[low] != chosen[high] and not is_near(low, high)
    ]


def is_near(low: int, high: int) -> bool:
    """Whether a change between two sizes is known well enough: to a hundredth, or to the byte."""
    return high <= low * _NEAR or high - low < 2


def geometric_middle(low: int, high: int) -> int:
    """Of 1 KiB and 4 KiB 2 KiB: the middle on a scale of ratios."""
    return max(low + 1, isqrt(low * high))


def roundest_size(low: int, high: int) -> int:
    """The size of a range that is shortest to type: a multiple of the largest power of two.

    Of 470 to 509 KiB that is 480 KiB, of 35 to 900 MiB 512 MiB.
    """
    step = 1 << high.bit_length()
    while high // step * step < low or high < step:
        step //= 2
    return high // step * step


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


def request_at(request: Request, size: int) -> Request:
    """What is asked for one size of a range: the best single program."""
    return replace(request, payload_bytes=size, k=1, per_placement=False, stripes=False)


class _SizeSearch:
    """Asks for sizes until it is known where the best changes, or it is stopped. Mutable, one use.

    ``answers`` and ``chosen`` have the answer of each size and what is told of it, ``complete``
    whether that is all.
    """

    def __init__(
        self, system: System, request: Request, watcher: Watcher, library: Library
    ) -> None:
        self._simulator = Simulator(system, request.choice)
        self._request = request
        self._watcher, self._quiet = watcher, QuietWatcher(watcher)
        self._noting = StopFlag(watcher)
        self._library = library
        self._of = placements_in_question(system, request)
        self._round: set[int] = set()
        self._between: dict[tuple[int, int], tuple[int, ...]] = {}
        self.answers: dict[int, Answer] = {}
        self.chosen: dict[int, SizeSummary] = {}
        self.complete = True

    def ask(self, sizes: Sequence[int]) -> None:
        """Find and prove the best for these sizes, and for those between that are to be asked.

        Several sizes at once where there may be several processes. Once the work is stopped, the
        best of the first size only.
        """
        if not self.complete:
            return
        self._round.update(sizes)
        asked, before = list[int](), len(self.answers)
        found = map_in_forks(self._best, self._to_ask(sizes, asked), self._noting)
        for (best, complete), size in zip(found, asked, strict=False):
            wanted = [AnswerRequest(1, best.distinct, size)]
            [answer], judged = make_answers(self._simulator, wanted, self._quiet, self._library)
            self.answers[size] = replace(answer, by_size=True)
            self.chosen[size] = SizeSummary.of(answer)
            expected = before + max(len(sizes), len(asked))
            self._watcher.placed(len(self.answers) * self._of, expected * self._of)
            self._watcher.judged(len(self.answers), expected)
            self.complete = complete and judged
            if not self.complete:
                return
        self.complete = not self._noting.stopped

    def to_measure(self) -> list[int]:
        """The sizes to ask for stretches that are worth a run and have no round one yet."""
        return [
            roundest_size(first, last)
            for first, last in self._ends()
            if self.chosen[first].worth and not self._round_ones(first, last)
        ]

    def stretches(self) -> tuple[SizeRange, ...]:
        """Rows of neighbours for which one does the same."""
        return tuple(
            SizeRange(
                first, last, self.answers[first], self.answers[last], self._trial(first, last)
            )
            for first, last in self._ends()
        )

    def _ends(self) -> list[tuple[int, int]]:
        sizes = sorted(self.chosen)
        found = spans([self.chosen[size] for size in sizes])
        return [(sizes[first], sizes[last]) for first, last in found]

    def _round_ones(self, first: int, last: int) -> list[int]:
        return [size for size in sorted(self._round & self.answers.keys()) if first <= size <= last]

    def _trial(self, first: int, last: int) -> Answer | None:
        """Of the round sizes of a stretch the one that promises most."""
        if not self.chosen[first].worth:
            return None
        round_ones = [self.answers[size] for size in self._round_ones(first, last) or [first, last]]
        return max(round_ones, key=lambda one: one.baseline_seconds / one.runtime_seconds)

    def _to_ask(self, sizes: Sequence[int], asked: list[int]) -> Iterator[int | None]:
        """The sizes, then those between, as far as they are known; all that come are noted."""
        before = len(self.chosen)
        for size in sizes:
            asked.append(size)
            yield size
        while len(self.chosen) - before < len(asked) or find_open_gaps(self.chosen):
            fresh = [size for ends in self._settled(asked) for size in self._inside(*ends)]
            for size in fresh:
                asked.append(size)
                yield size
            if not fresh:
                yield None

    def _settled(self, asked: Sequence[int]) -> list[tuple[int, int]]:
        """Neighbours to ask between, but where something was asked of which nothing is known yet.

        So the same sizes are asked, however many are asked for at once.
        """
        unknown = [size for size in asked if size not in self.chosen]
        return [
            (low, high)
            for low, high in find_open_gaps(self.chosen)
            if not any(low < size < high for size in unknown)
        ]

    def _inside(self, low: int, high: int) -> tuple[int, ...]:
        """What to ask between two neighbours: what is around the change of one program, or midway.

        Inside of what was asked so there is no program to follow.
        """
        if (low, high) not in self._between:
            followed = {low, high} <= self._round and self._same_program(low, high)
            around = self._around(low, high) if followed else ()
            self._between[low, high] = around or (geometric_middle(low, high),)
        return self._between[low, high]

    def _same_program(self, low: int, high: int) -> bool:
        one, other = (self.answers[size].candidate for size in (low, high))
        return (one.reduction, one.text) == (other.reduction, other.text)

    def _around(self, low: int, high: int) -> tuple[int, ...]:
        """The neighbours at which what is told of a program should change, if neither is an end."""
        first, last = low, high
        while not is_near(first, last):
            size = geometric_middle(first, last)
            there = resize_answer(self._simulator, self.answers[low], size)
            if SizeSummary.of(there) == self.chosen[low]:
                first = size
            else:
                last = size
        return (first, last) if low < first and last < high else ()

    def _best(self, size: int) -> tuple[PlacedCandidate, bool]:
        """The best for a size, and whether all was looked at.

        Where prices do not tell that to gain, and tell it of one that is dearer, it is that one:
        as of one size, whose rows are both.
        """
        found, complete = self._searched(request_at(self._request, size))
        [best] = found
        if complete and self._open(best, size):
            others, _ = self._searched(replace(request_at(self._request, size), k=_SEVERAL))
            best = next((one for one in others if self._as_told(one, size).gains), best)
        return best, complete

    def _searched(self, request: Request) -> tuple[Sequence[PlacedCandidate], bool]:
        found = PlacementSearch(self._simulator, request, self._quiet, self._library).run()
        return found.best, found.looked.complete

    def _open(self, best: PlacedCandidate, size: int) -> bool:
        """Whether it is expected to gain, and not told to."""
        answer = self._as_told(best, size)
        return not answer.gains and is_beyond(
            answer.candidate.ticks, answer.baseline_estimate.ticks
        )

    def _as_told(self, one: PlacedCandidate, size: int) -> Answer:
        return unproved_answer(self._simulator, one.distinct.what, self._request.goal, size)
