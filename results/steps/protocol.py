"""Fit to one third of a family's configurations, judge by the others: no row is on both sides.

Which third is a hash of the configuration, fixed before anything was fitted, so that repeated runs
stay together and nobody chooses. The fit minimises logarithms of ratios, of which each counts less
the farther it is off (Cauchy): a third of a set may be runs in which something was broken. Small
families stay near where they start.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from scipy.optimize import least_squares
from scipy.stats import rankdata

from results.steps.composed import Floats, Numbers, Table
from results.steps.rows import Row

CLASSES = (20, 5, 0)
"""Rows that reach so many hundredths of the peak at least."""

WITHIN = (0.2, 0.1, 0.05)
"""Ratios that are off by less count in full: first widely, so that no few rows decide the end."""

START_WEIGHT = 0.3
"""What a number's start is worth, in rows that are off by as much as it is moved."""

FEWEST, FIRST = 5, 5
Kept = npt.NDArray[np.bool_]


class Configured(Protocol):
    """Whatever was run in a configuration."""

    @property
    def configuration(self) -> str: ...


def fitted_to(row: Configured) -> bool:
    """Whether a row's configuration is of the third that numbers are fitted to."""
    return sha256(row.configuration.encode()).digest()[0] % 3 == 0


def fit(*several: tuple[Table, Floats]) -> Numbers:
    """The numbers that explain these steps best. Raises ValueError without any.

    Of several families each counts as much as the others, however large.
    """
    if not several or not all(len(seconds) for _, seconds in several):
        raise ValueError("no rows to fit to")
    origin = np.log(Numbers().values)
    mean = sum(len(seconds) for _, seconds in several) / len(several)

    def off(logarithms: Floats, within: float) -> Floats:
        numbers = Numbers(*np.exp(logarithms))
        found = [START_WEIGHT * (logarithms - origin)]
        for table, seconds in several:
            ratio = np.log(table.seconds(numbers) / seconds) / within
            found.append(np.sqrt(mean / len(seconds) * np.log1p(ratio**2)))
        return np.concatenate(found)

    found = origin
    for within in WITHIN:
        found = least_squares(
            off, found, args=(within,), x_scale=0.3, diff_step=1e-3, max_nfev=200
        ).x
    return Numbers(*np.exp(found))


def summed_up(off: Floats) -> dict[str, Any]:
    """How far estimates are off: rows, median and 90th percentile of |estimate / step - 1|."""
    median, p90 = np.quantile(off, (0.5, 0.9))
    return {"rows": len(off), "median": short(float(median)), "p90": short(float(p90))}


def sum_errors(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Returns how far predictions are off, their median ``error``, and how many are ``inside``."""
    errors = np.array([row["error"] for row in rows])
    ends = {"bias": short(float(np.median(errors))), "inside": sum(row["inside"] for row in rows)}
    return summed_up(np.abs(errors)) | ends


def judged(rows: Sequence[Row], estimates: Floats) -> dict[str, Any]:
    """By the share of the peak that was reached; a class without rows is left out."""
    seconds = np.array([row.seconds for row in rows])
    share = np.array([row.share for row in rows])
    off = np.abs(estimates / seconds - 1)
    found = {}
    for least in CLASSES:
        mine = off[share >= least / 100]
        if len(mine):
            found[str(least)] = summed_up(mine)
    return found


def ordered(rows: Sequence[Row], estimates: Floats) -> dict[str, Any]:
    """Whether plans of one model on so many devices come in the order that was measured.

    ``spearman``: the median of groups of ``FEWEST`` plans and more, and how many reach 0.95;
    ``first``: of groups of more than ``FIRST`` plans the share whose fastest is in the first five.
    """
    groups: Mapping[str, list[int]] = defaultdict(list)
    for at, row in enumerate(rows):
        groups[row.group].append(at)
    seconds = np.array([row.seconds for row in rows])
    ranks = [
        spearman(seconds[some], estimates[some]) for some in groups.values() if len(some) >= FEWEST
    ]
    firsts = [
        among_first(seconds[some], estimates[some]) for some in groups.values() if len(some) > FIRST
    ]
    if not firsts:
        return {}
    return {
        "groups": len(ranks),
        "spearman": short(float(np.median(ranks))),
        "well_ordered": sum(rank >= 0.95 for rank in ranks),
        "large_groups": len(firsts),
        "first": sum(firsts),
    }


def among_first(seconds: Floats, estimates: Floats) -> bool:
    """Whether fewer than ``FIRST`` others are estimated to be as fast as the fastest."""
    best = int(np.argmin(seconds))
    return int((np.delete(estimates, best) <= estimates[best]).sum()) < FIRST


def spearman(one: Floats, other: Floats) -> float:
    """Of ranks, ties by their mean; 0 where all of one side are equal."""
    first, second = rankdata(one), rankdata(other)
    if np.ptp(first) == 0 or np.ptp(second) == 0:
        return 0.0
    return float(np.corrcoef(first, second)[0, 1])


def short(number: float) -> float:
    return float(f"{number:.4g}")
