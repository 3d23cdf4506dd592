"""The predicted time of a measured run, by the runtime's own choice and at best.

Only the devices that took part are priced (``busy_part``), by the price lines that a fit uses
(``price.ways``), so a system has one prediction for a measurement.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from grammar import Goal
from hierarchies import System
from synth.collective.algorithms.nccl_model import Ranks
from synth.collective.price.bound import Bound, bound_of_roles
from synth.collective.price.defaults import RuntimeDefaults, choose_default
from synth.collective.price.intervals import Interval, interval_of_program
from synth.collective.price.steps import InstructionPrice, price_of_line
from synth.collective.price.ways import PriceLine, pick_fastest
from synth.measure.calibration.busy_part import busy_part
from synth.measure.calibration.candidates import PossibleWay, possible_ways
from synth.measure.calibration.measurements import SEND_RECEIVE, Measurement


@dataclass(frozen=True)
class SizePrediction:
    """One size: the price of the way that was forced or chosen, and of all possible ways.

    ``interval`` is the range that a calibration gives for the time; None without a calibration.
    """

    way: str
    price: InstructionPrice
    options: Mapping[str, float]
    interval: Interval | None = None

    @property
    def seconds(self) -> float:
        return self.price.seconds


class Predictor:
    """Prices the sizes of one measurement. Raises InputError for what cannot be priced."""

    def __init__(self, system: System, measurement: Measurement) -> None:
        self._measurement = measurement
        self._part = busy_part(system, measurement)
        found = possible_ways(self._part, measurement)
        self._lines = {way.name: self._by_protocol(way) for way in found}

    def at(self, size_bytes: int) -> SizePrediction:
        found = self._taken(size_bytes)
        [price] = found.baseline
        margin = interval_of_program(self._part.system, (price,))
        return SizePrediction(found.chosen, price, found.seconds, margin)

    def bound(self, size_bytes: int) -> Bound:
        """Returns the lower bound of a collective; sends and receives have none."""
        goal = Goal(self._measurement.collective)
        return bound_of_roles(self._part.system, self._part.roles, size_bytes, goal)

    def _by_protocol(self, possible: PossibleWay) -> tuple[PriceLine, ...]:
        """Returns a way's lines, one for each protocol; only fitted ones, if any was fitted."""
        system = self._part.system
        fitted = system.calibration and system.calibration.protocols
        known = [each for each in possible.protocols if not fitted or each.value in fitted]
        return tuple(possible.way.line(system, each) for each in known or possible.protocols)

    def _taken(self, size_bytes: int) -> RuntimeDefaults:
        if self._measurement.collective == SEND_RECEIVE:
            [(name, lines)] = self._lines.items()
            price = price_of_line(SEND_RECEIVE, pick_fastest(lines, size_bytes), size_bytes)
            return RuntimeDefaults({name: (price,)}, name)
        ranks = Ranks(self._part.system, self._part.members)
        return choose_default(ranks, Goal(self._measurement.collective), self._lines, size_bytes)
