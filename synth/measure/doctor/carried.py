"""What measured rows say of the links themselves: which share of their stated rate they carried.

The shares of a fit are those of an algorithm by a protocol: trees over switches reach less of the
same network than rings do, and where the runtime chose, rows do not say which of them ran. Rings
need 1.9 times the bytes of such trees on a node's ports, so 0.6 of a network by rings looks like a
third of it by trees. Here a level's share is of its links, whatever ran: as far as rows fall short
of what their way is expected to reach, of the share that the best way reaches there. It is told for
every way that may have run, but for those for which the links would carry more than is stated.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from hierarchies import System
from hierarchies.calibration import ANY
from synth.measure.calibration.busy_part import busy_part
from synth.measure.calibration.candidates import possible_ways
from synth.measure.calibration.measurements import Measurement
from synth.measure.calibration.prediction import Predictor
from synth.measure.calibration.slow_level import SHORT
from synth.measure.calibration.typical import apply_typical
from synth.measure.doctor.runs import LARGE, delivered_shares

ALIKE = 1.1
"""Shares that differ by less are one."""


@dataclass(frozen=True)
class CarriedShare:
    """Of one level's stated rate the share that its links carried, by the way that may have run.

    ``least``: they may do more, as another level may have limited the rows.
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
        """Whether it is one share, whichever way ran."""
        return self.high <= ALIKE * self.low


def carried_shares(system: System, measurements: Sequence[Measurement]) -> tuple[CarriedShare, ...]:
    """What the rows say of each level that large ones cross, outermost first.

    Of tables of few levels first, as these tell what limits the others; of several tables that
    which tells most, and then that by which links do most. Raises InputError for ways and ranks
    that the system does not have.
    """
    bare = apply_typical(replace(system, calibration=None))
    tables = [(one.source, _parts_by_way(bare, one)) for one in measurements]
    known: dict[str, CarriedShare] = {}
    for crossed in range(1, len(system.links) + 1):
        found: dict[str, CarriedShare] = {}
        for source, ways in tables:
            if crossed == max((len(one) for one in ways.values()), default=0):
                for one in _shares_of_table(bare, source, ways, known):
                    found[one.level] = max(found.get(one.level, one), one, key=_sort_key)
        for name, one in found.items():
            if name not in known or _sort_key(one)[:2] > _sort_key(known[name])[:2]:
                known[name] = one
    return tuple(known[name] for name in system.hierarchy.names if name in known)


def _sort_key(one: CarriedShare) -> tuple[bool, bool, float]:
    return one.told, not one.least, one.low


def _parts_by_way(bare: System, measurement: Measurement) -> dict[str, dict[str, float]]:
    """For each way that may have run: by level the part of what it is expected to reach there."""
    found = {}
    for way in possible_ways(busy_part(bare, measurement), measurement):
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
    """Whether a level is known to do more than such a share."""
    return level in known and share * ALIKE < known[level].low


def _best_share(bare: System, level: str) -> float:
    """The share of its stated rate that the best way is expected to reach among two."""
    if bare.calibration is None:
        return 1.0
    at = bare.hierarchy.index(level)
    return max(one.levels[at].share for one in bare.calibration.fits if one.collective == ANY)
