"""The update of parameters: what is done once all gradients are there, in one kernel.

Frameworks call their optimizer when the last gradient has come (Megatron's and DeepSpeed's fused
Adam, ``foreach`` and ``fused`` of torch; XLA fuses the updates of all parameters horizontally). So
what comes of the sum of a gradient waits for all of them; beside sums goes the backward pass, and
no part of the update.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from grammar.tensors.operations import Step
from grammar.tensors.sharding import Kind
from synth.step.sharding.lineage import updated
from synth.step.sharding.plan import OF_SAMPLES
from synth.step.sharding.program import Done, Key, Moved, Program, Sent, When, makes, reads

_Instruction = Done | Moved | Sent

GIVEN = ("mul", "square", "integer_pow")
"""What is done with a gradient before a moment has it: times a number, or squared."""


def update_of(step: Step, program: Program, sizes: Mapping[str, int]) -> frozenset[str]:
    """The names of what operations of the update make.

    With microbatches, what is done after the last of them, but for what makes a gradient that is
    then summed. Without, what comes of a moment or of the sum of a gradient, and what that alone
    reads: a gradient times a number, or what comes of no sample, as a power of the count of steps.
    """
    gradients = updated(step)
    sums = [
        one
        for one in program.instructions
        if isinstance(one, Moved) and one.value.name in gradients and _sums(one, sizes)
    ]
    late = _after(program, sums) if program.places else _coming(step, program, sums)
    return frozenset(name for one in late if isinstance(one, Done) for name, _ in makes(one))


def _after(program: Program, sums: Collection[Moved]) -> Iterator[_Instruction]:
    summed = {key for one in sums for key in reads(one)}
    for one, place in reversed([*zip(program.instructions, program.places, strict=True)]):
        if summed.isdisjoint(makes(one)):
            if place.when is When.AFTER:
                yield one
        else:
            summed.update(reads(one))


def _coming(step: Step, program: Program, sums: Collection[Moved]) -> Iterator[_Instruction]:
    inputs = zip(step.graph.inputs, program.inputs, step.roles, strict=True)
    late = {(value.name, lies) for value, lies, role in inputs if role == "moment"}
    late.update(key for one in sums for key in makes(one))
    early = {key for one in sums for key in reads(one)}
    samples, left = _of_samples(step, program), list[_Instruction]()
    for one in program.instructions:
        if late.isdisjoint(reads(one)):
            left.append(one)
        else:
            late.update(makes(one))
            yield one
    for one in reversed(left):
        made = makes(one)
        given = isinstance(one, Done) and one.operation.primitive in GIVEN
        if late.isdisjoint(made) and early.isdisjoint(made) and (given or samples.isdisjoint(made)):
            yield one
        else:
            early.update(reads(one))


def _of_samples(step: Step, program: Program) -> set[Key]:
    """All that comes of the batch."""
    inputs = zip(step.graph.inputs, program.inputs, step.roles, strict=True)
    found = {(value.name, lies) for value, lies, role in inputs if role in OF_SAMPLES}
    for one in program.instructions:
        if not found.isdisjoint(reads(one)):
            found.update(makes(one))
    return found


def _sums(one: Moved, sizes: Mapping[str, int]) -> bool:
    """Whether it adds up what devices have."""
    partial = (kind for kind, _ in one.path.source.partial)
    return Kind.SUM in partial and bool(one.path.requests(sizes))
