"""What is aimed at in errors of prices, and what meets it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

Data = dict[str, Any]
LARGE_MEDIAN, LARGE_P90, MIDDLE_MEDIAN, RIGHT = 0.05, 0.15, 0.15, 0.95
CLASSES = {"large": (0.06, 0.25), "middle": (0.12, 0.50), "small": (0.14, 0.55)}
"""Of rows of other tables: the median error that is aimed at, and the 90th percentile."""
COVERED = 0.85, 0.95
"""The share of rows that intervals of 90 % are to hold, in every class."""
SIZES = {"large": "16 MiB and more", "middle": "256 KiB to 16 MiB", "small": "less"}
KINDS = {
    "sizes": "sizes between",
    "tables": "other tables",
    "nodes": "more nodes",
    "beyond": "sizes beyond",
}
PAIRED = ("sizes", "tables")


def targets(data: Data) -> list[tuple[str, str, str, bool]]:
    """What is aimed at, how far, what was found, and whether it is met."""
    found = []
    for kind in PAIRED:
        name = KINDS[kind]
        large, middle = data["all"][kind]["large"], data["all"][kind]["middle"]
        found += [
            _at_most(f"{name}: 16 MiB and more, median error", LARGE_MEDIAN, large["median"]),
            _at_most(f"{name}: 16 MiB and more, 90th percentile", LARGE_P90, large["p90"]),
            _at_most(f"{name}: {SIZES['middle']}, median error", MIDDLE_MEDIAN, middle["median"]),
        ]
        pairs, hits = both(data["pairs"][kind])
        share = hits / pairs
        what = f"{name}: the faster of two options named right, of {pairs} pairs"
        found.append((what, f"at least {RIGHT:.0%}", f"{share:.1%}", share >= RIGHT))
    return found


def _at_most(what: str, limit: float, found: float) -> tuple[str, str, str, bool]:
    return what, f"at most {limit:.0%}", f"{found:.1%}", found <= limit


def both(pairs: dict[str, Sequence[int]]) -> tuple[int, int]:
    """All kinds of pairs together: how many, and how many of them are told right."""
    many, right = (sum(each[i] for each in pairs.values()) for i in (0, 1))
    return many, right


def meets(judged: Data) -> bool:
    """Whether a family's errors are as small as is aimed at."""
    large, middle = judged.get("large"), judged.get("middle")
    if large:
        limit = max(LARGE_P90, 2 * large["noise"]["p90"] if large["noise"] else 0.0)
        if large["median"] > LARGE_MEDIAN or large["p90"] > limit:
            return False
    return not middle or middle["median"] <= MIDDLE_MEDIAN
