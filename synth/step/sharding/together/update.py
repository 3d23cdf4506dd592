"""Finds the update of parameters, which runs in one kernel once all gradients are summed.

Frameworks call their optimizer when the last gradient is available (Megatron's and DeepSpeed's
fused Adam, ``foreach`` and ``fused`` of torch; XLA fuses the updates of all parameters
horizontally). So all operations on summed gradients wait for all sums. Sums overlap the backward
pass, but not the update.
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
)

_Instruction = LocalOperation | RedistributedValue | SentValue

MOMENT_PRIMITIVES = ("mul", "square", "integer_pow")
"""Primitives applied to a gradient before it is added to a moment: scaling and squaring."""


def update_of(step: Step, program: StepProgram, sizes: Mapping[str, int]) -> frozenset[str]:
    """Returns the names of the results of the update's operations.

    With microbatches, these are the results of phase AFTER on which no sum of gradients depends.
    Without, they are results that depend on a moment or on the sum of a gradient, and results that
    only those read: a scaled gradient, or a value independent of samples, such as a power of the
    step count.
    """
    gradients = find_updated(step)
    sums = [
        instruction
        for instruction in program.instructions
        if isinstance(instruction, RedistributedValue)
        and instruction.value.name in gradients
        and ReductionKind.SUM in (kind for kind, _ in instruction.path.source.partial)
        and instruction.path.requests(sizes)
    ]
    late = (
        _list_after_sums(program, sums) if program.places else _list_dependent(step, program, sums)
    )
    return frozenset(
        name
        for instruction in late
        if isinstance(instruction, LocalOperation)
        for name, _ in instruction.keys_made
    )


def _list_after_sums(
    program: StepProgram, sums: Collection[RedistributedValue]
) -> Iterator[_Instruction]:
    summed = {key for instruction in sums for key in instruction.keys_read}
    for instruction, place in reversed([*zip(program.instructions, program.places, strict=True)]):
        if summed.isdisjoint(instruction.keys_made):
            if place.when is StepPhase.AFTER:
                yield instruction
        else:
            summed.update(instruction.keys_read)


def _list_dependent(
    step: Step, program: StepProgram, sums: Collection[RedistributedValue]
) -> Iterator[_Instruction]:
    inputs = zip(step.graph.inputs, program.inputs, step.roles, strict=True)
    late = {(value.name, sharding) for value, sharding, role in inputs if role == "moment"}
    late.update(key for instruction in sums for key in instruction.keys_made)
    early = {key for instruction in sums for key in instruction.keys_read}
    samples, others = _find_sample_values(step, program), list[_Instruction]()
    for instruction in program.instructions:
        if late.isdisjoint(instruction.keys_read):
            others.append(instruction)
        else:
            late.update(instruction.keys_made)
            yield instruction
    for instruction in reversed(others):
        made = instruction.keys_made
        scales = (
            isinstance(instruction, LocalOperation)
            and instruction.operation.primitive in MOMENT_PRIMITIVES
        )
        if (
            late.isdisjoint(made)
            and early.isdisjoint(made)
            and (scales or samples.isdisjoint(made))
        ):
            yield instruction
        else:
            early.update(instruction.keys_read)


def _find_sample_values(step: Step, program: StepProgram) -> set[Key]:
    """Returns the keys of all values that depend on the batch."""
    inputs = zip(step.graph.inputs, program.inputs, step.roles, strict=True)
    found = {(value.name, sharding) for value, sharding, role in inputs if role in SAMPLE_ROLES}
    for instruction in program.instructions:
        if not found.isdisjoint(instruction.keys_read):
            found.update(instruction.keys_made)
    return found
