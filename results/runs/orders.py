"""Plans of one model on one network in the order in which they are simulated to end.

From errors that a report kept, so by the simulation of its commit: a plan's simulated seconds are
its measured ones times one and its error.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from typing import Any

from results.order.ranking import ranked, sorted_by
from synth.step.profiles import MOST_DRIFT

FEWEST = 3
"""Plans that an order is told of; of two there is not much to say."""

Told = dict[str, Any]


def orders(rows: Iterable[Mapping[str, Any]]) -> list[Told]:
    """Of every model, network and number of ranks, where the reference did not drift."""
    alike: dict[tuple[str, int, float], list[Mapping[str, Any]]] = defaultdict(list)
    for row in rows:
        if row["drift"] <= MOST_DRIFT:
            alike[row["model"], row.get("world", 2), row["megabits"]].append(row)
    return [
        {"model": model, "ranks": ranks, "megabits": megabits, **_order(some)}
        for (model, ranks, megabits), some in alike.items()
        if len(some) >= FEWEST
    ]


def _order(rows: Sequence[Mapping[str, Any]]) -> Told:
    """``apart``: pairs of plans that were measured farther apart than their steps spread."""
    measured = [float(row["step_seconds"]) for row in rows]
    simulated = [float(row["step_seconds"] * (1 + row["step_error"])) for row in rows]
    order = sorted_by(simulated)
    apart = [
        (measured[one] < measured[other]) == (simulated[one] < simulated[other])
        for one, other in combinations(range(len(rows)), 2)
        if _apart(rows[one], rows[other])
    ]
    return {
        "plans": len(rows),
        "first": rows[order[0]]["plan"],
        "fastest": rows[measured.index(min(measured))]["plan"],
        "apart": len(apart),
        "right": sum(apart),
        **ranked(measured, order, simulated),
    }


def _apart(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether two plans differ by more than the middle halves of both their steps."""
    spread = sum(row["step_spread"] * row["step_seconds"] for row in (one, other))
    return bool(abs(one["step_seconds"] - other["step_seconds"]) > spread)
