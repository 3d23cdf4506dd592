"""Answers a request over a range of message sizes: which answer is best from which size on.

Sizes are doubled from the smallest to the largest; where two neighbours have different answers, the
change between them is bisected until it is known to a hundredth. Answers differ in placement and
program, in their environment setting, and in whether they gain over the default. Where none gains
within the prediction's uncertainty, the default is kept, whichever program is cheapest. As for a
single size, a sure gain is preferred to a lower price that is no sure gain. Programs are compared
alone: stripes, which change a little from size to size, are left out.

Each size costs a search for its best program. Where two neighbours have the same program, and only
its setting or gain changes between them, repricing that program locates the change without a
search. So only the two sizes around the change are searched; if they do not confirm the change, or
the programs differ, the midway size is searched.

A file of NCCL's settings is asked about calls of all sizes, so its rows cover ranges, too
(``find_ranges``): of one program, by repricing alone.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import isqrt
from typing import Self

from grammar import Instruction
from hierarchies import InputError, System
from synth.collective.emit.source import PricedRange
from synth.collective.price.resolution import is_beyond
from synth.collective.price.step_prices import Simulator
from synth.collective.ranking.answers import AnswerRequest, resize_answer, unproved_answer
from synth.collective.ranking.how_to_get import environment_line, find_deciding_run
from synth.collective.ranking.library import Library
from synth.collective.ranking.placements import (
    PlacedCandidate,
    PlacementSearch,
    placements_in_question,
)
from synth.collective.ranking.planner import make_answers
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
"""Sizes whose quotient is below this are not distinguished."""
_SEVERAL = 3
"""How many answers for one size are searched for a sure gain when the first has none."""
_LARGEST_BYTES = 2**34
"""16 GiB, the largest of the tables that prices were compared with."""
Choice = tuple[tuple[tuple[int, ...], ...], tuple[tuple[Instruction, ...], ...]]
"""A placement's matrix, and the steps of its programs."""


@dataclass(frozen=True)
class SizeSummary:
    """The parts of a size's answer that users see, without its figures.

    ``line``: its environment setting; ``against``: comparison with the default; ``worth``:
    whether a deciding run is worthwhile. Where the default is kept, ``choice`` has no steps,
    because programs that tie with it do not matter.
    """

    choice: Choice
    line: str
    against: DefaultComparison
    worth: bool

    @classmethod
    def of(cls, answer: Answer) -> Self:
        """Summarises the answer to one size."""
        candidate, against = answer.candidate, answer.against_default
        matrix = candidate.reduction.placement.matrix
        worth = find_deciding_run(answer) is not None
        if not worth and against in (DefaultComparison.SAME, DefaultComparison.SLOWER):
            return cls((matrix, ()), "", DefaultComparison.SAME, worth)
        steps = tuple(part.derivation.instructions for part in candidate.parts)
        return cls((matrix, steps), environment_line(answer), against, worth)


@dataclass(frozen=True)
class SizeRange:
    """Neighbouring sizes with the same advice: the same placement, program, setting and comparison
    with the default, or the default is kept. ``first`` and ``last`` are the answers at the
    ends, which have these payloads in bytes. ``trial`` is the answer to measure, at a round
    size, where a deciding run is worthwhile.
    """

    from_bytes: int
    until_bytes: int
    first: Answer
    last: Answer
    trial: Answer | None = None


@dataclass(frozen=True)
class Sweep:
    """The ranges from the smallest to the largest size, and every size that was searched.

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
    """Returns the best answer for every size of a range; the request's payload and k are ignored.

    Raises InputError for a range that is empty or begins below one byte, and for what
    ``answers`` refuses.
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
    """Returns the sizes to search first: doubled from one end to the other, both included.

    From 1 KiB to 5 KiB: 1, 2, 4 and 5 KiB. Raises InputError as ``check_range`` does.
    """
    check_range(smallest_bytes, largest_bytes)
    sizes = [smallest_bytes]
    while sizes[-1] < largest_bytes:
        sizes.append(min(2 * sizes[-1], largest_bytes))
    return sizes


