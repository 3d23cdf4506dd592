"""A step as every device does it: operations on parts, and redistributions between them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from grammar.tensors.operations import Operation, Value
from grammar.tensors.sharding import Sharding
from synth.train.factors import Typed
from synth.train.resharding import Path


@dataclass(frozen=True)
class Done:
    """An operation, how its operands and results lie, and what is done of a body it repeats."""

    operation: Operation
    how: Typed
    body: Program | None = None


@dataclass(frozen=True)
class Moved:
    """A value as it was made, and the moves after which it lies as the path's target, too."""

    value: Value
    path: Path


@dataclass(frozen=True)
class Program:
    """What devices do, in order. A value is known by its name and how it lies.

    The inputs lie as said, and the outputs at the end do.
    """

    inputs: tuple[Sharding, ...]
    instructions: tuple[Done | Moved, ...]
    outputs: tuple[Sharding, ...]

    def moved(self) -> Iterator[Moved]:
        """All redistributions, those of bodies once."""
        for one in self.instructions:
            match one:
                case Moved():
                    yield one
                case Done(body=Program() as body):
                    yield from body.moved()
