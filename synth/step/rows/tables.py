"""A step as pairwise costs: a variable for each operation and input, an edge for each read.

A loop has no variable: the operations and inputs of its body are chosen once, and their costs are
multiplied by the number of runs. Carried values end in the sharding in which they begin; results
that are inputs of the next step end in the sharding of that input. The layers of a stage are one
loop, so they have equal shardings; other stages are chosen separately.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from grammar.tensors.operations import Graph, Literal, Operand, Operation, Step, Value
from grammar.tensors.sharding import AxisSharding, ReductionKind, Sharding, dtype_bytes
from synth.search.pairwise import Costs, Pairwise
from synth.step.factors import Row, part_of
from synth.step.rows.options import ShardingOption, list_options, list_shardings
from synth.step.rows.prices import Prices
from synth.step.rows.reading import OperationSite, ProducedValue, RedistributionTables
from synth.step.sharding import (
    LocalOperation,
    RedistributedValue,
    StepProgram,
    apply,
    prepare_step,
)
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

CAST = "convert_element_type"

WIDE_BYTES = 4
"""Bytes per element from which on a sum is not rounded more than at its place in the model."""


@dataclass(frozen=True)
class GraphVariables:
    """The variables of a graph: of each input, and of each operation or of its body."""

    inputs: tuple[int, ...]
    operations: tuple[int | GraphVariables, ...]


@dataclass(frozen=True, eq=False)
class StepCosts:
    """The costs of a step, its variables, and the states of each variable."""

    costs: Pairwise
    variables: GraphVariables
    states: Sequence[Sequence[Rows | Sharding]]

    def cuts(self, chosen: Sequence[int]) -> Cuts:
        """Returns the cuts for a state of each variable; equal cuts of stages share an object."""
        known: dict[Cuts, Cuts] = {}

        def cuts_of(variables: GraphVariables) -> Cuts:
            inputs = [self.states[at][chosen[at]] for at in variables.inputs]
            assert all(isinstance(sharding, Sharding) for sharding in inputs)
            rows = (
                cuts_of(at) if isinstance(at, GraphVariables) else self.states[at][chosen[at]]
                for at in variables.operations
            )
            cuts = Cuts(tuple(inputs), tuple(rows))  # type: ignore[arg-type]
            return known.setdefault(cuts, cuts)

        return cuts_of(self.variables)


def costs_of(step: Step, plan: Plan, prices: Prices) -> StepCosts:
    """Returns the costs of every choice for a step; rows along time and stages are the plan's.

    If the plan has cuts, sums stay on the same side of casts as in these cuts: a sum that the plan
    adds up after a cast to a wider type is not added up before it, and only partial sums that the
    plan casts may be cast. Raises InputError for an operation without known factors.
    """
    ready = prepare_step(step, plan)
    builder = _CostBuilder(plan, prices, RedistributionTables(plan, prices))
    if plan.cuts.operations:
        builder.unreduced = frozenset(_find_unreduced(apply(step, plan)))
    variables = builder.step(ready)
    costs = Pairwise(builder.alone, builder.pairs)
    return StepCosts(costs, variables, builder.states)


def _find_unreduced(program: StepProgram) -> Iterator[str]:
    """Yields values of narrow types that a program makes as partial sums but never reduces."""
    partial, reduced = set[str](), set[str]()
    for instruction in program.instructions:
        match instruction:
            case LocalOperation(operation, how, body):
                results = zip(operation.results, how.results, strict=True)
                partial |= {value.name for value, made in results if _is_narrow_sum(value, made)}
                if isinstance(body, StepProgram):
                    yield from _find_unreduced(body)
            case RedistributedValue(value, path) if _reduces(path.source, path.target):
                reduced.add(value.name)
    yield from partial - reduced


def _is_narrow_sum(value: Value, sharding: Sharding) -> bool:
    return bool(sharding.partial) and dtype_bytes(value.type.dtype) < WIDE_BYTES


def _reduces(before: Sharding, after: Sharding) -> bool:
    return not {axis for _, axis in before.partial} <= {axis for _, axis in after.partial}


def _find_sites(step: Step, plan: Plan) -> tuple[tuple[int, ...], list[OperationSite]]:
    """Returns the stage of each input, and the site of each operation."""
    graph = step.graph
    if plan.microbatches == 1:
        return (0,) * len(graph.inputs), [OperationSite(0)] * len(graph.operations)
    stages = plan.stages or (0,) * len(graph.operations)
    phases = operation_phases(*apply_with_phases(step, plan))
    return homes_of(step, stages), list(map(OperationSite, stages, phases))


@dataclass(frozen=True, eq=False)
class _OperationChoices:
    """The options of an operation, their seconds, and the shardings that follow from each."""

    rows: tuple[Rows, ...]
    seconds: Costs
    operands: tuple[tuple[Sharding, ...], ...]
    results: tuple[tuple[Sharding, ...], ...]


@dataclass
class _CostBuilder:
    """The costs so far. Operations of equal form, and equal redistributions, are priced once.

    ``unreduced``: partial sums of narrow types that must not be reduced; no other partial sum may
    be cast. If None, any partial sum may be reduced or cast.
    """

    plan: Plan
    prices: Prices
    reading: RedistributionTables
    alone: list[Costs] = field(default_factory=list)
    pairs: dict[tuple[int, int], Costs] = field(default_factory=dict)
    states: list[Sequence[Rows | Sharding]] = field(default_factory=list)
    choices: dict[object, _OperationChoices] = field(default_factory=dict)
    unreduced: frozenset[str] | None = None

    def __post_init__(self) -> None:
        self.sizes = self.plan.parts

    def times(self, where: OperationSite) -> int:
        """Returns how often per step an operation at a site runs."""
        return where.looped or (1 if where.when in ONCE_PHASES else self.plan.microbatches)

    def step(self, step: Step) -> GraphVariables:
        graph = step.graph
        cuts = self.plan.cuts if TIME in self.sizes else replicate_all(graph)
        homes, sites = _find_sites(step, self.plan)
        inputs = zip(graph.inputs, cuts.inputs, homes, strict=True)
        made = {
            value.name: self._input(value, cut.along(TIME), home) for value, cut, home in inputs
        }
        variables = self._graph(graph, cuts, made, sites)
        for out, place in step.updates:
            end = made[graph.inputs[place].name]
            self._read(graph.outputs[out], made, end.variable, end.lies, OperationSite(end.stage))
        return variables

    def _graph(
        self,
        graph: Graph,
        cuts: Cuts,
        made: dict[str, ProducedValue],
        sites: Sequence[OperationSite],
    ) -> GraphVariables:
        inputs = tuple(made[value.name].variable for value in graph.inputs)
        variables: list[int | GraphVariables] = []
        for operation, cut, site in zip(graph.operations, cuts.operations, sites, strict=True):
            if isinstance(cut, Cuts):
                variables.append(self._loop(operation, cut, made, site))
            else:
                in_time = dict(cut).get(TIME)
                variables.append(self._operation(operation, in_time, made, site))
        return GraphVariables(inputs, tuple(variables))

    def _operation(
        self,
        operation: Operation,
        in_time: Row | None,
        made: dict[str, ProducedValue],
        where: OperationSite,
    ) -> int:
        choices = self._choices(operation, in_time)
        variable = self._variable(choices.rows, self.times(where) * choices.seconds)
        for operand, read in zip(operation.operands, choices.operands, strict=True):
            self._read(operand, made, variable, read, where)
        for value, shardings in zip(operation.results, choices.results, strict=True):
            made[value.name] = ProducedValue(
                variable, shardings, where.stage, where.when not in ONCE_PHASES
            )
        return variable

    def _loop(
        self, loop: Operation, cuts: Cuts, made: dict[str, ProducedValue], where: OperationSite
    ) -> GraphVariables:
        assert loop.body is not None
        body, divided = loop.body, scan_operands_of(loop.parameter)
        kept = divided.constants + divided.carried
        inner_site = replace(where, looped=self.times(where) * length_of(loop))
        inside: dict[str, ProducedValue] = {}
        for at, (operand, value) in enumerate(zip(loop.operands, body.inputs, strict=True)):
            carried = divided.constants <= at < kept
            out = body.outputs[at - divided.constants] if carried else None
            sums = carried and isinstance(operand, Value) and isinstance(out, Value)
            in_time, kinds = cuts.inputs[at].along(TIME), (ReductionKind.SUM,) if sums else ()
            inner = self._input(value, in_time, where.stage, kinds)
            inside[value.name] = inner = replace(inner, passing=where.when not in ONCE_PHASES)
            read = inner.lies if at < kept else tuple(map(stack_sharding, inner.lies))
            self._read(operand, made, inner.variable, read, where)
        variables = self._graph(body, cuts, inside, [inner_site] * len(body.operations))
        for at, output in enumerate(body.outputs[: divided.carried]):
            end = inside[body.inputs[divided.constants + at].name]
            self._read(output, inside, end.variable, end.lies, inner_site)
            made[loop.results[at].name] = end
        for value, output in zip(
            loop.results[divided.carried :], body.outputs[divided.carried :], strict=True
        ):
            made[value.name] = self._stack(output, inside, where.stage)
        return variables

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
        shardings = list_shardings(value.type, self.sizes, kinds, in_time)
        variable = self._variable(shardings, np.zeros(len(shardings)))
        return ProducedValue(variable, shardings, stage)

    def _variable(self, states: Sequence[Rows | Sharding], seconds: Costs) -> int:
        self.states.append(states)
        self.alone.append(seconds)
        return len(self.alone) - 1

    def _choices(self, operation: Operation, in_time: Row | None) -> _OperationChoices:
        whole = self.unreduced is not None and operation.primitive == CAST
        whole = whole and str(operation.operands[0]) not in (self.unreduced or ())
        key = operation.form, in_time, whole
        if key not in self.choices:
            options = list_options(operation, self.sizes, in_time=in_time)
            if whole:
                options = tuple(one for one in options if not one.how.operands[0].partial)
            seconds = [self._seconds(operation, option) for option in options]
            self.choices[key] = _OperationChoices(
                tuple(option.rows for option in options),
                np.array(seconds),
                tuple(zip(*(option.how.operands for option in options), strict=True)),
                tuple(zip(*(option.how.results for option in options), strict=True)),
            )
        return self.choices[key]

    def _seconds(self, operation: Operation, option: ShardingOption) -> float:
        return self.prices.computing(part_of(operation, option.how, self.sizes).operation)

    def _read(
        self,
        operand: Operand,
        made: Mapping[str, ProducedValue],
        reader: int,
        read: tuple[Sharding, ...],
        where: OperationSite,
    ) -> None:
        """Adds the costs of reading an operand, for each pair of states of its maker and reader."""
        if isinstance(operand, Literal):
            return
        maker = made[operand.name]
        if maker.variable == reader:
            return  # A value that a loop or a step passes on unchanged keeps its sharding.
        table = self.reading.table(operand.type, maker, read, where)
        if operand.name in (self.unreduced or ()):
            barred = [[_reduces(made, target) for target in read] for made in maker.lies]
            table = np.where(barred, np.inf, table)
        pair = (maker.variable, reader)
        if maker.variable > reader:
            pair, table = (reader, maker.variable), table.T
        self.pairs[pair] = self.pairs[pair] + table if pair in self.pairs else table
