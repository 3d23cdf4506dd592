"""What prices can tell apart: two programs whose prices differ by less are one answer.

Two prices of one machine err together. Both count bytes over the same links, so where a program
sends the same bytes twice it is slower however fast the links turn out to be. So a price is taken
apart into what it *owes* to each source of error: an algorithm by a protocol, and what it waits
for (messages, a level's links, memory). Within one source the error is one unknown, the same for
both programs, from the lowest that measurements let the truth be to the highest; those of different
sources are independent. 3 ms by rings over the nodes' NICs are told from 4 ms through the same
NICs by rings, though each may be off by 40%; 3 ms by rings are not told from 4 ms through switches.

So the speed-up of one over another lies in an interval: over all that the unknowns may be. Each
unknown alone (the others held) makes the quotient of two sums (p + q z) / (r + s z), which never
turns; so both ends are at corners, where each is at its lowest or its highest. However the unknowns
agree, the interval is as wide as what no unknown says: ``finest_resolution``, the share of a price
below which differences are never told.

A program is *surely faster* where the whole interval of its speed-up is above 1. That is a strict
partial order, as the sum of two differences that are above 0 for all unknowns is so, too, and
quotients multiply. What is expected to be faster by more than ``WORTH``, and is not surely so, is
worth measuring: a run tells what prices cannot. Nearer than that a run would seldom pay for itself.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from math import inf

from hierarchies import System
from synth.collective.algorithms.algorithms import Algorithm
from synth.collective.algorithms.protocols import Protocol
from synth.collective.price.intervals import interval_of_step
from synth.collective.price.steps import LATENCY, InstructionPrice

FINEST = 0.02
"""Prices that differ by this share or less are never told apart."""
FINEST_OF_OTHERS = 0.1
"""The same of what is shown as one answer where prices are those of other machines."""
OTHERS_MESSAGES, OTHERS_LINKS = 1.0, 0.25
"""And of a gain that is claimed there: of what is owed to messages, and to links. Of two runs on
one machine, by prices that others taught, the one priced below by less is not the faster in one of
three to six cases; by more, in one of seven at most (results/typical). Data sheets tell no more."""
OF_A_SHEET = (1.0, 1 / 0.39)
"""Between which ratios to a data sheet's seconds links lie: those of media that were measured reach
from all of theirs to 0.39 of it (results/typical)."""
WORTH = 0.1
"""Speed-ups above 1 by more than this share that are expected, not told, are worth measuring."""


@dataclass(frozen=True)
class PriceErrorSource:
    """One source of error: what errs together."""

    algorithm: Algorithm | None
    protocol: Protocol
    waits_for: str


Ends = tuple[float, float]
"""What is owed to a source, in ticks: if it turns out as low as measurements allow, and as high."""


@dataclass(frozen=True)
class PriceEstimate:
    """A price in ticks, and the part of it that is owed to each source of error.

    ``owed`` is empty where only the price is known. ``finest_resolution`` is the share
    of a price below which differences are never told.
    """

    ticks: int
    owed: Mapping[PriceErrorSource, Ends] = field(default_factory=dict)
    finest: float = FINEST

    @property
    def lowest(self) -> float:
        """The least that measurements let the price be, in ticks."""
        return sum(low for low, _ in self.owed.values()) or float(self.ticks)

    @property
    def highest(self) -> float:
        """The most that measurements let the price be, in ticks."""
        return sum(high for _, high in self.owed.values()) or float(self.ticks)

    def surely_below(self, other: PriceEstimate) -> bool:
        """Whether this is faster than the other whatever the errors are, and by enough to tell.

        That is where the least of ``speedup_over`` is above 1, found by a sum alone: the difference
        of two prices is least where each source is at the end that makes it so.
        """
        if not is_beyond(self.ticks, other.ticks, max(self.finest, other.finest)):
            return False
        if not self.owed or not other.owed:
            return True
        return sum(min(differences) for differences in self._more_of(other)) > 0

    @property
    def most_below(self) -> int:
        """The largest price in ticks of what can be surely below this."""
        return (100 * self.ticks - 1) // (100 + _percent(self.finest))

    def perhaps_below(self, other: PriceEstimate) -> bool:
        """Whether this is expected to be faster, by enough to be worth measuring, but not surely.

        Then the figures between which the speed-up lies are on both sides of 1.
        """
        return is_beyond(self.ticks, other.ticks, WORTH) and not self.surely_below(other)

    def speedup_over(self, other: PriceEstimate) -> tuple[float, float]:
        """The least and the most of other / this, whatever the errors are; this is not 0.

        The quotient is largest, or smallest, where those sources are high that add most to the one
        above beside what they add to the one below, and all others low.
        """
        expected = other.ticks / self.ticks
        finest = 1 + _percent(max(self.finest, other.finest)) / 100
        ends = [expected / finest, expected * finest]
        if self.owed and other.owed:
            ends += self._quotients(other)
        return min(ends), max(ends)

    def _quotients(self, other: PriceEstimate) -> Iterator[float]:
        """Other / this at the corners of which the least and the most are two."""

        def steepness(source: PriceErrorSource) -> float:
            (low, high), (low_of_other, high_of_other) = self._of(source), other._of(source)
            return _quotient(high_of_other - low_of_other, high - low)

        sources = sorted({**self.owed, **other.owed}, key=steepness)
        for cut in range(len(sources) + 1):
            for highs in (sources[:cut], sources[cut:]):
                yield _quotient(other.if_high(highs), self.if_high(highs))

    def if_high(self, sources: Collection[PriceErrorSource]) -> float:
        """The price in ticks if these sources' errors are as high as can be, all others' as low."""
        return sum(ends[source in sources] for source, ends in self.owed.items())

    def _of(self, source: PriceErrorSource) -> Ends:
        return self.owed.get(source, (0.0, 0.0))

    def _more_of(self, other: PriceEstimate) -> Iterator[Ends]:
        """How much more the other owes to each source, at its lowest and at its highest."""
        for source in {**self.owed, **other.owed}:
            mine, its = self._of(source), other._of(source)
            yield its[0] - mine[0], its[1] - mine[1]

    def told_from(self, other: PriceEstimate) -> bool:
        """Whether one of the two is surely below the other."""
        return self.surely_below(other) or other.surely_below(self)


def _quotient(above: float, below: float) -> float:
    return above / below if below else inf


def sum_estimates(weighted: Iterable[tuple[float, PriceEstimate]]) -> PriceEstimate:
    """Several prices, each so many times, as one: what they owe to the same source adds up."""
    ticks, owed, finest = 0.0, dict[PriceErrorSource, Ends](), FINEST
    for times, one in weighted:
        ticks += times * one.ticks
        finest = max(finest, one.finest)
        for source, (low, high) in one.owed.items():
            _add(owed, source, times * low, times * high)
    return PriceEstimate(round(ticks), owed, finest)


def _add(
    owed: dict[PriceErrorSource, Ends], source: PriceErrorSource, low: float, high: float
) -> None:
    lows, highs = owed.get(source, (0.0, 0.0))
    owed[source] = lows + low, highs + high


def finest_resolution(system: System) -> float:
    """The share of a price below which programs on a system are one answer."""
    return FINEST_OF_OTHERS if system.prices == "typical" else FINEST


def _percent(share: float) -> int:
    return round(100 * share)


def is_beyond(ticks: int, other: int, share: float = FINEST) -> bool:
    """Whether the other price is above this one by more than a share of it, in whole percent."""
    return 100 * (other - ticks) > _percent(share) * ticks


def largest_near(ticks: int, share: float = FINEST) -> int:
    """The largest price that is not beyond a given one."""
    return ticks + _percent(share) * ticks // 100


def estimate_price(system: System, ticks: int, prices: Iterable[InstructionPrice]) -> PriceEstimate:
    """A price and what it owes, from the phases of all that runs, of every segment.

    Where phases overlap, the price of the whole owes each source the share that it has in the sum
    of the phases, as an interval has it.
    """
    owed: dict[PriceErrorSource, Ends] = {}
    waits = total = 0.0
    for price in prices:
        if price.seconds:
            total += price.seconds
            waits += price.latency_seconds
            low, high = _seconds_interval(system, price)
            for source, share in _parts(system, price):
                _add(owed, source, share * low, share * high)
    scale = ticks / total if total else 0.0
    apart = {source: (scale * low, scale * high) for source, (low, high) in owed.items()}
    return PriceEstimate(ticks, apart, _claimable_share(system, waits / total if total else 0.0))


def estimate_as_shown(
    system: System, ticks: int, prices: Iterable[InstructionPrice]
) -> PriceEstimate:
    """By what answers are told apart where they are shown: their seconds alone, until calibrated.

    One factor for a whole machine says nothing of which of two is faster. ``prices``: of all that
    runs; they are gone through only where measurements take them apart.
    """
    if system.prices == "calibrated":
        return estimate_price(system, ticks, prices)
    return PriceEstimate(ticks, finest=finest_resolution(system))


def _seconds_interval(system: System, price: InstructionPrice) -> Ends:
    """The seconds between which one phase lies; of a data sheet's a transpose is at its price."""
    if system.calibration or price.algorithm is None:
        found = interval_of_step(system, price)
        return found.low_seconds, found.high_seconds
    return OF_A_SHEET[0] * price.seconds, OF_A_SHEET[1] * price.seconds


def _claimable_share(system: System, waiting: float) -> float:
    """The share of a price below which no gain is claimed; ``waiting``: of it for messages."""
    if system.prices == "calibrated":
        return FINEST
    return OTHERS_MESSAGES * waiting + OTHERS_LINKS * (1 - waiting)


def _parts(system: System, price: InstructionPrice) -> Iterator[tuple[PriceErrorSource, float]]:
    """The sources of error of one phase and the share that each has: messages, what is busiest.

    Where prices are those of other machines or of data sheets, what is not known is the machine:
    how much of its data sheet a level's links reach, and how long its messages take. That is one
    error for all that waits for them, by whichever way; but for switches that add up, whose share
    is one of its own.
    """
    algorithm, protocol = price.algorithm, price.protocol
    if system.prices != "calibrated":
        algorithm = algorithm if algorithm is Algorithm.IN_NETWORK else None
        protocol = Protocol.SIMPLE
    waits = price.latency_seconds / price.seconds
    for waits_for, share in ((LATENCY, waits), (price.busiest, 1 - waits)):
        if share > 0:
            yield PriceErrorSource(algorithm, protocol, waits_for), share
