"""A loop is typed once for all of its repetitions: it does what the same written out does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pytest

pytest.importorskip("jax", reason="needs jax, of the extra 'jax'")

from jax import lax

from grammar.tensors.operations import Graph, Literal, Operand, Operation, Parameter, Step, Value
from grammar.tensors.sharding import ReductionKind, Sharding, Type
from hierarchies import InputError
from sharded_steps import in_float64, judge, on_one_device, random_plan, small, times
from synth.step.factors import match_rows
from synth.step.sharding import Cuts, LocalOperation, Plan, RedistributedValue, StepProgram, apply
from synth.step.sharding.plan import Rows, scan_operands_of, stack_sharding
from traced_steps import function_step

SIZES = {"data": 2, "tensor": 2}
Names = Mapping[str, Operand]


@dataclass
class Written:
    """Operations written out so far, with the rows of each."""

    operations: list[Operation] = field(default_factory=list)
    chosen: list[Rows] = field(default_factory=list)

    def add(self, one: Operation, chosen: Rows) -> tuple[Value, ...]:
        """The operation with results of other names."""
        made = tuple(
            Value(f"w{len(self.operations)}.{each.name}", each.type) for each in one.results
        )
        self.operations.append(replace(one, results=made))
        self.chosen.append(chosen)
        return made

    def move(
        self,
        primitive: str,
        given: Sequence[Operand],
        lies: tuple[Sharding, Sharding],
        shape: tuple[int, ...],
        **told: Parameter,
    ) -> Operand:
        """Data is moved, all lying as said before and after."""
        assert isinstance(given[0], Value)
        made = Value("made", Type(given[0].type.dtype, shape))
        one = Operation(primitive, tuple(given), (made,), tuple(told.items()))
        [found] = self.add(one, match_rows(one, [lies[0]] * len(given), [lies[1]], SIZES).rows)
        return found

    def copied(self, one: Operand, lie: Sharding) -> Operand:
        assert isinstance(one, Value)
        return self.move("copy", [one], (lie, lie), one.type.shape)

    def slice(self, one: Operand, lie: Sharding, time: int) -> Operand:
        assert isinstance(one, Value)
        rest, whole = one.type.shape[1:], stack_sharding(lie)
        first, last = (time, *(0 for _ in rest)), (time + 1, *rest)
        told = {"start_indices": first, "limit_indices": last}
        row = self.move("slice", [one], (whole, whole), (1, *rest), **told)
        return self.move("squeeze", [row], (whole, lie), rest, dimensions=(0,))

    def stack(self, several: Sequence[Operand], lie: Sharding) -> Operand:
        rows, shape = [], ()
        for one in several:
            assert isinstance(one, Value)
            shape = one.type.shape
            told = {"new_sizes": (1, *shape)}
            rows.append(
                self.move("reshape", [one], (lie, stack_sharding(lie)), (1, *shape), **told)
            )
        whole = stack_sharding(lie)
        return self.move("concatenate", rows, (whole, whole), (len(rows), *shape), dimension=0)

    def graph(self, graph: Graph, cuts: Cuts, program: StepProgram, names: Names) -> list[Operand]:
        """What becomes of its outputs; ``names`` are its inputs'."""
        known = dict(names)
        done = [one for one in program.instructions if isinstance(one, LocalOperation)]
        for one, choice, how in zip(graph.operations, cuts.operations, done, strict=True):
            one = replace(one, operands=tuple(named(each, known) for each in one.operands))
            made: Sequence[Operand]
            if isinstance(choice, Cuts):
                made = self.loop(one, choice, how)
            else:
                made = self.add(one, choice)
            known.update(zip((each.name for each in one.results), made, strict=True))
        return [named(one, known) for one in graph.outputs]

    def loop(self, loop: Operation, cuts: Cuts, done: LocalOperation) -> list[Operand]:
        """What is carried and what is stacked, after the body as often as it is repeated."""
        body, program, how = loop.body, done.body, scan_operands_of(loop.parameter)
        assert body is not None
        assert program is not None
        kept = how.constants + how.carried
        given = list(zip(loop.operands, cuts.inputs, strict=True))
        carried = [self.copied(*one) for one in given[how.constants : kept]]
        stacks: dict[int, list[Operand]] = {}
        for time in times(loop):
            inputs = [self.copied(*one) for one in given[: how.constants]]
            inputs += [*carried, *(self.slice(*one, time) for one in given[kept:])]
            names = dict(zip((one.name for one in body.inputs), inputs, strict=True))
            made = self.graph(body, cuts, program, names)
            carried = list(map(self.copied, made[: how.carried], how.carry(cuts.inputs)))
            stacks[time] = made[how.carried :]
        rows = zip(*(stacks[time] for time in sorted(stacks)), strict=True)
        return [*carried, *map(self.stack, rows, program.outputs[how.carried :])]


def named(one: Operand, names: Names) -> Operand:
    return one if isinstance(one, Literal) else names[one.name]


def written_out(step: Step, plan: Plan, program: StepProgram) -> tuple[Step, Plan]:
    """The step without loops, each repetition cut as the plan cuts the body."""
    written = Written()
    inputs = {one.name: one for one in step.graph.inputs}
    outputs = written.graph(step.graph, plan.cuts, program, inputs)
    graph = Graph(step.graph.inputs, tuple(written.operations), tuple(outputs))
    cuts = Cuts(plan.cuts.inputs, tuple(written.chosen))
    return replace(step, graph=graph), Plan(plan.axes, cuts)


def redistributions(program: StepProgram) -> int:
    """Those of a body as often as it is repeated."""
    count = 0
    for one in program.instructions:
        if isinstance(one, RedistributedValue):
            count += 1
        elif one.body is not None:
            count += len(times(one.operation)) * redistributions(one.body)
    return count


@pytest.mark.parametrize(
    "model", ["mlp", *(pytest.param(one, marks=pytest.mark.slow) for one in ("gpt2", "lstm"))]
)
def test_a_loop_does_what_it_does_written_out(model: str) -> None:
    step = small(model)
    plan = random_plan(step, SIZES, 5)
    program = apply(step, plan)
    longer, same = written_out(step, plan, program)
    assert all(one.body is None for one in longer.graph.operations)
    assert len(longer.graph.operations) > sum(1 for _ in step.graph.everywhere())
    unrolled = apply(longer, same)
    assert redistributions(unrolled) == redistributions(program)
    wholes = on_one_device(step), on_one_device(longer)
    for outputs in zip(step.graph.outputs, longer.graph.outputs, strict=True):
        one, other = (whole.of(each) for whole, each in zip(wholes, outputs, strict=True))
        assert np.array_equal(one, other)
    judge(longer, unrolled, SIZES, wholes[1])


def test_a_loop_that_begins_with_a_number_does_not_carry_a_sum() -> None:
    """A number stands on every device: as a partial sum it would count once for each."""
    step = in_float64(
        function_step(lambda x: lax.scan(lambda sum, one: (sum + one, None), 2.0, x)[0], "f32[3]")
    )
    refused = set()
    for seed in range(8):
        plan = random_plan(step, SIZES, seed)
        [loop] = plan.cuts.operations
        assert isinstance(loop, Cuts)
        summed = ReductionKind.SUM in {kind for kind, _ in loop.inputs[0].partial}
        refused.add(summed)
        if summed:
            with pytest.raises(InputError, match="a loop begins with 2"):
                apply(step, plan)
        else:
            judge(step, apply(step, plan), SIZES, on_one_device(step))
    assert refused == {False, True}