def find_open_gaps(chosen: Mapping[int, Hashable]) -> list[tuple[int, int]]:
    """Returns the neighbours with a change to locate: they differ, and are not near."""
    return [
        (low, high)
        for low, high in pairwise(sorted(chosen))
        if chosen[low] != chosen[high] and not is_near(low, high)
    ]


def is_near(low: int, high: int) -> bool:
    """Whether a change between two sizes is located well enough: to a hundredth, or to the byte."""
    return high <= low * _NEAR or high - low < 2


def geometric_middle(low: int, high: int) -> int:
    """Returns the geometric mean of two sizes: 2 KiB for 1 KiB and 4 KiB."""
    return max(low + 1, isqrt(low * high))


def roundest_size(low: int, high: int) -> int:
    """Returns the size in a range that is shortest to type: a multiple of the largest power of two.

    From 470 to 509 KiB that is 480 KiB, from 35 to 900 MiB 512 MiB.
    """
    step = 1 << high.bit_length()
    while high // step * step < low or high < step:
        step //= 2
    return high // step * step


def spans(choices: Sequence[Hashable]) -> list[tuple[int, int]]:
    """Returns the first and last positions of each run of equal neighbours.

    For A, A, B: 0 and 1, then 2 and 2.
    """
    found: list[tuple[int, int]] = []
    for position, choice in enumerate(choices):
        if found and choices[found[-1][1]] == choice:
            found[-1] = found[-1][0], position
        else:
            found.append((position, position))
    return found


def request_at(request: Request, size: int) -> Request:
    """Returns the request for the best single program at one size."""
    return replace(request, payload_bytes=size, k=1, per_placement=False, stripes=False)


class _SizeSearch:
    """Searches sizes until all changes are located, or it is stopped. Mutable, one use.

    ``answers`` and ``chosen`` hold the answer of each size and its summary; ``complete`` is
    whether nothing is missing.
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
        """Finds and proves the best answers for these sizes, and for those needed between them.

        Several sizes are searched at once if there may be several processes. After a stop,
        only the first size is answered, with the best so far.
        """
        if not self.complete:
            return
        self._round.update(sizes)
        asked, before = list[int](), len(self.answers)
        searched = map_in_forks(self._best, self._to_ask(sizes, asked), self._noting)
        for (best, complete), size in zip(searched, asked, strict=False):
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
        """Returns sizes to search for ranges worth a run that have no round size yet."""
        return [
            roundest_size(first, last)
            for first, last in self._ends()
            if self.chosen[first].worth and not self._round_sizes(first, last)
        ]

    def stretches(self) -> tuple[SizeRange, ...]:
        """Returns the ranges of neighbours with the same advice."""
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

    def _round_sizes(self, first: int, last: int) -> list[int]:
        return [size for size in sorted(self._round & self.answers.keys()) if first <= size <= last]

    def _trial(self, first: int, last: int) -> Answer | None:
        """Returns the answer with the largest expected speed-up at a round size of a range."""
        if not self.chosen[first].worth:
            return None
        round_answers = [
            self.answers[size] for size in self._round_sizes(first, last) or [first, last]
        ]
        return max(
            round_answers, key=lambda answer: answer.baseline_seconds / answer.runtime_seconds
        )

    def _to_ask(self, sizes: Sequence[int], asked: list[int]) -> Iterator[int | None]:
        """Yields the sizes, then those between, once known; appends all to ``asked``."""
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
        """Returns open gaps without a pending size inside.

        So the sizes searched do not depend on how many are searched at once.
        """
        unknown = [size for size in asked if size not in self.chosen]
        return [
            (low, high)
            for low, high in find_open_gaps(self.chosen)
            if not any(low < size < high for size in unknown)
        ]

    def _inside(self, low: int, high: int) -> tuple[int, ...]:
        """Returns the sizes to search between two neighbours: around the change, or midway.

        A program is followed between sizes of the first round only.
        """
        if (low, high) not in self._between:
            followed = {low, high} <= self._round and self._same_program(low, high)
            around = self._around(low, high) if followed else ()
            self._between[low, high] = around or (geometric_middle(low, high),)
        return self._between[low, high]

    def _same_program(self, low: int, high: int) -> bool:
        lower, upper = (self.answers[size].candidate for size in (low, high))
        return (lower.reduction, lower.text) == (upper.reduction, upper.text)

    def _around(self, low: int, high: int) -> tuple[int, ...]:
        """Returns the sizes around a program's change of summary, if inside the range."""
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
        """Returns the best candidate for a size, and whether the search was complete.

        A dearer candidate that surely gains is preferred to the cheapest if that does not,
        as for a single size, whose answers list both.
        """
        found, complete = self._searched(request_at(self._request, size))
        [best] = found
        if complete and self._open(best, size):
            others, _ = self._searched(replace(request_at(self._request, size), k=_SEVERAL))
            best = next((other for other in others if self._unproved(other, size).gains), best)
        return best, complete

    def _searched(self, request: Request) -> tuple[Sequence[PlacedCandidate], bool]:
        found = PlacementSearch(self._simulator, request, self._quiet, self._library).run()
        return found.best, found.looked.complete

    def _open(self, best: PlacedCandidate, size: int) -> bool:
        """Whether a candidate is expected to gain, but not surely."""
        answer = self._unproved(best, size)
        return not answer.gains and is_beyond(
            answer.candidate.ticks, answer.baseline_estimate.ticks
        )

    def _unproved(self, candidate: PlacedCandidate, size: int) -> Answer:
        found = candidate.distinct.what
        return unproved_answer(self._simulator, found, self._request.goal, size)


