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

from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from operator import itemgetter

from grammar.tensors.operations import Graph, Operation, Step, Value
from grammar.tensors.sharding import AxisSharding, Flat, Sharding, Split
from hierarchies import InputError
from synth.step.factors import Factor, Row, list_all_rows, list_rows, shard_operation
from synth.step.sharding.following.costs import GROWING_PRIMITIVES, needs_masks, price_row
from synth.step.sharding.following.known import KnownValues, Rules, Wishes
from synth.step.sharding.following.trimming import trim_cuts
from synth.step.sharding.lineage import Lineage, narrows
from synth.step.sharding.plan import SAMPLE_ROLES, Cuts, Rows, scan_operands_of, stack_sharding


def follow(step: Step, inputs: Sequence[Sharding], rules: Rules) -> Cuts:
    """How all is cut if the inputs lie so. Raises InputError where one cannot."""
    ends = {out: inputs[place] for out, place in step.updates}
    lineage = Lineage(tuple(rules.sizes))
    batch = set()
    for value, role, sharding in zip(step.graph.inputs, step.roles, inputs, strict=True):
        if role in SAMPLE_ROLES:
            lineage.moving.add(value.name)
            for axis in sharding.splitting:
                batch.add(axis)
                lineage.runs[value.name, axis] = _places(sharding, axis)
    lineage.held = {(step.graph.inputs[at].name, axis) for at, axis in rules.held}
    stored = {
        axis
        for at, role in enumerate(step.roles)
        for axis in inputs[at].cutting
        if role != "batch" and (at, axis) not in rules.held
    }
    firm = {
        (str(step.graph.outputs[out]), axis)
        for out, place in step.updates
        for axis in rules.sizes
        if (place, axis) in rules.held
        or (axis in batch - stored and axis not in inputs[place].axes)
    }
    wishes = _ends(step.graph, ends)
    known = KnownValues(step.graph, rules, frozenset(batch), lineage, wishes, firm)
    return trim_cuts(step, _RowChooser(known).follow(inputs), rules.sizes)


def _places(sharding: Sharding, axis: str) -> frozenset[int]:
    lie = sharding.along(axis)
    return frozenset((lie.dimension,)) if isinstance(lie, Split) else frozenset()


def _ends(graph: Graph, ends: Mapping[int, Sharding]) -> Wishes:
    return {
        (output.name, axis): sharding.along(axis)
        for at, sharding in ends.items()
        if isinstance(output := graph.outputs[at], Value)
        for axis in sharding.cutting
    }


