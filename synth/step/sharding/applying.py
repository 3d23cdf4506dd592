"""Applies a plan to a step: types of all operations, and a redistribution where two differ.

Of each value and each way in which it is read there is one redistribution, however many readers
there are. Results that come back as inputs of the next step end as these lie. Nothing else is
put in.
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
from synth.step.factors import OperationSharding, list_all_rows, shard_operation
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
    keys_made_by,
    keys_read_by,
)
from synth.step.sharding.stages import check_order, check_stages
from synth.step.sharding.together.buckets import group_buckets
from synth.step.sharding.together.update import update_of


def apply(step: Step, plan: Plan) -> StepProgram:
    """The step, ``prepare_step`` for the plan, as every device does it.

    Raises InputError where the plan is not one of the step. That is: for another number of inputs
    or operations, axes that do not divide a value, rows that an operation does not have, what would
    need all microbatches at once, and stages that wait for each other or have nothing to do.
    """
    check_order(plan)
    ready = prepare_step(step, plan)
    program, whens = apply_with_phases(ready, plan)
    if plan.order is not None:
        check_stages(ready, plan.stages, operation_phases(program, whens), plan.order.stages)
    if plan.microbatches > 1:
        program = place_program(ready, plan, program, whens)
    found = group_buckets(program, plan)
    return replace(found, update=update_of(ready, found, plan.sizes))


def check(step: Step, plan: Plan) -> None:
    """Raise what ``apply`` raises before it writes a program: that takes as long as a step is long,
    and a program over four axes many seconds.
    """
    check_order(plan)
    ready = prepare_step(step, plan)
    _check_inputs(ready, plan.cuts, plan.parts)


def apply_with_phases(step: Step, plan: Plan) -> tuple[StepProgram, tuple[StepPhase, ...]]:
    """The program of a step that is prepared, and when its instructions are done, on any stage."""
    parts = tuple(plan.parts.items())
    return _apply_cached(
        IdentityKey(step), IdentityKey(plan.cuts), parts, plan.first, plan.scattered
    )


@lru_cache(maxsize=8)
def _apply_cached(
    same: IdentityKey[Step],
    cut: IdentityKey[Cuts],
    axes: tuple[tuple[str, int], ...],
    first: CostPriority,
    scattered: bool,
) -> tuple[StepProgram, tuple[StepPhase, ...]]:
    """Who writes a recipe out asks for it, and who then applies the plan."""
    step, cuts, parts = same.one, cut.one, dict(axes)
    _check_inputs(step, cuts, parts)
    ends = {out: cuts.inputs[place] for out, place in step.updates}
    losses = {str(one) for at, one in enumerate(step.graph.outputs) if at not in ends}
    device = _DeviceProgram(parts, first, scattered=scattered, losses=losses)
    program = device.program(step.graph, cuts, ends)
    return program, tuple(device.whens)


def _check_inputs(step: Step, cuts: Cuts, parts: Mapping[str, int]) -> None:
    """Raise InputError for the cuts of another step, and for axes that do not divide an input."""
    check_cuts(step.graph, cuts, step.name)
    for label, value, sharding in zip(step.labels, step.graph.inputs, cuts.inputs, strict=True):
        check_type(value.type, sharding, parts, where=f"input {label}")


def operation_phases(program: StepProgram, whens: Sequence[StepPhase]) -> list[StepPhase]:
    """When the operations of a program are done, one after the other."""
    both = zip(program.instructions, whens, strict=True)
    return [when for one, when in both if isinstance(one, LocalOperation)]


def check_cuts(graph: Graph, cuts: Cuts, where: str) -> None:
    """Raise InputError for the cuts of another graph."""
    told, wanted = (
        (len(cuts.inputs), len(cuts.operations)),
        (len(graph.inputs), len(graph.operations)),
    )
    if told != wanted:
        raise InputError(
            f"a plan for {told[0]} inputs and {told[1]} operations",
            where=where,
            hint=f"this has {wanted[0]} and {wanted[1]}: make a plan of the same step",
        )


@dataclass
class _DeviceProgram:
    """What a device does so far, and which values it has, lying how.

    ``late`` are those that come of all microbatches, ``passing`` those that a pass of each makes,
    also if they are the same in all; ``nested`` is a device inside a loop. Loops of
    one body that are cut alike, as those of stages are, have one program, in ``bodies``. What
    is done of each microbatch goes forward until all ``losses`` are made, then backward.
    """

    parts: Mapping[str, int]
    first: CostPriority
    nested: bool = False
    scattered: bool = False
    losses: set[str] = field(default_factory=set)
    whens: list[StepPhase] = field(default_factory=list)
    backward: bool = False
    written: list[LocalOperation | RedistributedValue] = field(default_factory=list)
    made: dict[str, Sharding] = field(default_factory=dict)
    held: set[Key] = field(default_factory=set)
    late: set[Key] = field(default_factory=set)
    passing: set[Key] = field(default_factory=set)
    bodies: dict[tuple[int, int], StepProgram] = field(default_factory=dict)

    def program(self, graph: Graph, cuts: Cuts, ends: Mapping[int, Sharding]) -> StepProgram:
        """``ends``: how some outputs are to lie; the others lie as they are made."""
        for value, sharding in zip(graph.inputs, cuts.inputs, strict=True):
            check_type(value.type, sharding, self.parts)
            self.make(value, sharding)
        for operation, choice in zip(graph.operations, cuts.operations, strict=True):
            self.do(self.done(operation, choice))
        outputs = [
            self.read(one, ends[at] if at in ends else self.lies(one))
            for at, one in enumerate(graph.outputs)
        ]
        return StepProgram(cuts.inputs, tuple(self.written), tuple(outputs))

    def make(self, value: Value, sharding: Sharding) -> None:
        self.made[value.name] = sharding
        self.held.add((value.name, sharding))

    def lies(self, operand: Operand) -> Sharding:
        return self.made[operand.name] if isinstance(operand, Value) else replicated_sharding(0)

    def read(self, operand: Operand, sharding: Sharding) -> Sharding:
        """Redistributes it unless that was done; what it is made as is where it comes from."""
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
        """As what it is redistributed: what each microbatch has, or a part of that, sent by each.

        The latter where all of it would be added up, of which a part is kept.
        """
        made = self.made[value.name]
        if (
            not self.scattered
            or made.along(TIME) is not ReductionKind.SUM
            or target.along(TIME) is not None
        ):
            return made
        part = target.laid(TIME, ReductionKind.SUM)
        sizes = [prod(part_shape(value.type, one, self.parts)) for one in (part, made)]
        return self.read(value, part) if sizes[0] < sizes[1] else made

    def do(self, done: LocalOperation) -> None:
        read = list(zip(done.operation.operands, done.how.operands, strict=True))
        made = list(zip(done.operation.results, done.how.results, strict=True))
        for operand, sharding in read:
            self.read(operand, sharding)
        for value, sharding in made:
            self.make(value, sharding)
        late = [one for one, sharding in read if (str(one), sharding) in self.late]
        if late and any(TIME in sharding.axes for _, sharding in (*read, *made)):
            raise _microbatch_error(late[0], done.operation.line)
        self.write(done, bool(late))
        names = {value.name for value, _ in made}
        if self.losses & names:
            self.losses -= names
            self.backward = not self.losses

    def write(self, one: LocalOperation | RedistributedValue, late: bool) -> None:
        """One more instruction, when it is done, and so when what it makes is there."""
        read, made = keys_read_by(one), keys_made_by(one)
        in_time = any(TIME in sharding.axes for _, sharding in (*read, *made))
        each = not late and (in_time or not self.passing.isdisjoint(read))
        way = StepPhase.BACKWARD if self.backward else StepPhase.FORWARD
        self.written.append(one)
        self.whens.append(StepPhase.AFTER if late else way if each else StepPhase.BEFORE)
        if late or each:
            (self.late if late else self.passing).update(made)

    def done(self, operation: Operation, choice: Rows | Cuts) -> LocalOperation:
        if operation.body is not None:
            if not isinstance(choice, Cuts):
                problem = f"{operation.primitive} repeats a body, and the plan does not cut it"
                raise InputError(problem, where=operation.line)
            return self.loop(operation, operation.body, choice)
        if isinstance(choice, Cuts):
            problem = f"the plan cuts a body of {operation.primitive}, which repeats none"
            raise InputError(problem, where=operation.line)
        _check_rows(operation, choice)
        return LocalOperation(operation, shard_operation(operation, dict(choice), self.parts))

    def loop(self, loop: Operation, body: Graph, cuts: Cuts) -> LocalOperation:
        """The body, typed once: what it carries lies in the end as in the beginning."""
        check_cuts(body, cuts, loop.line)
        divided = scan_operands_of(loop.parameter)
        carry = divided.carry(cuts.inputs)
        for operand, sharding in zip(loop.operands, cuts.inputs, strict=True):
            _check_number(operand, sharding, loop.line)
        same = id(body), id(cuts)
        if same not in self.bodies:
            inside = _DeviceProgram(self.parts, self.first, nested=True)
            self.bodies[same] = inside.program(body, cuts, dict(enumerate(carry)))
        program = self.bodies[same]
        results = (*carry, *map(stack_sharding, program.outputs[len(carry) :]))
        return LocalOperation(
            loop, OperationSharding(divided.of_operands(cuts.inputs), results, ()), program
        )


def _microbatch_error(value: Operand, where: str) -> InputError:
    return InputError(
        f"{value} is of all microbatches and read before the last one is done",
        where=where,
        hint="over microbatches sums are accumulated, and nothing else: leave microbatches out",
    )


def _check_rows(operation: Operation, chosen: Rows) -> None:
    legal = list_all_rows(operation) if chosen else ()
    names = [axis for axis, _ in chosen]
    for axis, row in chosen:
        if row not in legal or names.count(axis) > 1:
            raise InputError(
                f"{operation.primitive} has no row {row} along axis {axis!r}",
                where=operation.line,
                hint=f"it has {'; '.join(map(str, legal))}, and one of them for each axis",
            )


def _check_number(operand: Operand, sharding: Sharding, where: str) -> None:
    """A number that is written out is whole on all devices: as a sum it would count on each."""
    if isinstance(operand, Literal) and any(
        kind is ReductionKind.SUM for kind, _ in sharding.partial
    ):
        raise InputError(
            f"a loop begins with {operand}, which the plan has lie as {sharding.spelled()}",
            where=where,
            hint="a number written out is whole: let what the loop carries be whole, too",
        )


def list_redistributions(
    program: StepProgram, sizes: Mapping[str, int]
) -> Sequence[RedistributedValue]:
    """Those that send something, those of bodies once."""
    return [one for one in program.moved() if one.path.requests(sizes)]
