"""Completes a plan from the shardings of its inputs: operations follow their operands.

Along each axis an operation gets the row with the least communication: first of weights that are
*held*, to which all other values adapt, then of values that depend on the batch, if the axis cuts
it, and then of the rest. The rest are moments, and parameters that are only stored in parts. They
are gathered before they are first read, unless the result is *wished* to be cut like the input that
it becomes in the next step. A value that is cast to a narrower type keeps its sharding, so that
fewer bytes are sent.

A partial sum with several readers, or that no row accepts, is completed: cut by samples or tokens
if the axis cuts these and the value runs over them; or (``scatters``) cut as wished; or whole.
Other values become partial sums in two cases only: if gradients of one value are added, so that the
sum is completed once; and as the operand of a scatter-add, the zeros of an embedding's gradient.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from functools import lru_cache
from operator import itemgetter

from grammar.tensors.operations import Graph, Operation, Step, Value
from grammar.tensors.sharding import AxisSharding, Flat, Sharding, Split
from hierarchies import InputError
from synth.step.factors import (
    Factor,
    OperationSharding,
    Row,
    factors_of,
    list_all_rows,
    list_rows,
    shard_operation,
)
from synth.step.sharding.following.costs import GROWING_PRIMITIVES, needs_masks, price_row
from synth.step.sharding.following.known import KnownValues, Rules, Wishes
from synth.step.sharding.following.trimming import trim_cuts
from synth.step.sharding.lineage import Lineage, narrows
from synth.step.sharding.plan import SAMPLE_ROLES, Cuts, Rows, scan_operands_of, stack_sharding


def follow(step: Step, inputs: Sequence[Sharding], rules: Rules) -> Cuts:
    """Returns the cuts of a step with given input shardings.

    Raises InputError for shardings that do not fit the step.
    """
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
    sizes = tuple(rules.sizes.items())
    chosen = _choices_of(sizes, rules.holding, rules.scatters, known.batch)
    return trim_cuts(step, _RowChooser(known, chosen).follow(inputs), rules.sizes)


_Choices = dict[object, tuple[Rows, OperationSharding]]
"""The rows of operations and their shardings, by the situations in which they were chosen."""


@lru_cache(maxsize=8)
def _choices_of(
    sizes: tuple[tuple[str, int], ...],
    holding: frozenset[str],
    scatters: frozenset[str],
    batch: frozenset[str],
) -> _Choices:
    # Recipes that differ in recompute, or in what they store, have most situations in common.
    return {}


def _places(sharding: Sharding, axis: str) -> frozenset[int]:
    cut = sharding.along(axis)
    return frozenset((cut.dimension,)) if isinstance(cut, Split) else frozenset()


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

    ``chosen`` caches choices by situation, and ``followed`` the cuts of bodies, because stages are
    alike, and so are weights of the same shape.
    """

    known: KnownValues
    chosen: _Choices
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
            self._rows(operation)
            if operation.body is None
            else self._loop(operation, operation.body)
            for operation in self.known.graph.operations
        )
        return Cuts(tuple(inputs), chosen)

    def _rows(self, operation: Operation) -> Rows:
        factors, situation = factors_of(operation), self._situation(operation)
        if situation not in self.chosen:
            rows = self._choose(operation, factors)
            how = shard_operation(operation, dict(rows), self.rules.sizes)
            self.chosen[situation] = rows, how
        chosen, how = self.chosen[situation]
        self.lineage.done(operation, factors)
        for value, sharding in zip(operation.results, how.results, strict=True):
            self.known.make(value, sharding)
        if narrows(operation) and not self.lineage.moves(operation.operands):
            self._gather_copy(operation.results[0])
        return chosen

    def _situation(self, operation: Operation) -> object:
        """Returns a key of all properties on which the rows of an operation depend.

        The choices of a plan also depend on the arguments of ``_choices_of``.
        """
        axes, scatters = self.rules.sizes, self.rules.scatters
        read = tuple(
            (
                self.known.sharding(operand),
                self.lineage.of(operand),
                *(self.known.wishes.get((str(operand), axis)) for axis in scatters),
            )
            for operand in operation.operands
        )
        made = tuple(
            (self.known.wishes.get((value.name, axis)), (value.name, axis) in self.known.firm)
            for value in operation.results
            for axis in axes
        )
        grows = operation.primitive in GROWING_PRIMITIVES
        beside = tuple(self.known.beside(operation.results[0])) if grows else ()
        return operation.form, self.known.nested, read, made, beside

    def _choose(self, operation: Operation, factors: Sequence[Factor]) -> Rows:
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
        return tuple((axis, row) for axis, row in chosen if row != legal[0])

    def _cheapest(
        self, operation: Operation, axis: str, over: Sequence[frozenset[int]]
    ) -> Iterator[Row]:
        """Yields the rows by price; free rows immediately, before the other rows are priced."""
        priced = []
        for row in self._legal(operation, axis):
            cost = price_row(self.known, operation, row, axis, over)
            if any(cost):
                priced.append((cost, row))
            else:
                yield row
        yield from (row for _, row in sorted(priced, key=itemgetter(0)))

    def _legal(self, operation: Operation, axis: str) -> Sequence[Row]:
        """Returns the rows along an axis; flat rows only if an operand or wished result is flat."""
        cuts = [self.known.sharding(operand).along(axis) for operand in operation.operands]
        cuts += [self.known.wishes.get((value.name, axis)) for value in operation.results]
        is_flat = any(isinstance(cut, Flat) for cut in cuts)
        return list_all_rows(operation) if is_flat else list_rows(operation)

    def _gather_copy(self, copy: Value) -> None:
        """Gathers a narrower copy of a stored value immediately, along the rules' ``kept`` axes.

        Copies that are held, or that are stored themselves, stay cut.
        """
        for axis in self.rules.kept:
            key = copy.name, axis
            wished = key in self.known.wishes or key in self.lineage.held
            is_cut = isinstance(self.known.sharding(copy).along(axis), Split | Flat)
            if is_cut and not wished:
                self.known.read[copy.name] = self.known.sharding(copy).laid(axis, None)

    def _loop(self, loop: Operation, body: Graph) -> Cuts:
        """Follows a loop: carried values keep their sharding, or get the body's if they are whole.

        They become partial sums only if the body only adds to them.
        """
        divided = scan_operands_of(loop.parameter)
        kept = divided.constants + divided.carried
        inputs = [self.known.sharding(operand) for operand in loop.operands]
        inputs[kept:] = [stack.slice() for stack in inputs[kept:]]
        for at, carried in enumerate(inputs[divided.constants : kept], divided.constants):
            for _, axis in carried.partial:
                inputs[at] = inputs[at].laid(axis, None)
        lineage = self.lineage.inside(loop, body)
        wishes, firm = self._inner_wishes(loop, body)
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
        """Follows a body repeatedly, until its carried outputs have the shardings of the inputs."""
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
                sharding, name = inside.sharding(body.outputs[at]), body.inputs[place].name
                added_up = inside.readers[name] == 1 and inside.reader[name].primitive == "add_any"
                inputs[place] = _shard_like(inputs[place], sharding, added_up=added_up)
            earlier = deepcopy(lineage)
            lineage.carried(loop, body, inside.lineage)
            if before == inputs and earlier == lineage:
                return inside, cuts

    def _inner_wishes(self, loop: Operation, body: Graph) -> tuple[Wishes, set[tuple[str, str]]]:
        """Returns the wishes of values that the body stacks, and which of them are firm."""
        carried = scan_operands_of(loop.parameter).carried
        wishes: Wishes = {}
        firm = set()
        for value, output in list(zip(loop.results, body.outputs, strict=True))[carried:]:
            for axis in self.rules.sizes:
                wish = self.known.wishes.get((value.name, axis))
                inner = _slice_sharding(wish)
                if inner is not None and isinstance(output, Value):
                    wishes[output.name, axis] = inner
                    if (value.name, axis) in self.known.firm:
                        firm.add((output.name, axis))
        return wishes, firm


def _slice_sharding(stack: AxisSharding) -> AxisSharding:
    """Returns the sharding of a stack's slices along an axis; None if it does not cut them."""
    match stack:
        case Split(dimension) if dimension:
            return Split(dimension - 1)
        case Flat(lead) if lead:
            return Flat(lead - 1)
    return None


def _shard_like(sharding: Sharding, other: Sharding, *, added_up: bool) -> Sharding:
    for axis in other.axes if added_up else other.cutting:
        if sharding.along(axis) is None:
            sharding = sharding.laid(axis, other.along(axis))
    return sharding
