"""One log compared with the prediction: readings by size, and shares of each level."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from statistics import median

from grammar import Goal
from hierarchies import System
from hierarchies.calibration import NORMAL_MARGIN
from synth.collective.price.bound import Bound
from synth.collective.price.steps import InstructionPrice
from synth.collective.price.ways import MEMORY
from synth.measure.calibration.candidates import Predictor, SizePrediction
from synth.measure.calibration.prior import noise
from synth.measure.calibration.slow_level import NINE_OF_TEN, SHORT
from synth.measure.logs.matching import MatchedLog

ROUNDING = 0.001
"""Tolerance of a time below its bound: tests print three or four digits."""
LARGE, SMALL = 0.1, 0.9
"""The share of latency in the prediction: at most LARGE for large sizes, at least SMALL for small.
"""


@dataclass(frozen=True)
class SizeReading:
    """One size of a run: its measured time, its prediction, and its lower bound."""

    size_bytes: int
    in_place: bool
    seconds: float
    predicted: SizePrediction
    bound: Bound

    @property
    def share(self) -> float:
        """The ratio of predicted to measured seconds: 1 is as predicted, less is slower."""
        return self.predicted.seconds / self.seconds

    @property
    def longest_seconds(self) -> float | None:
        """The upper end of the prices' interval, None without one.

        That end is above nineteen of twenty machines. For machines in general the limit is nine of
        ten.
        """
        margin = self.predicted.interval
        if margin is None:
            return None
        slower = margin.high_seconds / self.predicted.seconds
        part = NINE_OF_TEN if margin.among_machines else 1.0
        return self.predicted.seconds * float(slower**part)

    @property
    def explained(self) -> bool:
        """Whether the measured time is at most the upper end of the prices' interval."""
        longest = self.longest_seconds
        return longest is not None and self.seconds <= longest

    @property
    def quick(self) -> bool:
        """Whether the measured time is below the lower end of the prices' interval, if any."""
        margin = self.predicted.interval
        return margin is None or self.seconds < margin.low_seconds

    @property
    def beats_bound(self) -> bool:
        """Whether the time is faster than possible, so the description or the log is wrong.

        A calibrated bound is no more exact than the rows to which it was fitted.
        """
        margin = self.predicted.interval
        measured = margin is not None and not margin.among_machines
        error = NORMAL_MARGIN * noise(self.size_bytes) if measured else ROUNDING
        return self.seconds < self.bound.seconds * (1 - error)

    @property
    def waiting(self) -> float:
        """The share of latency in the prediction."""
        return self.predicted.price.latency_seconds / self.predicted.seconds


@dataclass(frozen=True)
class MeasuredRun:
    """One log: its readings, and the results of its large sizes for each level.

    ``share`` is the median of predicted/measured at large sizes, ``slower`` that of
    measured/predicted at small sizes, ``extra_seconds`` the time of small sizes beyond the
    prediction. Each is None without such sizes. ``delivered`` has, for each level, the least share
    of its described bandwidth that it delivers. ``limited_by`` is the level for which the
    prediction waits longest.
    """

    matched: MatchedLog
    readings: tuple[SizeReading, ...]
    share: float | None
    slower: float | None
    extra_seconds: float | None
    delivered: dict[str, float]
    limited_by: str
    way: str

    @property
    def source(self) -> str:
        return self.matched.log.source

    @property
    def large(self) -> tuple[SizeReading, ...]:
        """The sizes without much latency."""
        return tuple(r for r in self.readings if r.waiting <= LARGE)

    @property
    def short(self) -> bool:
        explained = 2 * sum(r.explained for r in self.large) >= len(self.large)
        return self.share is not None and self.share < SHORT and not explained

    @property
    def small(self) -> tuple[SizeReading, ...]:
        """The sizes that mostly wait for messages."""
        return tuple(r for r in self.readings if r.waiting >= SMALL)

    @property
    def late(self) -> bool:
        """Whether small sizes take longer than predicted, beyond the prices' interval."""
        explained = 2 * sum(r.explained for r in self.small) >= len(self.small)
        return self.slower is not None and self.slower > 1 / SHORT and not explained

    @property
    def too_good(self) -> bool:
        quick = 2 * sum(r.quick for r in self.large) > len(self.large)
        return self.share is not None and self.share > 1 / SHORT and quick

    @property
    def beating(self) -> SizeReading | None:
        """The reading farthest below its bound, if any; it contradicts the description."""
        found = [reading for reading in self.readings if reading.beats_bound]
        return min(found, key=lambda r: r.seconds / r.bound.seconds) if found else None

    @property
    def factor(self) -> float:
        """The factor from size / seconds (algbw) to busbw."""
        measurement = self.matched.measurement
        return Goal(measurement.collective).busbw_factor(prod(measurement.members))


def run_of(system: System, matched: MatchedLog) -> MeasuredRun:
    """Prices a log size by size. Raises InputError if it cannot be priced."""
    predictor = Predictor(system, matched.measurement)
    known: dict[int, tuple[SizePrediction, Bound]] = {}
    readings = []
    for sample in matched.measurement.samples:
        size = sample.size_bytes
        if size not in known:
            known[size] = predictor.at(size), predictor.bound(size)
        readings.append(SizeReading(size, sample.in_place, sample.seconds, *known[size]))
    large = [r for r in readings if r.waiting <= LARGE]
    small = [r for r in readings if r.waiting >= SMALL]
    last = max(readings, key=lambda r: r.size_bytes)
    return MeasuredRun(
        matched,
        tuple(readings),
        median(r.share for r in large) if large else None,
        median(1 / r.share for r in small) if small else None,
        median(r.seconds - r.predicted.seconds for r in small) if small else None,
        delivered_shares([(r.seconds, r.predicted.price) for r in large]),
        last.predicted.price.busiest,
        last.predicted.way,
    )


def delivered_shares(large: Sequence[tuple[float, InstructionPrice]]) -> dict[str, float]:
    """Returns, for each level, the median share of its bandwidth used at large sizes.

    ``large`` has pairs of measured seconds and the price of the way that ran.
    """
    shares: dict[str, list[float]] = {}
    for seconds, price in large:
        for name, busy in price.busy_seconds:
            if busy and name != MEMORY:
                streaming = max(seconds - price.latency_seconds, busy * 1e-3)
                shares.setdefault(name, []).append(busy / streaming)
    return {name: median(found) for name, found in shares.items()}
