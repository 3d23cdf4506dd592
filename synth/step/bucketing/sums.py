"""Seconds of the all-reduces of buckets, as the runtime does them by itself."""

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
    """All-reduces over all axes of a placement: what they take, and between what that lies.

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
        """The bytes that were asked for until now."""
        return frozenset(self._known)

    def seconds(self, size_bytes: int) -> float:
        """Of so many bytes, likely."""
        return total_seconds(self._prices(size_bytes))

    def low(self, size_bytes: int) -> float:
        """The least that measurements let it be."""
        found = interval_of_program(self.system, self._prices(size_bytes))
        return self.seconds(size_bytes) if found is None else found.low_seconds

    def high(self, size_bytes: int) -> float:
        """The most."""
        found = interval_of_program(self.system, self._prices(size_bytes))
        return self.seconds(size_bytes) if found is None else found.high_seconds

    def _prices(self, size_bytes: int) -> tuple[InstructionPrice, ...]:
        if size_bytes not in self._known:
            found = defaults(self._simulator, self._reduction, size_bytes)
            self._known[size_bytes] = found.baseline
        return self._known[size_bytes]
