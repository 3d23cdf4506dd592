"""The update of parameters: what is done once all gradients are there, in one kernel.

Frameworks call their optimizer when the last gradient has come (Megatron's and DeepSpeed's fused
Adam, ``foreach`` and ``fused`` of torch; XLA fuses the updates of all parameters horizontally). So
what comes of the sum of a gradient waits for all of them; beside sums goes the backward pass, and
no part of the update.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from grammar.tensors.operations import Step
from grammar.tensors.sharding import ReductionKind
from synth.step.sharding.lineage import find_updated
from synth.step.sharding.plan import SAMPLE_ROLES
from synth.step.sharding.program import (
    Key,
    LocalOperation,
    RedistributedValue,
    SentValue,
    StepPhase,
    StepProgram,
    keys_made_by,
    keys_read_by,
)

_Instruction = LocalOperation | RedistributedValue | SentValue

MOMENT_PRIMITIVES = ("mul", "square", "integer_pow")
"""What is done with a gradient before a moment has it: times a number, or squared."""


def update_of(step: Step, program: StepProgram, sizes: Mapping[str, int]) -> frozenset[str]:
    """The names of what operations of the update make.

    With microbatches, what is done after the last of them, but for what makes a gradient that is
    then summed. Without, what comes of a moment or of the sum of a gradient, and what that alone
    reads: a gradient times a number, or what comes of no sample, as a power of the count of steps.
    """
    gradients = find_updated(step)
    sums = [
        one
        for one in program.instructions
        if isinstance(one, RedistributedValue)
        and one.value.name in gradients
        and _is_sum(one, sizes)
    ]
    late = (
        _list_after_sums(program, sums) if program.places else _list_dependent(step, program, sums)
    )
    return frozenset(
        name for one in late if isinstance(one, LocalOperation) for name, _ in keys_made_by(one)
    )


def _list_after_sums(
    program: StepProgram, sums: Collection[RedistributedValue]
) -> Iterator[_Instruction]:
    summed = {key for one in sums for key in keys_read_by(one)}
    for one, place in reversed([*zip(program.instructions, program.places, strict=True)]):
        if summed.isdisjoint(keys_made_by(one)):
            if place.when is StepPhase.AFTER:
                yield one
        else:
            summed.update(keys_read_by(one))


def _list_dependent(
    step: Step, program: StepProgram, sums: Collection[RedistributedValue]
) -> Iterator[_Instruction]:
    inputs = zip(step.graph.inputs, program.inputs, step.roles, strict=True)
    late = {(value.name, lies) for value, lies, role in inputs if role == "moment"}
    late.update(key for one in sums for key in keys_made_by(one))
    early = {key for one in sums for key in keys_read_by(one)}
    samples, left = _find_sample_values(step, program), list[_Instruction]()
    for one in program.instructions:
        if late.isdisjoint(keys_read_by(one)):
            left.append(one)
        else:
            late.update(keys_made_by(one))
            yield one
    for one in reversed(left):
        made = keys_made_by(one)
        given = isinstance(one, LocalOperation) and one.operation.primitive in MOMENT_PRIMITIVES
        if late.isdisjoint(made) and early.isdisjoint(made) and (given or samples.isdisjoint(made)):
            yield one
        else:
            early.update(keys_read_by(one))


def _find_sample_values(step: Step, program: StepProgram) -> set[Key]:
    """All that comes of the batch."""
    inputs = zip(step.graph.inputs, program.inputs, step.roles, strict=True)
    found = {(value.name, lies) for value, lies, role in inputs if role in SAMPLE_ROLES}
    for one in program.instructions:
        if not found.isdisjoint(keys_read_by(one)):
            found.update(keys_made_by(one))
    return found


def _is_sum(one: RedistributedValue, sizes: Mapping[str, int]) -> bool:
    """Whether it adds up what devices have."""
    partial = (kind for kind, _ in one.path.source.partial)
    return ReductionKind.SUM in partial and bool(one.path.requests(sizes))
