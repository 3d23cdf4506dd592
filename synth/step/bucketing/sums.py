"""Seconds of the all-reduces of buckets, by the runtime's own choice of algorithm."""

from __future__ import annotations

from functools import cached_property

from grammar import Goal
from hierarchies import Placement, Reduction, System
from synth.collective.price.intervals import Interval, interval_of_program
from synth.collective.price.steps import InstructionPrice, total_seconds
from synth.collective.ranking.oracle import PlacedGoal, ProgramPrices


class Sums:
    """Seconds of all-reduces over all axes of a placement, with their intervals.

    ``algorithm``: the only one that the runtime has, by its name in NCCL; else it chooses.
    """

    def __init__(self, system: System, placement: Placement, algorithm: str = "") -> None:
        self.system, self.placement = system, placement
        self._programs, self._algorithm = ProgramPrices(system), algorithm

    @cached_property
    def _reduction(self) -> Reduction:
        return Reduction(self.placement, tuple(axis.name for axis in self.placement.axes))

    def seconds(self, size_bytes: int) -> float:
        """Returns the likely seconds of an all-reduce."""
        return total_seconds(self._prices(size_bytes))

    def low(self, size_bytes: int) -> float:
        """Returns the least seconds that measurements allow."""
        interval = self._interval(size_bytes)
        return interval.low_seconds if interval else self.seconds(size_bytes)

    def high(self, size_bytes: int) -> float:
        """Returns the most seconds that measurements allow."""
        interval = self._interval(size_bytes)
        return interval.high_seconds if interval else self.seconds(size_bytes)

    def _interval(self, size_bytes: int) -> Interval | None:
        return interval_of_program(self.system, self._prices(size_bytes))

    def _prices(self, size_bytes: int) -> tuple[InstructionPrice, ...]:
        placed = PlacedGoal(Goal.ALL_REDUCE, size_bytes, self._reduction)
        default = self._programs.default(placed)
        return default.options[self._algorithm or default.chosen]
