"""What no fusion and no buckets of a data-parallel step go below.

Three times that pass whatever is chosen. ``compute``: the floor of all operations, as sections.
``communication``: once the first of some gradients can be there, with what it is made of at their
floor, these are summed one after the other, at the fewest seconds a byte. ``chain``: what a
gradient is made of, its sum, and what is made of that; or what all are made of, and then the
shortest sum, as one of them is the last. A device computes one thing at a time, so what must be
done before a gradient passes before it, however many paths lead there.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from grammar.tensors.operations import Operand, Operation, Step, Value
from grammar.tensors.sharding import Type
from hierarchies import InputError
from synth.compute import Section, section_floor
from synth.train.bucketing.clock import Least
from synth.train.factors import part
from synth.train.plans import Done, Moved, Plan, Program, apply, prepared
from synth.train.plans.program import Key, makes, reads
from synth.train.plans.together.buckets import flat
from synth.train.resharding import How
from synth.train.simulation.device import Sending
from synth.train.simulation.groups import CAST, constants_of
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
    plain = replace(plan, fused=(), buckets=())
    program, graph = apply(step, plain), prepared(step, plain).graph
    outputs = [(str(one), lies) for one, lies in zip(graph.outputs, program.outputs, strict=True)]
    flow = _Flow(program, plan.parts, plan.sizes, outputs, constants_of(graph))
    compute = flow.floor(range(len(flow.nodes)), rooflines)
    if not sums:
        return Least(compute, 0.0, 0.0)
    sent = _sent(program, plan, sums)
    kind, path = flat(sent)

    def seconds(elements: int) -> float:
        return sending(Type(kind.dtype, (elements,)), path.source, path.target)

    names = [one.value.name for one in sent]
    made = [
        Made(
            one.value.type.elements,
            flow.floor(flow.needed(name), rooflines, name),
            flow.floor(flow.waiting(one), rooflines),
        )
        for name, one in zip(names, sent, strict=True)
    ]
    all_made = flow.floor(flow.needed(*names), rooflines, *names)
    return Least(compute, communication(made, seconds), chain(made, all_made, seconds))


@dataclass(frozen=True)
class Made:
    """A gradient: its elements, and the floors of what comes before it and after its sum."""

    elements: int
    before: float
    after: float


def chain(made: Sequence[Made], all_made: float, seconds: Callable[[int], float]) -> float:
    """Through one gradient; or through all, of which one is the last, and the shortest sum."""
    rest = [seconds(one.elements) + one.after for one in made]
    through = (one.before + more for one, more in zip(made, rest, strict=True))
    return max(*through, all_made + min(rest))


def communication(made: Sequence[Made], seconds: Callable[[int], float]) -> float:
    """Of all gradients, or of those alone that are made later than so many others."""
    total = sum(one.elements for one in made)
    each = cheapest(seconds, min(one.elements for one in made), total)
    after = min(one.after for one in made)
    left, found = total, list[float]()
    for one in sorted(made, key=lambda one: one.before):
        found.append(one.before + each * left + after)
        left -= one.elements
    return max(found)


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


@dataclass(frozen=True)
class _Node:
    """An instruction: the names that it reads and makes, and the operation of a device's part."""

    reads: tuple[str, ...]
    makes: tuple[str, ...]
    operation: Operation | None


@dataclass(frozen=True, eq=False)
class _Flow:
    """Who reads what of a program; a value that was sent has another name than before."""

    program: Program
    parts: Mapping[str, int]
    sizes: Mapping[str, int]
    outputs: Sequence[Key]
    constants: frozenset[str]

    @cached_property
    def _names(self) -> dict[Key, str]:
        """Of each value as it lies; what lies otherwise without being sent is as it was."""
        found: dict[Key, str] = {}
        for one in self.program.instructions:
            if not isinstance(one, Moved):
                continue
            [source], [target] = reads(one), makes(one)
            sent = one.path.requests(self.sizes)
            found[target] = (
                f"{one.value.name}+{len(found)}" if sent else found.get(source, source[0])
            )
        return found

    def named(self, key: Key) -> str:
        return self._names.get(key, key[0])

    @cached_property
    def nodes(self) -> Sequence[_Node]:
        """All that is done, but constants."""
        return list(self._nodes())

    def _nodes(self) -> Iterator[_Node]:
        """What a loop does is left out, and casts of its stacks, which it may do itself."""
        stacks = set[str]()
        for one in self.program.instructions:
            made = tuple(dict.fromkeys(map(self.named, makes(one))))
            read = tuple(dict.fromkeys(map(self.named, reads(one))))
            if made == read or self.constants.issuperset(made):
                continue
            done = one if isinstance(one, Done) else None
            loop = done is not None and done.body is not None
            cast = done is None or done.operation.primitive == CAST
            if loop or (cast and not stacks.isdisjoint(read)):
                stacks.update(made)
                done = None
            yield _Node(read, made, None if done is None else self._part(done))

    def _part(self, one: Done) -> Operation:
        found = part(one.operation, one.how, self.parts).operation
        operands: list[Operand] = []
        for operand, lies in zip(found.operands, one.how.operands, strict=True):
            if isinstance(operand, Value):
                operand = replace(operand, name=self.named((operand.name, lies)))
            operands.append(operand)
        return replace(found, operands=tuple(operands))

    @cached_property
    def _kept(self) -> frozenset[str]:
        """The outputs, and what is sent."""
        sent = (name for one in self.nodes if one.operation is None for name in one.reads)
        return frozenset((*map(self.named, self.outputs), *sent))

    def floor(self, chosen: Iterable[int], rooflines: Rooflines, *ends: str) -> float:
        """Seconds that some of what is done takes at least; of ``ends`` alone it is kept."""
        found = (self.nodes[at].operation for at in chosen)
        operations = tuple(one for one in found if one is not None)
        section = Section(operations, frozenset(ends) or self._kept, self.constants)
        return section_floor(section, rooflines.device, rooflines.rates, rooflines.scores)

    def needed(self, *names: str) -> list[int]:
        """What must be done before values are there."""
        wanted = {*names}
        found = list[int]()
        for at in range(len(self.nodes))[::-1]:
            if not wanted.isdisjoint(self.nodes[at].makes):
                wanted.update(self.nodes[at].reads)
                found.append(at)
        return found[::-1]

    def waiting(self, sum_: Moved) -> list[int]:
        """What is done of a sum, and of what is made of that."""
        [key] = makes(sum_)
        there = {self.named(key)}
        found = list[int]()
        for at, one in enumerate(self.nodes):
            if not there.isdisjoint(one.reads):
                there.update(one.makes)
                found.append(at)
        return found
