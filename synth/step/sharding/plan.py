"""A plan: how a training step lies on axes, said of every operation and every input.

What a recipe's name stands for ("data parallel over 8") is written out here: a row along each axis
for every operation, so that any mixture can be said, and nothing is decided later.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

from grammar.tensors.operations import Graph
from grammar.tensors.sharding import Sharding
from synth.step.factors import Row
from synth.step.redistribution.paths import CostPriority
from synth.step.schedules import PipelineSchedule

TIME = "microbatch"
"""The axis in time: what is cut along it is done one part after the other, on the same devices."""

PIPE = "pipe"
"""The axis of stages; it never occurs in a type."""

MOST_PASSES = 2**15
"""Of stages times microbatches, each forward and backward: more are put in no order."""

SAMPLE_ROLES = ("batch", "cache")
"""The roles of inputs whose first dimension is samples."""
Rows = tuple[tuple[str, Row], ...]
"""Of one operation a row for each axis, major axes first; along axes not named all is whole."""


@dataclass(frozen=True)
class Cuts:
    """How a graph is cut: the sharding of every input, and what every operation does.

    For an operation that repeats a body it is the body's cuts: one choice for all repetitions.
    The inputs of a body are its constants, what it carries, and a slice of what it scans.
    """

    inputs: tuple[Sharding, ...]
    operations: tuple[Rows | Cuts, ...]


@dataclass(frozen=True)
class Plan:
    """All that is decided of a step: axes in the order of the placement, and how it is cut.

    * ``cuts`` are of the step as ``prepared`` makes it: with layers done again where ``remat``
      says so, and apart from each other where they are on several stages.
    * ``microbatches`` are one after the other; they are an axis of types, ``microbatch``, on which
      there is one device.
    * ``layers`` are those of each stage; empty if all have as many.
    * ``stages`` has the stage of each operation, and ``order`` what each rank along ``pipe`` does
      in turn; without stages both are left out.
    * ``first``: whether redistributions send the fewest bytes, or are the fewest requests.
    * ``buckets`` name values whose redistributions go together as one; of stacks of layers, a layer
      is one, or ``bucket_layers`` are.
    * ``scattered``: sums over microbatches that are kept in parts in the end are in parts from the
      first microbatch on, each of which sends; else all is added up whole, and sent once.
    """

    axes: tuple[tuple[str, int], ...]
    cuts: Cuts
    microbatches: int = 1
    layers: tuple[int, ...] = ()
    stages: tuple[int, ...] = ()
    order: PipelineSchedule | None = None
    remat: bool = False
    first: CostPriority = CostPriority.BYTES
    buckets: tuple[tuple[str, ...], ...] = ()
    bucket_layers: int = 1
    scattered: bool = False

    @property
    def sizes(self) -> Mapping[str, int]:
        """How many devices of a stage there are along each axis of types."""
        return {axis: 1 if axis == TIME else size for axis, size in self.parts.items()}

    @property
    def devices(self) -> int:
        """How many there are, those of all stages."""
        return prod(size for _, size in self.axes)

    @property
    def parts(self) -> Mapping[str, int]:
        """In how many parts each axis of types cuts: devices, and microbatches."""
        time = ((TIME, self.microbatches),) if self.microbatches > 1 else ()
        return dict((*time, *(one for one in self.axes if one[0] != PIPE)))


@dataclass(frozen=True)
class ScanOperands:
    """How the operands of a ``scan`` divide: constants, what is carried, and what is scanned."""

    constants: int
    carried: int

    def of_operands(self, inputs: tuple[Sharding, ...]) -> tuple[Sharding, ...]:
        """How the operands lie whose slices lie as the inputs of the body do."""
        kept = self.constants + self.carried
        return (*inputs[:kept], *map(stack_sharding, inputs[kept:]))

    def carry(self, inputs: tuple[Sharding, ...]) -> tuple[Sharding, ...]:
        """How what is carried lies, in and out."""
        return inputs[self.constants : self.constants + self.carried]


def scan_operands_of(parameter: Mapping[str, object]) -> ScanOperands:
    """As a ``scan`` says in its parameters."""
    return ScanOperands(int(str(parameter["num_consts"])), int(str(parameter["num_carry"])))


def stack_sharding(one: Sharding) -> Sharding:
    """How a stack lies of which each slice lies so: its first dimension, layers or time, whole."""
    return one.stack()


def slices_alike(lies: Sharding) -> bool:
    """Whether a stack is uncut in its first dimension, so that slices lie alike."""
    flat = lies.flat and not lies.lead
    return len(lies.dimensions) > 1 and lies.dimensions[0] == () and not flat


def replicate_all(graph: Graph) -> Cuts:
    """Nothing is cut: every device does all."""
    return Cuts(
        tuple(Sharding(((),) * len(one.type.shape)) for one in graph.inputs),
        tuple(() if one.body is None else replicate_all(one.body) for one in graph.operations),
    )
