"""The share of their stated rate that links carried in measured rows.

The shares of a fit are those of an algorithm by a protocol. Trees over switches reach less of a
network than rings do, and if the runtime chose, rows do not show which of them ran. Rings need 1.9
times the bytes of such trees on a node's ports, so 0.6 of a network by rings looks like a third of
it by trees. Here the share of a level is that of its links, independent of the way that ran: the
measured fraction of the way's expected performance, times the share that the best way reaches
there. It is reported for every way that may have run, except those for which the links would carry
more than their stated rate.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from grammar import Goal
from hierarchies import System
from hierarchies.calibration import ANY
from synth.collective.algorithms.nccl_model import Ranks
from synth.collective.price.defaults import quickest_seconds
from synth.measure.calibration.candidates import PossibleWay, Predictor, possible_ways
from synth.measure.calibration.measurements import BusyPart, Measurement, busy_part
from synth.measure.calibration.slow_level import SHORT
from synth.measure.calibration.typical import apply_typical
from synth.measure.doctor.runs import LARGE, delivered_shares

ALIKE = 1.1
"""Shares that differ by less than this factor count as equal."""
UNLIKELY = 2.0
"""The runtime does not choose what its own model expects to take so many times as long."""


@dataclass(frozen=True)
class CarriedShare:
    """The share of one level's stated rate that its links carried, by the way that may have run.

    ``least``: the links may carry more, because another level may have limited the rows.
    """

    level: str
    shares: Mapping[str, float]
    source: str
    least: bool

    @property
    def low(self) -> float:
        return min(self.shares.values())

    @property
    def high(self) -> float:
        return max(self.shares.values())

    @property
    def told(self) -> bool:
        """Whether the share is the same for every way that may have run."""
        return self.high <= ALIKE * self.low


def carried_shares(system: System, measurements: Sequence[Measurement]) -> tuple[CarriedShare, ...]:
    """Returns the shares of each level that large rows cross, outermost first.

    Tables of few levels come first, because they show the limits of the others. Of several tables
    the most informative is used, then the table with the highest share. Raises InputError for ways
    and ranks that the system does not have.
    """
    bare = apply_typical(replace(system, calibration=None))
    tables = [(each.source, _parts_by_way(bare, each)) for each in measurements]
    known: dict[str, CarriedShare] = {}
    for crossed in range(1, len(system.links) + 1):
        found: dict[str, CarriedShare] = {}
        for source, ways in tables:
            if crossed == max((len(parts) for parts in ways.values()), default=0):
                for share in _shares_of_table(bare, source, ways, known):
                    found[share.level] = max(found.get(share.level, share), share, key=_sort_key)
        for name, share in found.items():
            if name not in known or _sort_key(share)[:2] > _sort_key(known[name])[:2]:
                known[name] = share
    return tuple(known[name] for name in system.hierarchy.names if name in known)


def _sort_key(share: CarriedShare) -> tuple[bool, bool, float]:
    return share.told, not share.least, share.low


def _parts_by_way(bare: System, measurement: Measurement) -> dict[str, dict[str, float]]:
    """Returns the fraction reached of the expected performance, by possible way and by level."""
    found = {}
    for way in _likely_ways(busy_part(bare, measurement), measurement):
        forced = measurement.algorithm or way.name
        predictor = Predictor(bare, replace(measurement, algorithm=forced))
        rows = [
            (sample.seconds, predictor.at(sample.size_bytes).price)
            for sample in measurement.samples
            if sample.size_bytes
        ]
        large = [row for row in rows if row[1].latency_seconds <= LARGE * row[1].seconds]
        if large:
            found[way.name] = delivered_shares(large)
    return found


def _likely_ways(part: BusyPart, measurement: Measurement) -> Iterator[PossibleWay]:
    """Yields the possible ways, but those that NCCL's model expects to be slow at large sizes."""
    ways = possible_ways(part, measurement)
    if len(ways) > 1:
        ranks, goal = Ranks(part.system, part.members), Goal(measurement.collective)
        largest = max(sample.size_bytes for sample in measurement.samples)
        seconds = [quickest_seconds(ranks, goal, way.name, largest) for way in ways]
        ways = tuple(
            way for way, each in zip(ways, seconds, strict=True) if each <= UNLIKELY * min(seconds)
        )
    yield from ways


def _shares_of_table(
    bare: System,
    source: str,
    ways: Mapping[str, Mapping[str, float]],
    known: Mapping[str, CarriedShare],
) -> Iterator[CarriedShare]:
    best = {name: _best_share(bare, name) for name in bare.hierarchy.names}
    likely = {
        way: parts
        for way, parts in ways.items()
        if all(part * best[name] * SHORT <= max(1.0, best[name]) for name, part in parts.items())
    }
    for name in best:
        shares = {way: parts[name] * best[name] for way, parts in likely.items() if name in parts}
        if shares:
            least = any(
                not _has_slack(other, part * best[other], known)
                for parts in likely.values()
                for other, part in parts.items()
                if other != name
            )
            yield CarriedShare(name, shares, source, least)


def _has_slack(level: str, share: float, known: Mapping[str, CarriedShare]) -> bool:
    """Whether a level is known to carry more than this share."""
    return level in known and share * ALIKE < known[level].low


def _best_share(bare: System, level: str) -> float:
    """Returns the share of a level's stated rate that the best way should reach on two children."""
    if bare.calibration is None:
        return 1.0
    at = bare.hierarchy.index(level)
    return max(fit.levels[at].share for fit in bare.calibration.fits if fit.collective == ANY)
