"""What a rank does of a microbatch, by parts: the first values, one layer, and the last ones.

A pipeline of any length does the same in each of its layers: a plan of 80 layers on 8 stages has 10
times its middle on each. Computing is in seconds of the device. Communication is described by its
collectives, as their seconds depend on the placement.
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
"""The axes that divide the inside of a stage; over ``data`` every device does the same.

``expert`` divides samples as ``data`` does, and tokens are exchanged over it.
"""


class ModelPart(Enum):
    """The part of a model in which something is done."""

    __hash__ = object.__hash__  # the hash of enums is computed in Python, from the name

    FIRST = "before the layers"
    LAYER = "in a layer"
    LAST = "after the layers"


class PartCollective(NamedTuple):
    """A collective over axes, with bytes of a device's largest buffer.

    ``beside_seconds``: of computing between when it may begin and when its result is read.
    """

    goal: Goal
    over: tuple[str, ...]
    size_bytes: int
    beside_seconds: float = 0.0


@dataclass(frozen=True)
class PassWork:
    """Seconds of computing in one microbatch, and collectives with how often they are done."""

    seconds: float = 0.0
    sent: Mapping[PartCollective, float] = field(default_factory=dict)


Halves = Mapping[tuple[StepPhase, StepPhase], Mapping[ModelPart, float]]
"""Bytes of a microbatch by part, kept between two passes, where backward passes are split."""


@dataclass(frozen=True)
class Inside:
    """What one way to cut the inside of a stage does and needs, on one device.

    ``work`` is by pass and part. In bytes: ``parameters``, those stored for each part, one by one,
    and apart those of ``experts`` where their axis divides them; ``saved`` for the backward pass of
    a microbatch, by part; ``working``, the most of a pass in layers, and in all of it; ``waiting``,
    a layer's gradients until those of all layers are cast and summed at once, which ZeRO does layer
    by layer; ``tied``, gradients of parameters read in two places, which are summed, and sharded by
    ZeRO, only after all microbatches; ``boundary``, what a layer hands to the next. ``moments``,
    ``gradients`` and ``copies`` are bytes per byte of parameters, ``update_seconds`` seconds per
    byte, ``summing_seconds`` of summing a layer's whole gradients in each microbatch. ``halves`` is
    empty where backward passes are whole.
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
        """Seconds of computing a microbatch with so many layers."""
        times = {part: layers if part is ModelPart.LAYER else 1 for part in ModelPart}
        return sum(times[part] * work.seconds for (_, part), work in self.work.items())

    @property
    def gathered(self) -> float:
        """Bytes that are computed with, for each byte of stored parameters."""
        return self.copies or 1.0


def extrapolate(base: Inside, double: Inside, times: float) -> Inside | None:
    """Extrapolates to ``times`` the samples of ``base``; ``double`` has twice as many.

    All grows linearly with samples; in truth a little less, as larger products are more efficient.
    Returns None where the two differ in kind.
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
