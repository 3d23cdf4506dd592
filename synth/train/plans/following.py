"""Completes a plan whose inputs are said: every operation follows how its operands lie.

Along each axis an operation takes the row that moves least: first of weights that are *held*, to
which all else adapts, then of what comes of the batch, if the axis cuts the batch, and then of the
rest. The rest, parameters that are stored in parts and moments, is made whole where it is first
read, unless what comes of it is *wished* to be cut: as the input is cut as which it comes back.
What is cast to a narrower type stays as it lies, so that less is sent.

A sum that several read, or that no row takes as it is, is completed: to be cut by samples or
tokens, if it runs over what the axis cuts of the batch; or (``scatters``) as it is wished; or to be
whole. Other values become parts of a sum only where gradients of one value are added up, so that
the sum is completed once, and as what a scatter-add adds to, the zeros of an embedding's gradient.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from functools import cached_property
from math import inf, prod
from operator import itemgetter

from grammar.tensors.operations import Graph, Literal, Operand, Operation, Step, Value
from grammar.tensors.sharding import Kind, Lie, Sharding, Split, replicated
from hierarchies import InputError
from synth.train.factors import Factor, Row, rows, typed
from synth.train.plans.costs import astray, sent
from synth.train.plans.lineage import Lineage, narrows, widens
from synth.train.plans.plan import OF_SAMPLES, TIME, Cuts, Rows, loop_of, stacked

KEPT = ("transpose", "reshape", "squeeze", "copy", "convert_element_type")
MOVING = (
    *KEPT,
    "broadcast_in_dim",
    *("add", "add_any", "sub", "mul", "div", "neg", "sqrt", "rsqrt", "integer_pow", "square"),
)
"""Through these a wish is passed on, from the result to the operands."""

PASSING = (*KEPT, "reduce_sum")
"""What may be done to parts of a sum, as it is to the sum, and takes next to no time."""

GROWING = ("broadcast_in_dim", "scatter-add")
"""These make much of little: they look ahead at how that lies with which it is put together."""

LOOKING = ("gather", "scatter-add")
"""These need not have all that they look up or add to, and then make parts of sums."""

Wishes = dict[tuple[str, str], Lie]
"""How a value is to lie along an axis in the end, by its name and the axis."""


@dataclass(frozen=True)
class Rules:
    """The axes, and along which of them what is done; ``held`` are inputs by place, and an axis.

    A weight that is held stays as it lies along the axis, and so does its gradient; one that is not
    is only stored so. Along ``scatters`` completed sums of gradients are cut as they are wished.
    Narrower copies of what is stored are made whole at once along ``kept``, else where they are
    read. ``narrow``: sums that are widened are completed before that, else after.
    """

    sizes: Mapping[str, int]
    held: frozenset[tuple[int, str]] = frozenset()
    scatters: frozenset[str] = frozenset()
    kept: frozenset[str] = frozenset()
    narrow: bool = False

    @cached_property
    def holding(self) -> frozenset[str]:
        """The axes along which some input is held."""
        return frozenset(axis for _, axis in self.held)


def follow(step: Step, inputs: Sequence[Sharding], rules: Rules) -> Cuts:
    """How all is cut if the inputs lie so. Raises InputError where one cannot."""
    ends = {out: inputs[place] for out, place in step.updates}
    lineage = Lineage(tuple(rules.sizes))
    batch = set()
    for value, role, sharding in zip(step.graph.inputs, step.roles, inputs, strict=True):
        if role in OF_SAMPLES:
            lineage.moving.add(value.name)
            for axis in sharding.splitting:
                batch.add(axis)
                lineage.runs[value.name, axis] = _places(sharding, axis)
    lineage.held = {(step.graph.inputs[at].name, axis) for at, axis in rules.held}
    stored = {
        axis
        for at, role in enumerate(step.roles)
        for axis in inputs[at].splitting
        if role != "batch" and (at, axis) not in rules.held
    }
    firm = {
        (str(step.graph.outputs[out]), axis)
        for out, place in step.updates
        for axis in rules.sizes
        if (place, axis) in rules.held
        or (axis in batch - stored and axis not in inputs[place].axes)
    }
    found = _Follower(step.graph, rules, frozenset(batch), lineage, _ends(step.graph, ends), firm)
    return found.follow(inputs)


def _places(sharding: Sharding, axis: str) -> frozenset[int]:
    lie = sharding.along(axis)
    return frozenset((lie.dimension,)) if isinstance(lie, Split) else frozenset()


def _ends(graph: Graph, ends: Mapping[int, Sharding]) -> Wishes:
    return {
        (output.name, axis): sharding.along(axis)
        for at, sharding in ends.items()
        if isinstance(output := graph.outputs[at], Value)
        for axis in sharding.splitting
    }


@dataclass
class _Follower:
    """How the values of a graph are read so far.

    ``batch`` are the axes that cut the batch, ``firm`` the wishes of what is held; ``nested`` is a
    graph inside a loop. What was ``chosen`` in a situation, and ``followed`` of a body, is kept:
    stages, and weights of one shape, are alike.
    """

    graph: Graph
    rules: Rules
    batch: frozenset[str]
    lineage: Lineage
    wishes: Wishes
    firm: set[tuple[str, str]]
    nested: bool = False
    chosen: dict[object, Rows] = field(default_factory=dict)
    followed: dict[object, tuple[_Follower, Cuts]] = field(default_factory=dict)
    read: dict[str, Sharding] = field(default_factory=dict)
    made: dict[str, Sharding] = field(default_factory=dict)

    def __post_init__(self) -> None:
        operands = (one for op in self.graph.operations for one in op.operands)
        self.readers = Counter(
            one.name for one in (*operands, *self.graph.outputs) if isinstance(one, Value)
        )
        self.reader = {str(one): op for op in self.graph.operations for one in op.operands}
        for operation in reversed(self.graph.operations):
            if operation.primitive in MOVING:
                self._wish_back(operation)

    def _wish_back(self, operation: Operation) -> None:
        name = operation.results[0].name
        for axis in self.rules.sizes:
            if (name, axis) not in self.wishes and (name, axis) not in self.firm:
                continue
            wish = self.wishes.get((name, axis))
            row = next((one for one in rows(operation) if one.results == (wish,)), None)
            for operand, lie in zip(operation.operands, row.operands if row else (), strict=False):
                if not isinstance(operand, Value) or type(lie) is not type(wish):
                    continue
                if (name, axis) in self.firm and (operand.name, axis) not in self.wishes:
                    self.firm.add((operand.name, axis))
                if lie is not None:
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
        """A sum of which there are several readers is completed, once for all of them.

        Over microbatches every sum is, and none inside a loop: as soon as it is made, or, where it
        is only moved about or cast to wider numbers, behind that.
        """
        self.made[value.name] = self.read[value.name] = sharding
        for _, axis in sharding.partial:
            if self._all_at_once(value, axis):
                completed = self._completed(value, axis)
                self.read[value.name] = self.read[value.name].laid(axis, completed)

    def _all_at_once(self, value: Value, axis: str) -> bool:
        only = self.reader.get(value.name)
        narrow = self.rules.narrow and only is not None and widens(only)
        if axis == TIME:
            return not self.nested and (narrow or not self._passed_on(value))
        return self.readers[value.name] > 1 or narrow

    def _passed_on(self, value: Value) -> bool:
        """Whether its only reader does what may be done to parts of a sum, and rounds no more."""
        reader = self.reader.get(value.name)
        if self.readers[value.name] != 1 or reader is None or reader.primitive not in PASSING:
            return False
        return reader.results[0].name in self.reader and not narrows(reader)

    def _completed(self, value: Value, axis: str) -> Lie:
        for place in sorted(self.lineage.over(value, axis)):
            if value.type.shape[place] % self._parts(value, place, axis) == 0:
                return Split(place)
        return self.wishes.get((value.name, axis)) if axis in self.rules.scatters else None

    def _parts(self, value: Value, place: int, axis: str) -> int:
        """In how many parts a dimension would be cut, if by this axis, too."""
        others = self.read[value.name].dimensions[place] if value.name in self.read else ()
        return prod(self.rules.sizes[one] for one in {*others, axis})

    def _rows(self, operation: Operation) -> Rows:
        factors = [one.factor for one in rows(operation) if one.factor is not None]
        situation = self._situation(operation)
        if situation not in self.chosen:
            self.chosen[situation] = self._choice(operation, factors)
        chosen = self.chosen[situation]
        how = typed(operation, dict(chosen), self.rules.sizes)
        self.lineage.done(operation, factors)
        for value, sharding in zip(operation.results, how.results, strict=True):
            self._make(value, sharding)
        if narrows(operation) and not self.lineage.moves(operation.operands):
            self._keep(operation.results[0])
        return chosen

    def _situation(self, operation: Operation) -> object:
        """All that the rows of an operation depend on."""
        axes, scatters = self.rules.sizes, self.rules.scatters
        read = tuple(
            (
                self.lies(one),
                self.lineage.of(one),
                *(self.wishes.get((str(one), axis)) for axis in scatters),
            )
            for one in operation.operands
        )
        made = tuple(
            (self.wishes.get((one.name, axis)), (one.name, axis) in self.firm)
            for one in operation.results
            for axis in axes
        )
        grows = operation.primitive in GROWING
        beside = tuple(self._beside(operation.results[0])) if grows else ()
        return operation.form, self.nested, read, made, beside

    def _choice(self, operation: Operation, factors: Sequence[Factor]) -> Rows:
        chosen: Rows = ()
        legal = rows(operation)
        for axis in self.rules.sizes:
            over = self.lineage.results(operation, factors, axis)
            for row in self._cheapest(operation, axis, over):
                if any(self._masks(operation, row, axis)):
                    continue
                try:
                    typed(operation, dict((*chosen, (axis, row))), self.rules.sizes)
                except InputError:
                    continue
                chosen = (*chosen, (axis, row))
                break
        return tuple(one for one in chosen if one[1] != legal[0])

    def _cheapest(
        self, operation: Operation, axis: str, over: Sequence[frozenset[int]]
    ) -> Iterator[Row]:
        """The rows by their prices; for those that cost nothing no other is waited for."""
        dear = []
        for row in rows(operation):
            price = self._price(operation, row, axis, over)
            if any(price):
                dear.append((price, row))
            else:
                yield row
        yield from (row for _, row in sorted(dear, key=itemgetter(0)))

    def _keep(self, copy: Value) -> None:
        """A copy of what is stored is read whole, unless it is what is stored."""
        for axis in self.rules.kept:
            wished = (copy.name, axis) in self.wishes or (copy.name, axis) in self.lineage.held
            if isinstance(self.lies(copy).along(axis), Split) and not wished:
                self.read[copy.name] = self.read[copy.name].laid(axis, None)

    def _masks(self, operation: Operation, row: Row, axis: str) -> Iterator[bool]:
        """Of each operand whether it would be made a part of a sum that it need not be."""
        added_to = row.factor.partial if row.factor is not None else ()
        gradients = operation.primitive == "add_any" and Kind.SUM in [
            self.lies(one).along(axis) for one in operation.operands
        ]
        for at, (operand, lie) in enumerate(zip(operation.operands, row.operands, strict=True)):
            if isinstance(operand, Value) and at not in added_to and not gradients:
                yield isinstance(lie, Kind) and self.lies(operand).along(axis) is not lie

    def _price(
        self, operation: Operation, row: Row, axis: str, over: Sequence[frozenset[int]]
    ) -> tuple[float, ...]:
        """What is held, then how sums are completed, then what comes of the batch, then bytes.

        ``over``: the dimensions of each result that run over what the axis cuts of the batch.
        """
        shared = axis in self.rules.holding
        held, first, total, local, unlike = 0.0, 0.0, 0.0, 0, 0
        for operand, lie in zip(operation.operands, row.operands, strict=True):
            if isinstance(operand, Literal):
                continue
            before = self.lies(operand).along(axis)
            price = self._sent(before, lie, axis) * operand.type.bytes
            total += price
            local += before != lie
            if isinstance(before, Kind):
                fit = (before, self._completed(operand, axis), *((None,) if shared else ()))
                unlike += lie not in fit
            if operand.name in self.lineage.moving and axis in self.batch:
                first += price
            if (operand.name, axis) in self.lineage.held:
                held += price
        if operation.primitive in (*GROWING, *LOOKING):
            first += self._ahead(operation, row.results[0], axis, over[0])
        names, narrow = [one.name for one in operation.results], narrows(operation)
        before = self.lies(operation.operands[0]).along(axis) if narrow else None
        away = [
            name
            for name, lie in zip(names, row.results, strict=True)
            if self.wishes.get((name, axis), before if narrow else None) != lie
        ]
        firm = sum(
            (name, axis) in self.firm
            and ((name, axis) in self.wishes or self._gathers(operation, row))
            for name in away
        )
        if axis in self.batch and not self.lineage.moves(operation.operands):
            return (firm, held, len(away), total, local)
        partial = sum(isinstance(one, Kind) for one in row.results)
        cheap, away_from = (first, total), astray(row, over, kept=not total)
        order = (*cheap, away_from) if shared else (away_from, *cheap)
        return (firm, held, unlike, *order, local, partial)

    def _sent(self, before: Lie, after: Lie, axis: str) -> float:
        """Over microbatches sums cost nothing outside loops, and all else cannot be."""
        share = sent(before, after, self.rules.sizes[axis])
        if axis != TIME or not share:
            return share
        return 0.0 if before is Kind.SUM and after is None and not self.nested else inf

    def _gathers(self, operation: Operation, row: Row) -> bool:
        """Whether an update would go on with a part of what is to be whole in the end."""
        return operation.primitive in MOVING and isinstance(row.results[0], Split)

    def _ahead(self, operation: Operation, lie: Lie, axis: str, over: frozenset[int]) -> float:
        """What it would cost a result to lie as what its only reader puts it together with.

        If that is not known, sums that come of the batch will be completed: to be cut by samples or
        tokens, if they may be; of what is looked up to be whole. (What is added up may be a
        gradient, and stay a sum.)
        """
        value, grows = operation.results[0], operation.primitive in GROWING
        beside = [one.along(axis) for one in self._beside(value)] if grows else []
        looks = operation.primitive in LOOKING and axis in self.batch
        if not beside and looks and isinstance(lie, Kind):
            beside = [*map(Split, over)] or [None] * (not grows)
        costs = [self._sent(lie, other, axis) for other in beside if lie != other]
        return value.type.bytes * min(costs, default=0.0) if lie not in beside else 0.0

    def _beside(self, value: Value) -> list[Sharding]:
        """How that lies which a value's only reader, casts aside, puts it together with."""
        reader = self.reader.get(value.name)
        while (
            reader is not None
            and reader.primitive == "convert_element_type"
            and self.readers[value.name] == 1
        ):
            value = reader.results[0]
            reader = self.reader.get(value.name)
        if reader is None or self.readers[value.name] > 1 or reader.body is not None:
            return []
        return [
            self.lies(one)
            for one in reader.operands
            if str(one) in self.read and isinstance(one, Value) and one.type == value.type
        ]

    def _loop(self, loop: Operation, body: Graph) -> Cuts:
        """What is carried lies as it comes in, but as the body makes it if that came in whole.

        Parts of a sum only, if the body does nothing but add to it.
        """
        divided = loop_of(loop.parameter)
        kept = divided.constants + divided.carried
        inputs = [self.lies(one) for one in loop.operands]
        inputs[kept:] = [_slice(one) for one in inputs[kept:]]
        for at, one in enumerate(inputs[divided.constants : kept], divided.constants):
            for _, axis in one.partial:
                inputs[at] = inputs[at].laid(axis, None)
        lineage = self.lineage.inside(loop, body)
        wishes, firm = self._inner(loop, body)
        entering = tuple(map(lineage.of, body.inputs))
        wished = frozenset(wishes.items()), frozenset(firm)
        situation = id(body), divided, tuple(inputs), entering, wished
        if situation not in self.followed:
            self.followed[situation] = self._body(loop, body, inputs, lineage, (wishes, firm))
        inside, cuts = self.followed[situation]
        self.lineage.outside(loop, body, inside.lineage)
        results = [*divided.carry(cuts.inputs)]
        results += [stacked(inside.made_as(stack)) for stack in body.outputs[divided.carried :]]
        for value, sharding in zip(loop.results, results, strict=True):
            self._make(value, sharding)
        return cuts

    def _body(
        self,
        loop: Operation,
        body: Graph,
        inputs: list[Sharding],
        lineage: Lineage,
        wished: tuple[Wishes, set[tuple[str, str]]],
    ) -> tuple[_Follower, Cuts]:
        """The body followed until it carries out what it carries in."""
        divided, (wishes, firm) = loop_of(loop.parameter), wished
        while True:
            inside = _Follower(
                body,
                self.rules,
                self.batch,
                deepcopy(lineage),
                dict(wishes),
                set(firm),
                nested=True,
                chosen=self.chosen,
                followed=self.followed,
            )
            cuts = inside.follow(inputs)
            before = list(inputs)
            for at in range(divided.carried):
                place = divided.constants + at
                lies, name = inside.lies(body.outputs[at]), body.inputs[place].name
                added_up = inside.readers[name] == 1 and inside.reader[name].primitive == "add_any"
                inputs[place] = _cut_as(inputs[place], lies, added_up=added_up)
            earlier = deepcopy(lineage)
            lineage.carried(loop, body, inside.lineage)
            if before == inputs and earlier == lineage:
                return inside, cuts

    def _inner(self, loop: Operation, body: Graph) -> tuple[Wishes, set[tuple[str, str]]]:
        """The wishes of what the body stacks, and which of them are firm."""
        carried = loop_of(loop.parameter).carried
        found: Wishes = {}
        firm = set()
        for value, output in list(zip(loop.results, body.outputs, strict=True))[carried:]:
            for axis in self.rules.sizes:
                wish = self.wishes.get((value.name, axis))
                if isinstance(wish, Split) and wish.dimension and isinstance(output, Value):
                    found[output.name, axis] = Split(wish.dimension - 1)
                    if (value.name, axis) in self.firm:
                        firm.add((output.name, axis))
        return found, firm


def _slice(one: Sharding) -> Sharding:
    """How a slice lies of what is scanned: its first dimension is not cut in a loop."""
    return Sharding(one.dimensions[1:], one.partial)


def _cut_as(one: Sharding, other: Sharding, *, added_up: bool) -> Sharding:
    for axis in other.axes if added_up else other.splitting:
        if one.along(axis) is None:
            one = one.laid(axis, other.along(axis))
    return one
