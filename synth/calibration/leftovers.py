"""What a fit leaves over: how far rows lie from it, by way and class of sizes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from hierarchies import Residual
from hierarchies.calibration import ANY, COVERED

if TYPE_CHECKING:
    from synth.calibration.fitting import FittedRow

CLASSES = (0, 1 << 16, 1 << 20, 1 << 24, 1 << 28)
"""Where classes of sizes begin, in bytes."""
FEWEST_ROWS = 8
"""A way has ratios of its own in a class where so many rows went it."""
_FAR, _SPREADS = 2.0, 5.0

Floats = npt.NDArray[np.float64]


def strayed(sizes: Floats, seconds: Floats, fitted: Floats) -> npt.NDArray[np.bool_]:
    """Which rows the fit should not follow: off by more than a factor of 2, and 5 spreads.

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
    """Ratios measured to fitted, also of dropped rows: a price's error is what it is."""
    found = []
    for number, smallest in enumerate(CLASSES):
        largest = CLASSES[number + 1] if number + 1 < len(CLASSES) else None
        mine = [
            row
            for row in rows
            if smallest <= row.size_bytes and (largest is None or row.size_bytes < largest)
        ]
        ways: dict[tuple[str, str, str], list[float]] = {}
        for row in mine:
            collective, algorithm, protocol = row.way
            ratio = row.seconds / row.fitted_seconds
            for key in (
                (collective, algorithm, protocol),
                (ANY, algorithm, protocol),
                (ANY, ANY, protocol),
                (ANY, ANY, ANY),
            ):
                ways.setdefault(key, []).append(ratio)
        found += [
            _residual(smallest, key, ratios)
            for key, ratios in ways.items()
            if len(ratios) >= FEWEST_ROWS or key == (ANY, ANY, ANY)
        ]
    return tuple(found)


def _residual(smallest: int, key: tuple[str, str, str], ratios: Sequence[float]) -> Residual:
    tail = (1 - COVERED) / 2
    quantiles = np.quantile(ratios, [tail, 0.5, 1 - tail]).tolist()
    low, median, high = (float(f"{ratio:.6g}") for ratio in quantiles)
    collective, algorithm, protocol = key
    return Residual(smallest, len(ratios), low, median, high, protocol, algorithm, collective)
