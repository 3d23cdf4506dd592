"""A step as pairwise costs: a variable for each operation and input, an edge where one reads.

A loop has no variable: what repeats it is its body, whose operations and inputs are chosen once
and cost as often as they are done. What is carried lies in the end as in the beginning; what comes
back as an input of the next step ends as that lies.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from math import inf

import numpy as np
import numpy.typing as npt

from grammar.tensors.operations import Graph, Literal, Operand, Operation, Step, Value
from grammar.tensors.sharding import Kind, Sharding, Type
from hierarchies import InputError
from synth.search.pairwise import Costs, Pairwise
from synth.train.choice.options import Option, lies, options
from synth.train.choice.prices import Prices
from synth.train.factors import part
from synth.train.plans.plan import Cuts, Rows, loop_of, stacked
from synth.train.work import length_of


@dataclass(frozen=True)
class Laid:
    """The variables of a graph: of each input, and of each operation or all of its body."""

    inputs: tuple[int, ...]
    operations: tuple[int | Laid, ...]


@dataclass(frozen=True, eq=False)
class Tables:
    """The costs of a step, and what its variables stand for."""

    costs: Pairwise
    laid: Laid
    states: Sequence[Sequence[Rows | Sharding]]

    def cuts(self, chosen: Sequence[int]) -> Cuts:
        """A plan's cuts, from a state of each variable."""

        def of(laid: Laid) -> Cuts:
            inputs = [self.states[at][chosen[at]] for at in laid.inputs]
            assert all(isinstance(one, Sharding) for one in inputs)
            rows = (
                of(one) if isinstance(one, Laid) else self.states[one][chosen[one]]
                for one in laid.operations
            )
            return Cuts(tuple(inputs), tuple(rows))  # type: ignore[arg-type]

        return of(self.laid)


def tables_of(step: Step, sizes: Mapping[str, int], prices: Prices) -> Tables:
    """The costs of every choice for a step. Raises InputError for what has no factors."""
    builder = _Builder(sizes, prices)
    laid = builder.step(step)
    costs = Pairwise(builder.alone, builder.pairs)
    return Tables(costs, laid, builder.states)


@dataclass(frozen=True, eq=False)
class _Made:
    """How a value lies by the state of the variable that decides it."""

    variable: int
    lies: tuple[Sharding, ...]


@dataclass(frozen=True, eq=False)
class _Ways:
    """The options of an operation, what each computes takes, and how values then lie."""

    rows: tuple[Rows, ...]
    seconds: Costs
    operands: tuple[tuple[Sharding, ...], ...]
    results: tuple[tuple[Sharding, ...], ...]


