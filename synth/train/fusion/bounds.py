"""What no fusion and no buckets of a data-parallel step go below.

Three times that pass whatever is chosen. ``compute``: the floor of all operations, as sections.
``communication``: once the first of some gradients can be there, with what it is made of at their
floor, these are summed one after the other; and each of the others was made before that, or is
summed after it. ``chain``: what a gradient is made of, its sum, and what is made of that; or what
all are made of, and then the shortest sum, as one of them is the last. A device computes one thing
at a time, so what must be done before a gradient passes before it, however many paths lead there;
all sums go over the same axes, so they share one stream.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import inf

from grammar.tensors.operations import Step
from grammar.tensors.sharding import Type
from hierarchies import InputError
from synth.train.bucketing.clock import Least
from synth.train.fusion.flow import Flow
from synth.train.plans import Moved, Plan, Program, prepared
from synth.train.plans.layers.apart import stacks
from synth.train.plans.together.buckets import flat
from synth.train.resharding import How
from synth.train.simulation.device import Sending
from synth.train.simulation.sources import Rooflines

NEAR = 1.001
"""Sizes are taken apart until bounds between two of them are so near."""


def least(
    step: Step, plan: Plan, sums: Sequence[str], rooflines: Rooflines, sending: Sending
) -> Least:
    """Seconds that no groups and no buckets of the plan go below, by these rates.

    ``sums`` are the values that may be in buckets; ``sending`` is to take no less for more bytes.
    Raises InputError for a plan with microbatches, and for sums that are not all-reduced alike.
    """
    if plan.microbatches > 1 or plan.stages:
        problem = "a bound of fused steps knows no microbatches"
        raise InputError(problem, where="plan", hint="one batch, on one stage")
    flow = Flow.of(step, plan)
    compute = flow.floor(range(len(flow.nodes)), rooflines)
    if not sums:
        return Least(compute, 0.0, 0.0)
    sent = _sent(flow.program, plan, sums)
    kind, path = flat(sent, plan.sizes)

    def seconds(elements: int) -> float:
        return sending(Type(kind.dtype, (elements,)), path.source, path.target)

    names = [one.value.name for one in sent]
    needed = [flow.needed(name) for name in names]
    alone = flow.alone(needed, rooflines)
    stacked = stacks(prepared(step, plan))
    made: list[Made] = []
    for name, one, before, own in zip(names, sent, needed, alone, strict=True):
        times = one.value.type.shape[0] if name in stacked else 1
        found = flow.floor(before, rooflines, name), flow.floor(flow.waiting(name), rooflines)
        made += [Made(one.value.type.elements // times, *found, own / times)] * times
    all_made = flow.floor(flow.needed(*names), rooflines, *names)
    return Least(compute, communication(made, seconds), chain(made, all_made, seconds))


@dataclass(frozen=True)
class Made:
    """A gradient: its elements, and the floors of what comes before it and after its sum.

    Of a stack it is the slice of one layer, as these may be summed one by one.

    ``alone`` are, of those before it, seconds of the products that no other gradient needs.
    """

    elements: int
    before: float
    after: float
    alone: float = 0.0


def chain(made: Sequence[Made], all_made: float, seconds: Callable[[int], float]) -> float:
    """Through one gradient; or through all, of which one is the last, and the shortest sum."""
    rest = [seconds(one.elements) + one.after for one in made]
    through = (one.before + more for one, more in zip(made, rest, strict=True))
    return max(*through, all_made + min(rest))


def communication(made: Sequence[Made], seconds: Callable[[int], float]) -> float:
    """Through the first of the gradients that are made later than so many others.

    Its bucket begins once it can be there, and it and all later ones are summed from then on. Any
    other gradient is summed from then on, too, or was made before: then what it alone needs was
    done before that bucket begins, beside all that the first one needs. It adds the less of both.

    Of ``launch`` seconds that no sum goes below a bucket takes these, and for each member its
    elements by the fewest seconds an element beyond, of sizes that are its own or larger: the
    largest member has the most, and all together no more than a sum of that size. Whatever
    ``launch`` is, that is a bound: none, and the shortest sum, are tried.
    """
    shortest = seconds(min(one.elements for one in made))
    return max(_through_first(made, seconds, launch) for launch in (0.0, shortest))


def _through_first(made: Sequence[Made], seconds: Callable[[int], float], launch: float) -> float:
    each = _each(made, lambda size: seconds(size) - launch)
    rest = launch + min(one.after for one in made)
    late, early, found = sum(each[one.elements] for one in made), 0.0, list[float]()
    for one in sorted(made, key=lambda one: one.before):
        found.append(one.before + early + late + rest)
        late -= each[one.elements]
        early += min(one.alone, each[one.elements])
    return max(found)


def _each(made: Sequence[Made], seconds: Callable[[int], float]) -> Mapping[int, float]:
    """By its elements what a gradient adds at least to any bucket, as its largest or not."""
    found: dict[int, float] = {}
    last, fewest = sum(one.elements for one in made), inf
    for size in sorted({one.elements for one in made}, reverse=True):
        fewest = min(fewest, cheapest(seconds, size, last))
        found[size], last = size * fewest, size
    return found


def growing(seconds: Callable[[int], float], members: Iterable[int]) -> Callable[[int], float]:
    """The largest function that grows with the size and is nowhere above, of what buckets can be.

    That is, of any of the ``members`` together: all their sums are asked for.

    >>> seconds = growing({1: 5.0, 2: 4.0, 3: 6.0}.__getitem__, (1, 2))
    >>> [seconds(1), seconds(2), seconds(3)]
    [4.0, 4.0, 6.0]
    """
    reached = {0}
    for one in members:
        reached |= {one + size for size in reached}
    sizes = sorted(reached - {0})
    least_after = [*accumulate(map(seconds, reversed(sizes)), min)][::-1]
    return lambda size: least_after[bisect_left(sizes, size)]


def cheapest(seconds: Callable[[int], float], smallest: int, largest: int) -> float:
    """Seconds an element that no size between the two goes below, where they grow with the size.

    From a to b elements it is at least ``seconds(a) / b``, so a range is halved while that is the
    least of all ranges, until its ends are ``NEAR``.

    >>> found = cheapest(lambda size: 5.0 + size, 1, 100)
    >>> 1.05 / NEAR <= found <= 1.05
    True
    """
    ranges = [(seconds(smallest) / largest, smallest, largest)]
    while True:
        bound, first, last = heapq.heappop(ranges)
        if first == last or last <= NEAR * first:
            return bound
        if last == first + 1:
            for one in (first, last):
                heapq.heappush(ranges, (seconds(one) / one, one, one))
            continue
        middle = max(first + 1, round((first * last) ** 0.5))
        heapq.heappush(ranges, (seconds(first) / middle, first, middle))
        heapq.heappush(ranges, (seconds(middle) / last, middle, last))


def _sent(program: Program, plan: Plan, sums: Sequence[str]) -> list[Moved]:
    """How each of the sums goes: all by one all-reduce over the same axes, of one type."""
    moved = (one for one in program.instructions if isinstance(one, Moved))
    sent = [one for one in moved if one.value.name in sums and one.path.requests(plan.sizes)]
    ways = {(one.value.type.dtype, *((a.how, a.axes) for a in one.path.moves)) for one in sent}
    hint = "all gradients of a data-parallel step are all-reduced over its axes"
    if len(sent) != len(sums) or len(ways) > 1:
        raise InputError("not all sums go once, and alike", where="plan", hint=hint)
    if [move.how for move in sent[0].path.moves] != [How.ALL_REDUCE]:
        raise InputError(f"{sent[0].value.name} is not all-reduced", where="plan", hint=hint)
    return sent
