"""Plans that differ in their fusion groups and buckets, and the moves between them.

A state is a plan in which every operation is in a group, if alone. Moves: two groups of which one
reads the other, or that follow each other, are one; a group does a producer again instead of
waiting for it; a group is two; two buckets are one; a bucket is two. What a move may not do costs
nothing to offer: ``apply`` refuses it, and its price says why.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from functools import cached_property
from itertools import combinations, pairwise
from random import Random

from grammar.tensors.operations import Operation, Step
from grammar.tensors.primitives import ARITHMETIC, MOVED
from hierarchies import InputError
from synth.search.backtracking import backtrack
from synth.search.space import Budget, Found, Infeasible, Observer, Price
from synth.train.plans import Fused, Plan, apply, prepared
from synth.train.simulation.groups import Group
from synth.train.simulation.predicting import Runtime, grouped

ALPHA = 1.05
"""What is so many times the best leads on, as in DisCo."""

CHEAP = ARITHMETIC | MOVED
"""What is done again rather than read: a few operations an element."""


_Parts = tuple[Fused | tuple[str, ...], ...]
_Change = tuple[_Parts, _Parts]
"""Groups or buckets that are no longer, and those that are instead."""


class Way(Enum):
    """The kinds of moves: of groups, then of buckets."""

    FOLLOWING = "two that follow each other are one"
    READ = "one and one that it reads are one"
    AGAIN = "what one reads is done again inside"
    CUT = "one is two"
    TOGETHER = "two buckets are one"
    SPLIT = "a bucket is two"


@dataclass(frozen=True)
class Fusions:
    """See ``Space``. ``sums`` are the values that may be in buckets, ``seconds`` those of a plan.

    Nothing is below ``least_seconds``, which ``bounds.least`` has; ``operators`` and ``tensors``:
    which of the two may change. ``drawn``: how many moves of each kind are tried from a state, of a
    step of many operations; None, all.
    """

    step: Step
    start: Plan
    sums: tuple[str, ...]
    seconds: Callable[[Plan], Price]
    least_seconds: float = 0.0
    operators: bool = True
    tensors: bool = True
    drawn: int | None = None

    def initial(self) -> Plan:
        return self.start

    def moves(self, state: Plan, rng: Random) -> Iterator[Plan]:
        """Each once, in an order that is drawn."""
        ways: dict[Way, list[_Change]] = {}
        if self.operators:
            for way, change in self._groups(state):
                ways.setdefault(way, []).append(change)
        if self.tensors:
            for way, change in self._buckets(state):
                ways.setdefault(way, []).append(change)
        found = [
            change
            for some in ways.values()
            for change in (
                some if self.drawn is None else rng.sample(some, min(self.drawn, len(some)))
            )
        ]
        rng.shuffle(found)
        yield from (self._changed(state, *one) for one in found)

    def _changed(self, state: Plan, gone: _Parts, new: _Parts) -> Plan:
        """Without some groups or buckets, and with others; a sum that is alone is in none."""
        if any(isinstance(one, Fused) for one in new):
            groups = [one for one in state.fused if one not in gone]
            added = [one for one in new if isinstance(one, Fused)]
            return replace(state, fused=_sorted((*groups, *added), self._places))
        buckets = [one for one in state.buckets if one not in gone]
        several = [one for one in new if not isinstance(one, Fused) and len(one) > 1]
        return replace(state, buckets=tuple(sorted((*buckets, *several))))

    def price(self, state: Plan) -> Price:
        try:
            return self.seconds(state)
        except InputError as error:
            return Infeasible(error.problem)

    def bound(self, state: Plan) -> Price:
        return self.least_seconds

    @cached_property
    def _operations(self) -> Mapping[str, Operation]:
        """By each result, in order."""
        graph = prepared(self.step, self.start).graph
        return {value.name: one for one in graph.operations for value in one.results}

    def _groups(self, state: Plan) -> Iterator[tuple[Way, _Change]]:
        where = {name: group for group in state.fused for name in group.members}
        for group, following in pairwise(state.fused):
            yield Way.FOLLOWING, ((group, following), (_joined(following, group),))
        for group in state.fused:
            for cut in range(1, len(group.members)):
                halves = Fused(group.members[:cut], group.again), Fused(group.members[cut:])
                yield Way.CUT, ((group,), halves)
            for maker in self._read(group):
                other = where.get(maker)
                if other is not None:
                    yield Way.READ, ((group, other), (_joined(group, other),))
                if self._operations[maker].primitive in CHEAP:
                    yield Way.AGAIN, ((group,), (Fused(group.members, (*group.again, maker)),))

    @cached_property
    def _places(self) -> Mapping[str, int]:
        return {name: at for at, name in enumerate(self._operations)}

    def _read(self, group: Fused) -> list[str]:
        """The operations outside that the group reads, by their first results."""
        inside = {*group.members, *group.again}
        read = (
            self._operations[str(operand)].results[0].name
            for name in (*group.members, *group.again)
            for operand in self._operations[name].operands
            if str(operand) in self._operations
        )
        return [name for name in dict.fromkeys(read) if name not in inside]

    def _buckets(self, state: Plan) -> Iterator[tuple[Way, _Change]]:
        """Two joined, or one split."""
        held = {name for bucket in state.buckets for name in bucket}
        every = (*state.buckets, *((name,) for name in self.sums if name not in held))
        order = {name: at for at, name in enumerate(self.sums)}
        for one, other in combinations(every, 2):
            both = tuple(sorted((*one, *other), key=order.__getitem__))
            yield Way.TOGETHER, ((one, other), (both,))
        for one in every:
            for cut in range(1, len(one)):
                yield Way.SPLIT, ((one,), (one[:cut], one[cut:]))


def _joined(group: Fused, other: Fused) -> Fused:
    members = (*other.members, *group.members)
    again = dict.fromkeys((*other.again, *group.again))
    return Fused(members, tuple(one for one in again if one not in members))


def _sorted(groups: tuple[Fused, ...], places: Mapping[str, int]) -> tuple[Fused, ...]:
    """Equal states are spelled alike."""

    def order(names: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(sorted(names, key=places.__getitem__))

    found = (Fused(order(one.members), order(one.again)) for one in groups)
    return tuple(sorted(found, key=lambda one: places[one.members[0]]))


def alone(step: Step, plan: Plan) -> Plan:
    """The plan with every operation a kernel of its own; a loop is fused inside itself."""
    graph = prepared(step, plan).graph
    names = (one.results[0].name for one in graph.operations if one.body is None)
    return replace(plan, fused=tuple(Fused((name,)) for name in names))


def sectioned(step: Step, plan: Plan, runtime: Runtime) -> Plan:
    """The plan with its sections said as groups: where nothing is sent between, all is one kernel.

    It takes as long as one that says no groups, but for values that kernels without groups compute
    again instead of reading them; a search begins near what compilers do.
    """
    program, graph = apply(step, plan), prepared(step, plan).graph
    outputs = [(str(one), lies) for one, lies in zip(graph.outputs, program.outputs, strict=True)]
    items = grouped(plan, program, runtime).of(graph, program, outputs)
    sections = (one for one, _ in items if isinstance(one, Group))
    return fused_as(step, plan, (_names(one) for one in sections))


def _names(group: Group) -> tuple[str, ...]:
    return tuple(one.operation.results[0].name for one in group.done)


def fused_as(step: Step, plan: Plan, kernels: Iterable[tuple[str, ...]]) -> Plan:
    """The plan with these kernels, and what is in none of them alone."""
    groups = [Fused(one) for one in kernels]
    held = {name for one in groups for name in one.members}
    graph = prepared(step, plan).graph
    rest = (one for one in alone(step, plan).fused if one.members[0] not in held)
    places = {one.results[0].name: at for at, one in enumerate(graph.operations)}
    return replace(plan, fused=_sorted((*groups, *rest), places))


def jointly(
    space: Fusions, budget: Budget, observer: Observer | None = None, alpha: float = ALPHA
) -> Found[Plan]:
    """The fastest plan that was met, with the bound that the space knows.

    With an infinite ``alpha``, and evaluations enough, the best of all that moves lead to.
    """
    return backtrack(space, alpha, 1, budget, observer)
