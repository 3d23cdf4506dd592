"""DDP on more ranks than there are cores, in nodes: compute is slept, all else is real.

Two ranks, with a core each, measure when a model's gradients are made; then all ranks of a network
of nodes sleep so (``standins``), and DDP's own reducer sums their gradients over it: by buckets as
others fill them and as we do, by gloo's all-reduce, and by the planner's program through DDP's
communication hook. What is simulated knows the profile, and each collective by itself.
"""

from __future__ import annotations

import random
import tempfile
from dataclasses import dataclass, replace
from itertools import pairwise
from math import prod
from pathlib import Path
from statistics import median
from typing import Any

from hierarchies import System
from results import record
from results.ddp.measure import backward_of, profile_of
from results.ddp.models import PICTURES, Model
from results.ddp.programs import PAYLOAD_BYTES, Program, Seconds, best, placed, plain
from results.ddp.standins import FLAT, StandIn
from results.ddp.worker import MIB
from results.runs.measure import sizes_at
from results.runs.predicted import fitted
from results.runs.ranks import Ranks, ranks
from results.runs.replay import LONGEST_SECONDS, PROFILING, REPEATS, soon
from results.testbed.hosts.network import network
from results.testbed.systems import built
from synth.collective.algorithms.nccl_model import RING
from synth.measure.calibration.measurements import Sample
from synth.step.bucketing import (
    BucketComparison,
    FillPolicy,
    Replica,
    compare_policies,
    write_script,
)
from synth.step.bucketing.choosing import fill_by_default, find_buckets
from synth.step.bucketing.clock import AllReduceSeconds, Ends
from synth.step.bucketing.sums import Sums

