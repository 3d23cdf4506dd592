"""A step as pairwise costs: a variable for each operation and input, an edge where one reads.

A loop has no variable: what repeats it is its body, whose operations and inputs are chosen once
and cost as often as they are done. What is carried lies in the end as in the beginning; what comes
back as an input of the next step ends as that lies. Layers of a stage are a loop, so that they are
cut alike, and those of another stage as that has them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from grammar.tensors.operations import Graph, Literal, Operand, Operation, Step, Value
from grammar.tensors.sharding import AxisSharding, ReductionKind, Sharding
from synth.search.pairwise import Costs, Pairwise
from synth.step.factors import Row, part_of
from synth.step.rows.options import ShardingOption, list_options, list_shardings
from synth.step.rows.prices import Prices
from synth.step.rows.reading import OperationSite, ProducedValue, RedistributionTables
from synth.step.sharding import prepare_step
from synth.step.sharding.applying import apply_with_phases, operation_phases
from synth.step.sharding.placing import homes_of
from synth.step.sharding.plan import (
    TIME,
    Cuts,
    Plan,
    Rows,
    replicate_all,
    scan_operands_of,
    stack_sharding,
)
from synth.step.sharding.stages import ONCE_PHASES
from synth.step.work import length_of


@dataclass(frozen=True)
class GraphVariables:
    """The variables of a graph: of each input, and of each operation or all of its body."""

    inputs: tuple[int, ...]
    operations: tuple[int | GraphVariables, ...]


@dataclass(frozen=True, eq=False)
class StepCosts:
    """The costs of a step, and what its variables stand for."""

    costs: Pairwise
    laid: GraphVariables
    states: Sequence[Sequence[Rows | Sharding]]

    def cuts(self, chosen: Sequence[int]) -> Cuts:
        """A plan's cuts, from a state of each variable. Equal ones of stages are one."""
        known: dict[Cuts, Cuts] = {}

        def of(laid: GraphVariables) -> Cuts:
            inputs = [self.states[at][chosen[at]] for at in laid.inputs]
            assert all(isinstance(one, Sharding) for one in inputs)
            rows = (
                of(one) if isinstance(one, GraphVariables) else self.states[one][chosen[one]]
                for one in laid.operations
            )
            found = Cuts(tuple(inputs), tuple(rows))  # type: ignore[arg-type]
            return known.setdefault(found, found)

        return of(self.laid)


def costs_of(step: Step, plan: Plan, prices: Prices) -> StepCosts:
    """The costs of every choice for a step; what a plan has along time, and on stages, is given.

    Raises InputError for what has no factors.
    """
    ready = prepare_step(step, plan)
    builder = _CostBuilder(plan, prices, RedistributionTables(plan, prices))
    laid = builder.step(ready)
    costs = Pairwise(builder.alone, builder.pairs)
    return StepCosts(costs, laid, builder.states)


def _find_sites(step: Step, plan: Plan) -> tuple[tuple[int, ...], list[OperationSite]]:
    """The stage that has each input, and where each operation is done."""
    graph = step.graph
    if plan.microbatches == 1:
        return (0,) * len(graph.inputs), [OperationSite(0)] * len(graph.operations)
    stages = plan.stages or (0,) * len(graph.operations)
    whens = operation_phases(*apply_with_phases(step, plan))
    return homes_of(step, stages), list(map(OperationSite, stages, whens))


@dataclass(frozen=True, eq=False)
class _OperationChoices:
    """The options of an operation, what each computes takes, and how values then lie."""

    rows: tuple[Rows, ...]
    seconds: Costs
    operands: tuple[tuple[Sharding, ...], ...]
    results: tuple[tuple[Sharding, ...], ...]


