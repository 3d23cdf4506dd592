"""Time against message size: curves, and the sizes from which another answer is the best."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hierarchies.units import duration, volume
from synth.verbs.answers.ranked import SweepReply


@dataclass(frozen=True)
class Point:
    """One size: bytes, and seconds of the best answer, the default and the bound."""

    size_bytes: int
    best_seconds: float
    default_seconds: float
    bound_seconds: float

    @property
    def told(self) -> tuple[str, str, str, str]:
        """The same with units."""
        times = (self.best_seconds, self.default_seconds, self.bound_seconds)
        return volume(self.size_bytes), *(duration(one) for one in times)  # type: ignore[return-value]


@dataclass(frozen=True)
class Crossover:
    """From this size on another answer is the best."""

    size_bytes: int
    told: str
    program: str


@dataclass(frozen=True)
class Curves:
    """The points by size, and the crossovers between them."""

    points: tuple[Point, ...]
    crossovers: tuple[Crossover, ...]

    def as_json(self) -> dict[str, list[Any]]:
        """What the plot is drawn from: columns."""
        return {
            "bytes": [point.size_bytes for point in self.points],
            "best": [point.best_seconds for point in self.points],
            "default": [point.default_seconds for point in self.points],
            "bound": [point.bound_seconds for point in self.points],
            "crossovers": [one.size_bytes for one in self.crossovers],
        }


def curves(answer: SweepReply) -> Curves:
    """The curves of an answer over a range of sizes."""
    points = tuple(
        Point(one.bytes, one.seconds, one.baseline_seconds, one.bound_seconds)
        for one in sorted(answer.sizes, key=lambda one: one.bytes)
    )
    crossovers = tuple(
        Crossover(one.from_bytes, volume(one.from_bytes), one.first.program)
        for one in answer.stretches[1:]
    )
    return Curves(points, crossovers)
