"""A step as every device runs it: operations on parts, and redistributions between them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import NamedTuple

from grammar.tensors.operations import EVERYWHERE as EVERYWHERE
from grammar.tensors.operations import Operand, Operation, Value
from grammar.tensors.sharding import Sharding
from synth.step.factors import OperationSharding
from synth.step.redistribution import RedistributionPath


@dataclass(frozen=True)
class LocalOperation:
    """An operation, the shardings of its operands and results, and the program of its body."""

    operation: Operation
    how: OperationSharding
    body: StepProgram | None = None

    @cached_property
    def keys_read(self) -> tuple[Key, ...]:
        """The keys of the operands that are values, in their order."""
        return _keys(self.operation.operands, self.how.operands)

    @cached_property
    def keys_made(self) -> tuple[Key, ...]:
        """The keys of the results."""
        return _keys(self.operation.results, self.how.results)


@dataclass(frozen=True)
class RedistributedValue:
    """A value and the path of moves that makes it also available in the path's target sharding."""

    value: Value
    path: RedistributionPath

    @cached_property
    def keys_read(self) -> tuple[Key, ...]:
        """The key of the value before its redistribution."""
        return ((self.value.name, self.path.source),)

    @cached_property
    def keys_made(self) -> tuple[Key, ...]:
        """The key of the value after its redistribution."""
        return ((self.value.name, self.path.target),)


@dataclass(frozen=True)
class SentValue:
    """A value sent in a sharding from one stage to another, each device to its counterpart."""

    value: Value
    sharding: Sharding
    source: int
    target: int

    @property
    def keys_read(self) -> tuple[Key, ...]:
        """The key of the value, which is the same on both stages."""
        return ((self.value.name, self.sharding),)

    @property
    def keys_made(self) -> tuple[Key, ...]:
        """Nothing: the value is made available on another stage."""
        return ()


StepInstruction = LocalOperation | RedistributedValue | SentValue

Key = tuple[str, Sharding]
"""A value's name and sharding, which identify it in a program."""


def _keys(values: Sequence[Operand], shardings: Sequence[Sharding]) -> tuple[Key, ...]:
    pairs = zip(values, shardings, strict=True)
    return tuple([(value.name, sharding) for value, sharding in pairs if isinstance(value, Value)])


class StepPhase(Enum):
    """When an instruction runs: once, or once for each microbatch.

    ``WEIGHT`` is used if the pipeline schedule splits backward passes; no other stage waits for it.
    """

    __hash__ = object.__hash__  # Enum.__hash__ is Python code and slow in large dicts.

    BEFORE = "once, before the first microbatch"
    FORWARD = "in the forward pass of each microbatch"
    BACKWARD = "in the backward pass of each microbatch"
    WEIGHT = "in the half for weights of the backward pass of each microbatch"
    AFTER = "once, after the last microbatch"


MICROBATCH_PHASES = (StepPhase.FORWARD, StepPhase.BACKWARD, StepPhase.WEIGHT)
"""The phases of a microbatch, in the order of its passes."""


class InstructionPlace(NamedTuple):
    """The stage and phase of an instruction; for a send, those of its source.

    ``EVERYWHERE`` marks values that each stage has or computes itself: batches, step count, masks.
    """

    stage: int
    when: StepPhase


@dataclass(frozen=True)
class StepProgram:
    """The instructions of every device, in order. A value is identified by its name and sharding.

    ``inputs`` and ``outputs`` have the shardings at the beginning and the end. With microbatches
    there is a place for each instruction, and ``homes`` has the stage of each input. ``buckets``
    are indices of instructions that are joined. ``update`` names the results of the update.
    """

    inputs: tuple[Sharding, ...]
    instructions: tuple[LocalOperation | RedistributedValue | SentValue, ...]
    outputs: tuple[Sharding, ...]
    places: tuple[InstructionPlace, ...] = ()
    homes: tuple[int, ...] = ()
    buckets: tuple[tuple[int, ...], ...] = ()
    update: frozenset[str] = frozenset()

    def moved(self) -> Iterator[RedistributedValue]:
        """Yields all redistributions; those of a loop body once."""
        for instruction in self.instructions:
            match instruction:
                case RedistributedValue():
                    yield instruction
                case LocalOperation(body=StepProgram() as body):
                    yield from body.moved()
