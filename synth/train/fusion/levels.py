"""Kernels by levels: all that may be done once so many others are done is one.

No kernel reaches over a product of matrices, so along a chain those on its two sides are two. Let
the level of an operation be how many kernels must be done before its own; operations of one level,
however far apart, are one kernel, and there are as many kernels as the longest chain has. Products
are each alone, but those of attention: what makes its scores and what reads them stays together,
forward and backward each, as one kernel does it. The update is one, after all sums.

Before a product, after it, and beside it, which is read by the last:

>>> from synth.train.fusion.levels import levels_of
>>> levels_of({0: (), 1: (0,), 2: (1, 3), 3: (0,)}, between={1})
{0: 0, 1: 1, 3: 1, 2: 1}
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from graphlib import CycleError, TopologicalSorter

from grammar.tensors.primitives import MULTIPLIED
from hierarchies import InputError
from synth.compute import is_scores
from synth.compute.flops import type_of
from synth.compute.section import NAMED_OTHERWISE
from synth.train.fusion.flow import Flow

Before = Mapping[int, Collection[int]]
"""Of each node those that it waits for."""


def levels_of(before: Before, between: Collection[int]) -> Mapping[int, int]:
    """Of each node how many kernels are done before its own; those ``between`` are none.

    Kernels are as late as their readers let them be, so that what only a backward pass reads is
    made there, of what is in memory anyway; but what is read by none, or sent, is made at once.
    Raises InputError where some wait for each other.
    """
    try:
        order = list(TopologicalSorter(before).static_order())
    except CycleError:
        hint = "attention of one layer is to be one kernel, forward and backward each"
        raise InputError("kernels wait for each other", where="plan", hint=hint) from None
    found: dict[int, int] = {}
    readers: dict[int, list[int]] = {}
    for at in order:
        ends = {one: at in between and one not in between for one in before[at]}
        found[at] = max((found[one] + own for one, own in ends.items()), default=0)
        for one in ends:
            readers.setdefault(one, []).append(at)
    for at in reversed(order):
        if at not in between and at in readers:
            found[at] = min(found[one] - (one in between) for one in readers[at])
    return found


def kernels_by_levels(flow: Flow, scores: Collection[tuple[int, ...]]) -> Iterator[tuple[str, ...]]:
    """The kernels, each by the first results of its operations; constants are in none.

    ``scores`` are the shapes of those of attention. Raises InputError as ``levels_of`` does.
    """
    units = _Units(flow, scores)
    between = {units.of[at] for at in units.of if units.is_between(at)}
    levels = levels_of(units.before, between)
    found: dict[tuple[bool, int], list[str]] = {}
    for at, unit in units.of.items():
        if (one := flow.nodes[at].operation) is not None:
            alone = unit in between
            kernel = found.setdefault((alone, unit if alone else levels[unit]), [])
            kernel.append(one.results[0].name)
    yield from map(tuple, found.values())
    if update := tuple(flow.names(flow.late)):
        yield update


@dataclass(frozen=True, eq=False)
class _Units:
    """Nodes that go together, but those of the update, which all do."""

    flow: Flow
    scores: Collection[tuple[int, ...]]

    @cached_property
    def of(self) -> Mapping[int, int]:
        """Of each the first it goes with: attention, and what is made and then named otherwise."""
        found: dict[int, int] = {}
        for at, one in enumerate(self.flow.nodes):
            if at in self.flow.late:
                continue
            view = one.operation is not None and one.operation.primitive in NAMED_OTHERWISE
            made = [maker for maker in self.flow.before[at] if not self._is_sent(maker)]
            own = found[made[0]] if view and made else at
            found[at] = self._attention.get(at, own)
        return found

    @cached_property
    def before(self) -> Before:
        """Of each unit those that it waits for."""
        found: dict[int, dict[int, None]] = {unit: {} for unit in self.of.values()}
        for at, unit in self.of.items():
            others = (self.of[one] for one in self.flow.before[at])
            found[unit] |= dict.fromkeys(one for one in others if one != unit)
        return found

    def is_between(self, at: int) -> bool:
        """Whether it is no kernel: what is sent, a loop, a product, attention, or a mere name."""
        one = self.flow.nodes[at].operation
        if one is None or at in self._attention:
            return True
        return self.of[at] == at and one.primitive in MULTIPLIED | NAMED_OTHERWISE

    def _is_sent(self, at: int) -> bool:
        return self.flow.nodes[at].operation is None

    @cached_property
    def _attention(self) -> Mapping[int, int]:
        """Of each operation of attention the first of its layer, forward or backward."""
        layers: list[set[int]] = []
        for at in range(len(self.flow.nodes)):
            if at not in self.flow.late and self._has_scores(at):
                same = [some for some in layers if not some.isdisjoint(self.flow.before[at])]
                layers = [some for some in layers if some not in same]
                layers.append({at}.union(*same))
        forward = {*self.flow.needed(*self.flow.losses)}
        halves = (half for some in layers for half in (some & forward, some - forward))
        found: dict[int, int] = {}
        for half in filter(None, halves):
            inside = self.flow.between(half)
            found |= dict.fromkeys(inside, min(inside))
        return found

    def _has_scores(self, at: int) -> bool:
        one = self.flow.nodes[at].operation
        values = () if one is None else (*one.operands, *one.results)
        return any(is_scores(type_of(value), self.scores) for value in values)
