"""Completes a plan whose inputs are said: every operation follows how its operands lie.

Along each axis an operation takes the row that moves least; first of what comes of the batch, if
the axis cuts the batch, and then of the rest. The rest, parameters and moments, is made whole
where it is first read, unless what comes of it is *wished* to be cut: as the input is cut as which
it comes back. A sum that several read, or that no row takes as it is, is completed: to be whole, or
(``scatters``) as it is wished. Replicated values are masked to be parts of a sum only as what a
scatter-add adds to, the zeros of an embedding's gradient.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from grammar.tensors.operations import Graph, Literal, Operand, Operation, Step, Value
from grammar.tensors.sharding import Kind, Lie, Sharding, Split, replicated
from hierarchies import InputError
from synth.train.factors import Row, rows, typed
from synth.train.plans.plan import Cuts, Plan, Rows, loop_of, stacked

MOVING = (
    "transpose",
    "reshape",
    "squeeze",
    "copy",
    "broadcast_in_dim",
    "convert_element_type",
    *("add", "add_any", "sub", "mul", "div", "neg", "sqrt", "rsqrt", "integer_pow", "square"),
)
"""Through these a wish is passed on, from the result to the operands."""

Wishes = dict[tuple[str, str], Lie]
"""How a value is to lie along an axis in the end, by its name and the axis."""


@dataclass(frozen=True)
class Rules:
    """The axes, which of them cut the batch, and along which completed sums are scattered."""

    sizes: Mapping[str, int]
    batch: frozenset[str]
    scatters: frozenset[str] = frozenset()


def follow(step: Step, inputs: Sequence[Sharding], rules: Rules) -> Plan:
    """The plan in which these inputs lie so. Raises InputError where one cannot."""
    ends = {out: inputs[place] for out, place in step.updates}
    moving = {
        value.name
        for value, role in zip(step.graph.inputs, step.roles, strict=True)
        if role in ("batch", "cache")
    }
    cuts = _Follower(step.graph, rules, moving, _ends(step.graph, ends)).follow(inputs)
    return Plan(tuple(rules.sizes.items()), cuts)


def _ends(graph: Graph, ends: Mapping[int, Sharding]) -> Wishes:
    return {
        (output.name, axis): sharding.along(axis)
        for at, sharding in ends.items()
        if isinstance(output := graph.outputs[at], Value)
        for axis in sharding.splitting
    }


@dataclass
class _Follower:
    """How the values of a graph are read so far; ``moving`` are those that come of the batch."""

    graph: Graph
    rules: Rules
    moving: set[str]
    wishes: Wishes
    read: dict[str, Sharding] = field(default_factory=dict)
    made: dict[str, Sharding] = field(default_factory=dict)

    def __post_init__(self) -> None:
        operands = (one for op in self.graph.operations for one in op.operands)
        self.readers = Counter(
            one.name for one in (*operands, *self.graph.outputs) if isinstance(one, Value)
        )
        for operation in reversed(self.graph.operations):
            if operation.primitive in MOVING:
                self._wish_back(operation)

    def _wish_back(self, operation: Operation) -> None:
        for axis in self.rules.sizes:
            wish = self.wishes.get((operation.results[0].name, axis))
            row = next((one for one in rows(operation) if wish and one.results == (wish,)), None)
            for operand, lie in zip(operation.operands, row.operands if row else (), strict=False):
                if isinstance(operand, Value) and isinstance(lie, Split):
                    self.wishes.setdefault((operand.name, axis), lie)

    def follow(self, inputs: Sequence[Sharding]) -> Cuts:
        for value, sharding in zip(self.graph.inputs, inputs, strict=True):
            self._make(value, sharding)
        chosen = tuple(
            self._rows(one) if one.body is None else self._loop(one, one.body)
            for one in self.graph.operations
        )
        return Cuts(tuple(inputs), chosen)

    def lies(self, operand: Operand) -> Sharding:
        return self.read[operand.name] if isinstance(operand, Value) else replicated(0)

    def made_as(self, operand: Operand) -> Sharding:
        return self.made[operand.name] if isinstance(operand, Value) else replicated(0)

    def _make(self, value: Value, sharding: Sharding) -> None:
        """A sum of which there are several readers is completed, once for all of them."""
        self.made[value.name] = self.read[value.name] = sharding
        if self.readers[value.name] > 1:
            for _, axis in sharding.partial:
                self.read[value.name] = self.read[value.name].laid(
                    axis, self._completed(value, axis)
                )

    def _completed(self, value: Value, axis: str) -> Lie:
        return self.wishes.get((value.name, axis)) if axis in self.rules.scatters else None

    def _moves(self, operation: Operation) -> bool:
        return any(str(one) in self.moving for one in operation.operands)

    def _rows(self, operation: Operation) -> Rows:
        chosen: Rows = ()
        legal = rows(operation)
        for axis in self.rules.sizes:
            for row in sorted(legal, key=lambda one: self._price(operation, one, axis)):
                if any(self._masks(operation, row, axis)):
                    continue
                try:
                    how = typed(operation, dict((*chosen, (axis, row))), self.rules.sizes)
                except InputError:
                    continue
                chosen = (*chosen, (axis, row))
                break
        chosen = tuple(one for one in chosen if one[1] != legal[0])
        how = typed(operation, dict(chosen), self.rules.sizes)
        if self._moves(operation):
            self.moving.update(one.name for one in operation.results)
        for value, sharding in zip(operation.results, how.results, strict=True):
            self._make(value, sharding)
        return chosen

    def _masks(self, operation: Operation, row: Row, axis: str) -> Iterator[bool]:
        added_to = row.factor.partial if row.factor is not None else ()
        for at, (operand, lie) in enumerate(zip(operation.operands, row.operands, strict=True)):
            if isinstance(operand, Value) and at not in added_to:
                yield isinstance(lie, Kind) and self.lies(operand).along(axis) is not lie

    def _price(self, operation: Operation, row: Row, axis: str) -> tuple[float, ...]:
        """What comes of the batch, then bytes of all, then completed otherwise than is wished."""
        first, total, local, unlike = 0.0, 0.0, 0, 0
        for operand, lie in zip(operation.operands, row.operands, strict=True):
            if isinstance(operand, Literal):
                continue
            before = self.lies(operand).along(axis)
            price = _sent(before, lie, self.rules.sizes[axis]) * operand.type.bytes
            total += price
            local += before != lie
            if isinstance(before, Kind):
                unlike += lie != before and lie != self._completed(operand, axis)
            if operand.name in self.moving and axis in self.rules.batch:
                first += price
        wished = [self.wishes.get((one.name, axis)) for one in operation.results]
        if axis in self.rules.batch and not self._moves(operation):
            away = sum(one != lie for one, lie in zip(wished, row.results, strict=True))
            return (away, total, local)
        partial = sum(isinstance(one, Kind) for one in row.results)
        return (unlike, first, total, local, partial)

    def _loop(self, loop: Operation, body: Graph) -> Cuts:
        """What is carried lies as it comes in, but cut where the body cuts what came in whole."""
        divided = loop_of(loop.parameter)
        kept = divided.constants + divided.carried
        inputs = [self.lies(one) for one in loop.operands]
        inputs[kept:] = [_slice(one) for one in inputs[kept:]]
        for at, one in enumerate(inputs[divided.constants : kept], divided.constants):
            for _, axis in one.partial:
                inputs[at] = inputs[at].laid(axis, None)
        names = [
            inner.name
            for inner, outer in zip(body.inputs, loop.operands, strict=True)
            if str(outer) in self.moving
        ]
        for _ in range(len(self.rules.sizes) + 1):
            inside = _Follower(body, self.rules, set(names), self._inner(loop, body))
            cuts = inside.follow(inputs)
            before = list(inputs)
            for at in range(divided.carried):
                place = divided.constants + at
                inputs[place] = _cut_as(inputs[place], inside.lies(body.outputs[at]))
                if str(body.outputs[at]) in inside.moving:
                    names.append(body.inputs[place].name)
            if before == inputs:
                break
        results = [*divided.carry(tuple(before))]
        results += [stacked(inside.made_as(stack)) for stack in body.outputs[divided.carried :]]
        for value, output, sharding in zip(loop.results, body.outputs, results, strict=True):
            if str(output) in inside.moving:
                self.moving.add(value.name)
            self._make(value, sharding)
        return Cuts(tuple(before), cuts.operations)

    def _inner(self, loop: Operation, body: Graph) -> Wishes:
        """The wishes of what the body stacks."""
        carried = loop_of(loop.parameter).carried
        found: Wishes = {}
        for value, output in list(zip(loop.results, body.outputs, strict=True))[carried:]:
            for axis in self.rules.sizes:
                wish = self.wishes.get((value.name, axis))
                if isinstance(wish, Split) and wish.dimension and isinstance(output, Value):
                    found[output.name, axis] = Split(wish.dimension - 1)
        return found


def _slice(one: Sharding) -> Sharding:
    """How a slice lies of what is scanned: its first dimension is not cut in a loop."""
    return Sharding(one.dimensions[1:], one.partial)


def _cut_as(one: Sharding, other: Sharding) -> Sharding:
    for axis in other.splitting:
        if one.along(axis) is None:
            one = one.laid(axis, other.along(axis))
    return one


def _sent(before: Lie, after: Lie, parts: int) -> float:
    """Of the whole value, what one device must send or receive along an axis: design section 5."""
    share = (parts - 1) / parts
    match before, after:
        case (Kind(), None):
            return 2 * share
        case (Kind(), Split()):
            return share
        case (Split(), None):
            return share
        case (Split(one), Split(other)) if one != other:
            return share / parts
    return 0.0