@dataclass
class _CostBuilder:
    """Costs so far. Alike operations and alike redistributions are priced once."""

    plan: Plan
    prices: Prices
    reading: RedistributionTables
    alone: list[Costs] = field(default_factory=list)
    pairs: dict[tuple[int, int], Costs] = field(default_factory=dict)
    states: list[Sequence[Rows | Sharding]] = field(default_factory=list)
    ways: dict[object, _OperationChoices] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.sizes = self.plan.parts

    def times(self, where: OperationSite) -> int:
        """How often in a step something is done there."""
        return where.looped or (1 if where.when in ONCE_PHASES else self.plan.microbatches)

    def step(self, step: Step) -> GraphVariables:
        graph = step.graph
        cuts = self.plan.cuts if TIME in self.sizes else replicate_all(graph)
        homes, wheres = _find_sites(step, self.plan)
        given = zip(graph.inputs, cuts.inputs, homes, strict=True)
        made = {one.name: self._input(one, lie.along(TIME), home) for one, lie, home in given}
        laid = self._graph(graph, cuts, made, wheres)
        for out, place in step.updates:
            end = made[graph.inputs[place].name]
            self._read(graph.outputs[out], made, end.variable, end.lies, OperationSite(end.stage))
        return laid

    def _graph(
        self,
        graph: Graph,
        cuts: Cuts,
        made: dict[str, ProducedValue],
        wheres: Sequence[OperationSite],
    ) -> GraphVariables:
        inputs = tuple(made[one.name].variable for one in graph.inputs)
        done: list[int | GraphVariables] = []
        for one, cut, where in zip(graph.operations, cuts.operations, wheres, strict=True):
            if isinstance(cut, Cuts):
                done.append(self._loop(one, cut, made, where))
            else:
                done.append(self._operation(one, dict(cut).get(TIME), made, where))
        return GraphVariables(inputs, tuple(done))

    def _operation(
        self,
        operation: Operation,
        in_time: Row | None,
        made: dict[str, ProducedValue],
        where: OperationSite,
    ) -> int:
        ways = self._ways(operation, in_time)
        variable = self._variable(ways.rows, self.times(where) * ways.seconds)
        for operand, wanted in zip(operation.operands, ways.operands, strict=True):
            self._read(operand, made, variable, wanted, where)
        for value, found in zip(operation.results, ways.results, strict=True):
            made[value.name] = ProducedValue(
                variable, found, where.stage, where.when not in ONCE_PHASES
            )
        return variable

    def _loop(
        self, loop: Operation, cuts: Cuts, made: dict[str, ProducedValue], where: OperationSite
    ) -> GraphVariables:
        assert loop.body is not None
        body, divided = loop.body, scan_operands_of(loop.parameter)
        kept = divided.constants + divided.carried
        each = replace(where, looped=self.times(where) * length_of(loop))
        inside: dict[str, ProducedValue] = {}
        for at, (operand, value) in enumerate(zip(loop.operands, body.inputs, strict=True)):
            carried = divided.constants <= at < kept
            out = body.outputs[at - divided.constants] if carried else None
            sums = carried and isinstance(operand, Value) and isinstance(out, Value)
            in_time, kinds = cuts.inputs[at].along(TIME), (ReductionKind.SUM,) if sums else ()
            one = self._input(value, in_time, where.stage, kinds)
            inside[value.name] = one = replace(one, passing=where.when not in ONCE_PHASES)
            wanted = one.lies if at < kept else tuple(map(stack_sharding, one.lies))
            self._read(operand, made, one.variable, wanted, where)
        laid = self._graph(body, cuts, inside, [each] * len(body.operations))
        for at, output in enumerate(body.outputs[: divided.carried]):
            end = inside[body.inputs[divided.constants + at].name]
            self._read(output, inside, end.variable, end.lies, each)
            made[loop.results[at].name] = end
        for value, output in zip(
            loop.results[divided.carried :], body.outputs[divided.carried :], strict=True
        ):
            made[value.name] = self._stack(output, inside, where.stage)
        return laid

    def _stack(
        self, output: Operand, inside: Mapping[str, ProducedValue], stage: int
    ) -> ProducedValue:
        if isinstance(output, Literal):
            only = stack_sharding(Sharding(()))
            return ProducedValue(self._variable((only,), np.zeros(1)), (only,), stage)
        slices = inside[output.name]
        return replace(slices, lies=tuple(map(stack_sharding, slices.lies)))

    def _input(
        self, value: Value, in_time: AxisSharding, stage: int, kinds: Sequence[ReductionKind] = ()
    ) -> ProducedValue:
        every = list_shardings(value.type, self.sizes, kinds, in_time)
        return ProducedValue(self._variable(every, np.zeros(len(every))), every, stage)

    def _variable(self, states: Sequence[Rows | Sharding], seconds: Costs) -> int:
        self.states.append(states)
        self.alone.append(seconds)
        return len(self.alone) - 1

    def _ways(self, operation: Operation, in_time: Row | None) -> _OperationChoices:
        key = operation.form, in_time
        if key not in self.ways:
            every = list_options(operation, self.sizes, in_time=in_time)
            seconds = [self._seconds(operation, one) for one in every]
            self.ways[key] = _OperationChoices(
                tuple(one.rows for one in every),
                np.array(seconds),
                tuple(zip(*(one.how.operands for one in every), strict=True)),
                tuple(zip(*(one.how.results for one in every), strict=True)),
            )
        return self.ways[key]

    def _seconds(self, operation: Operation, one: ShardingOption) -> float:
        return self.prices.computing(part_of(operation, one.how, self.sizes).operation)

    def _read(
        self,
        operand: Operand,
        made: Mapping[str, ProducedValue],
        reader: int,
        wanted: tuple[Sharding, ...],
        where: OperationSite,
    ) -> None:
        """What it costs one variable's states to read what those of another make."""
        if isinstance(operand, Literal):
            return
        maker = made[operand.name]
        if maker.variable == reader:
            return  # what a loop or a step hands on unchanged lies as it did
        table = self.reading.table(operand.type, maker, wanted, where)
        pair = (maker.variable, reader)
        if maker.variable > reader:
            pair, table = (reader, maker.variable), table.T
        self.pairs[pair] = self.pairs[pair] + table if pair in self.pairs else table
