"""A plan: how a training step is divided over axes, for every operation and every input.

A plan spells out what a recipe abbreviates ("data parallel over 8"): a row along each axis for
every operation. So any mixture can be expressed, and no decision is left for later.
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
"""The axis of time: parts along it are computed one after the other, on the same devices."""

PIPE = "pipe"
"""The axis of stages; it never occurs in a type."""

MOST_PASSES = 2**15
"""Largest number of passes (stages times microbatches, forward and backward) of a schedule."""

SAMPLE_ROLES = ("batch", "cache")
"""The roles of inputs whose first dimension is samples."""
Rows = tuple[tuple[str, Row], ...]
"""One operation's row for each axis, major axes first; it is replicated along other axes."""


@dataclass(frozen=True)
class Cuts:
    """The division of a graph: the sharding of every input, and the rows of every operation.

    An operation that repeats a body has the body's cuts, the same for all repetitions. The inputs
    of a body are its constants, its carried values, and a slice of each scanned value.
    """

    inputs: tuple[Sharding, ...]
    operations: tuple[Rows | Cuts, ...]


@dataclass(frozen=True)
class Plan:
    """All decisions of a step: axes in the order of the placement, and the cuts of the step.

    * ``cuts`` refer to the step as ``prepare_step`` returns it: with layers recomputed if
      ``remat``, and stacks of layers split if they are on several stages.
    * ``microbatches`` run one after the other; in types they are the axis ``microbatch``, along
      which there is one device.
    * ``layers`` has the number of layers of each stage; empty if all have the same.
    * ``stages`` has the stage of each operation, and ``order`` the passes of each rank along
      ``pipe``; without a pipeline both are left out.
    * ``first``: whether redistributions minimise bytes or requests.
    * ``buckets`` name values whose redistributions are joined; in stacks of layers, a bucket has
      ``bucket_layers`` layers.
    * ``scattered``: a sum over microbatches that ends up sharded is reduce-scattered for each
      microbatch; otherwise whole sums are accumulated, and communicated once.
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
        """Devices of a stage along each axis of types."""
        return {axis: 1 if axis == TIME else size for axis, size in self.parts.items()}

    @property
    def devices(self) -> int:
        """Number of devices of all stages."""
        return prod(size for _, size in self.axes)

    @property
    def parts(self) -> Mapping[str, int]:
        """Number of parts into which each axis of types cuts: devices, or microbatches."""
        time = ((TIME, self.microbatches),) if self.microbatches > 1 else ()
        return dict((*time, *(axis for axis in self.axes if axis[0] != PIPE)))


@dataclass(frozen=True)
class ScanOperands:
    """The division of a ``scan``'s operands: constants, carried values, then scanned values."""

    constants: int
    carried: int

    def of_operands(self, inputs: tuple[Sharding, ...]) -> tuple[Sharding, ...]:
        """Returns the operands' shardings, given those of the body's inputs."""
        kept = self.constants + self.carried
        return (*inputs[:kept], *map(stack_sharding, inputs[kept:]))

    def carry(self, inputs: tuple[Sharding, ...]) -> tuple[Sharding, ...]:
        """Returns the shardings of the carried values, given those of the body's inputs."""
        return inputs[self.constants : self.constants + self.carried]


def scan_operands_of(parameter: Mapping[str, object]) -> ScanOperands:
    """Reads the division of operands from the parameters of a ``scan``."""
    return ScanOperands(int(str(parameter["num_consts"])), int(str(parameter["num_carry"])))


def stack_sharding(slice_: Sharding) -> Sharding:
    """Returns the sharding of a stack of slices sharded this way: its first dimension is whole."""
    return slice_.stack()


def slices_alike(sharding: Sharding) -> bool:
    """Whether a stack is whole in its first dimension, so that all slices have equal shardings."""
    flat = sharding.flat and not sharding.lead
    return len(sharding.dimensions) > 1 and sharding.dimensions[0] == () and not flat


def replicate_all(graph: Graph) -> Cuts:
    """Returns cuts that replicate a graph: every device computes everything."""
    return Cuts(
        tuple(Sharding(((),) * len(value.type.shape)) for value in graph.inputs),
        tuple(
            () if operation.body is None else replicate_all(operation.body)
            for operation in graph.operations
        ),
    )
