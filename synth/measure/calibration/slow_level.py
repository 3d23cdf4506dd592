"""Chooses the level that made rows slow, if several of the levels that they cross explain it.

A table that crosses two levels and takes longer than such links need shows that one of them is
slow, but not which. Levels timed alone by a table are known. Of the others, the busiest is blamed.
Links inside a node are blamed only up to the lag known of machines with such links. A larger lag is
blamed on the network, where congestion, lost rails and missing RDMA are common. In both cases the
levels are reported as indistinguishable.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median

from hierarchies import System
from synth.collective.algorithms.algorithms import innermost_network_level
from synth.measure.calibration.typical import load_typical, medium_of

SHORT = 0.9
"""A run with less than this share of the predicted bandwidth falls short."""
NINE_OF_TEN = 0.78
"""Ratio of the 90 % to the 95 % one-sided quantile of a normal distribution."""


@dataclass(frozen=True)
class LargestRow:
    """A table's largest row: expected seconds of each level, and its seconds beyond latency."""

    loads: tuple[float, ...]
    seconds: float

    @property
    def crossed(self) -> tuple[int, ...]:
        return tuple(level for level, load in enumerate(self.loads) if load > 0)

    def times(self, level: int) -> float:
        """Returns a level's slowdown relative to its expected seconds, if it limits the row."""
        return self.seconds / self.loads[level]

    def busiest(self, levels: Sequence[int]) -> int:
        return max(levels, key=lambda level: self.loads[level])


@dataclass
class Slowness:
    """The slowdowns of tables by the level that limits them, and sets of undetermined levels.

    One level of each set is slow, but it is unknown which. The set has the level assumed to be slow
    as its value.
    """

    times: dict[int, list[float]] = field(default_factory=dict)
    undetermined_levels: dict[tuple[int, ...], int] = field(default_factory=dict)

    def add(self, end: LargestRow, level: int) -> None:
        self.times.setdefault(level, []).append(end.times(level))


def find_slowness(system: System, ends: Sequence[LargestRow]) -> Slowness:
    """Finds slow levels. Tables that cross few levels come first, as they inform the others."""
    found = Slowness()
    slowdowns: dict[int, float] = {}
    for number in range(1, len(system.links) + 1):
        alone: dict[int, list[float]] = {}
        for end in (end for end in ends if len(end.crossed) == number):
            unknown = [level for level in end.crossed if level not in slowdowns]
            known = max(
                (slowdowns[i] * end.loads[i] for i in {*end.crossed} & {*slowdowns}), default=0
            )
            busiest, least = end.busiest(end.crossed), SHORT * end.seconds
            if number == 1 or least <= end.loads[busiest]:
                found.add(end, busiest)
            elif least > known and unknown:
                level = choose_slow_level(system, end, unknown)
                found.add(end, level)
                if len(unknown) > 1:
                    found.undetermined_levels[tuple(unknown)] = level
            if len(unknown) == 1 and least > known:
                alone.setdefault(unknown[0], []).append(end.times(unknown[0]))
        slowdowns |= {level: median(times) for level, times in alone.items()}
    return found


def choose_slow_level(system: System, end: LargestRow, levels: Sequence[int]) -> int:
    """Returns the busiest level, unless it is inside a node and no such level lags so much."""
    busiest, between = end.busiest(levels), innermost_network_level(system)
    outside = [level for level in levels if level <= between]
    if busiest > between and outside and end.times(busiest) > typical_lag(system, busiest):
        return end.busiest(outside)
    return busiest


def typical_lag(system: System, level: int) -> float:
    """Returns the slowdown of large rows that nine of ten machines with such links do not exceed.

    Infinite if no such machines are known.
    """
    medium = medium_of(system.links[level])
    known = [spread for spread in load_typical().spread if spread.medium == medium]
    if not known:
        return float("inf")
    return float(max(known, key=lambda spread: spread.from_bytes).high ** NINE_OF_TEN)
