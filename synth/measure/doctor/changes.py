"""How much longer rows take than in an earlier run of the same test, by what limits them.

Of a row that took T seconds then, a share waited for messages and the rest for bandwidth. Now it
takes T x (latency factor x share + bandwidth factor x (1 - share)). Small sizes determine the first
factor, large ones the second. The price gives the shape of the share over sizes, and the small rows
of the earlier run its scale, so that neither factor depends on how far prices are off.

Single rows stray by tens of per cent between runs that are alike, so medians are taken. The errors
of repeated runs are measured: ``python -m results.doctor``. Rows that slow down unevenly widen the
error of a factor until it includes 1, so most rows of a class being slower is a change by itself.

>>> from math import log
>>> change = estimate_changes([1.0, 1.0, 1.0, 0.0, 0.0, 0.0], [log(1.0)] * 3 + [log(2.0)] * 3)
>>> f"{change.latency.factor:.1f} {change.bandwidth.factor:.1f} {change.bandwidth.moved}"
'1.0 2.0 True'
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
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
UNEVEN = 1.15
"""A row is slower by itself from this factor on, and beyond ``SURE`` errors of its class."""
UNKNOWN_ERROR = 0.5
"""A factor is undetermined if the error of its logarithm is larger."""
_ROUNDS = 4
_LEAST = 0.05
"""Factors are raised to this; one that was is undetermined."""
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Change:
    """A factor on the time of some rows since the earlier run, and the error of its logarithm."""

    factor: float
    error: float
    rows: tuple[int, ...]

    @property
    def clipped(self) -> bool:
        """Whether other rows explain all of the time of these, so that nothing is left."""
        return self.factor <= _LEAST * (1 + 1e-9)

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
    ``uneven`` has the rows that take longer by factors that differ, if most rows of a class do so
    and its factor does not show it. ``undetermined`` has the rows of ``messages`` and ``links``
    that do not determine their factor: the other one explains nearly all of their time, or they
    scatter.
    """

    latency: Change | None
    middle: Change | None
    bandwidth: Change | None
    stray: tuple[int, ...] = ()
    uneven: tuple[int, ...] = ()
    undetermined: Mapping[str, tuple[int, ...]] = field(default_factory=dict)

    @property
    def slower(self) -> bool:
        """Whether some rows take longer than in repeated runs of a machine that did not change."""
        every = (self.latency, self.middle, self.bandwidth)
        alone = bool(self.stray or self.uneven)
        return alone or any(change is not None and change.slower for change in every)

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
    rows = {
        "latency": np.flatnonzero(share >= MUCH),
        "middle": np.flatnonzero((share > FEW) & (share < MUCH)),
        "bandwidth": np.flatnonzero(share <= FEW),
    }
    latency = bandwidth = None
    by_latency = by_bandwidth = 1.0
    for _ in range(_ROUNDS):
        latency = _factor("latency", share, times, by_bandwidth, rows["latency"])
        by_latency = _part_factor(latency)
        bandwidth = _factor("bandwidth", 1 - share, times, by_latency, rows["bandwidth"])
        by_bandwidth = _part_factor(bandwidth)
    expected = by_latency * share + by_bandwidth * (1 - share)
    # Rows that did not change are not slow, even if all others became faster.
    longest = np.maximum(expected, 1.0)
    unsure = SHARE_ERROR * np.abs(by_latency - by_bandwidth) * share / longest
    between = None
    if len(middle := rows["middle"]):
        beyond = np.maximum(times / longest, np.minimum(times / expected, 1.0))
        between = _change("middle", beyond[middle], unsure[middle], middle)
    far = np.log(times / longest) > log(STRAY) + SURE * unsure
    known = {
        "latency": latency if latency and _is_known(latency) else None,
        "middle": between,
        "bandwidth": bandwidth if bandwidth and _is_known(bandwidth) else None,
    }
    return Changes(
        known["latency"],
        between,
        known["bandwidth"],
        _longest(far.tolist()),
        _uneven(share, times, known, rows),
        {
            kind: change.rows
            for kind, change in (("messages", latency), ("links", bandwidth))
            if change and not _is_known(change)
        },
    )


def _factor(
    kind: str, part: Floats, times: Floats, by_other: float, rows: npt.NDArray[np.intp]
) -> Change | None:
    """Returns the factor on a part of the times, given that on the rest; None without rows."""
    if not len(rows):
        return None
    rest = 1 - part[rows]
    found = (times[rows] - by_other * rest) / part[rows]
    return _change(kind, found, SHARE_ERROR * (by_other - 1) * rest, rows)


def _part_factor(change: Change | None) -> float:
    """Returns the factor that the other part's rows assume; 1 if their own rows do not tell it."""
    return change.factor if change and not change.clipped else 1.0


def _is_known(change: Change) -> bool:
    return change.error <= UNKNOWN_ERROR and not change.clipped


def _uneven(
    share: Floats,
    times: Floats,
    changes: Mapping[str, Change | None],
    rows: Mapping[str, npt.NDArray[np.intp]],
) -> tuple[int, ...]:
    """Returns the rows that are slower by themselves, if most of a class of several are.

    A class is passed over if its factor shows that it is slower. What factors that did so explain
    of other classes is left out of their rows.
    """
    slow = {kind: one.factor if one and one.slower else 1.0 for kind, one in changes.items()}
    explained = slow["latency"] * share + slow["bandwidth"] * (1 - share)
    unsure = SHARE_ERROR * np.abs(slow["latency"] - slow["bandwidth"]) * share / explained
    found: list[int] = []
    most = False
    for kind, these in rows.items():
        if slow[kind] == 1.0:
            margin = max(log(UNEVEN), SURE * hypot(ROW_ERROR[kind], RUN_ERROR[kind]))
            far = np.log(times / explained)[these] > margin + SURE * unsure[these]
            most = most or (len(these) > 1 and 2 * int(far.sum()) > len(these))
            found += these[far].tolist()
    return tuple(sorted(found)) if most else ()


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
