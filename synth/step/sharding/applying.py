"""Applies a plan to a step: shards every operation and inserts redistributions where types differ.

A value is redistributed once to each sharding in which it is read, however many readers it has.
Results that are inputs of the next step end with the sharding of those inputs. No other
instructions are inserted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from math import prod

from grammar.tensors.operations import Graph, Literal, Operand, Operation, Step, Value
from grammar.tensors.sharding import (
    ReductionKind,
    Sharding,
    check_type,
    part_shape,
    replicated_sharding,
)
from hierarchies import InputError
from synth.step.factors import OperationSharding, find_all_rows, list_all_rows, shard_operation
from synth.step.redistribution.paths import CostPriority
from synth.step.same import IdentityKey
from synth.step.sharding.layers.prepared import prepare_step
from synth.step.sharding.microbatches import accumulates, find_redistribution
from synth.step.sharding.placing import place_program
from synth.step.sharding.plan import TIME, Cuts, Plan, Rows, scan_operands_of, stack_sharding
from synth.step.sharding.program import (
    Key,
    LocalOperation,
    RedistributedValue,
    StepPhase,
    StepProgram,
)
from synth.step.sharding.stages import check_order, check_stages
from synth.step.sharding.together.buckets import group_buckets
from synth.step.sharding.together.update import update_of


def apply(step: Step, plan: Plan) -> StepProgram:
    """Returns the program that every device runs for the step, prepared by ``prepare_step``.

    Raises InputError if the plan does not fit the step: a different number of inputs or operations,
    axes that do not divide a value, rows that an operation does not have, an operation that would
    need all microbatches at once, and stages that wait for each other or have no operations.
    """
    return _apply(IdentityKey(step), IdentityKey(plan))


@lru_cache(maxsize=8)
def _apply(step_key: IdentityKey[Step], plan_key: IdentityKey[Plan]) -> StepProgram:
    # Cached: a plan that is simulated is applied for its scores, for its profile and for its tasks.
    step, plan = step_key.one, plan_key.one
    check_order(plan)
    ready = prepare_step(step, plan)
    program, phases = apply_with_phases(ready, plan)
    if plan.order is not None:
        check_stages(ready, plan.stages, operation_phases(program, phases), plan.order.stages)
    if plan.microbatches > 1:
        program = place_program(ready, plan, program, phases)
    bucketed = group_buckets(program, plan)
    return replace(bucketed, update=update_of(ready, bucketed, plan.sizes))


def check(step: Step, plan: Plan) -> None:
    """Raises the errors that ``apply`` raises before it writes a program.

    Writing the program takes time proportional to the step: many seconds over four axes.
    """
    check_order(plan)
    ready = prepare_step(step, plan)
    _check_inputs(ready, plan.cuts, plan.parts)


def apply_with_phases(step: Step, plan: Plan) -> tuple[StepProgram, tuple[StepPhase, ...]]:
    """Returns the program of a prepared step and the phase of each instruction, ignoring stages."""
    parts = tuple(plan.parts.items())
    return _apply_cached(
        IdentityKey(step), IdentityKey(plan.cuts), parts, plan.first, plan.scattered
    )


@lru_cache(maxsize=8)
def _apply_cached(
    step_key: IdentityKey[Step],
    cuts_key: IdentityKey[Cuts],
    sizes: tuple[tuple[str, int], ...],
    first: CostPriority,
    scattered: bool,
) -> tuple[StepProgram, tuple[StepPhase, ...]]:
    # Cached: expanding a recipe needs this program to choose stages, and ``apply`` needs it again.
    step, cuts, parts = step_key.one, cuts_key.one, dict(sizes)
    _check_inputs(step, cuts, parts)
    ends = {out: cuts.inputs[place] for out, place in step.updates}
    losses = {str(output) for at, output in enumerate(step.graph.outputs) if at not in ends}
    device = _DeviceProgram(parts, first, scattered=scattered, losses=losses)
    program = device.program(step.graph, cuts, ends)
    return program, tuple(device.phases)


def _check_inputs(step: Step, cuts: Cuts, parts: Mapping[str, int]) -> None:
    """Raises InputError for cuts of another step, and for axes that do not divide an input."""
    check_cuts(step.graph, cuts, step.name)
    for label, value, sharding in zip(step.labels, step.graph.inputs, cuts.inputs, strict=True):
        check_type(value.type, sharding, parts, where=f"input {label}")


def operation_phases(program: StepProgram, phases: Sequence[StepPhase]) -> list[StepPhase]:
    """Returns the phases of a program's operations, in order, without its redistributions."""
    pairs = zip(program.instructions, phases, strict=True)
    return [phase for instruction, phase in pairs if isinstance(instruction, LocalOperation)]


