"""The residuals of a fit: the deviations of rows from it, by way and class of sizes.

There are two cases. The error of a price for a measured configuration is that of rows which the fit
has not seen (``residuals``). The error of any other price (another collective, number of ranks or
algorithm, other sizes) is that of whole tables which are left out in turn (``table_residuals``).
All rows of a table err together, so a hundred rows of three tables say no more about a fourth table
than three numbers can.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

import numpy as np
import numpy.typing as npt
import scipy

from grammar import Goal
from hierarchies import Calibration, MeasuredRange, Residual, TableResidual
from hierarchies.calibration import ANY, COVERED, NORMAL_MARGIN, extrapolation_spread
from synth.collective.price.intervals import widening_ratios
from synth.collective.price.resolution import WORTH
from synth.measure.calibration.measurements import FEWEST_SIZES, Configuration, Measurement
from synth.measure.calibration.prior import Floats, Key, noise

Integers = npt.NDArray[np.int64]
ALL_TO_ALL = Goal.ALL_TO_ALL.value
CLASSES = (0, 1 << 16, 1 << 20, 1 << 24, 1 << 28)
"""The least sizes of the classes of sizes, in bytes."""
FEWEST_ROWS = 8
"""A way has its own ratios in a class of sizes with at least this many of its rows."""
_FAR, _SPREADS = 2.0, 5.0
MOST_DROPPED = 0.2
"""The share of a table's rows that may be outliers."""
EXPECTED, EXPECTED_LARGE, LARGE = (0.18, 1.7), (0.07, 1.4), 1 << 24
"""The expected logarithmic error of a table before any was left out, and as how many tables it
counts; from the size LARGE on, where only bytes limit, a smaller one. Most likely of the tables of
22 families of machines, each left out of a fit to the rest of its family (results/fidelity):
without any one of the families 0.17 to 0.19 and 1.6 to 1.9, or 0.07 to 0.08 and 1.3 to 1.6.
"""


@dataclass(frozen=True)
class FittedRow:
    """A measured row, its assumed way, and its fitted seconds.

    Two further fits have not seen the row: ``halves_seconds`` is from a fit to every other size,
    ``tables_seconds`` from a fit without the tables of its configuration (0 if there are no
    others). ``dropped``: the fit ignored the row as an outlier. ``forced``: no other algorithm
    can have run.
    """

    measurement: Measurement
    size_bytes: int
    seconds: float
    fitted_seconds: float
    way: Key
    dropped: bool = False
    halves_seconds: float = 0.0
    tables_seconds: float = 0.0
    forced: bool = False

    @property
    def times(self) -> float:
        """The ratio of measured to fitted seconds."""
        return self.seconds / self.fitted_seconds

    @property
    def off(self) -> float:
        """The factor between measured and fitted seconds, at least 1."""
        return max(self.times, 1 / self.times)


@dataclass(frozen=True)
class UnexpectedTiming:
    """A row outside the interval of its price from all other rows."""

    row: FittedRow
    low: float
    high: float


def find_outliers(
    sizes: Floats, seconds: Floats, fitted: Floats, tables: Integers
) -> npt.NDArray[np.bool_]:
    """Returns which rows the fit ignores: those off by more than a factor of 2 and 5 spreads.

    The spread is the median distance of the rows of the same class, scaled to a standard
    deviation for normal errors (Hampel's rule). If more than ``MOST_DROPPED`` of a table's rows
    are off, the fit is wrong about them, and none is ignored.
    """
    off = np.log(seconds / fitted)
    away = np.zeros(len(off), dtype=np.bool_)
    number = np.searchsorted(CLASSES, sizes, side="right")
    for size_class in np.unique(number):
        mine = number == size_class
        distance = np.abs(off[mine] - np.median(off[mine]))
        spread = 1.4826 * float(np.median(distance))
        away[mine] = distance > max(np.log(_FAR), _SPREADS * spread)
    for table in np.unique(tables):
        mine = tables == table
        away[mine] &= away[mine].mean() <= MOST_DROPPED
    return away