def find_ranges(
    simulator: Simulator, answer: Answer, ends: tuple[int, int] | None
) -> tuple[PricedRange, ...]:
    """Returns the ranges of a single program's payload, in order, with the prices at one size.

    ``ends``: the range that the question had; None for one size, whose range is found.
    """
    sizes = {answer.payload_bytes: answer}

    def summary(size: int) -> Hashable:
        if size not in sizes:
            sizes[size] = resize_answer(simulator, answer, size)
        ways = [(p.what, p.algorithm, p.protocol) for p in sizes[size].stripes[0].prices]
        return (tuple(ways), ends is None and sizes[size].against_default)

    own = answer.payload_bytes
    if ends is None:
        last = _reach(summary, own, lambda size: min(2 * size, _LARGEST_BYTES))
        found = [(_reach(summary, own, lambda size: max(size // 2, 1)), last)]
    else:
        found = _split(summary, sorted({*grid(*ends), own}))
    return tuple(
        PricedRange(first, last, size, sizes[size].stripes[0].prices)
        for first, last in found
        for size in [own if first <= own <= last else first]
    )


def _reach(summary: Callable[[int], Hashable], own: int, step: Callable[[int], int]) -> int:
    """Returns the last size in a direction, to a hundredth, with the summary of ``own``."""
    last, wanted = own, summary(own)
    while (beyond := step(last)) != last:
        if summary(beyond) == wanted:
            last = beyond
            continue
        while not is_near(*sorted((last, beyond))):
            middle = geometric_middle(*sorted((last, beyond)))
            if summary(middle) == wanted:
                last = middle
            else:
                beyond = middle
        return last
    return last


def _split(summary: Callable[[int], Hashable], sizes: Sequence[int]) -> list[tuple[int, int]]:
    """Returns adjoining ranges of one summary each."""
    known = {size: summary(size) for size in sizes}
    while gaps := find_open_gaps(known):
        for gap in gaps:
            middle = geometric_middle(*gap)
            known[middle] = summary(middle)
    sizes = sorted(known)
    found = [(sizes[a], sizes[b]) for a, b in spans([known[size] for size in sizes])]
    begins = [first for first, _ in found[1:]]
    return [(first, begin - 1) for (first, _), begin in zip(found, begins, strict=False)] + found[
        -1:
    ]
