"""What an order is worth by measurement: where the best is in it, and what its first one costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

import numpy as np

from results.steps.protocol import short, spearman

FIRST = 5
"""So many plans are looked at by whoever asks for plans."""

WELL = 0.95
"""A coefficient that is aimed at."""

Ranked = Mapping[str, Any]


def best_at(seconds: Sequence[float], order: Sequence[int]) -> int:
    """At which place of an order, from 1, the measured best is; 0 if it is in none.

    >>> best_at([3.0, 1.0, 2.0], [2, 1, 0])
    2
    """
    best = seconds.index(min(seconds))
    return list(order).index(best) + 1 if best in order else 0


def regret(seconds: Sequence[float], order: Sequence[int]) -> float | None:
    """How much longer an order's first takes than the measured best; None if it has no first.

    >>> regret([3.0, 1.0, 2.0], [2, 1, 0])
    1.0
    """
    return seconds[order[0]] / min(seconds) - 1 if order else None


def ranked(seconds: Sequence[float], order: Sequence[int], expected: Sequence[float]) -> Ranked:
    """Of measured plans: an order of some of them, and the seconds that are expected of these.

    Spearman's coefficient is None where fewer than two are in order.
    """
    lost = regret(seconds, order)
    mine = np.array([[seconds[one], expected[one]] for one in order])
    return {
        "best": best_at(seconds, order),
        "regret": None if lost is None else short(lost),
        "spearman": short(spearman(mine[:, 0], mine[:, 1])) if len(order) > 1 else None,
    }


def sorted_by(expected: Sequence[float]) -> list[int]:
    """The order of what is expected, the first of equal ones first; what is infinite has no place.

    >>> sorted_by([2.0, float("inf"), 1.0])
    [2, 0]
    """
    finite = [at for at, one in enumerate(expected) if np.isfinite(one)]
    return sorted(finite, key=expected.__getitem__)


def summed(several: Sequence[Ranked]) -> dict[str, Any]:
    """Of groups: how often the best is among the first, and medians of what else is told.

    A group without any order counts as one that misses, and as no regret.
    """
    regrets = [one["regret"] for one in several if one["regret"] is not None]
    orders = [one["spearman"] for one in several if one["spearman"] is not None]
    return {
        "groups": len(several),
        "in_first": sum(0 < one["best"] <= FIRST for one in several),
        "is_first": sum(one["best"] == 1 for one in several),
        "regret": median(regrets) if regrets else None,
        "within": sum(one <= 0.05 for one in regrets),
        "spearman": median(orders) if orders else None,
        "well": sum(one >= WELL for one in orders),
    }