@dataclass
class _RowChooser:
    """Chooses the rows of a graph, one operation after the other.

    What was ``chosen`` in a situation, and ``followed`` of a body, is kept: stages, and weights of
    one shape, are alike.
    """

    known: KnownValues
    chosen: dict[object, Rows] = field(default_factory=dict)
    followed: dict[object, tuple[KnownValues, Cuts]] = field(default_factory=dict)

    @property
    def rules(self) -> Rules:
        return self.known.rules

    @property
    def lineage(self) -> Lineage:
        return self.known.lineage

    def follow(self, inputs: Sequence[Sharding]) -> Cuts:
        for value, sharding in zip(self.known.graph.inputs, inputs, strict=True):
            self.known.make(value, sharding)
        chosen = tuple(
            self._rows(one) if one.body is None else self._loop(one, one.body)
            for one in self.known.graph.operations
        )
        return Cuts(tuple(inputs), chosen)

    def _rows(self, operation: Operation) -> Rows:
        factors = [one.factor for one in list_rows(operation) if one.factor is not None]
        situation = self._situation(operation)
        if situation not in self.chosen:
            self.chosen[situation] = self._choice(operation, factors)
        chosen = self.chosen[situation]
        how = shard_operation(operation, dict(chosen), self.rules.sizes)
        self.lineage.done(operation, factors)
        for value, sharding in zip(operation.results, how.results, strict=True):
            self.known.make(value, sharding)
        if narrows(operation) and not self.lineage.moves(operation.operands):
            self._keep(operation.results[0])
        return chosen

    def _situation(self, operation: Operation) -> object:
        """All that the rows of an operation depend on."""
        axes, scatters = self.rules.sizes, self.rules.scatters
        read = tuple(
            (
                self.known.lies(one),
                self.lineage.of(one),
                *(self.known.wishes.get((str(one), axis)) for axis in scatters),
            )
            for one in operation.operands
        )
        made = tuple(
            (self.known.wishes.get((one.name, axis)), (one.name, axis) in self.known.firm)
            for one in operation.results
            for axis in axes
        )
        grows = operation.primitive in GROWING_PRIMITIVES
        beside = tuple(self.known.beside(operation.results[0])) if grows else ()
        return operation.form, self.known.nested, read, made, beside

    def _choice(self, operation: Operation, factors: Sequence[Factor]) -> Rows:
        chosen: Rows = ()
        legal = list_rows(operation)
        for axis in self.rules.sizes:
            over = self.lineage.results(operation, factors, axis)
            for row in self._cheapest(operation, axis, over):
                if any(needs_masks(self.known, operation, row, axis)):
                    continue
                try:
                    shard_operation(operation, dict((*chosen, (axis, row))), self.rules.sizes)
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
        for row in self._legal(operation, axis):
            cost = price_row(self.known, operation, row, axis, over)
            if any(cost):
                dear.append((cost, row))
            else:
                yield row
        yield from (row for _, row in sorted(dear, key=itemgetter(0)))

    def _legal(self, operation: Operation, axis: str) -> Sequence[Row]:
        """Rows along the axis; those of flat values where an operand is, or a result is to be."""
        lies = [self.known.lies(one).along(axis) for one in operation.operands]
        lies += [self.known.wishes.get((one.name, axis)) for one in operation.results]
        flat = any(isinstance(one, Flat) for one in lies)
        return list_all_rows(operation) if flat else list_rows(operation)

    def _keep(self, copy: Value) -> None:
        """A copy of what is stored is read whole, unless it is what is stored."""
        for axis in self.rules.kept:
            key = copy.name, axis
            wished = key in self.known.wishes or key in self.lineage.held
            cut = isinstance(self.known.lies(copy).along(axis), Split | Flat)
            if cut and not wished:
                self.known.read[copy.name] = self.known.lies(copy).laid(axis, None)

    def _loop(self, loop: Operation, body: Graph) -> Cuts:
        """What is carried lies as it comes in, but as the body makes it if that came in whole.

        Parts of a sum only, if the body does nothing but add to it.
        """
        divided = scan_operands_of(loop.parameter)
        kept = divided.constants + divided.carried
        inputs = [self.known.lies(one) for one in loop.operands]
        inputs[kept:] = [one.slice() for one in inputs[kept:]]
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
        results += [
            stack_sharding(inside.made_as(stack)) for stack in body.outputs[divided.carried :]
        ]
        for value, sharding in zip(loop.results, results, strict=True):
            self.known.make(value, sharding)
        return cuts

    def _body(
        self,
        loop: Operation,
        body: Graph,
        inputs: list[Sharding],
        lineage: Lineage,
        wished: tuple[Wishes, set[tuple[str, str]]],
    ) -> tuple[KnownValues, Cuts]:
        """The body followed until it carries out what it carries in."""
        divided, (wishes, firm) = scan_operands_of(loop.parameter), wished
        while True:
            inside = KnownValues(
                body,
                self.rules,
                self.known.batch,
                deepcopy(lineage),
                dict(wishes),
                set(firm),
                nested=True,
            )
            cuts = _RowChooser(inside, self.chosen, self.followed).follow(inputs)
            before = list(inputs)
            for at in range(divided.carried):
                place = divided.constants + at
                lies, name = inside.lies(body.outputs[at]), body.inputs[place].name
                added_up = inside.readers[name] == 1 and inside.reader[name].primitive == "add_any"
                inputs[place] = _shard_like(inputs[place], lies, added_up=added_up)
            earlier = deepcopy(lineage)
            lineage.carried(loop, body, inside.lineage)
            if before == inputs and earlier == lineage:
                return inside, cuts

    def _inner(self, loop: Operation, body: Graph) -> tuple[Wishes, set[tuple[str, str]]]:
        """The wishes of what the body stacks, and which of them are firm."""
        carried = scan_operands_of(loop.parameter).carried
        found: Wishes = {}
        firm = set()
        for value, output in list(zip(loop.results, body.outputs, strict=True))[carried:]:
            for axis in self.rules.sizes:
                wish = self.known.wishes.get((value.name, axis))
                inner = _slice_lie(wish)
                if inner is not None and isinstance(output, Value):
                    found[output.name, axis] = inner
                    if (value.name, axis) in self.known.firm:
                        firm.add((output.name, axis))
        return found, firm


def _slice_lie(lie: AxisSharding) -> AxisSharding:
    """How the slices of a stack lie along an axis that cuts them."""
    match lie:
        case Split(dimension) if dimension:
            return Split(dimension - 1)
        case Flat(lead) if lead:
            return Flat(lead - 1)
    return None


def _shard_like(one: Sharding, other: Sharding, *, added_up: bool) -> Sharding:
    for axis in other.axes if added_up else other.cutting:
        if one.along(axis) is None:
            one = one.laid(axis, other.along(axis))
    return one
