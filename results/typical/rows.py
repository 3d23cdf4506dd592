"""Measured rows with every way each may have gone, as arrays: what a price by priors is made of."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from hierarchies import System
from results.fidelity.tables import Family, gpus_of_thread, systems, tables, told
from synth.collective.algorithms.algorithms import Algorithm
from synth.measure.calibration.candidates import FitCandidate, candidates, choose_algorithm
from synth.measure.calibration.measurements import Measurement
from synth.measure.calibration.typical import medium_of, relative_nvls_efficiency

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
LEVELS = 2


@dataclass(frozen=True)
class Machine:
    """A family: its tables and its machine, whose links have their medium ("" for none).

    ``group`` is left out together: families of one operator's machines. ``judged``: whether it is
    judged, or only learned from (PCIe described as switches, where one medium is the class's).
    """

    name: str
    group: str
    system: System
    measurements: tuple[Measurement, ...]
    judged: bool = True

    @property
    def media(self) -> tuple[str, ...]:
        return tuple(medium_of(link) for link in self.system.links)


def machines() -> list[Machine]:
    """The families of ``results.fidelity`` that have tables by their machines."""
    media, given = _media(), told()
    return [
        machine
        for family in given["family"]
        if "vidur" not in family
        for machine in machines_of_family(family, given["links"], media)
    ]


def _media() -> dict[str, dict[str, str]]:
    with Path(__file__).with_name("families.toml").open("rb") as file:
        return tomllib.load(file)


def machines_of_family(
    family: Family, links: dict[str, Any], media: dict[str, dict[str, str]]
) -> Iterator[Machine]:
    """The machines that a family may have, each with its tables and media."""
    named = (
        media["between"].get(family["name"], ""),
        media["inside"][family["link"]] if family["gpus"] > 1 else "",
    )
    name, measurements = family["name"], tuple(tables(family))
    group = media.get("operator", {}).get(name, name.split(",")[0].split("-docs")[0])
    found = systems(family, links)
    for system in found:
        marked = tuple(
            replace(link, medium=medium) for link, medium in zip(system.links, named, strict=True)
        )
        network = family["gpus"] == 1
        judged = system is (found[0] if network else found[-1])
        if judged or not network:
            yield Machine(name, group, replace(system, links=marked), measurements, judged)


@dataclass(frozen=True)
class Rows:
    """Rows (``size``, ``seconds``, ``family``, ``table``), and the candidates of all of them.

    ``launches``: GPUs that one thread launched on.

    Of each candidate: its ``row``, what it asks of each level, shape (candidates, levels), and
    whether its algorithm is the ``default``: what NCCL's model chooses, or what was forced.
    """

    size: Floats
    seconds: Floats
    family: Integers
    table: Integers
    launches: Floats
    row: Integers
    first: Integers
    waited: Floats
    peers: Floats
    busy: Floats
    memory: Floats
    bandwidth: Floats
    doublings: Floats
    default: npt.NDArray[np.bool_]
    protocol: tuple[str, ...]
    algorithm: tuple[str, ...]
    media: tuple[tuple[str, ...], ...]


def rows(known: Sequence[Machine], runtime: str) -> Rows:
    """All rows of some families, each with the ways that the runtime may have gone by then."""
    gathered = [
        (number, table, sample, machine, taken, mine)
        for number, machine in enumerate(known)
        for table, measurement in enumerate(machine.measurements)
        for sample, taken, mine in _ways(machine, measurement, runtime)
    ]
    launches = {
        one.source: gpus_of_thread(one.source) for machine in known for one in machine.measurements
    }
    flat = [(at, one, each[3]) for at, each in enumerate(gathered) for one in each[5]]
    taken = [each[4] for each in gathered for _ in each[5]]
    children = np.array([one.way.children for _, one, _ in flat], dtype=float)
    row = np.array([at for at, _, _ in flat])
    count = np.arange(len(gathered))
    return Rows(
        np.array([float(sample.size_bytes) for _, _, sample, *_ in gathered]),
        np.array([sample.seconds for _, _, sample, *_ in gathered]),
        np.array([number for number, *_ in gathered]),
        np.array([1000 * number + table for number, table, *_ in gathered]),
        np.array(
            [float(launches[m.measurements[table].source]) for _, table, _, m, *_ in gathered]
        ),
        row,
        np.searchsorted(row, count),
        np.array([one.waited for _, one, _ in flat]),
        np.array([one.way.peers if one.way.at_once else (0.0,) * LEVELS for _, one, _ in flat]),
        np.array([_busy(machine, one) for _, one, machine in flat]),
        np.array([one.way.memory_seconds for _, one, _ in flat]),
        np.array([_rates_of_devices(machine.system) for _, _, machine in flat]),
        np.log2(np.maximum(children, 2) / 2),
        np.array(
            [
                name in (None, one.way.algorithm.value)
                for name, (_, one, _) in zip(taken, flat, strict=True)
            ]
        ),
        tuple(one.protocol.value for _, one, _ in flat),
        tuple(one.way.algorithm.value for _, one, _ in flat),
        tuple(machine.media for _, _, machine in flat),
    )


def _busy(machine: Machine, one: FitCandidate) -> list[float]:
    """Busy seconds of each level, beside those of switches that reduce at Hopper's efficiency."""
    reduces = one.way.algorithm is Algorithm.IN_NETWORK
    return [
        seconds / relative_nvls_efficiency(link) if reduces else seconds
        for seconds, link in zip(one.way.busy_seconds, machine.system.links, strict=True)
    ]


def _rates_of_devices(system: System) -> list[float]:
    """The bytes a second of one device's part of each level's ports."""
    return [system.port_bytes_per_second(level) / system.block(level) for level in range(LEVELS)]


def _ways(
    machine: Machine, measurement: Measurement, runtime: str
) -> Iterator[tuple[Any, str | None, Sequence[FitCandidate]]]:
    """Yields each sample, the algorithm that the runtime would choose, and all candidates."""
    known = candidates(machine.system, measurement)
    names = {one.way.algorithm.value for one in known}
    for sample in measurement.samples:
        taken = choose_algorithm(machine.system, measurement, runtime, sample.size_bytes)
        yield sample, taken if taken in names else None, known
