"""A step as every device does it: operations on parts, and redistributions between them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

from grammar.tensors.operations import EVERYWHERE as EVERYWHERE
from grammar.tensors.operations import Operand, Operation, Value
from grammar.tensors.sharding import Sharding
from synth.step.factors import OperationSharding
from synth.step.redistribution import RedistributionPath


@dataclass(frozen=True)
class LocalOperation:
    """An operation, how its operands and results lie, and what is done of a body it repeats."""

    operation: Operation
    how: OperationSharding
    body: StepProgram | None = None


@dataclass(frozen=True)
class RedistributedValue:
    """A value as it was made, and the moves after which it lies as the path's target, too."""

    value: Value
    path: RedistributionPath


@dataclass(frozen=True)
class SentValue:
    """A value that lies so, from all devices of a stage to those of another, each to its twin."""

    value: Value
    sharding: Sharding
    source: int
    target: int


Key = tuple[str, Sharding]
"""A value by its name and how it lies: what a program knows it by."""


def keys_read_by(one: LocalOperation | RedistributedValue | SentValue) -> list[Key]:
    """What an instruction needs, in the order of its operands."""
    match one:
        case LocalOperation(operation, how):
            return _keys(operation.operands, how.operands)
        case RedistributedValue(value, path):
            return [(value.name, path.source)]
        case SentValue(value, sharding):
            return [(value.name, sharding)]


def keys_made_by(one: LocalOperation | RedistributedValue | SentValue) -> list[Key]:
    """What is there by an instruction, on the stage that does it."""
    match one:
        case LocalOperation(operation, how):
            return _keys(operation.results, how.results)
        case RedistributedValue(value, path):
            return [(value.name, path.target)]
        case SentValue():
            return []


def _keys(values: Sequence[Operand], lies: Sequence[Sharding]) -> list[Key]:
    both = zip(values, lies, strict=True)
    return [(value.name, one) for value, one in both if isinstance(value, Value)]


class StepPhase(Enum):
    """When an instruction is done: once, or once for each microbatch.

    Where an order has backward passes in halves, the one for weights is apart: what no other stage
    waits for.
    """

    __hash__ = object.__hash__  # that of enums is worked out in Python, name by name

    BEFORE = "once, before the first microbatch"
    FORWARD = "in the forward pass of each microbatch"
    BACKWARD = "in the backward pass of each microbatch"
    WEIGHT = "in the half for weights of the backward pass of each microbatch"
    AFTER = "once, after the last microbatch"


MICROBATCH_PHASES = (StepPhase.FORWARD, StepPhase.BACKWARD, StepPhase.WEIGHT)
"""What is done of each microbatch, in the order of its passes."""


@dataclass(frozen=True)
class InstructionPlace:
    """On which stage an instruction is done, and when; what is sent is where it comes from.

    What every stage has or does itself is ``EVERYWHERE``: batches, the count of steps, masks.
    """

    stage: int
    when: StepPhase


@dataclass(frozen=True)
class StepProgram:
    """What devices do, in order. A value is known by its name and how it lies.

    The inputs lie as said, and the outputs at the end do. With microbatches there is a place for
    each instruction, and ``homes`` say on which stage each input lies. ``buckets`` are places of
    instructions that go together as one. ``update`` names what operations make of the gradients of
    all.
    """

    inputs: tuple[Sharding, ...]
    instructions: tuple[LocalOperation | RedistributedValue | SentValue, ...]
    outputs: tuple[Sharding, ...]
    places: tuple[InstructionPlace, ...] = ()
    homes: tuple[int, ...] = ()
    buckets: tuple[tuple[int, ...], ...] = ()
    update: frozenset[str] = frozenset()

    def moved(self) -> Iterator[RedistributedValue]:
        """All redistributions, those of bodies once."""
        for one in self.instructions:
            match one:
                case RedistributedValue():
                    yield one
                case LocalOperation(body=StepProgram() as body):
                    yield from body.moved()
