"""Data parallelism beside published synchronisation: buckets of gradients beside a backward pass.

Pollux (OSDI'21) and Sia (SOSP'23) profiled six models on every placement of five clusters: a
step's seconds, and those from the last local gradient until all are reduced (petuum/adaptdl,
``AdaptiveDataParallel``): what of the communication is exposed. Here a bucket (DDP's: the first of
1 MiB, then of 25) is reduced when its last gradient is made and the bucket before has been reduced;
each takes a ring's hops and bytes. Four numbers are a cluster's: the rates inside and between
nodes, and the latency of a hop in both. Two are a model's on it: what part of a step's other
seconds its backward pass takes, which no row has, and how far replicas are apart, as the slowest is
waited for (images and recordings are of all sizes).
"""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.optimize import least_squares

from results.steps.composed import Floats
from results.steps.protocol import fitted_to, short, summed_up
from results.steps.rows import Raw, raw_rows

SETS = ("pollux_t4_ddp", "sia_ddp")
MODELS = Path(__file__).with_name("replicated.toml")
FIRST_BUCKET, BUCKET = 2**20, 25 * 2**20
"""PyTorch's defaults. A bucket is closed by the gradient that fills it."""

PIECES = 4
"""Of a block, whose weights come one after the other."""

EXPOSED = 0.2
"""A class of its own: where the exposed part is so much of the step, and not mostly waiting."""

START = np.array([3e9, 1e9, 3e-4, 3e-4])
"""Of a cluster: bytes a second inside and between nodes, seconds of a hop in both."""

MODEL_START = np.array([0.6, 0.02])
"""Of a model on it: which part of the other seconds is its backward pass (1 at most), and how far
replicas are apart."""

LEAST = 1e-4
START_WEIGHT = 0.3


@dataclass(frozen=True)
class Synced:
    """One profiled placement: ``batch`` samples of each replica."""

    cluster: str
    model: str
    nodes: int
    replicas: int
    placement: str
    batch: float
    seconds: float
    exposed: float

    @property
    def configuration(self) -> str:
        where = f"{self.cluster} {self.nodes} {self.replicas} {self.placement}"
        return f"{self.model} {where} {self.batch:g}"


def rows() -> list[Synced]:
    """All of several replicas."""
    found = [_row(raw) for name in SETS for raw in raw_rows(name)]
    return [one for one in found if one.replicas > 1]


def _row(raw: Raw) -> Synced:
    return Synced(
        raw["cluster"],
        raw["model"],
        int(raw["nodes"]),
        int(raw["replicas"]),
        raw["placement"],
        float(raw["local_batch"]),
        float(raw["step_seconds"]),
        float(raw["sync_seconds"]),
    )


def buckets(blocks: Sequence[Sequence[float]]) -> list[tuple[float, float]]:
    """Bytes of each bucket, and which share of the backward pass has been done when it is full."""
    whole = sum(count * share for count, _, share in blocks)
    found: list[tuple[float, float]] = []
    size = done = 0.0
    for count, millions, share in blocks:
        for _ in range(int(count) * PIECES):
            size += 4e6 * millions / PIECES
            done += share / whole / PIECES
            if size >= (BUCKET if found else FIRST_BUCKET):
                found.append((size, min(1.0, done)))
                size = 0.0
    return [*found, (size, 1.0)] if size else found


def exposed(
    backward: Floats, several: Sequence[tuple[float, float]], hops: Floats, rate: Floats
) -> Floats:
    """Seconds after a backward pass until the last bucket is reduced.

    ``hops``: seconds that a bucket takes whatever its size, ``rate`` its bytes in a second.
    """
    end = np.zeros_like(backward)
    for size, done in several:
        end = np.maximum(end, done * backward) + hops + size / rate
    return np.asarray(np.maximum(0.0, end - backward))


