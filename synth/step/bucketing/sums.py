"""Seconds of the all-reduces of buckets with the runtime's own choice."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from hierarchies import Placement, Reduction, System
from synth.collective.algorithms.algorithms import Choice
from synth.collective.price.defaults import defaults
from synth.collective.price.intervals import interval_of_program
from synth.collective.price.step_prices import Simulator
from synth.collective.price.steps import InstructionPrice, total_seconds


@dataclass
class Sums:
    """Seconds of all-reduces over all axes of a placement, with their intervals.

    ``choice``: the algorithms that the runtime is held to.
    """

    system: System
    placement: Placement
    choice: Choice = Choice.AUTO

    def __post_init__(self) -> None:
        self._known: dict[int, tuple[InstructionPrice, ...]] = {}

    @cached_property
    def _reduction(self) -> Reduction:
        return Reduction(self.placement, tuple(axis.name for axis in self.placement.axes))

    @cached_property
    def _simulator(self) -> Simulator:
        return Simulator(self.system, self.choice)

    @property
    def priced(self) -> frozenset[int]:
        """The sizes that were priced so far, in bytes."""
        return frozenset(self._known)

    def seconds(self, size_bytes: int) -> float:
        """Likely seconds of an all-reduce."""
        return total_seconds(self._prices(size_bytes))

    def low(self, size_bytes: int) -> float:
        """The least seconds that measurements allow."""
        interval = interval_of_program(self.system, self._prices(size_bytes))
        return self.seconds(size_bytes) if interval is None else interval.low_seconds

    def high(self, size_bytes: int) -> float:
        """The most seconds that measurements allow."""
        interval = interval_of_program(self.system, self._prices(size_bytes))
        return self.seconds(size_bytes) if interval is None else interval.high_seconds

    def _prices(self, size_bytes: int) -> tuple[InstructionPrice, ...]:
        if size_bytes not in self._known:
            default = defaults(self._simulator, self._reduction, size_bytes)
            self._known[size_bytes] = default.baseline
        return self._known[size_bytes]
