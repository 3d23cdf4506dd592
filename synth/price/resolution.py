"""What prices can tell apart: two programs whose prices differ by less are one answer.

Two prices of one machine err together. Both count bytes over the same links, so where a program
sends the same bytes twice it is slower however fast the links turn out to be. So a price is taken
apart into what it *owes* to each source of error: an algorithm by a protocol, what it waits for
(a level's links, memory, messages), and the ratios between which measurements take the truth to
lie there. Within one source the error is one unknown factor, the same for both programs; those of
different sources are independent. One program is told from another if it is faster whatever these
factors are: 3 ms by rings over the nodes' NICs are told from 4 ms by rings over the same NICs,
though each may be off by 40%; 3 ms by rings are not told from 4 ms through the switches.

Where intervals do not overlap programs are always told apart. Nearer than ``FINEST`` they never
are, calibrated or not: that much the model itself leaves out.

"Surely faster" is a strict partial order, as the sum of two differences that are above 0 for all
factors is so, too, and quotients multiply.

What is expected to be faster by more than ``WORTH``, and is not surely so, is worth measuring: a
run tells what prices cannot. Nearer than that a run would seldom pay for itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf

from hierarchies import System
from hierarchies.calibration import ANY
from synth.collectives.algorithms import Algorithm
from synth.collectives.protocols import Protocol
from synth.price.intervals import of_step
from synth.price.steps import LATENCY, StepPrice

FINEST = 0.02
"""Prices that differ by this share or less are never told apart."""
FINEST_OF_OTHERS = 0.1
"""The same where prices are those of other machines, which are off by a fifth in the median."""
WORTH = 0.1
"""Speed-ups above 1 by more than this share that are expected, not told, are worth measuring."""


@dataclass(frozen=True)
class Source:
    """One source of error, and the ratios to the price between which the truth lies there."""

    algorithm: Algorithm | None
    protocol: Protocol
    waits_for: str
    low: float
    high: float


@dataclass(frozen=True)
class Estimate:
    """A price in ticks, and the part of it that is owed to each source of error, in ticks.

    ``owed`` is empty without a calibration: then only the price is known. ``finest`` is the share
    of a price below which differences are never told.
    """

    ticks: int
    owed: Mapping[Source, float] = field(default_factory=dict)
    finest: float = FINEST

    @property
    def lowest(self) -> float:
        """The least that measurements let the price be, in ticks."""
        return sum(part * source.low for source, part in self.owed.items()) or float(self.ticks)

    @property
    def highest(self) -> float:
        """The most that measurements let the price be, in ticks."""
        return sum(part * source.high for source, part in self.owed.items()) or float(self.ticks)

    def surely_below(self, other: Estimate) -> bool:
        """Whether this is faster than the other whatever the errors are, and by enough to tell."""
        if not beyond(self.ticks, other.ticks, max(self.finest, other.finest)):
            return False
        least = 0.0
        for source in {**self.owed, **other.owed}:
            more = other.owed.get(source, 0.0) - self.owed.get(source, 0.0)
            least += more * (source.low if more > 0 else source.high)
        return least > 0 if self.owed or other.owed else True

    def perhaps_below(self, other: Estimate) -> bool:
        """Whether this is expected to be faster, by enough to be worth measuring, but not surely.

        Then the figures between which the speed-up lies are on both sides of 1.
        """
        return beyond(self.ticks, other.ticks, WORTH) and not self.surely_below(other)

    def speedup_over(self, other: Estimate) -> tuple[float, float]:
        """The least and the most of other / this, whatever the errors are; this is not 0.

        A quotient of two sums is largest, or smallest, where each factor is at an end: high for
        the sources of which the one above owes most beside the one below, low for all others.
        """
        if not self.owed or not other.owed:
            return other.ticks / self.ticks, other.ticks / self.ticks
        every = {**self.owed, **other.owed}
        sources = sorted(
            every, key=lambda one: _quotient(other.owed.get(one, 0.0), self.owed.get(one, 0.0))
        )

        def at(highs: Sequence[Source]) -> float:
            return _quotient(other.if_high(highs), self.if_high(highs))

        cuts = range(len(sources) + 1)
        return min(at(sources[:cut]) for cut in cuts), max(at(sources[cut:]) for cut in cuts)

    def if_high(self, sources: Sequence[Source]) -> float:
        """The price in ticks if these sources' errors are as high as can be, all others' as low."""
        return sum(
            part * (source.high if source in sources else source.low)
            for source, part in self.owed.items()
        )

    def told_from(self, other: Estimate) -> bool:
        """Whether one of the two is surely below the other."""
        return self.surely_below(other) or other.surely_below(self)


def _quotient(above: float, below: float) -> float:
    return above / below if below else inf


def together(weighted: Iterable[tuple[float, Estimate]]) -> Estimate:
    """Several prices, each so many times, as one: what they owe to the same source adds up."""
    ticks, owed, finest = 0.0, dict[Source, float](), FINEST
    for times, one in weighted:
        ticks += times * one.ticks
        finest = max(finest, one.finest)
        for source, part in one.owed.items():
            owed[source] = owed.get(source, 0.0) + times * part
    return Estimate(round(ticks), owed, finest)


def finest(system: System) -> float:
    """The share of a price below which differences on a system are never told."""
    return FINEST_OF_OTHERS if system.prices == "typical" else FINEST


def beyond(ticks: int, other: int, share: float = FINEST) -> bool:
    """Whether the other price is above this one by more than a share of it, in whole ticks."""
    return (other - ticks) * round(1 / share) > ticks


def near(ticks: int, share: float = FINEST) -> int:
    """The largest price that is not beyond a given one."""
    return ticks + ticks // round(1 / share)


def estimate(system: System, ticks: int, prices: Iterable[StepPrice]) -> Estimate:
    """A price and what it owes, from the phases of all that runs, of every segment.

    Where phases overlap, the price of the whole owes each source the share that it has in the sum
    of the phases, as an interval has it.
    """
    if system.calibration is None:
        return Estimate(ticks)
    owed: dict[Source, float] = {}
    for price in prices:
        if price.seconds:
            source = source_of(system, price)
            owed[source] = owed.get(source, 0.0) + price.seconds
    total = sum(owed.values())
    apart = {source: ticks * part / total for source, part in owed.items()}
    return Estimate(ticks, apart, finest(system))


def source_of(system: System, price: StepPrice) -> Source:
    """The source of error of one phase: a transpose has none but its own memory's.

    Where prices are those of other machines, what is not known is the machine: how much of its
    data sheet a level's links reach, and how long its messages take. That is one error for all that
    waits for them, by whichever way; but for switches that add up, whose share is one of its own.
    """
    calibration = system.calibration
    if calibration and system.prices == "typical" and price.algorithm is not None:
        size = 0.0 if price.limited_by == LATENCY else inf
        class_ = calibration.residual(ANY, ANY, ANY, size)
        low, high = (class_.low, class_.high) if class_ else (1.0, 1.0)
        own = Algorithm.IN_NETWORK if price.algorithm is Algorithm.IN_NETWORK else None
        return Source(own, Protocol.SIMPLE, price.limited_by, low, high)
    found = of_step(system, price)
    low, high = found.low_seconds / price.seconds, found.high_seconds / price.seconds
    return Source(price.algorithm, price.protocol, price.limited_by, round(low, 9), round(high, 9))