def check_cuts(graph: Graph, cuts: Cuts, where: str) -> None:
    """Raises InputError for the cuts of another graph."""
    given = len(cuts.inputs), len(cuts.operations)
    expected = len(graph.inputs), len(graph.operations)
    if given != expected:
        raise InputError(
            f"a plan for {given[0]} inputs and {given[1]} operations",
            where=where,
            hint=f"this step has {expected[0]} and {expected[1]}: give a plan of this step",
        )


@dataclass
class _DeviceProgram:
    """The program written so far, and the shardings in which each value is available.

    ``made`` has the sharding in which each value was made, ``held`` all available shardings.
    ``late`` values depend on all microbatches; ``passing`` values are made in a pass of each
    microbatch, even if they are equal in all. ``nested`` is set inside a loop. Loops that share a
    body and its cuts, such as the loops of stages, share a program in ``bodies``. Passes are
    forward until all ``losses`` are made, then backward.
    """

    parts: Mapping[str, int]
    first: CostPriority
    nested: bool = False
    scattered: bool = False
    losses: set[str] = field(default_factory=set)
    phases: list[StepPhase] = field(default_factory=list)
    backward: bool = False
    written: list[LocalOperation | RedistributedValue] = field(default_factory=list)
    made: dict[str, Sharding] = field(default_factory=dict)
    held: set[Key] = field(default_factory=set)
    late: set[Key] = field(default_factory=set)
    passing: set[Key] = field(default_factory=set)
    bodies: dict[tuple[int, int], StepProgram] = field(default_factory=dict)

    def program(self, graph: Graph, cuts: Cuts, ends: Mapping[int, Sharding]) -> StepProgram:
        """Writes a graph; ``ends``: required shardings of outputs, others stay as they are made."""
        for value, sharding in zip(graph.inputs, cuts.inputs, strict=True):
            check_type(value.type, sharding, self.parts)
            self.make(value, sharding)
        for operation, choice in zip(graph.operations, cuts.operations, strict=True):
            self.append(self.shard(operation, choice))
        outputs = [
            self.read(output, ends[at] if at in ends else self.sharding(output))
            for at, output in enumerate(graph.outputs)
        ]
        return StepProgram(cuts.inputs, tuple(self.written), tuple(outputs))

    def make(self, value: Value, sharding: Sharding) -> None:
        self.made[value.name] = sharding
        self.held.add((value.name, sharding))

    def sharding(self, operand: Operand) -> Sharding:
        return self.made[operand.name] if isinstance(operand, Value) else replicated_sharding(0)

    def read(self, operand: Operand, sharding: Sharding) -> Sharding:
        """Redistributes an operand to a sharding, unless it is already available in it."""
        if isinstance(operand, Value) and (operand.name, sharding) not in self.held:
            made = self._source(operand, sharding)
            path = find_redistribution(operand, made, sharding, self.parts, self.first)
            if accumulates(path) and self.nested:
                raise _microbatch_error(operand, "inside a loop")
            late = accumulates(path) or (operand.name, made) in self.late
            self.write(RedistributedValue(operand, path), late)
            self.held.add((operand.name, sharding))
        return sharding

    def _source(self, value: Value, target: Sharding) -> Sharding:
        """Returns the sharding from which a value is redistributed.

        With ``scattered``, if only a part of a sum over microbatches is kept, each microbatch
        scatters its addend first, so that only parts are accumulated.
        """
        made = self.made[value.name]
        if (
            not self.scattered
            or made.along(TIME) is not ReductionKind.SUM
            or target.along(TIME) is not None
        ):
            return made
        part = target.laid(TIME, ReductionKind.SUM)
        part_size, made_size = (
            prod(part_shape(value.type, sharding, self.parts)) for sharding in (part, made)
        )
        return self.read(value, part) if part_size < made_size else made

    def append(self, local: LocalOperation) -> None:
        """Redistributes the operands of an operation, then appends it."""
        read = list(zip(local.operation.operands, local.how.operands, strict=True))
        made = list(zip(local.operation.results, local.how.results, strict=True))
        for operand, sharding in read:
            self.read(operand, sharding)
        for value, sharding in made:
            self.make(value, sharding)
        late = [operand for operand, sharding in read if (str(operand), sharding) in self.late]
        if late and any(TIME in sharding.axes for _, sharding in (*read, *made)):
            raise _microbatch_error(late[0], local.operation.line)
        self.write(local, bool(late))
        names = {value.name for value, _ in made}
        if self.losses & names:
            self.losses -= names
            self.backward = not self.losses

    def write(self, instruction: LocalOperation | RedistributedValue, late: bool) -> None:
        """Appends an instruction and records its phase, from which its outputs are available."""
        read, made = instruction.keys_read, instruction.keys_made
        in_time = any(TIME in sharding.axes for _, sharding in (*read, *made))
        repeated = not late and (in_time or not self.passing.isdisjoint(read))
        direction = StepPhase.BACKWARD if self.backward else StepPhase.FORWARD
        phase = StepPhase.AFTER if late else direction if repeated else StepPhase.BEFORE
        self.written.append(instruction)
        self.phases.append(phase)
        if late or repeated:
            (self.late if late else self.passing).update(made)

    def shard(self, operation: Operation, choice: Rows | Cuts) -> LocalOperation:
        """Shards an operation by its rows. Raises InputError for rows that it does not have."""
        if operation.body is not None:
            if not isinstance(choice, Cuts):
                problem = f"{operation.primitive} repeats a body, and the plan does not shard it"
                raise InputError(problem, where=operation.line)
            return self.loop(operation, operation.body, choice)
        if isinstance(choice, Cuts):
            problem = f"the plan shards a body of {operation.primitive}, which has none"
            raise InputError(problem, where=operation.line)
        _check_rows(operation, choice)
        return LocalOperation(operation, shard_operation(operation, dict(choice), self.parts))

    def loop(self, loop: Operation, body: Graph, cuts: Cuts) -> LocalOperation:
        """Shards a loop and writes its body once; carried values end in their initial sharding."""
        check_cuts(body, cuts, loop.line)
        divided = scan_operands_of(loop.parameter)
        carry = divided.carry(cuts.inputs)
        for operand, sharding in zip(loop.operands, cuts.inputs, strict=True):
            _check_number(operand, sharding, loop.line)
        key = id(body), id(cuts)
        if key not in self.bodies:
            inside = _DeviceProgram(self.parts, self.first, nested=True)
            self.bodies[key] = inside.program(body, cuts, dict(enumerate(carry)))
        program = self.bodies[key]
        results = (*carry, *map(stack_sharding, program.outputs[len(carry) :]))
        return LocalOperation(
            loop, OperationSharding(divided.of_operands(cuts.inputs), results, ()), program
        )


def _microbatch_error(value: Operand, where: str) -> InputError:
    return InputError(
        f"{value} depends on all microbatches and is read before the last one ends",
        where=where,
        hint="only sums accumulate over microbatches: remove the microbatches from the plan",
    )


def _check_rows(operation: Operation, chosen: Rows) -> None:
    legal = find_all_rows(operation) if chosen else ()
    names = [axis for axis, _ in chosen]
    for axis, row in chosen:
        if row not in legal or names.count(axis) > 1:
            raise InputError(
                f"{operation.primitive} has no row {row} along axis {axis!r}",
                where=operation.line,
                hint=f"it has {'; '.join(map(str, list_all_rows(operation)))}: choose one for each "
                "axis",
            )


def _check_number(operand: Operand, sharding: Sharding, where: str) -> None:
    """Raises InputError for a literal that is a partial sum, because every device would add it."""
    if isinstance(operand, Literal) and any(
        kind is ReductionKind.SUM for kind, _ in sharding.partial
    ):
        raise InputError(
            f"a loop begins with {operand}, which the plan shards as {sharding.spelled()}",
            where=where,
            hint="a literal is replicated: also replicate the value that the loop carries",
        )
