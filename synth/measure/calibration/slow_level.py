"""Which level rows are slow by, where several that they cross would explain it.

A table that crosses two levels and takes longer than such links need says that one of them is slow,
not which. What tables of one level alone showed is known; of the others the busiest is taken, but
for links inside a node only as far as machines with such links are known to lag: what is slower
than that is taken for the network, whose congestion, lost rails and missing RDMA are common. Either
way the levels are not told apart, which is said.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median

from hierarchies import System
from synth.collective.algorithms.algorithms import innermost_network_level
from synth.measure.calibration.typical import load_typical, medium_of

SHORT = 0.9
"""A run below this share of the predicted bandwidth falls short."""
NINE_OF_TEN = 0.78
"""The logarithm below which nine of ten lie, to that of nineteen of twenty: of a normal spread."""


@dataclass(frozen=True)
class LargestRow:
    """A table's largest row: how long it keeps each level busy, as expected, and what it took
    beyond what passes without bytes; in seconds."""

    loads: tuple[float, ...]
    seconds: float

    @property
    def crossed(self) -> tuple[int, ...]:
        return tuple(level for level, load in enumerate(self.loads) if load > 0)

    def times(self, level: int) -> float:
        """How much longer than expected the level needs, if the row waits for it."""
        return self.seconds / self.loads[level]

    def busiest(self, levels: Sequence[int]) -> int:
        return max(levels, key=lambda level: self.loads[level])


@dataclass
class Slowness:
    """By level how much longer than expected tables that wait for it take; levels of which one is
    slow, and not told which, each with the one that is taken to be."""

    times: dict[int, list[float]] = field(default_factory=dict)
    untold: dict[tuple[int, ...], int] = field(default_factory=dict)

    def add(self, end: LargestRow, level: int) -> None:
        self.times.setdefault(level, []).append(end.times(level))


def find_slowness(system: System, ends: Sequence[LargestRow]) -> Slowness:
    """What tables say of levels: those of few levels first, as they tell the others'."""
    found = Slowness()
    told: dict[int, float] = {}
    for number in range(1, len(system.links) + 1):
        alone: dict[int, list[float]] = {}
        for end in (end for end in ends if len(end.crossed) == number):
            unknown = [level for level in end.crossed if level not in told]
            known = max((told[one] * end.loads[one] for one in {*end.crossed} & {*told}), default=0)
            busiest, least = end.busiest(end.crossed), SHORT * end.seconds
            if number == 1 or least <= end.loads[busiest]:
                found.add(end, busiest)
            elif least > known and unknown:
                level = choose_slow_level(system, end, unknown)
                found.add(end, level)
                if len(unknown) > 1:
                    found.untold[tuple(unknown)] = level
            if len(unknown) == 1 and least > known:
                alone.setdefault(unknown[0], []).append(end.times(unknown[0]))
        told |= {level: median(times) for level, times in alone.items()}
    return found


def choose_slow_level(system: System, end: LargestRow, levels: Sequence[int]) -> int:
    """Of levels not told apart the busiest; not one inside a node if none is known to lag so."""
    busiest, between = end.busiest(levels), innermost_network_level(system)
    outside = [level for level in levels if level <= between]
    if busiest > between and outside and end.times(busiest) > typical_lag(system, busiest):
        return end.busiest(outside)
    return busiest


def typical_lag(system: System, level: int) -> float:
    """How many times as long as expected large rows take on nine of ten machines with such links;
    infinite where none are known."""
    medium = medium_of(system.links[level])
    known = [one for one in load_typical().spread if one.medium == medium]
    if not known:
        return float("inf")
    return float(max(known, key=lambda one: one.from_bytes).high ** NINE_OF_TEN)
