"""What was simulated of DDP on nodes of ranks beside what they took, compute slept."""

from __future__ import annotations

from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from results import record
from results.ddp.judged import BEST, NEAR, USUAL, ways_of
from results.ddp.measure import backward_of
from results.ddp.replay import BY_PROGRAM, NETWORKS, OURS_BY_PROGRAM, summing_of
from synth.step.bucketing.clock import AllReduceSeconds, simulate_buckets
from synth.step.bucketing.sums import Sums

Told = dict[str, Any]
PROGRAMS = (BY_PROGRAM, OURS_BY_PROGRAM)
HIDDEN = 0.1
"""What is sent is called hidden where a step computes all but this share of its seconds."""


def figures(folder: Path) -> Told:
    """A row for each network and model that was replayed, and what it comes to."""
    files = [path for one in NETWORKS if (path := folder / f"{one.name}.json").exists()]
    measured = [record.read(path) for path in files]
    rows, alone = list[Told](), list[Told]()
    for told in measured:
        sums, by_program = summing_of(told)
        alone += (ran := _alone(told, by_program))
        rows += [_row(told, one, sums, by_program, ran) for one in told["models"]]
    if not rows:
        return {"rows": rows}
    others = [one for row in rows for name, one in row["ways"].items() if name != USUAL]
    off = [abs(one["gain"] - one["predicted_gain"]) for one in others]
    ours = [row["ways"][row["ours"]] for row in rows]
    hidden = [row for row in rows if row["hidden_simulated"] >= 1 - HIDDEN]
    return {
        "rows": rows,
        "machine": measured[0]["machine"],
        "measured": {
            "commit": ", ".join(sorted({told["commit"] for told in measured})),
            "date": measured[0]["date"],
        },
        "off": {
            "median": median(off),
            "worst": max(off),
            "ours_near": sum(abs(one["gain"] - one["predicted_gain"]) <= NEAR for one in ours),
            "programs_near": sum(
                abs(row["ways"][OURS_BY_PROGRAM]["gain"] - row["own_gain"]) <= NEAR for row in rows
            ),
        },
        "slower": sum(one["gain_high"] < 0 for one in ours),
        "alone": alone,
        "hidden": {
            "rows": len(hidden),
            "least": min((row["hidden"] for row in hidden), default=None),
            "least_simulated": min((row["hidden_simulated"] for row in hidden), default=None),
        },
    }


def _alone(told: Told, by_program: AllReduceSeconds) -> list[Told]:
    """The program by itself, as it ran and as its steps say."""
    return [
        {
            "network": told["shape"],
            "megabits": told["megabits_per_second"],
            "size_bytes": one["size_bytes"],
            "seconds": median(one["seconds"]),
            "predicted_seconds": by_program(one["size_bytes"]),
        }
        for one in told["whole"]
    ]


def _as_it_ran(by_program: AllReduceSeconds, ran: list[Told]) -> AllReduceSeconds:
    """The program's seconds by its steps, times how much longer it took by itself."""
    sizes = [one["size_bytes"] for one in ran]
    longer = [one["seconds"] / one["predicted_seconds"] for one in ran]
    return lambda size: by_program(size) * float(np.interp(np.log(size), np.log(sizes), longer))


def _row(told: Told, one: Told, sums: Sums, by_program: AllReduceSeconds, ran: list[Told]) -> Told:
    """Ours is of both sums the one whose buckets end first on the clock.

    ``own_gain``: of ours by the program, with the program's seconds as it ran by itself.
    """
    backward = backward_of(one)

    def predicted(name: str, way: Told) -> float:
        summing = by_program if name in PROGRAMS else sums.seconds
        return simulate_buckets(backward, tuple(way["ends"]), summing).seconds

    # of six the least and the most hold the median in 97 of 100 cases
    ways = ways_of(one, predicted, inner=0)
    ours = min((BEST, OURS_BY_PROGRAM), key=lambda name: ways[name]["predicted_seconds"])
    ends = tuple(one["ways"][OURS_BY_PROGRAM]["ends"])
    alone = simulate_buckets(backward, ends, _as_it_ran(by_program, ran)).seconds
    computing = backward.compute_seconds + backward.update_seconds
    whole = backward.upto_bytes[-1]
    return {
        "network": told["shape"],
        "megabits": told["megabits_per_second"],
        "program": told["program"],
        "model": one["name"],
        "megabytes": whole / 1e6,
        "compute_seconds": computing,
        "sum_seconds": sums.seconds(whole),
        "program_seconds": by_program(whole),
        "ours": ours,
        "own_gain": ways[USUAL]["predicted_seconds"] / alone - 1,
        "hidden_simulated": computing / ways[ours]["predicted_seconds"],
        "hidden": computing / ways[ours]["seconds"],
        "ways": ways,
    }
