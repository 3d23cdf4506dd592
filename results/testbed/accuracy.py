"""How well prices rank what was measured: the paper's top-k accuracy, pairs, ranks and errors.

Everything is told of a case as a list of medians, their spreads and prices, all in one order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import mean, median
from typing import Any

from scipy import stats

APART = 0.05
"""Pairs whose times differ by more than this share should be ordered right."""
TOPS = (1, 5, 10)
_NEAR_PRICE = 1e-9
"""Prices closer together than this share are one."""


@dataclass(frozen=True)
class Measured:
    """One pair of a case: the median of its samples, how far they lie apart, and its price.

    ``spread_seconds`` is half the distance between the quartiles: half of all samples are nearer
    to the middle of them.
    """

    seconds: float
    spread_seconds: float
    price_seconds: float

    @property
    def error(self) -> float:
        """The share by which the price is off."""
        return abs(self.price_seconds - self.seconds) / self.seconds


def summary(samples: Sequence[float], price_seconds: float) -> Measured:
    """The median and spread of at least two samples."""
    ordered = sorted(samples)
    half = len(ordered) // 2
    low, high = median(ordered[:half]), median(ordered[-half:])
    return Measured(median(ordered), (high - low) / 2, price_seconds)


def tied(one: Measured, other: Measured) -> bool:
    """Whether two medians are closer to each other than their samples lie apart."""
    return abs(one.seconds - other.seconds) <= one.spread_seconds + other.spread_seconds


def fastest(case: Sequence[Measured]) -> list[int]:
    """The fastest of a case, and all that are tied with it."""
    best = min(case, key=lambda one: one.seconds)
    return [i for i, one in enumerate(case) if tied(one, best)]


def first(case: Sequence[Measured], k: int) -> list[int]:
    """The k that prices put first; of those that cost the same, the earlier in the list."""
    return sorted(range(len(case)), key=lambda i: (case[i].price_seconds, i))[:k]


def hit(case: Sequence[Measured], k: int) -> bool:
    """Whether the truly fastest, or one tied with it, is among the first k by price."""
    return bool({*fastest(case)} & {*first(case, k)})


@dataclass(frozen=True)
class Ordered:
    """Pairs of a case more than ``APART`` apart, and how many of them prices order right."""

    right: int
    pairs: int


def ordered(case: Sequence[Measured], apart: float = APART) -> Ordered:
    """Count the pairs that are clearly apart; equal prices order none of them right."""
    right = pairs = 0
    for i, one in enumerate(case):
        for other in case[:i]:
            slow, fast = (one, other) if one.seconds > other.seconds else (other, one)
            if slow.seconds > (1 + apart) * fast.seconds:
                pairs += 1
                right += slow.price_seconds > fast.price_seconds * (1 + _NEAR_PRICE)
    return Ordered(right, pairs)


def spearman(case: Sequence[Measured]) -> float:
    """Spearman's rank correlation of prices and medians."""
    found = stats.spearmanr([one.price_seconds for one in case], [one.seconds for one in case])
    return float(found.statistic)


def tied_share(case: Sequence[Measured]) -> float:
    """The share of all pairs of a case that are tied."""
    count = len(case)
    ties = sum(tied(case[i], case[j]) for i in range(count) for j in range(i))
    return ties / (count * (count - 1) / 2)


def wilson(hits: int, of: int, z: float = 1.959964) -> tuple[float, float]:
    """The 95 % score interval of a share (Wilson, 1927)."""
    share = hits / of
    middle = (share + z * z / (2 * of)) / (1 + z * z / of)
    half = z / (1 + z * z / of) * sqrt(share * (1 - share) / of + z * z / (4 * of * of))
    return max(0.0, middle - half), min(1.0, middle + half)


def told(cases: Sequence[Sequence[Measured]]) -> dict[str, Any]:
    """All figures of some cases."""
    every = [one for case in cases for one in case]
    counts = [ordered(case) for case in cases]
    ranks = [spearman(case) for case in cases]
    tops = {}
    for k in TOPS:
        hits = sum(hit(case, k) for case in cases)
        tops[f"top{k}"] = {"hits": hits, "of": len(cases), "wilson": wilson(hits, len(cases))}
    return {
        "cases": len(cases),
        "pairs": len(every),
        **tops,
        "cases_with_a_tied_fastest": sum(len(fastest(case)) > 1 for case in cases),
        "tied_share": mean(map(tied_share, cases)),
        "ordered": {"right": sum(c.right for c in counts), "of": sum(c.pairs for c in counts)},
        "spearman": {"mean": mean(ranks), "least": min(ranks)},
        "error": {"mean": mean(o.error for o in every), "worst": max(o.error for o in every)},
        "spread": median(one.spread_seconds / one.seconds for one in every),
    }
