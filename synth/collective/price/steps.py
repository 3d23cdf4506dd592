"""The price of one step with its reasons; sums of such prices, and what limits them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import ceil

from hierarchies import InputError
from synth.collective.algorithms.algorithms import Algorithm
from synth.collective.algorithms.protocols import Protocol
from synth.collective.price.ways import OneWay, PriceLine, busy_by_level, busy_resources
from synth.events.overlap import PhaseWork, makespan_seconds
from synth.search.best_first import BEYOND

LATENCY = "latency"


TICKS_PER_SECOND = 10**12
"""Prices are compared in whole picoseconds; smaller differences are ties."""


@dataclass(frozen=True)
class InstructionPrice:
    """The price of one phase, with its reasons.

    ``what`` is the collective's name, or ``transpose``; ``busiest`` is the resource that is busy
    longest (a level's name, or ``memory``). ``bytes_per_port``: for each level, the bytes on its
    busiest port or link, per direction. ``busy_seconds``: how long each resource is busy, for a
    port its busier direction; ``one_way`` has both directions where they are separate. ``members``
    is that of its ``AlgorithmWay``.
    """

    what: str
    algorithm: Algorithm | None
    size_bytes: float
    seconds: float
    latency_seconds: float
    busiest: str
    bytes_per_port: tuple[tuple[str, float], ...]
    busy_seconds: tuple[tuple[str, float], ...]
    protocol: Protocol = Protocol.SIMPLE
    members: tuple[int, ...] = ()
    one_way: tuple[OneWay, ...] = ()

    @property
    def work(self) -> PhaseWork:
        """The demands on the machine, for pricing phases that overlap."""
        busy = busy_resources(self.busy_seconds, self.one_way)
        return PhaseWork(
            self.latency_seconds, {name: seconds for name, seconds in busy.items() if seconds}
        )

    @property
    def limited_by(self) -> str:
        """The busiest resource, or ``latency`` where waiting for messages takes longer."""
        return LATENCY if self.latency_seconds > self.seconds / 2 else self.busiest

    @property
    def ticks(self) -> int:
        return ticks_of(self.seconds)


def price_of_line(collective: str, line: PriceLine, size_bytes: float) -> InstructionPrice:
    """The price of a collective whose algorithm and protocol a line describes."""
    busiest, _ = max(line.loads, key=lambda item: item[1])
    return InstructionPrice(
        collective,
        line.algorithm,
        size_bytes,
        line.seconds(size_bytes),
        line.waiting_seconds(size_bytes),
        busiest,
        tuple((name, share * size_bytes) for name, share in line.bytes_per_port),
        tuple((name, size_bytes * load) for name, load in line.loads),
        line.protocol,
        line.members,
        tuple((name, size_bytes * out, size_bytes * into) for name, out, into in line.one_way),
    )


def total_seconds(prices: Iterable[InstructionPrice]) -> float:
    """The price of phases that wait for each other: their sum, in whole picoseconds."""
    return sum(price.ticks for price in prices) / TICKS_PER_SECOND


def sum_by_name(rows: Iterable[Iterable[tuple[str, float]]]) -> dict[str, float]:
    """Sums the values of each name over the rows."""
    totals: dict[str, float] = {}
    for row in rows:
        for name, value in row:
            totals[name] = totals.get(name, 0.0) + value
    return totals


def total_busy_seconds(
    stripes: Iterable[tuple[Sequence[InstructionPrice], int]],
) -> dict[str, float]:
    """Seconds each level and the memory are busy in all; for a port, its busier direction.

    A stripe is the prices of one segment and the number of segments. A reduce-scatter that sends
    for 8 ms and receives for 1, and an all-gather that does the opposite, keep a port busy for 9
    ms.
    """
    return busy_by_level(total_resource_seconds(stripes))


def total_resource_seconds(
    stripes: Iterable[tuple[Sequence[InstructionPrice], int]],
) -> dict[str, float]:
    """As ``total_busy_seconds``, with both directions where a port's are told apart."""
    return sum_by_name(
        [(name, segments * seconds) for name, seconds in price.work.busy.items()]
        for prices, segments in stripes
        for price in prices
    )


def limiting_resource(prices: Iterable[InstructionPrice], segments: int = 1) -> str:
    """The resource a program waits for longest: a level's name, ``memory`` or ``latency``.

    ``prices`` are of one segment. Where segments overlap, it is the resource with the most busy
    time; ``latency`` if none is busy for half of the time.
    """
    prices = tuple(prices)
    if segments > 1 and prices:
        works = [price.work for price in prices]
        return _busiest_of_stripes([(prices, segments)], makespan_seconds(works, segments))
    waits = sum_by_name(
        (
            (LATENCY, price.latency_seconds),
            (price.busiest, price.seconds - price.latency_seconds),
        )
        for price in prices
    )
    return max(waits, key=lambda name: waits[name]) if waits else ""


def limiting_of_stripes(
    stripes: Sequence[tuple[Sequence[InstructionPrice], int]], seconds: float
) -> str:
    """The limiting resource of concurrent programs, each with the prices of one segment."""
    if len(stripes) == 1:
        return limiting_resource(*stripes[0])
    return _busiest_of_stripes(stripes, seconds)


def _busiest_of_stripes(
    stripes: Sequence[tuple[Sequence[InstructionPrice], int]], whole_seconds: float
) -> str:
    busy = total_busy_seconds(stripes)
    busiest = max(busy, key=lambda name: busy[name])
    return busiest if 2 * busy[busiest] >= whole_seconds else LATENCY


def ticks_of(seconds: float) -> int:
    """Seconds in whole picoseconds, rounded up. Raises InputError if too many to compare."""
    if seconds * TICKS_PER_SECOND >= BEYOND >> 4:  # 16 such steps still sum to at most BEYOND
        raise InputError(
            f"one step would take {seconds:.3g} s", hint="give a smaller payload or faster links"
        )
    return ceil(seconds * TICKS_PER_SECOND)
