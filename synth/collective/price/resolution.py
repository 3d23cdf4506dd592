"""The resolution of prices: two programs whose prices differ by less are one answer.

Two prices of one machine err together. Both count bytes over the same links, so a program that
sends the same bytes twice is slower at any speed of the links. So a price is split into the parts
that it *owes* to each source of error: an algorithm by a protocol, and the resource that it waits
for (messages, a level's links, memory). Within one source the error is one unknown, the same for
both programs, between the lowest and the highest truth that measurements allow; different sources
are independent. 3 ms by rings over the nodes' NICs can be distinguished from 4 ms by rings over the
same NICs, though each may be off by 40%; 3 ms by rings cannot be distinguished from 4 ms through
switches.

So the speed-up of one program over another lies in an interval over all values of the unknowns. As
a function of one unknown (the others held) it is a quotient (p + q z) / (r + s z), which is
monotone; so both ends lie at corners, where each unknown is at its lowest or highest. The interval
is never narrower than ``PriceEstimate.finest``, the share of a price below which differences are
never resolved.

A program is *surely faster* where the whole interval of its speed-up is above 1. That is a strict
partial order: the sum of two differences that are positive for all unknowns is positive, and
quotients multiply. A program that is expected to be faster by more than ``WORTH``, but not surely,
is worth measuring; a smaller gain would seldom repay the run.
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
"""Prices within this share of each other are never resolved."""
FINEST_OF_OTHERS = 0.1
"""The same share where prices come from other machines; closer answers are shown as one answer."""
OTHERS_MESSAGES, OTHERS_LINKS = 1.0, 0.25
"""The least gains claimed where prices come from other machines, as shares of the messages and of
the links in a price. Of two runs on one machine, the run priced lower by less than this was the
slower run in one of two to five cases; priced lower by more, in one of seven at most
(results/typical). Prices from data sheets resolve no finer.
"""
WORTH = 0.1
"""Expected but unsure speed-ups above 1 by more than this share are worth measuring."""


@dataclass(frozen=True)
class PriceErrorSource:
    """One source of error: prices that share it err together."""

    algorithm: Algorithm | None
    protocol: Protocol
    waits_for: str


Ends = tuple[float, float]
"""Ticks owed to a source at the lowest and at the highest that measurements allow."""


@dataclass(frozen=True)
class PriceEstimate:
    """A price in ticks, and the part of it that is owed to each source of error.

    ``owed`` is empty where only the price is known. ``finest`` is the share of a price below which
    differences are never resolved.
    """

    ticks: int
    owed: Mapping[PriceErrorSource, Ends] = field(default_factory=dict)
    finest: float = FINEST

    @property
    def lowest(self) -> float:
        """The least price that measurements allow, in ticks."""
        return sum(low for low, _ in self.owed.values()) or float(self.ticks)

    @property
    def highest(self) -> float:
        """The highest price that measurements allow, in ticks."""
        return sum(high for _, high in self.owed.values()) or float(self.ticks)

    def surely_below(self, other: PriceEstimate) -> bool:
        """Whether this is faster than the other for all errors, and by a resolvable difference.

        Equivalent to a least ``speedup_over`` above 1, but found by a sum alone: the difference of
        two prices is least where each source is at the end that minimises its own difference.
        """
        if not is_beyond(self.ticks, other.ticks, max(self.finest, other.finest)):
            return False
        if not self.owed or not other.owed:
            return True
        return sum(min(differences) for differences in self._differences(other)) > 0

    @property
    def most_below(self) -> int:
        """The largest price in ticks of a program that can be surely below this one."""
        return (100 * self.ticks - 1) // (100 + _percent(self.finest))

    def perhaps_below(self, other: PriceEstimate) -> bool:
        """Whether this is expected to be faster by enough to be worth measuring, but not surely.

        The ends of the speed-up's interval are then on both sides of 1.
        """
        return is_beyond(self.ticks, other.ticks, WORTH) and not self.surely_below(other)

    def speedup_over(self, other: PriceEstimate) -> tuple[float, float]:
        """Returns the least and the greatest other / this over all errors; this must not be 0.

        The quotient is extreme where the sources that add most to the numerator relative to the
        denominator are at one end, and all others at the other.
        """
        expected = other.ticks / self.ticks
        finest = 1 + _percent(max(self.finest, other.finest)) / 100
        ends = [expected / finest, expected * finest]
        if self.owed and other.owed:
            ends += self._quotients(other)
        return min(ends), max(ends)

    def _quotients(self, other: PriceEstimate) -> Iterator[float]:
        """Yields other / this at corners that include the least and the greatest."""

        def steepness(source: PriceErrorSource) -> float:
            (low, high), (low_of_other, high_of_other) = (
                self._owed_to(source),
                other._owed_to(source),
            )
            return _quotient(high_of_other - low_of_other, high - low)

        sources = sorted({**self.owed, **other.owed}, key=steepness)
        for cut in range(len(sources) + 1):
            for highs in (sources[:cut], sources[cut:]):
                yield _quotient(other.if_high(highs), self.if_high(highs))

    def if_high(self, sources: Collection[PriceErrorSource]) -> float:
        """The price in ticks with these sources at their highest and all others at their lowest."""
        return sum(ends[source in sources] for source, ends in self.owed.items())

    def _owed_to(self, source: PriceErrorSource) -> Ends:
        return self.owed.get(source, (0.0, 0.0))

    def _differences(self, other: PriceEstimate) -> Iterator[Ends]:
        """How much more the other owes to each source, at its lowest and at its highest."""
        for source in {**self.owed, **other.owed}:
            own, theirs = self._owed_to(source), other._owed_to(source)
            yield theirs[0] - own[0], theirs[1] - own[1]

    def told_from(self, other: PriceEstimate) -> bool:
        """Whether one of the two is surely below the other."""
        return self.surely_below(other) or other.surely_below(self)


def _quotient(above: float, below: float) -> float:
    return above / below if below else inf


def sum_estimates(weighted: Iterable[tuple[float, PriceEstimate]]) -> PriceEstimate:
    """The weighted sum of several prices as one; their parts owed to the same source add up."""
    ticks, owed, finest = 0.0, dict[PriceErrorSource, Ends](), FINEST
    for weight, estimate in weighted:
        ticks += weight * estimate.ticks
        finest = max(finest, estimate.finest)
        for source, (low, high) in estimate.owed.items():
            _add(owed, source, weight * low, weight * high)
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
    """Whether the other price is higher by more than a share of this one, in whole percent."""
    # In whole numbers, so that this agrees with ``largest_near`` and ``most_below`` to the tick.
    return 100 * (other - ticks) > _percent(share) * ticks


def largest_near(ticks: int, share: float = FINEST) -> int:
    """The largest price that is not beyond a given one."""
    return ticks + _percent(share) * ticks // 100


def estimate_price(system: System, ticks: int, prices: Iterable[InstructionPrice]) -> PriceEstimate:
    """A price and the parts that it owes to each source, from the phases of all segments.

    Where phases overlap, the price of the whole owes each source the share that the source has in
    the sum of the phases, as in an interval.
    """
    owed: dict[PriceErrorSource, Ends] = {}
    waits = total = 0.0
    for price in prices:
        if price.seconds:
            total += price.seconds
            waits += price.latency_seconds
            interval = interval_of_step(system, price)
            for source, share in _error_sources(system, price):
                _add(owed, source, share * interval.low_seconds, share * interval.high_seconds)
    scale = ticks / total if total else 0.0
    scaled = {source: (scale * low, scale * high) for source, (low, high) in owed.items()}
    return PriceEstimate(ticks, scaled, _claimable_share(system, waits / total if total else 0.0))


def estimate_as_shown(
    system: System, ticks: int, prices: Iterable[InstructionPrice]
) -> PriceEstimate:
    """The estimate that separates shown answers: without a calibration, the seconds alone.

    A single factor for a whole machine does not order two programs. ``prices``, of all segments,
    are read only on a calibrated system.
    """
    if system.prices == "calibrated":
        return estimate_price(system, ticks, prices)
    return PriceEstimate(ticks, finest=finest_resolution(system))


def _claimable_share(system: System, waiting: float) -> float:
    """The share of a price below which no gain is claimed; ``waiting`` is that for messages."""
    if system.prices == "calibrated":
        return FINEST
    return OTHERS_MESSAGES * waiting + OTHERS_LINKS * (1 - waiting)


def _error_sources(
    system: System, price: InstructionPrice
) -> Iterator[tuple[PriceErrorSource, float]]:
    """Yields one phase's sources of error with their shares: messages and the busiest resource.

    Where prices come from other machines or data sheets, the unknown is the machine: the share of
    its data sheet that a level's links reach, and how long its messages take. That error is common
    to all algorithms, except for switches that reduce, whose share is separate.
    """
    algorithm, protocol = price.algorithm, price.protocol
    if system.prices != "calibrated":
        algorithm = algorithm if algorithm is Algorithm.IN_NETWORK else None
        protocol = Protocol.SIMPLE
    waits = price.latency_seconds / price.seconds
    for waits_for, share in ((LATENCY, waits), (price.busiest, 1 - waits)):
        if share > 0:
            yield PriceErrorSource(algorithm, protocol, waits_for), share