def residuals(rows: Sequence[FittedRow]) -> tuple[Residual, ...]:
    """Returns ratios of measured to fitted seconds from fits without the row, also of dropped rows.

    Ratios for a collective measured among several sets of ranks, and ratios for any collective, are
    from fits without the row's table. With a single set of ranks, a collective's own ratios are
    from fits to every other size.
    """
    shapes: dict[str, set[tuple[int, ...]]] = {}
    for row in rows:
        shapes.setdefault(row.measurement.collective, set()).add(row.measurement.members)
    ratios: dict[tuple[int, Key], list[float]] = {}
    sizes: dict[tuple[int, Key], set[int]] = {}
    for row in sorted(rows, key=lambda row: _class(row.size_bytes)):
        _, algorithm, protocol = row.way
        other = row.seconds / (row.tables_seconds or row.halves_seconds)
        between = row.seconds / row.halves_seconds
        own = other if len(shapes[row.measurement.collective]) > 1 else between
        wider = (ANY, algorithm, protocol), (ANY, ANY, protocol), (ANY, ANY, ANY)
        for key, ratio in ((row.way, own), *((key, other) for key in wider)):
            place = _class(row.size_bytes), key
            ratios.setdefault(place, []).append(ratio)
            sizes.setdefault(place, set()).add(row.size_bytes)
    return tuple(
        _residual(smallest, key, ratios[smallest, key], len(sizes[smallest, key]))
        for smallest, key in ratios
        if len(ratios[smallest, key]) >= FEWEST_ROWS or key == (ANY, ANY, ANY)
    )


def measured_ranges(rows: Sequence[FittedRow]) -> tuple[MeasuredRange, ...]:
    """Returns the measured collectives and members, with ranges of sizes by way.

    A range ends where the next range of the same runs begins: sizes between two rows are assumed to
    use the way of the smaller row.
    """
    kinds: dict[tuple[str, tuple[int, ...], bool], dict[int, set[tuple[str, str]]]] = {}
    for row in rows:
        measurement = row.measurement
        sizes = kinds.setdefault((measurement.collective, measurement.members, row.forced), {})
        sizes.setdefault(row.size_bytes, set()).add((row.way[1], row.way[2]))
    return tuple(
        MeasuredRange(collective, members, ways, smallest, largest, forced)
        for (collective, members, forced), sizes in kinds.items()
        for ways, smallest, largest in _ranges(sizes, forced)
    )


def _ranges(
    sizes: Mapping[int, Collection[tuple[str, str]]], forced: bool
) -> Iterator[tuple[tuple[tuple[str, str], ...], int, int]]:
    """Yields ways with the range of sizes assigned to them; a single range for forced runs."""
    if forced:
        all_ways = {way for ways in sizes.values() for way in ways}
        yield tuple(sorted(all_ways)), min(sizes), max(sizes)
        return
    starts = [
        (tuple(ways), next(group)[0])
        for ways, group in groupby(
            ((size, sorted(sizes[size])) for size in sorted(sizes)), key=lambda entry: entry[1]
        )
    ]
    ends = [start - 1 for _, start in starts[1:]] + [max(sizes)]
    yield from ((ways, start, end) for (ways, start), end in zip(starts, ends, strict=True))


