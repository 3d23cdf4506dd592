"""What a rank does of a microbatch, by parts: the first values, one layer, and the last ones.

A pipeline of any length does the same in each of its layers: a plan of 80 layers on 8 stages has 10
times its middle on each. What is computed is in seconds of the device; what is sent is told by what
it is, as its seconds depend on where the axes lie.
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
"""The axes that cut what is inside of a stage; of ``data`` every part does the same.

``expert`` cuts samples as ``data`` does, and tokens go along it.
"""


class ModelPart(Enum):
    """Where in a model something is done."""

    __hash__ = object.__hash__  # that of enums is worked out in Python, name by name

    FIRST = "before the layers"
    LAYER = "in a layer"
    LAST = "after the layers"


class PartCollective(NamedTuple):
    """A collective over axes, with bytes of a device's largest buffer.

    ``beside_seconds``: of computing between when it may go and when it is read.
    """

    goal: Goal
    over: tuple[str, ...]
    size_bytes: int
    beside_seconds: float = 0.0


@dataclass(frozen=True)
class PassWork:
    """Of one microbatch: seconds of computing, and collectives with how often they are done."""

    seconds: float = 0.0
    sent: Mapping[PartCollective, float] = field(default_factory=dict)


Halves = Mapping[tuple[StepPhase, StepPhase], Mapping[ModelPart, float]]
"""Bytes of a microbatch by part, from one pass until another, where backward ones are in halves."""


@dataclass(frozen=True)
class Inside:
    """One way to cut the inside of a stage.

    ``work`` is by pass and part. In bytes of a device: ``parameters`` by part, as they are stored,
    each for itself, and those of ``experts`` apart where their axis cuts them; ``saved`` for the
    backward pass of a microbatch, by part; ``working`` of a pass at most, in layers and at all;
    ``waiting``, a layer's gradients until those of all layers are cast and summed at once, which
    ZeRO does layer by layer; ``tied``, gradients of parameters that are read in two places, which
    are summed, and cut by ZeRO, only after all microbatches; ``boundary``, what a layer hands to
    the next. ``moments``, ``gradients`` and ``copies`` are in bytes for each byte of parameters,
    ``update_seconds`` likewise. ``summing_seconds``: of a layer's whole gradients, to add them up
    in each microbatch. ``halves`` is empty where backward passes are whole.
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
        """Of computing a microbatch, with so many layers."""
        times = {part: layers if part is ModelPart.LAYER else 1 for part in ModelPart}
        return sum(times[part] * one.seconds for (_, part), one in self.work.items())

    @property
    def gathered(self) -> float:
        """Bytes of what is computed with, for each byte of parameters as they are stored."""
        return self.copies or 1.0


def extrapolate(one: Inside, two: Inside, times: float) -> Inside | None:
    """Extrapolates to ``times`` the samples of ``one``; ``two`` has twice as many.

    All grows by as much for each sample. It is a little less in truth, as longer products of
    matrices are faster. Returns None where the two differ in kind.
    """

    def at(first: float, second: float) -> float:
        return first + (second - first) * (times - 1)

    def several(
        first: Mapping[ModelPart, float], second: Mapping[ModelPart, float]
    ) -> dict[ModelPart, float]:
        return {part: at(first[part], second[part]) for part in ModelPart}

    work = {}
    for key, first in one.work.items():
        second = two.work[key]
        ones, twos = sorted(first.sent, key=_sort_key), sorted(second.sent, key=_sort_key)
        if [sent[:2] for sent in ones] != [sent[:2] for sent in twos]:
            return None
        sent: defaultdict[PartCollective, float] = defaultdict(float)
        for before, after in zip(ones, twos, strict=True):
            size_bytes = round(at(before.size_bytes, after.size_bytes))
            beside = at(before.beside_seconds, after.beside_seconds)
            sent[PartCollective(before.goal, before.over, size_bytes, beside)] += first.sent[before]
        work[key] = PassWork(at(first.seconds, second.seconds), sent)
    return replace(
        one,
        work=work,
        saved=several(one.saved, two.saved),
        working=(at(one.working[0], two.working[0]), at(one.working[1], two.working[1])),
        waiting=at(one.waiting, two.waiting),
        boundary=at(one.boundary, two.boundary),
        halves={key: several(kept, two.halves[key]) for key, kept in one.halves.items()},
    )


def _sort_key(one: PartCollective) -> tuple[object, ...]:
    return one.goal.value, *one[1:]
