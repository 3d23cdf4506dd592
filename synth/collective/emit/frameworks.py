"""Frameworks that compute a process's coordinates from its rank, with their orders of axes.

Megatron's rank 1 is the second tensor-parallel process of the first pipeline stage, whatever a
job's axes are called. So an axis has a *kind* of parallelism, derived from its name, and a
framework is a row: the kinds in its order, slowest first, with its own names for them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from hierarchies import Axis, InputError


class Parallelism(Enum):
    """What an axis of parallelism splits."""

    PIPELINE = "the layers"
    REPLICATE = "the batch"
    SHARD = "the batch and the parameters"
    EXPERT = "the experts"
    CONTEXT = "the sequence"
    TENSOR = "the matrices"


_AXIS_NAMES = {
    Parallelism.PIPELINE: "pipeline pipe pp stage",
    Parallelism.REPLICATE: "data dp batch replica replicate dp_replicate ddp",
    Parallelism.SHARD: "fsdp shard dp_shard zero",
    Parallelism.EXPERT: "expert experts ep",
    Parallelism.CONTEXT: "context cp sequence seq",
    Parallelism.TENSOR: "tensor tp model mp",
}
KINDS: Mapping[str, Parallelism] = {
    name: kind for kind, names in _AXIS_NAMES.items() for name in names.split()
}
"""The kind of an axis by its name, in lower case with ``_`` for ``-``."""


def kind_of(name: str) -> Parallelism | None:
    """Returns the kind of parallelism of an axis name, or None for an unknown name."""
    plain = name.lower().replace("-", "_")
    return KINDS.get(plain) or KINDS.get(plain.removesuffix("_parallel"))


@dataclass(frozen=True)
class FrameworkRankOrder:
    """A framework with a rank order of its own.

    ``order``: its kinds with its names for them, slowest first. ``apart``: pairs of kinds that it
    puts in separate grids over the same ranks, so that no single grid has both, with the reason.
    """

    title: str
    order: Mapping[Parallelism, str]
    source: str
    apart: tuple[tuple[Parallelism, Parallelism, str], ...] = ()

    def positions(self, axes: Sequence[Axis]) -> tuple[int, ...]:
        """Returns the axes in the framework's order, slowest first, those of size 1 before all.

        Raises InputError for an unknown axis name, for a kind that the framework lacks, and
        for axes that do not form one grid there.
        """
        kinds = {place: self._kind(axis) for place, axis in enumerate(axes) if axis.size > 1}
        self._check_apart(axes, kinds)
        rank = list(self.order)
        ones = [place for place, axis in enumerate(axes) if axis.size == 1]
        return (*ones, *sorted(kinds, key=lambda place: rank.index(kinds[place])))

    def name(self, axis: Axis) -> str:
        """Returns the framework's name for an axis. Raises InputError as ``positions``."""
        return self.order[self._kind(axis)]

    def _kind(self, axis: Axis) -> Parallelism:
        kind = kind_of(axis.name)
        if kind is None:
            raise InputError(
                f"the name of axis {axis.name!r} does not state its content",
                hint=f"names that do: {', '.join(KINDS)}",
            )
        # Without an axis of its own, sharding uses the axis of the data, as ZeRO does.
        if kind is Parallelism.SHARD and kind not in self.order:
            kind = Parallelism.REPLICATE
        if kind not in self.order:
            raise InputError(
                f"{self.title}'s rank order has no axis for {kind.value} ({axis.name})",
                hint=f"it has {', '.join(self.order.values())}",
            )
        return kind

    def _check_apart(self, axes: Sequence[Axis], kinds: Mapping[int, Parallelism]) -> None:
        for kind, count in Counter(kinds.values()).items():
            if count > 1:
                same = " and ".join(
                    axes[place].name for place, each in kinds.items() if each is kind
                )
                raise InputError(
                    f"{self.title} has one axis for {same}", hint=f"its {self.order[kind]}"
                )
        for first, second, why in self.apart:
            if first in kinds.values() and second in kinds.values():
                raise InputError(
                    f"{self.order[first]} and {self.order[second]} are not axes of one grid in "
                    f"{self.title}: {why}",
                    hint="ask for the two grids one after the other",
                )


_EXPERTS_APART = "experts are laid over the same ranks once more, in a grid without it"

FRAMEWORKS: Mapping[str, FrameworkRankOrder] = {
    "megatron": FrameworkRankOrder(
        "Megatron",
        {
            Parallelism.PIPELINE: "pp",
            Parallelism.REPLICATE: "dp",
            Parallelism.EXPERT: "ep",
            Parallelism.CONTEXT: "cp",
            Parallelism.TENSOR: "tp",
        },
        "https://github.com/NVIDIA/Megatron-LM/blob/934c8260ada361db9b155d504c5b20600731d773/"
        "megatron/core/parallel_state.py, 2026-11-22",
        ((Parallelism.EXPERT, Parallelism.CONTEXT, _EXPERTS_APART),),
    ),
    "torchtitan": FrameworkRankOrder(
        "torchtitan",
        {
            Parallelism.PIPELINE: "pp",
            Parallelism.REPLICATE: "dp_replicate",
            Parallelism.SHARD: "dp_shard",
            Parallelism.EXPERT: "ep",
            Parallelism.CONTEXT: "cp",
            Parallelism.TENSOR: "tp",
        },
        "https://github.com/pytorch/torchtitan/blob/0c8d0ce3419a0acaa9649f6334ee55985516496c/"
        "torchtitan/distributed/PARALLEL_DIMS.md, 2026-11-22",
        (
            (Parallelism.EXPERT, Parallelism.CONTEXT, _EXPERTS_APART),
            (Parallelism.EXPERT, Parallelism.TENSOR, _EXPERTS_APART),
        ),
    ),
    "deepspeed": FrameworkRankOrder(
        "DeepSpeed",
        {
            Parallelism.PIPELINE: "pipe",
            Parallelism.REPLICATE: "data",
            Parallelism.TENSOR: "model",
        },
        "https://github.com/microsoft/DeepSpeed/blob/e81c70fdddba557c5f6e2f3f875dbdf72565b9f0/"
        "deepspeed/runtime/pipe/topology.py, 2026-11-22",
    ),
}
"""The frameworks by what ``--rank-order`` calls them. JAX and PyTorch's DeviceMesh have no order
of their own: they count the axes as the caller names them, the last one fastest."""