class Sweep:
    """Rows of one cluster as arrays; ``models`` by their numbers."""

    def __init__(self, some: Sequence[Synced]) -> None:
        with MODELS.open("rb") as file:
            self._buckets = {k: buckets(one["blocks"]) for k, one in tomllib.load(file).items()}
        self.models = list(self._buckets)
        self.model = np.array([self.models.index(one.model) for one in some])
        self.spans = np.array([one.nodes > 1 for one in some])
        self.replicas = np.array([float(one.replicas) for one in some])
        self.seconds = np.array([one.seconds for one in some])
        self.exposed = np.array([one.exposed for one in some])

    def estimate(self, numbers: Floats) -> Floats:
        """Exposed seconds by numbers: four of the cluster, then two rows of one for each model."""
        inside, between, hop_inside, hop_between = numbers[: len(START)]
        shares, apart = numbers[len(START) :].reshape(len(MODEL_START), -1)
        rate = np.where(self.spans, between, inside)
        hops = np.where(self.spans, hop_between, hop_inside) * (self.replicas - 1)
        computed = self.seconds - self.exposed
        backward = shares[self.model] * computed
        ring = rate * self.replicas / (2 * (self.replicas - 1))
        found = apart[self.model] * computed * np.sqrt(2 * np.log(self.replicas))
        for number, name in enumerate(self.models):
            at = np.flatnonzero(self.model == number)
            found[at] += exposed(backward[at], self._buckets[name], hops[at], ring[at])
        return np.asarray(found)

    def fit(self) -> Floats:
        """The numbers that explain these rows best; what no row tells stays where it starts."""
        starts = START, np.repeat(MODEL_START, len(self.models))
        origin = np.log(np.concatenate(starts))
        most = np.full(len(origin), np.inf)
        most[len(START) : len(START) + len(self.models)] = 0.0

        def off(logarithms: Floats) -> Floats:
            found = np.maximum(self.estimate(np.exp(logarithms)), LEAST)
            ratios = np.log(found / self.exposed)
            return np.concatenate([ratios, START_WEIGHT * (logarithms - origin)])

        some = {"loss": "soft_l1", "f_scale": 0.2, "diff_step": 1e-2, "max_nfev": 200}
        return np.asarray(np.exp(least_squares(off, origin, bounds=(-np.inf, most), **some).x))


def made() -> dict[str, Any]:
    """All figures of synchronisation, each cluster by numbers of its own."""
    known = rows()
    found = {
        name: _cluster([one for one in known if one.cluster == name])
        for name in sorted({one.cluster for one in known})
    }
    told = {name: one.told for name, one in found.items()}
    pairs = np.concatenate([one.pairs for one in found.values()])
    models = np.concatenate([one.models for one in found.values()])
    return {
        "fitted_rows": sum(one["fitted_rows"] for one in told.values()),
        "all": _judged(pairs),
        "clusters": told,
        "models": {str(name): _judged(pairs[models == name]) for name in np.unique(models)},
    }


@dataclass(frozen=True)
class Cluster:
    """Of the judged rows estimates, exposed seconds and steps (3 columns), and their models."""

    told: dict[str, Any]
    pairs: Floats
    models: npt.NDArray[np.str_]


def _cluster(known: Sequence[Synced]) -> Cluster:
    mine = [one for one in known if fitted_to(one)]
    others = [one for one in known if not fitted_to(one)]
    judge, numbers = Sweep(others), Sweep(mine).fit()
    pairs = np.stack([judge.estimate(numbers), judge.exposed, judge.seconds], axis=1)
    shares, apart = numbers[len(START) :].reshape(len(MODEL_START), -1)
    seen = {one.model for one in known}
    told = _judged(pairs) | {
        "fitted_rows": len(mine),
        "spread": short(spread(others)),
        "numbers": [short(float(one)) for one in numbers[: len(START)]],
        "backward": {
            name: [short(float(share)), short(float(one))]
            for name, share, one in zip(judge.models, shares, apart, strict=True)
            if name in seen
        },
    }
    return Cluster(told, pairs, np.array([one.model for one in others]))


def _judged(pairs: Floats) -> dict[str, Any]:
    """Exposed seconds, those of rows where they are a large part, and by how much the step is."""
    found, measured, seconds = pairs.T
    off = np.abs(found / measured - 1)
    large = measured >= EXPOSED * seconds
    told = {"exposed": summed_up(off), "step": summed_up(np.abs(found - measured) / seconds)}
    return told | ({"large": summed_up(off[large])} if large.any() else {})


def spread(some: Sequence[Synced]) -> float:
    """How far placements of as many nodes, replicas and samples lie from their median.

    In the middle; what no estimate from these three can do better than. 0 where there are none.
    """
    groups: dict[tuple[object, ...], list[float]] = {}
    for one in some:
        key = (one.model, one.nodes, one.replicas, one.batch)
        groups.setdefault(key, []).append(one.exposed)
    off = [
        abs(one / float(np.median(several)) - 1)
        for several in groups.values()
        if len(several) > 2
        for one in several
    ]
    return float(np.median(off)) if off else 0.0
