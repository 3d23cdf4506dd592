"""Calibration: single flows between two hosts, which no judged program is.

Two hosts that first part at some level pass a small message to and fro, or send each other a large
one at the same time, as neighbours in a ring do: each way also carries what acknowledges the other.
Nobody else does anything.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from grammar import Collective
from hierarchies import System
from results import record
from results.testbed.hosts.crew import Task, crew
from results.testbed.hosts.network import network
from results.testbed.hosts.orders import ITEM_BYTES, by_host
from results.testbed.measure import REPEATS, Samples, Stopwatch, replaced, rounds, with_rows
from synth.collective.semantics.schedule import Exchange

COMMAND = "python -m results.testbed run"
LARGE_BYTES = 64 * 1024
SIZES_BYTES = (4, 1024, LARGE_BYTES, 256 * 1024, 1024 * 1024)
_LONGEST_SECONDS = 0.2
_MOST_MESSAGES = 40


@dataclass(frozen=True)
class Flow:
    """Some messages of one size across a level, one after the other.

    Small ones go to and fro; large ones, from ``LARGE_BYTES``, both ways at once.
    """

    level: int
    size_bytes: int
    messages: int


def flows(system: System) -> Iterator[Flow]:
    """Every level with every size, as many messages as take a good fifth of a second at most."""
    for level in range(len(system.links)):
        for size in SIZES_BYTES:
            seconds = size / system.port_bytes_per_second(level)
            many = max(2, min(_MOST_MESSAGES, 2 * int(_LONGEST_SECONDS / seconds / 2)))
            yield Flow(level, size, many)


def task_of(system: System, flow: Flow) -> Task:
    """A flow as the crew needs it."""
    pair = (0, system.hierarchy.devices_in_child(flow.level))
    if flow.size_bytes >= LARGE_BYTES:
        whole = 2 * flow.size_bytes
        by_turns = (Collective.REDUCE_SCATTER, Collective.ALL_GATHER) * (flow.messages // 2)
        both = [Exchange(collective, np.array([pair]), whole) for collective in by_turns]
        return Task(by_host(both, system.devices), whole // ITEM_BYTES)
    phases = [
        Exchange(Collective.BROADCAST, np.array([pair[:: 1 - 2 * (i % 2)]]), flow.size_bytes)
        for i in range(flow.messages)
    ]
    return Task(by_host(phases, system.devices), flow.size_bytes // ITEM_BYTES)


def file_of(folder: Path, system: System) -> Path:
    """Where the flows of a system are kept."""
    return folder / f"flows-{system.name}.json"


def measure_flows(system: System, folder: Path) -> None:
    """Time the flows of a system and write its file."""
    every = list(flows(system))
    samples = Samples([[] for _ in every])
    with network(system) as wiring, crew(wiring, [task_of(system, f) for f in every]) as hired:
        stopwatch = Stopwatch(hired)
        for i in range(len(every)):
            hired.run(i)
        if not rounds(stopwatch, samples, lambda: True, REPEATS, system.name):
            raise TimeoutError("this machine is too busy to measure")
    head = {
        **record.origin(f"{COMMAND} {system.name}"),
        "machine": record.machine(),
        "system": system.name,
        "thrown": stopwatch.thrown,
    }
    rows = [
        json.dumps({**asdict(flow), "microseconds": [round(1e6 * each) for each in seconds]})
        for flow, seconds in zip(every, samples.seconds, strict=True)
    ]
    folder.mkdir(exist_ok=True)
    replaced(file_of(folder, system), with_rows(head, "flows", rows))
