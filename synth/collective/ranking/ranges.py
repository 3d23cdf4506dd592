"""The sizes for which a program runs by the algorithms of its price, for files that choose by size.

A file of NCCL's settings is asked about calls of all sizes. A row for the exact size of a question
would serve no other, so rows cover ranges: over the sizes that the question had, each stretch with
its own algorithms; or, for a question about one size, all sizes around it where repricing gives the
same algorithms and the same verdict over the default.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

from synth.collective.emit.source import PricedRange
from synth.collective.price.step_prices import Simulator
from synth.collective.ranking.answers import resize_answer
from synth.collective.ranking.request import Answer
from synth.collective.ranking.sizes import find_open_gaps, geometric_middle, grid, is_near, spans

_LARGEST_BYTES = 2**34
"""16 GiB, the largest of the tables that prices were compared with."""


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
