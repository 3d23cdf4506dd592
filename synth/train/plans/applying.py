"""Applies a plan to a step: types of all operations, and a redistribution where two differ.

Of each value and each way in which it is read there is one redistribution, however many readers
there are. Results that come back as inputs of the next step end as these lie. Nothing else is
put in.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from grammar.tensors.operations import Graph, Literal, Operand, Operation, Step, Value
from grammar.tensors.sharding import Kind, Sharding, check_type, replicated
from hierarchies import InputError
from synth.train.factors import Typed, rows, typed
from synth.train.plans.plan import Cuts, Plan, Rows, loop_of, stacked
from synth.train.plans.program import Done, Moved, Program
from synth.train.resharding import path_between


def apply(step: Step, plan: Plan) -> Program:
    """The step as every device does it. Raises InputError where the plan is not one of the step.

    That is: for another number of inputs or operations, axes that do not divide a value, and rows
    that an operation does not have.
    """
    for label, value, sharding in zip(
        step.labels, step.graph.inputs, plan.cuts.inputs, strict=False
    ):
        check_type(value.type, sharding, plan.sizes, where=f"input {label}")
    ends = {out: plan.cuts.inputs[place] for out, place in step.updates}
    return _program(step.graph, plan.cuts, ends, plan.sizes, step.name)


def _program(
    graph: Graph,
    cuts: Cuts,
    ends: Mapping[int, Sharding],
    sizes: Mapping[str, int],
    where: str,
) -> Program:
    """``ends``: how some outputs are to lie; the others lie as they are made."""
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
    device = _Device(sizes)
    for value, sharding in zip(graph.inputs, cuts.inputs, strict=True):
        check_type(value.type, sharding, sizes, where=where)
        device.make(value, sharding)
    for operation, choice in zip(graph.operations, cuts.operations, strict=True):
        device.do(_done(operation, choice, sizes))
    outputs = [
        device.read(one, ends[at] if at in ends else device.lies(one))
        for at, one in enumerate(graph.outputs)
    ]
    return Program(cuts.inputs, tuple(device.written), tuple(outputs))


@dataclass
class _Device:
    """What a device does so far, and which values it has, lying how."""

    sizes: Mapping[str, int]
    written: list[Done | Moved] = field(default_factory=list)
    made: dict[str, Sharding] = field(default_factory=dict)
    held: set[tuple[str, Sharding]] = field(default_factory=set)

    def make(self, value: Value, sharding: Sharding) -> None:
        self.made[value.name] = sharding
        self.held.add((value.name, sharding))

    def lies(self, operand: Operand) -> Sharding:
        return self.made[operand.name] if isinstance(operand, Value) else replicated(0)

    def read(self, operand: Operand, sharding: Sharding) -> Sharding:
        """Redistributes it unless that was done; what it is made as is where it comes from."""
        if isinstance(operand, Value) and (operand.name, sharding) not in self.held:
            path = path_between(operand.type, self.made[operand.name], sharding, self.sizes)
            self.written.append(Moved(operand, path))
            self.held.add((operand.name, sharding))
        return sharding

    def do(self, done: Done) -> None:
        for operand, sharding in zip(done.operation.operands, done.how.operands, strict=True):
            self.read(operand, sharding)
        self.written.append(done)
        for value, sharding in zip(done.operation.results, done.how.results, strict=True):
            self.make(value, sharding)


def _done(operation: Operation, choice: Rows | Cuts, sizes: Mapping[str, int]) -> Done:
    if operation.body is not None:
        if not isinstance(choice, Cuts):
            problem = f"{operation.primitive} repeats a body, and the plan does not cut it"
            raise InputError(problem, where=operation.line)
        return _loop(operation, operation.body, choice, sizes)
    if isinstance(choice, Cuts):
        problem = f"the plan cuts a body of {operation.primitive}, which repeats none"
        raise InputError(problem, where=operation.line)
    _check_rows(operation, choice)
    return Done(operation, typed(operation, dict(choice), sizes))


def _check_rows(operation: Operation, chosen: Rows) -> None:
    legal = rows(operation) if chosen else ()
    names = [axis for axis, _ in chosen]
    for axis, row in chosen:
        if row not in legal or names.count(axis) > 1:
            raise InputError(
                f"{operation.primitive} has no row {row} along axis {axis!r}",
                where=operation.line,
                hint=f"it has {'; '.join(map(str, legal))}, and one of them for each axis",
            )


def _loop(loop: Operation, body: Graph, cuts: Cuts, sizes: Mapping[str, int]) -> Done:
    """The body, typed once: what it carries lies in the end as in the beginning."""
    divided = loop_of(loop.parameter)
    carry = divided.carry(cuts.inputs)
    for operand, sharding in zip(loop.operands, cuts.inputs, strict=True):
        _check_number(operand, sharding, loop.line)
    program = _program(body, cuts, dict(enumerate(carry)), sizes, loop.line)
    results = (*carry, *map(stacked, program.outputs[len(carry) :]))
    return Done(loop, Typed(divided.of_operands(cuts.inputs), results, ()), program)


def _check_number(operand: Operand, sharding: Sharding, where: str) -> None:
    """A number that is written out is whole on all devices: as a sum it would count on each."""
    if isinstance(operand, Literal) and any(kind is Kind.SUM for kind, _ in sharding.partial):
        raise InputError(
            f"a loop begins with {operand}, which the plan has lie as {sharding.spelled()}",
            where=where,
            hint="a number written out is whole: let what the loop carries be whole, too",
        )


def redistributions(program: Program, sizes: Mapping[str, int]) -> Sequence[Moved]:
    """Those that send something, those of bodies once."""
    return [one for one in program.moved() if one.path.requests(sizes)]
