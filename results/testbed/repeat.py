"""Measures a small part once more, elsewhere, and says how near it comes to what is committed."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from results.testbed.accuracy import APART, Measured, Ordered, ordered, summary
from results.testbed.cases import cases
from results.testbed.measure import DATA, measure

AGAIN = (
    "2x4-100-200-axes4x2-over0-512KiB",
    "2x8-100-200-axes2x8-over01-256KiB",
    "2x2x4-100-100-200-axes4x4-over1-256KiB",
)
_REPEATS = 2
_SECONDS = 55.0
_NEAR = 0.03
_RIGHT = 0.99


@dataclass(frozen=True)
class Nearness:
    """New medians over old ones, and the pairs apart whose order is the old one."""

    ratios: tuple[float, ...]
    order: Ordered

    @property
    def near(self) -> bool:
        """Whether half of the medians are within 3 %, and 99 % of clear pairs in order."""
        off = median(abs(ratio - 1) for ratio in self.ratios)
        return off <= _NEAR and self.order.right >= _RIGHT * self.order.pairs

    def __str__(self) -> str:
        low, high = min(self.ratios), max(self.ratios)
        return (
            f"new over old median {median(self.ratios):.3f}, from {low:.3f} to {high:.3f}; "
            f"{self.order.right} of {self.order.pairs} pairs more than {APART:.0%} apart in order"
        )


def nearness(old: Sequence[Sequence[int]], new: Sequence[Sequence[int]]) -> Nearness:
    """Compare samples of the same pairs in the same order."""
    was = [summary(each, 0.0).seconds for each in old]
    is_now = [summary(each, 0.0).seconds for each in new]
    both = [Measured(a, 0.0, b) for a, b in zip(was, is_now, strict=True)]
    return Nearness(tuple(b / a for a, b in zip(was, is_now, strict=True)), ordered(both))


def again() -> int:
    """Measure and compare; 0 if all is near."""
    far = 0
    with tempfile.TemporaryDirectory() as folder:
        for case in cases():
            if case.name not in AGAIN:
                continue
            if not (DATA / f"{case.name}.json").exists():
                print(f"{case.name}: not measured yet")
                continue
            if not measure(case, Path(folder), most_seconds=_SECONDS, repeats=_REPEATS):
                print(f"{case.name}: others kept this machine too busy")
                far += 1
                continue
            old, new = (
                [row["microseconds"] for row in json.loads(path.read_text())["pairs"]]
                for path in (DATA / f"{case.name}.json", Path(folder) / f"{case.name}.json")
            )
            found = nearness(old, new)
            print(f"{case.name}: {found}")
            far += not found.near
    return int(far > 0)
