"""Pairs of runs of one test, on one machine and by the same settings.

``repeats.json`` has tests that others ran several times, as published (each names its source): by
size the microseconds of every run, out of place. Of ``../shared/data`` a pair is two tables whose
headers name the same machine, network, collective, groups and settings.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import permutations
from math import log
from pathlib import Path
from typing import Any

from hierarchies import System
from results.fidelity.tables import SHARED, read_table, told
from results.typical.rows import Machine, machines, machines_of_family
from synth.measure.calibration.measurements import Measurement, Sample
from synth.measure.calibration.typical import apply_typical

REPEATS = Path(__file__).with_name("repeats.json")
H800 = {"name": "h800", "tables": ["none"], "gpus": 8, "link": "h800"}
H800_LINK = {"GB_per_s": 200, "source": "8 links of 25 (NVIDIA H800 data sheet)"}
H800_MEDIA = {"between": {}, "inside": {"h800": "nvlink"}}
UNKNOWN = ("alps-gh200",)
"""Families whose repeated runs are not known to be of a healthy machine: they were published to
show that single runs there take up to three times as long as others.
"""
SAME = ("system", "network", "collective", "ranks", "algo")


@dataclass(frozen=True)
class Pair:
    """Two runs of a test on a machine. ``published``: both are tables of ../shared/data.

    ``versions``: whether both are by the same version of NCCL; ``known``: whether the machine is
    known to have been healthy.
    """

    family: str
    system: System
    first: Measurement
    second: Measurement
    published: bool
    versions: bool = True
    known: bool = True

    @property
    def nodes(self) -> int:
        return self.first.members[0]


def repeated() -> list[Pair]:
    """The pairs of ``repeats.json``, in both orders."""
    systems = _systems()
    tests: list[dict[str, Any]] = json.loads(REPEATS.read_text(encoding="utf-8"))
    return [pair for test in tests for pair in _pairs(test, systems[test["family"]])]


def _systems() -> dict[str, System]:
    links = told()["links"] | {"h800": H800_LINK}
    every = [*machines(), *machines_of_family(H800, links, H800_MEDIA)]
    return {each.name: apply_typical(each.system) for each in every if each.judged}


def _pairs(test: dict[str, Any], system: System) -> Iterator[Pair]:
    here = test["nodes"], test["gpus"]
    runs = [
        Measurement(
            test["collective"],
            here,
            here,
            tuple(Sample(n, us * 1e-6) for n, us in zip(test["bytes"], run, strict=True)),
            source=source,
        )
        for run, source in zip(test["runs_us"], test["files"], strict=True)
    ]
    for first, second in permutations(runs, 2):
        known = test["family"] not in UNKNOWN
        yield Pair(test["family"], system, first, second, published=False, known=known)


def published() -> list[Pair]:
    """The pairs of ../shared/data, in both orders; none without it."""
    if not SHARED.is_dir():
        return []
    headers = {p.stem: read_table(p)[0] for p in sorted((SHARED / "measured").glob("*.csv"))}
    return [pair for machine in machines() for pair in _pairs_of(machine, headers)]


def _pairs_of(machine: Machine, headers: dict[str, dict[str, str]]) -> Iterator[Pair]:
    if not machine.judged:
        return
    system = apply_typical(machine.system)
    for first, second in permutations(machine.measurements, 2):
        one, other = headers.get(first.source, {}), headers.get(second.source, {})
        if one and all(one.get(key) == other.get(key) for key in SAME):
            versions = one.get("nccl") == other.get("nccl")
            yield Pair(machine.name, system, first, second, published=True, versions=versions)


def crossed(pairs: Sequence[Pair]) -> list[Pair]:
    """First runs of several nodes, each with the noise of every other pair as its second run.

    The noise of a row is the ratio of the other pair's times at the nearest size. Both orders of
    a pair are first runs, but only one lends its noise.
    """
    across = [pair for pair in pairs if pair.nodes > 1]
    return [
        replace(pair, second=_with_noise(pair.first, noise), published=False)
        for pair in across
        for noise in across[::2]
        if noise.system != pair.system or noise.first.members != pair.first.members
    ]


def _with_noise(run: Measurement, noise: Pair) -> Measurement:
    then = {sample.size_bytes: sample.seconds for sample in noise.first.samples}
    now = {sample.size_bytes: sample.seconds for sample in noise.second.samples}
    ratios = {size: now[size] / then[size] for size in then.keys() & now.keys()}
    samples = tuple(
        replace(sample, seconds=sample.seconds * ratios[_nearest(ratios, sample.size_bytes)])
        for sample in run.samples
    )
    return replace(run, samples=samples, source=f"{run.source} with {noise.second.source}")


def _nearest(sizes: Iterable[int], size: int) -> int:
    return min(sizes, key=lambda other: abs(log(other / size)))