@dataclass
class _Builder:
    """Costs so far. Alike operations and alike redistributions are priced once."""

    sizes: Mapping[str, int]
    prices: Prices
    alone: list[Costs] = field(default_factory=list)
    pairs: dict[tuple[int, int], Costs] = field(default_factory=dict)
    states: list[Sequence[Rows | Sharding]] = field(default_factory=list)
    ways: dict[object, _Ways] = field(default_factory=dict)
    numbers: dict[Sharding, int] = field(default_factory=dict)
    sent: dict[Type, dict[tuple[int, int], float]] = field(default_factory=dict)
    sendings: dict[object, Costs] = field(default_factory=dict)

    def step(self, step: Step) -> Laid:
        graph = step.graph
        made = {one.name: self._input(one) for one in graph.inputs}
        laid = self._graph(graph, made, 1)
        for out, place in step.updates:
            end = made[graph.inputs[place].name]
            self._read(graph.outputs[out], made, end.variable, end.lies, 1)
        return laid

    def _graph(self, graph: Graph, made: dict[str, _Made], times: int) -> Laid:
        inputs = tuple(made[one.name].variable for one in graph.inputs)
        done = (
            self._operation(one, made, times)
            if one.body is None
            else self._loop(one, one.body, made, times)
            for one in graph.operations
        )
        return Laid(inputs, tuple(done))

    def _operation(self, operation: Operation, made: dict[str, _Made], times: int) -> int:
        ways = self._ways(operation)
        variable = self._variable(ways.rows, times * ways.seconds)
        for operand, wanted in zip(operation.operands, ways.operands, strict=True):
            self._read(operand, made, variable, wanted, times)
        for value, found in zip(operation.results, ways.results, strict=True):
            made[value.name] = _Made(variable, found)
        return variable

    def _loop(self, loop: Operation, body: Graph, made: dict[str, _Made], times: int) -> Laid:
        divided = loop_of(loop.parameter)
        kept = divided.constants + divided.carried
        inside: dict[str, _Made] = {}
        for at, (operand, value) in enumerate(zip(loop.operands, body.inputs, strict=True)):
            carried = divided.constants <= at < kept
            out = body.outputs[at - divided.constants] if carried else None
            sums = carried and isinstance(operand, Value) and isinstance(out, Value)
            inside[value.name] = one = self._input(value, (Kind.SUM,) if sums else ())
            wanted = one.lies if at < kept else tuple(map(stacked, one.lies))
            self._read(operand, made, one.variable, wanted, times)
        laid = self._graph(body, inside, times * length_of(loop))
        for at, output in enumerate(body.outputs[: divided.carried]):
            end = inside[body.inputs[divided.constants + at].name]
            self._read(output, inside, end.variable, end.lies, times * length_of(loop))
            made[loop.results[at].name] = end
        for value, output in zip(
            loop.results[divided.carried :], body.outputs[divided.carried :], strict=True
        ):
            made[value.name] = self._stack(output, inside)
        return laid

    def _stack(self, output: Operand, inside: Mapping[str, _Made]) -> _Made:
        if isinstance(output, Literal):
            whole = stacked(Sharding(()))
            return _Made(self._variable((whole,), np.zeros(1)), (whole,))
        slices = inside[output.name]
        return _Made(slices.variable, tuple(map(stacked, slices.lies)))

    def _input(self, value: Value, kinds: Sequence[Kind] = ()) -> _Made:
        every = lies(value.type, self.sizes, kinds)
        return _Made(self._variable(every, np.zeros(len(every))), every)

    def _variable(self, states: Sequence[Rows | Sharding], seconds: Costs) -> int:
        self.states.append(states)
        self.alone.append(seconds)
        return len(self.alone) - 1

    def _ways(self, operation: Operation) -> _Ways:
        read = tuple(one if isinstance(one, Literal) else one.type for one in operation.operands)
        key = (
            operation.primitive,
            operation.parameters,
            read,
            tuple(one.type for one in operation.results),
        )
        if key not in self.ways:
            every = options(operation, self.sizes)
            seconds = [self._seconds(operation, one) for one in every]
            self.ways[key] = _Ways(
                tuple(one.rows for one in every),
                np.array(seconds),
                tuple(zip(*(one.how.operands for one in every), strict=True)),
                tuple(zip(*(one.how.results for one in every), strict=True)),
            )
        return self.ways[key]

    def _seconds(self, operation: Operation, one: Option) -> float:
        return self.prices.computing(part(operation, one.how, self.sizes).operation)

    def _read(
        self,
        operand: Operand,
        made: Mapping[str, _Made],
        reader: int,
        wanted: tuple[Sharding, ...],
        times: int,
    ) -> None:
        """What it costs one variable's states to read what those of another make."""
        if isinstance(operand, Literal):
            return
        maker = made[operand.name]
        if maker.variable == reader:
            return  # what a loop or a step hands on unchanged lies as it did
        table = self._sending(operand.type, maker.lies, wanted)
        table = table if times == 1 else times * table
        pair = (maker.variable, reader)
        if maker.variable > reader:
            pair, table = (reader, maker.variable), table.T
        self.pairs[pair] = self.pairs[pair] + table if pair in self.pairs else table

    def _sending(
        self, value: Type, before: tuple[Sharding, ...], after: tuple[Sharding, ...]
    ) -> Costs:
        key = (value, before, after)
        if key not in self.sendings:
            rows, columns = _distinct(before), _distinct(after)
            sent = self.sent.setdefault(value, {})
            made, read = ([(self._number(one), one) for one in side[0]] for side in (rows, columns))
            for (one, source), (other, wanted) in product(made, read):
                if (one, other) not in sent:
                    sent[one, other] = self._sent(value, source, wanted)
            table = np.array([[sent[one, other] for other, _ in read] for one, _ in made])
            self.sendings[key] = table[np.ix_(rows[1], columns[1])]
        return self.sendings[key]

    def _number(self, one: Sharding) -> int:
        """A short name: to look one up by all that it says takes long."""
        return self.numbers.setdefault(one, len(self.numbers))

    def _sent(self, value: Type, before: Sharding, after: Sharding) -> float:
        if before == after:
            return 0.0
        try:
            return self.prices.sending(value, before, after)
        except InputError:
            return inf


def _distinct(several: tuple[Sharding, ...]) -> tuple[list[Sharding], npt.NDArray[np.int64]]:
    """Those that differ, and which of them each is."""
    number = {one: at for at, one in enumerate(dict.fromkeys(several))}
    return list(number), np.array([number[one] for one in several])
