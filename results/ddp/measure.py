"""Two ranks on a shaped network train by DDP, with some ways to fill buckets in turns."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from hierarchies import Axis, placements
from results import record
from results.ddp.models import MODELS, Model
from results.ddp.worker import MIB, Made, Rank
from results.runs.cases import WIDE as ANY_MODEL
from results.runs.cases import planned
from results.runs.measure import sizes_at, timed
from results.runs.predicted import Taken, calibrated
from results.runs.ranks import Ranks, ranks
from results.testbed.hosts.network import network
from results.testbed.systems import built
from synth.step.bucketing import (
    AXIS,
    BucketComparison,
    FillPolicy,
    Replica,
    compare_policies,
    write_script,
)
from synth.step.bucketing.gradients import BackwardPass, Gradient
from synth.step.bucketing.sums import Sums
from synth.step.emit import write

WORLD = 2
ROUNDS, WARM_UPS, PROFILED = 9, 3, 7
COMMAND = "python -m results.ddp run"
Told = dict[str, Any]


def measure(megabits: float, models: Sequence[Model] = MODELS, seed: int = 0) -> Told:
    """All models at one rate. Raises TroubleError where a rank dies or does not answer."""
    told: Told = {
        **record.origin(COMMAND),
        "machine": record.machine(),
        "megabits_per_second": megabits,
    }
    with (
        network(built((WORLD,), (megabits,))) as wiring,
        tempfile.TemporaryDirectory() as place,
        ranks(wiring, Path(place), Rank) as hired,
    ):
        told |= _collectives(hired, megabits, seed)
        told["models"] = [_trained(hired, told, model, seed) for model in models]
    return told


def _collectives(hired: Ranks, megabits: float, seed: int) -> Told:
    """Seconds of all-reduces by bytes; and how much slower a core computes beside one."""
    one = planned(ANY_MODEL, "data=2; batch over data; zero=2")
    hired.all("helpers", write("torch", one.step, one.program, one.plan.sizes))
    sizes = sizes_at(megabits)
    rows = timed(hired, ("all_reduce",), sizes, megabits * 1e6 / 8, seed)
    beside = [one for _ in range(5) for one in hired.all("beside", sizes[-1])]
    return {"rows": rows, "beside": [round(one, 4) for one in beside]}


def _trained(hired: Ranks, told: Told, model: Model, seed: int) -> Told:
    """Each way to fill buckets, in shuffled turns."""
    hired.all("take", model)
    profile = profile_of([rank for _ in range(PROFILED) for rank in hired.all("alone")])
    found = {"name": model.name, **profile}
    simulated = compared_of(told, found)
    for one in simulated.ways:
        upto = simulated.replica.backward.upto_bytes
        ends = (0, *one.ends)
        caps = [(upto[b] - upto[a]) / MIB for a, b in pairwise(ends)]
        ours = one.filling is FillPolicy.BEST
        text = write_script(simulated, model.name, COMMAND) if ours else ""
        hired.all("way", one.filling.value, text, None if one.filling is FillPolicy.USUAL else caps)
    names = [one.filling.value for one in simulated.ways]
    seconds: dict[str, list[float]] = {name: [] for name in names}
    for turn in range(WARM_UPS + ROUNDS):
        random.Random(f"{seed} {turn}").shuffle(names)
        for name in names:
            took = max(hired.all("step", name))
            if turn >= WARM_UPS:
                seconds[name].append(round(took, 5))
    sums = {name: hired.all("sums", name)[0] for name in sorted(names)}
    usual = sums[FillPolicy.USUAL.value]
    assert all(abs(one - usual) <= 1e-6 * abs(usual) for one in sums.values()), sums
    found["ways"] = {
        one.filling.value: {
            "ends": one.ends,
            "buckets_bytes": hired.all("buckets", one.filling.value)[0],
            "seconds": seconds[one.filling.value],
        }
        for one in simulated.ways
    }
    print(model.name, {name: median(took) for name, took in seconds.items()}, flush=True)
    return found


def profile_of(several: Sequence[tuple[list[Made], float, float]]) -> Told:
    """Medians of some steps without DDP, whose gradients are made in one order."""
    orders = {tuple(name for name, *_ in made) for made, *_ in several}
    assert len(orders) == 1, "gradients are made in one order"
    backs = [back for _, back, _ in several]
    low, _, high = quantiles(backs, n=4)
    gradients = [
        [name, elements, round(median(made[at][2] for made, *_ in several), 6)]
        for at, (name, elements, _) in enumerate(several[0][0])
    ]
    return {
        "gradients": gradients,
        "backward_seconds": round(median(backs), 6),
        "backward_spread": round((high - low) / median(backs), 4),
        "update_seconds": round(median(whole - back for _, back, whole in several), 6),
    }


def backward_of(profile: Told) -> BackwardPass:
    """As ``synth.step.bucketing`` has it, of what was measured."""
    made = [Gradient(name, -1, count, 4 * count, at) for name, count, at in profile["gradients"]]
    back = max(profile["backward_seconds"], made[-1].ready_seconds)
    return BackwardPass("f32", tuple(made), back, profile["update_seconds"])


def compared_of(told: Told, profile: Told) -> BucketComparison:
    """Ways to fill buckets, on a network calibrated to its all-reduces."""
    system = calibrated(told["megabits_per_second"], told["rows"])["all-reduce", WORLD]
    [placement] = placements(system.hierarchy, [Axis(AXIS, WORLD)])
    wide = profile["backward_spread"] / 2
    sums, taken = Sums(system, placement), Taken.of(told).by_collective
    return compare_policies(
        Replica(backward_of(profile), "measured", 1 - wide, 1 + wide, sums, taken)
    )
