"""The work of a rank for one microbatch, by parts: before the layers, one layer, after the layers.

All layers do the same work: in a plan of 80 layers on 8 stages, each stage has the work of a layer
10 times. Computation is in seconds of the device. Communication is described by its collectives,
because their seconds depend on the placement.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property
from typing import NamedTuple

from grammar import Goal
from synth.step.sharding import StepPhase

INSIDE = ("seq", "expert", "tensor")
"""The axes that divide the inside of a stage; along ``data`` all devices do the same work.

``expert`` divides samples as ``data`` does, and tokens are exchanged over it.
"""


class ModelPart(Enum):
    """A part of a model."""

    __hash__ = object.__hash__  # the hash of enums is computed in Python, from the name

    FIRST = "before the layers"
    LAYER = "in a layer"
    LAST = "after the layers"


PARTS = tuple(ModelPart)
"""All parts; a tuple, because an enum's members are listed in Python each time."""


class PartCollective(NamedTuple):
    """A collective over axes, with the bytes of a device's largest buffer.

    ``beside_seconds``: seconds of computation that can overlap it, from when it may begin until its
    result is read.
    """

    goal: Goal
    over: tuple[str, ...]
    size_bytes: int
    beside_seconds: float = 0.0


@dataclass(frozen=True)
class PassWork:
    """Seconds of computation in one microbatch, and the number of calls of each collective."""

    seconds: float = 0.0
    sent: Mapping[PartCollective, float] = field(default_factory=dict)


Halves = Mapping[tuple[StepPhase, StepPhase], Mapping[ModelPart, float]]
"""Bytes of a microbatch, by part, kept between two passes, if backward passes are split."""


@dataclass(frozen=True)
class Inside:
    """The work and memory of one way to shard the inside of a stage, on one device.

    ``work`` is by pass and part. These are in bytes:

    * ``parameters``: each stored parameter, by part, except those in ``experts``;
    * ``experts``: parameters of experts that the expert axis divides, by part;
    * ``saved``: kept for the backward pass of a microbatch, by part;
    * ``working``: the peak working memory of a pass, in its layers and in all of it;
    * ``waiting``: a layer's gradients, until those of all layers are cast and summed at once, which
      ZeRO does layer by layer;
    * ``tied``: gradients of parameters that are read in two places, which are summed, and sharded
      by ZeRO, only after all microbatches;
    * ``boundary``: the values that a layer passes to the next.

    ``moments``, ``gradients`` and ``copies`` are bytes per byte of parameters; ``update_seconds``
    is seconds per byte; ``summing_seconds`` is the time to sum a layer's whole gradients in each
    microbatch. ``halves`` is empty if backward passes are whole.
    """

    work: Mapping[tuple[StepPhase, ModelPart], PassWork]
    parameters: Mapping[ModelPart, tuple[float, ...]]
    experts: Mapping[ModelPart, tuple[float, ...]]
    saved: Mapping[ModelPart, float]
    working: tuple[float, float]
    waiting: float
    tied: Mapping[ModelPart, float]
    boundary: float
    moments: float
    gradients: float
    copies: float
    update_seconds: float
    summing_seconds: float
    halves: Halves = field(default_factory=dict)

    @cached_property
    def stored(self) -> Mapping[ModelPart, float]:
        """Bytes of all parameters of a part."""
        return {
            part: sum(sizes) + sum(self.experts[part]) for part, sizes in self.parameters.items()
        }

    def seconds(self, layers: int) -> float:
        """Returns the seconds of computation of a microbatch with ``layers`` layers."""
        times = {part: layers if part is ModelPart.LAYER else 1 for part in ModelPart}
        return sum(times[part] * work.seconds for (_, part), work in self.work.items())

    @property
    def gathered(self) -> float:
        """Bytes of the parameters that operations read, per byte of stored parameters."""
        return self.copies or 1.0


def extrapolate(base: Inside, double: Inside, times: float) -> Inside | None:
    """Extrapolates to ``times`` the samples of ``base``; ``double`` has twice as many.

    All quantities are assumed to grow linearly with samples; they grow slightly less, because
    larger products are more efficient. Returns None if the two use different collectives.
    """

    def extrapolate_number(first: float, second: float) -> float:
        return first + (second - first) * (times - 1)

    def by_part(
        first: Mapping[ModelPart, float], second: Mapping[ModelPart, float]
    ) -> dict[ModelPart, float]:
        return {part: extrapolate_number(first[part], second[part]) for part in ModelPart}

    work = {}
    for key, first in base.work.items():
        second = double.work[key]
        base_sent, double_sent = (
            sorted(first.sent, key=_sort_key),
            sorted(second.sent, key=_sort_key),
        )
        if [sent[:2] for sent in base_sent] != [sent[:2] for sent in double_sent]:
            return None
        sent: defaultdict[PartCollective, float] = defaultdict(float)
        for before, after in zip(base_sent, double_sent, strict=True):
            size_bytes = round(extrapolate_number(before.size_bytes, after.size_bytes))
            beside = extrapolate_number(before.beside_seconds, after.beside_seconds)
            sent[PartCollective(before.goal, before.over, size_bytes, beside)] += first.sent[before]
        work[key] = PassWork(extrapolate_number(first.seconds, second.seconds), sent)
    return replace(
        base,
        work=work,
        saved=by_part(base.saved, double.saved),
        working=(
            extrapolate_number(base.working[0], double.working[0]),
            extrapolate_number(base.working[1], double.working[1]),
        ),
        waiting=extrapolate_number(base.waiting, double.waiting),
        boundary=extrapolate_number(base.boundary, double.boundary),
        halves={key: by_part(kept, double.halves[key]) for key, kept in base.halves.items()},
    )


def _sort_key(collective: PartCollective) -> tuple[object, ...]:
    return collective.goal.value, *collective[1:]
