"""What was simulated of ways to fill buckets, beside what they took."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

from results import record
from results.ddp.measure import ROUNDS, compared_of
from synth.step.bucketing import FillPolicy
from synth.step.bucketing.clock import simulate_buckets

Told = dict[str, Any]
NEAR = 0.05
"""Between a gain as simulated and as measured."""
USUAL, BEST = FillPolicy.USUAL.value, FillPolicy.BEST.value


def figures(folder: Path) -> Told:
    """A row for each model and rate, and what it comes to."""
    files = sorted(folder.glob("*.json"), key=lambda path: float(path.stem))
    measured = [record.read(path) for path in files]
    rows = [_row(told, one) for told in measured for one in told["models"]]
    first = measured[0]
    others = [one for row in rows for name, one in row["ways"].items() if name != USUAL]
    off = [abs(one["gain"] - one["predicted_gain"]) for one in others]
    ours = [row["ways"][BEST] for row in rows]
    steps = [
        abs(one["predicted_seconds"] / one["seconds"] - 1)
        for row in rows
        for one in row["ways"].values()
    ]
    return {
        "rows": rows,
        "machine": first["machine"],
        "measured": {
            "commit": ", ".join(sorted({told["commit"] for told in measured})),
            "date": first["date"],
        },
        "off": {
            "median": median(off),
            "worst": max(off),
            "ours_near": sum(abs(one["gain"] - one["predicted_gain"]) <= NEAR for one in ours),
        },
        "slower": sum(one["gain_high"] < 0 for one in ours),
        "steps": {"median": median(steps), "worst": max(steps)},
    }


def _row(told: Told, one: Told) -> Told:
    simulated = compared_of(told, one)
    replica = simulated.replica
    backward, sums, taken = replica.backward, replica.sums.seconds, replica.taken
    assert {len(way["seconds"]) for way in one["ways"].values()} == {ROUNDS}
    # of nine the second and the second last hold the median in 96 of 100 cases
    ways = ways_of(
        one,
        lambda _, way: simulate_buckets(backward, tuple(way["ends"]), sums, taken).seconds,
        inner=1,
    )
    [ours] = [way for way in simulated.ways if way.filling is FillPolicy.BEST]
    least = simulated.least.seconds
    return {
        "model": one["name"],
        "megabits": told["megabits_per_second"],
        "megabytes": backward.upto_bytes[-1] / 1e6,
        "compute_seconds": backward.compute_seconds + backward.update_seconds,
        "sum_seconds": sums(backward.upto_bytes[-1]),
        "least_seconds": least,
        "claimed": ours.saved.is_clear,
        "ways": ways,
    }


def ways_of(one: Told, predicted: Callable[[str, Told], float], inner: int) -> Told:
    """Of a model each way, as measured and as ``predicted`` by its name: seconds, and gains.

    A gain lies between those of two rounds: the ``inner`` lowest and highest are left out.
    """
    ways: Told = {}
    for name, way in one["ways"].items():
        ratios = sorted(
            usual / mine
            for usual, mine in zip(one["ways"][USUAL]["seconds"], way["seconds"], strict=True)
        )
        ways[name] = {
            "buckets": len(way["buckets_bytes"]),
            "seconds": median(way["seconds"]),
            "predicted_seconds": predicted(name, way),
            "gain": median(ratios) - 1,
            "gain_low": ratios[inner] - 1,
            "gain_high": ratios[-1 - inner] - 1,
        }
    usual = ways[USUAL]["predicted_seconds"]
    for way in ways.values():
        way["predicted_gain"] = usual / way["predicted_seconds"] - 1
    return ways
