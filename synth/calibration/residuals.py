"""What a fit leaves over: how far rows lie from it, by way and class of sizes.

Two questions, two answers. A price of what was measured strays as rows do that the fit had not seen
(``residuals``). A price of what was not, another collective, other numbers of ranks, another
algorithm, sizes beyond, strays as whole tables do that were left out, one after the other
(``strays``): all rows of a table are off together, so that a hundred rows of three tables say no
more of a fourth one than three numbers can.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import scipy

from hierarchies import Measured, Residual, Stray
from hierarchies.calibration import ANY, COVERED
from synth.calibration.measurements import Configuration, Measurement
from synth.calibration.prior import ALGORITHM, Floats, Key

CLASSES = (0, 1 << 16, 1 << 20, 1 << 24, 1 << 28)
"""Where classes of sizes begin, in bytes."""
FEWEST_ROWS = 8
"""A way has ratios of its own in a class where so many rows went it."""
_FAR, _SPREADS = 2.0, 5.0
EXPECTED = ALGORITHM[3]
"""How far a table is expected to lie from a fit before any was left out, in logarithms: as far as
the fit expects the shares of algorithms to stray. It counts as much as one table."""


@dataclass(frozen=True)
class FittedRow:
    """A measured row, the way it was taken to have gone, and what the fit says of it.

    What fits say that have not seen it: ``halves_seconds`` by every other size,
    ``tables_seconds`` without the tables of its configuration (0 where there are no others).
    ``dropped``: the fit did not follow it, as it lies too far from all others.
    """

    measurement: Measurement
    size_bytes: int
    seconds: float
    fitted_seconds: float
    way: Key
    dropped: bool = False
    halves_seconds: float = 0.0
    tables_seconds: float = 0.0


def strayed(sizes: Floats, seconds: Floats, fitted: Floats) -> npt.NDArray[np.bool_]:
    """Which rows are outliers, not to be followed: off by more than a factor of 2 and 5 spreads.

    The spread is the median distance of the rows of the same class, put to scale so that it is a
    standard deviation where errors are normal (Hampel's rule).
    """
    off = np.log(seconds / fitted)
    away = np.zeros(len(off), dtype=np.bool_)
    number = np.searchsorted(CLASSES, sizes, side="right")
    for one in np.unique(number):
        mine = number == one
        distance = np.abs(off[mine] - np.median(off[mine]))
        spread = 1.4826 * float(np.median(distance))
        away[mine] = distance > max(np.log(_FAR), _SPREADS * spread)
    return away


def residuals(rows: Sequence[FittedRow]) -> tuple[Residual, ...]:
    """Ratios measured to fitted by fits that had not seen the row; also of dropped rows.

    A price for a collective that was measured among several sets of ranks, or for one that was not
    measured at all, strays as tables do that a fit has not seen; one that was measured among one
    set of ranks only, as sizes between those of the fit.
    """
    shapes: dict[str, set[tuple[int, ...]]] = {}
    for row in rows:
        shapes.setdefault(row.measurement.collective, set()).add(row.measurement.members)
    found = []
    for number, smallest in enumerate(CLASSES):
        largest = CLASSES[number + 1] if number + 1 < len(CLASSES) else None
        ways: dict[tuple[str, str, str], list[float]] = {}
        for row in rows:
            if smallest <= row.size_bytes and (largest is None or row.size_bytes < largest):
                _, algorithm, protocol = row.way
                other = row.seconds / (row.tables_seconds or row.halves_seconds)
                between = row.seconds / row.halves_seconds
                own = other if len(shapes[row.measurement.collective]) > 1 else between
                ways.setdefault(row.way, []).append(own)
                for key in ((ANY, algorithm, protocol), (ANY, ANY, protocol), (ANY, ANY, ANY)):
                    ways.setdefault(key, []).append(other)
        found += [
            _residual(smallest, key, ratios)
            for key, ratios in ways.items()
            if len(ratios) >= FEWEST_ROWS or key == (ANY, ANY, ANY)
        ]
    return tuple(found)


def followed(rows: Sequence[FittedRow]) -> tuple[Measured, ...]:
    """The configurations of the rows: collective and members, the ways they went, their sizes."""
    kinds: dict[tuple[str, tuple[int, ...]], list[FittedRow]] = {}
    for row in rows:
        one = row.measurement
        kinds.setdefault((one.collective, one.members), []).append(row)
    return tuple(
        Measured(
            *kind,
            tuple(sorted({row.way[1:] for row in mine})),
            min(row.size_bytes for row in mine),
            max(row.size_bytes for row in mine),
        )
        for kind, mine in kinds.items()
    )


def strays(rows: Sequence[FittedRow]) -> tuple[Stray, ...]:
    """In each class of sizes that has rows, where a row of another table is taken to lie.

    The logarithms of ratios are taken to be normal about 0 with a spread of each table's own, whose
    mean square is known from n tables and what was expected: Student's t with n + 1 degrees of
    freedom, which is wide where tables are few.
    """
    classes: dict[int, dict[Configuration, list[float]]] = {}
    for row in rows:
        mine = classes.setdefault(_class(row.size_bytes), {})
        if row.tables_seconds:
            off = float(np.log(row.seconds / row.tables_seconds))
            mine.setdefault(row.measurement.configuration, []).append(off)
    found = []
    for smallest, tables in sorted(classes.items()):
        squares = [float(np.mean(np.square(offs))) for offs in tables.values()]
        known = len(squares) + 1
        spread = float(np.sqrt((sum(squares) + EXPECTED**2) / known))
        margin = float(scipy.special.stdtrit(known, (1 + COVERED) / 2))
        high = float(np.exp(margin * spread))
        found.append(Stray(smallest, len(tables), _short(1 / high), _short(high)))
    return tuple(found)


def _class(size_bytes: int) -> int:
    return max(smallest for smallest in CLASSES if smallest <= size_bytes)


def _short(ratio: float) -> float:
    return float(f"{ratio:.6g}")


def _residual(smallest: int, key: tuple[str, str, str], ratios: Sequence[float]) -> Residual:
    """Order statistics that hold a new ratio with the probability that is stated.

    Of n rows the k-th smallest is above a new one in k of n + 1 cases (conformal prediction); with
    few rows they are the smallest and the largest, and hold less.
    """
    ordered = sorted(ratios)
    outside = int(round((len(ordered) + 1) * (1 - COVERED) / 2, 9))
    place = max(0, outside - 1)
    three = (ordered[place], float(np.median(ordered)), ordered[-1 - place])
    low, median, high = map(_short, three)
    collective, algorithm, protocol = key
    return Residual(smallest, len(ordered), low, median, high, protocol, algorithm, collective)