def table_residuals(rows: Sequence[FittedRow]) -> tuple[TableResidual, ...]:
    """Returns, for each class of sizes with rows, the expected range for a row of a new table.

    The logarithms of ratios are assumed normal about 0, with a different spread for each table. The
    mean square of spreads is known from n tables and the expectation, so the range is that of
    Student's t with as many degrees of freedom as both count, which is that of machines in general
    where there are few tables. A table outside the ranges of all others is discounted by the
    additional error expected of an extrapolation. All-to-alls have separate ranges.
    """
    classes: dict[tuple[str, int], dict[Configuration, list[float]]] = {}
    configurations = dict.fromkeys(row.measurement.configuration for row in rows)
    others = {
        left_out: measured_ranges(
            [row for row in rows if row.measurement.configuration != left_out]
        )
        for left_out in configurations
    }
    for row in rows:
        measurement = row.measurement
        collective, configuration = measurement.collective, measurement.configuration
        whose = collective if collective == ALL_TO_ALL else ANY
        mine = classes.setdefault((whose, _class(row.size_bytes)), {})
        if row.tables_seconds:
            known, members = others[configuration], measurement.members
            farther = extrapolation_spread(known, collective, members, row.size_bytes)
            off = float(np.log(row.seconds / row.tables_seconds))
            off /= float(np.hypot(1, farther / _expected(row.size_bytes)[0]))
            mine.setdefault(configuration, []).append(off)
    found = []
    for (whose, smallest), tables in sorted(classes.items()):
        squares = [float(np.mean(np.square(offs))) for offs in tables.values()]
        expected, weight = _expected(smallest)
        freedom = len(squares) + weight
        spread = float(np.sqrt((sum(squares) + weight * expected**2) / freedom))
        margin = float(scipy.special.stdtrit(freedom, (1 + COVERED) / 2))
        high = float(np.exp(margin * spread))
        found.append(
            TableResidual(smallest, len(tables), _round_ratio(1 / high), _round_ratio(high), whose)
        )
    return tuple(found)


def find_unexpected(known: Calibration, rows: Sequence[FittedRow]) -> Iterator[UnexpectedTiming]:
    """Yields the rows that contradict their prices, the farthest off first.

    They are outside the interval that the calibration would have without them, by more than
    ``WORTH``. With them, the interval of a row unlike all others would contain that row.
    """
    seen = set()
    for row in sorted(rows, key=lambda row: row.off, reverse=True):
        where = row.measurement, row.size_bytes
        if row.off <= 1 + WORTH:
            return
        if where not in seen:
            seen.add(where)
            others = [other for other in rows if (other.measurement, other.size_bytes) != where]
            rest = replace(known, residuals=residuals(others))
            low, high = widening_ratios(rest, row.way, row.measurement.members, row.size_bytes)
            if not low / (1 + WORTH) <= row.times <= high * (1 + WORTH):
                yield UnexpectedTiming(row, low, high)


def _expected(size_bytes: int) -> tuple[float, float]:
    return EXPECTED if size_bytes < LARGE else EXPECTED_LARGE


def _class(size_bytes: int) -> int:
    return max(smallest for smallest in CLASSES if smallest <= size_bytes)


def _round_ratio(ratio: float) -> float:
    return float(f"{ratio:.6g}")


def _residual(
    smallest: int, key: tuple[str, str, str], ratios: Sequence[float], sizes: int
) -> Residual:
    """Returns order statistics that contain a new ratio with the stated probability.

    Of n rows the k-th smallest is above a new row in k of n + 1 cases (conformal prediction).
    With few rows the smallest and the largest are used, which contain a new ratio less often
    than stated. Then both are moved away from the median, as for normal logarithms. ``sizes`` is
    the number of distinct sizes of the rows.
    """
    ordered = sorted(ratios)
    outside = int(round((len(ordered) + 1) * (1 - COVERED) / 2, 9))
    place = max(0, outside - 1)
    middle, farther, least = float(np.median(ordered)), 1.0, 1.0
    if not outside and len(ordered) > 1:
        farther = NORMAL_MARGIN / float(scipy.special.ndtri(1 - 1 / (len(ordered) + 1)))
    if sizes < FEWEST_SIZES:
        # Both a new row and the median of these rows have errors, so their variances add up.
        least = float(np.exp(NORMAL_MARGIN * noise(smallest) * np.sqrt(1 + 1 / sizes)))
    low = middle * min((ordered[place] / middle) ** farther, 1 / least)
    high = middle * max((ordered[-1 - place] / middle) ** farther, least)
    collective, algorithm, protocol = key
    return Residual(
        smallest,
        len(ordered),
        _round_ratio(low),
        _round_ratio(middle),
        _round_ratio(high),
        protocol,
        algorithm,
        collective,
    )