COMMAND = "python -m results.ddp replay"
ROUNDS, WARM_UPS, PROFILED = 6, 2, 5
BY_PROGRAM, OURS_BY_PROGRAM = "default, by program", "ours, by program"
CONVOLUTIONS = replace(PICTURES, batch=16)
TRANSFORMER = Model("transformer", "attention", 128, 6, 16)
MODELS = (CONVOLUTIONS, TRANSFORMER)
"""A step of them computes about as long as it sends here, so that something can be hidden."""
WHOLE_BYTES = (PAYLOAD_BYTES // 8, PAYLOAD_BYTES // 4, PAYLOAD_BYTES)
"""For which the program is run by itself."""
Told = dict[str, Any]


@dataclass(frozen=True)
class Network:
    """Nodes of ranks, with the rate of a port at each level; and what is trained on it."""

    shape: tuple[int, int]
    megabits: tuple[float, float]
    models: tuple[Model, ...] = MODELS

    @property
    def system(self) -> System:
        return built(self.shape, self.megabits)

    @property
    def name(self) -> str:
        """What it is called in files."""
        return self.system.name


NETWORKS = (
    Network((2, 2), (100, 800)),
    Network((2, 2), (400, 800)),
    Network((2, 4), (100, 400)),
    Network((2, 4), (200, 400)),
    Network((2, 8), (100, 200), (CONVOLUTIONS,)),
    Network((4, 4), (100, 200), (CONVOLUTIONS,)),
)
"""Of 4, 8 and 16 ranks; all ports together carry what two cores can."""


def replay(network_: Network, seed: int = 0) -> Told:
    """All models of one network. Raises TroubleError where a rank dies or does not answer."""
    program, text = best(network_.system, COMMAND)
    told: Told = {
        **record.origin(COMMAND),
        "machine": record.machine(),
        "shape": network_.shape,
        "megabits_per_second": network_.megabits,
        "program": {"text": program.text, "segments": program.segments},
    }
    with (
        network(network_.system) as wiring,
        tempfile.TemporaryDirectory() as place,
        ranks(wiring, Path(place), StandIn) as hired,
    ):
        profiles = [_profiled(hired, model) for model in network_.models]
        hired.all("join", text)
        told["rows"] = _calibrated(hired, network_, program)
        told["whole"] = _whole(hired)
        told["models"] = [_trained(hired, told, profile, seed) for profile in profiles]
    return told


def _profiled(hired: Ranks, model: Model) -> Told:
    """When gradients are made by two ranks that compute.

    What the backward pass does after the last one is slept with the update.
    """
    hired.some(PROFILING, "take", model)
    several = [
        rank for _ in range(PROFILED + 1) for rank in hired.some(PROFILING, "alone", soon(2))
    ]
    found = profile_of(several[len(PROFILING) :])
    last = found["gradients"][-1][2]
    rest = max(0.0, found["backward_seconds"] - last)
    found |= {"backward_seconds": last, "update_seconds": found["update_seconds"] + rest}
    return {"name": model.name, "batch": model.batch, **found}


def _calibrated(hired: Ranks, network_: Network, program: Program) -> list[Told]:
    """Seconds of the all-reduce over all ranks by bytes, and of each step's collective.

    Of a step by those that it has of a segment, as it is cut here.
    """
    sizes = sizes_at(network_.megabits[0], LONGEST_SECONDS)[::2]
    asked = [(FLAT, size) for size in sizes]
    asked += [
        (step, program.buffer_bytes(step, size))
        for step in range(len(program.moves))
        for size in sizes
        if size <= 2 * PAYLOAD_BYTES / program.segments
    ]
    samples: dict[tuple[int, int], list[float]] = {}
    for turn in range(REPEATS + 1):
        for step, size in asked:
            seconds = max(hired.all("exchange", step, size, soon(prod(network_.shape))))
            if turn:
                samples.setdefault((step, size), []).append(seconds)
    return [
        {"step": step, "size_bytes": size, "microseconds": [round(1e6 * one) for one in seconds]}
        for (step, size), seconds in sorted(samples.items())
    ]


def _whole(hired: Ranks) -> list[Told]:
    """Seconds of the program by itself, which nothing that is simulated knows."""
    samples: dict[int, list[float]] = {}
    for turn in range(ROUNDS + 1):
        for size in WHOLE_BYTES:
            seconds = max(hired.all("whole", size, soon(len(hired.pids))))
            if turn:
                samples.setdefault(size, []).append(round(seconds, 6))
    return [{"size_bytes": size, "seconds": seconds} for size, seconds in samples.items()]


def _trained(hired: Ranks, told: Told, profile: Told, seed: int) -> Told:
    """Each way to fill buckets, and to sum them, in shuffled turns."""
    hired.all("replay", profile["gradients"], profile["update_seconds"])
    simulated, ways = ways_of(told, profile)
    upto = backward_of(profile).upto_bytes
    for name, ends in ways.items():
        caps = [(upto[b] - upto[a]) / MIB for a, b in pairwise((0, *ends))]
        default = name in (FillPolicy.USUAL.value, BY_PROGRAM)
        if name in (BY_PROGRAM, OURS_BY_PROGRAM):
            hired.all("way_by_program", name, None if default else caps)
        else:
            ours = name == FillPolicy.BEST.value
            text = write_script(simulated, profile["name"], COMMAND) if ours else ""
            hired.all("way", name, text, None if default else caps)
    names = [*ways]
    seconds: dict[str, list[float]] = {name: [] for name in names}
    for turn in range(WARM_UPS + ROUNDS):
        random.Random(f"{seed} {turn}").shuffle(names)
        for name in names:
            took = max(hired.all("step_at", name, soon(len(hired.pids))))
            if turn >= WARM_UPS:
                seconds[name].append(round(took, 5))
    world = len(hired.pids)
    wanted = upto[-1] / 4 * (world + 1) / 2
    for name in names:
        found = hired.all("sums", name)
        assert all(abs(one / wanted - 1) < 1e-6 for one in found), (name, found, wanted)
    print(profile["name"], {name: median(took) for name, took in seconds.items()}, flush=True)
    rows = {
        name: {
            "ends": ends,
            "buckets_bytes": hired.all("buckets", name)[0],
            "seconds": seconds[name],
        }
        for name, ends in ways.items()
    }
    return {**profile, "ways": rows}


def summing_of(told: Told) -> tuple[Sums, AllReduceSeconds]:
    """Seconds of gloo's all-reduce over all ranks, and of the program, by what was measured."""
    system = built(tuple(told["shape"]), tuple(told["megabits_per_second"]))
    one = told["program"]
    program = Program(one["text"], one["segments"], plain(system).reduction)

    def calibrated(step: int, of: Program) -> System:
        at = max(step, 0)
        samples = [
            Sample(row["size_bytes"], median(row["microseconds"]) * 1e-6)
            for row in told["rows"]
            if row["step"] == step
        ]
        return fitted(system, of.collectives[at], of.members(at), samples)

    flat = calibrated(FLAT, plain(system))
    steps = [calibrated(step, program) for step in range(len(program.moves))]
    return Sums(flat, placed(flat), RING), Seconds(program, steps)


def ways_of(told: Told, profile: Told) -> tuple[BucketComparison, dict[str, Ends]]:
    """Fillings for gloo's all-reduce, and the ends of all ways by name: two are by the program."""
    sums, by_program = summing_of(told)
    backward, wide = backward_of(profile), profile["backward_spread"] / 2
    found = compare_policies(Replica(backward, "measured", 1 - wide, 1 + wide, sums))
    ways = {one.filling.value: one.ends for one in found.ways}
    ways[BY_PROGRAM] = fill_by_default(backward)
    ways[OURS_BY_PROGRAM] = find_buckets(backward, by_program)
    return found, ways
