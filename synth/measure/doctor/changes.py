"""How much longer rows take than in an earlier run of the same test, by what limits them.

Of a row that took T seconds then, a share waited for messages and the rest for bandwidth. Now it
takes T x (latency factor x share + bandwidth factor x (1 - share)). Small sizes determine the first
factor, large ones the second. The price gives the shape of the share over sizes, and the small rows
of the earlier run its scale, so that neither factor depends on how far prices are off.

Single rows stray by tens of per cent between runs that are alike, so medians are taken. The errors
of repeated runs are measured: ``python -m results.doctor``.

>>> from math import log
>>> change = estimate_changes([1.0, 1.0, 1.0, 0.0, 0.0, 0.0], [log(1.0)] * 3 + [log(2.0)] * 3)
>>> f"{change.latency.factor:.1f} {change.bandwidth.factor:.1f} {change.bandwidth.moved}"
'1.0 2.0 True'
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from math import exp, hypot, log

import numpy as np
import numpy.typing as npt

from hierarchies.calibration import NORMAL_MARGIN

FEW, MUCH = 0.3, 0.7
"""Shares of latency: rows up to FEW determine the bandwidth factor, from MUCH on the latency's."""
SHARE_ERROR = 0.4
"""The relative error of a share of latency."""
ROW_ERROR = {"latency": 0.03, "middle": 0.05, "bandwidth": 0.01}
RUN_ERROR = {"latency": 0.05, "middle": 0.08, "bandwidth": 0.015}
"""Relative errors of a row, and of all rows of a run alike, between repeated runs."""
SURE = 3.0
"""A factor has moved if it differs from 1 by more than this many standard errors."""
STRAY, NEIGHBOURS = 1.3, 3
"""Rows stray if they take this many times what the factors explain, as do so many in a row."""
_ROUNDS = 4
_LEAST = 0.05
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Change:
    """A factor on the time of some rows since the earlier run, and the error of its logarithm."""

    factor: float
    error: float
    rows: tuple[int, ...]

    @property
    def low(self) -> float:
        """The lower end of nine of ten."""
        return self.factor * exp(-NORMAL_MARGIN * self.error)

    @property
    def high(self) -> float:
        """The upper end of nine of ten."""
        return self.factor * exp(NORMAL_MARGIN * self.error)

    @property
    def moved(self) -> bool:
        """Whether repeated runs of a machine that did not change differ by less."""
        return abs(log(self.factor)) > SURE * self.error

    @property
    def slower(self) -> bool:
        return self.moved and self.factor > 1


@dataclass(frozen=True)
class Changes:
    """The factors on latency and on bandwidth, and what is left in between.

    Each is None without rows that determine it. ``middle`` is the factor beyond the other two.
    ``stray`` has the rows that take longer than the factors explain, if neighbours do so, too.
    """

    latency: Change | None
    middle: Change | None
    bandwidth: Change | None
    stray: tuple[int, ...] = ()

    @property
    def slower(self) -> bool:
        """Whether some rows take longer than in repeated runs of a machine that did not change."""
        every = (self.latency, self.middle, self.bandwidth)
        return bool(self.stray) or any(change is not None and change.slower for change in every)

    @property
    def faster(self) -> bool:
        """Whether some rows take less time, and none longer."""
        every = (self.latency, self.middle, self.bandwidth)
        return not self.slower and any(change is not None and change.moved for change in every)


def estimate_changes(shares: Sequence[float], ratios: Sequence[float]) -> Changes:
    """Returns the changes of rows.

    ``shares`` are the shares of latency in the earlier times, ``ratios`` the logarithms of the
    times now over those then, both in the order of sizes.
    """
    share, times = np.array(shares, dtype=np.float64), np.exp(np.array(ratios, dtype=np.float64))
    small, large = np.flatnonzero(share >= MUCH), np.flatnonzero(share <= FEW)
    middle = np.flatnonzero((share > FEW) & (share < MUCH))
    latency = bandwidth = None
    by_latency = by_bandwidth = 1.0
    for _ in range(_ROUNDS):
        if len(small):
            part = share[small]
            found = (times[small] - by_bandwidth * (1 - part)) / part
            unsure = SHARE_ERROR * (by_bandwidth - 1) * (1 - part)
            latency = _change("latency", found, unsure, small)
            by_latency = latency.factor
        if len(large):
            part = share[large]
            found = (times[large] - by_latency * part) / (1 - part)
            unsure = SHARE_ERROR * (by_latency - 1) * part
            bandwidth = _change("bandwidth", found, unsure, large)
            by_bandwidth = bandwidth.factor
    # Rows that did not change are not slow, even if all others became faster.
    expected = np.maximum(by_latency * share + by_bandwidth * (1 - share), 1.0)
    unsure = SHARE_ERROR * np.abs(by_latency - by_bandwidth) * share / expected
    between = None
    if len(middle):
        between = _change("middle", (times / expected)[middle], unsure[middle], middle)
    far = np.log(times / expected) > log(STRAY) + SURE * unsure
    return Changes(latency, between, bandwidth, _longest(far.tolist()))


def _longest(far: Sequence[bool]) -> tuple[int, ...]:
    """Returns the longest row of true values, if it is as long as ``NEIGHBOURS``."""
    runs = [list(rows) for true, rows in groupby(range(len(far)), far.__getitem__) if true]
    longest = max(runs, key=len, default=[])
    return tuple(longest) if len(longest) >= NEIGHBOURS else ()


def _change(kind: str, found: Floats, unsure: Floats, rows: npt.NDArray[np.intp]) -> Change:
    """Returns the weighted median of factors, with its error.

    ``unsure`` is the absolute error of each factor by its share of latency.
    """
    found = np.maximum(found, _LEAST)
    weights = 1 / (ROW_ERROR[kind] ** 2 + (unsure / found) ** 2)
    logs = np.log(found)
    centre = _median(logs, weights)
    scatter = max(1.0, 1.4826 * _median(np.abs(logs - centre), weights) * np.sqrt(weights.mean()))
    error = 1.25 * scatter / np.sqrt(weights.sum())  # 1.25: of a median beside a mean
    return Change(
        exp(centre), hypot(float(error), RUN_ERROR[kind]), tuple(int(row) for row in rows)
    )


def _median(values: Floats, weights: Floats) -> float:
    order = np.argsort(values)
    total = np.cumsum(weights[order])
    return float(values[order][np.searchsorted(total, total[-1] / 2)])
