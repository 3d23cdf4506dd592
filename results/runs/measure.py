"""Runs cases, their events and a reference in turns, and keeps what was measured."""

from __future__ import annotations

import json
import random
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from results import record
from results.runs.cases import WIDE as ANY_MODEL
from results.runs.cases import Case, planned
from results.runs.ranks import Ranks, ranks
from results.runs.worker import Events, Job
from results.testbed.hosts.crew import TroubleError
from results.testbed.hosts.network import network
from results.testbed.hosts.wiring import Wiring
from results.testbed.systems import built
from synth.step.emit import write
from synth.step.profiles import drift_of
from synth.step.trials import draw_inputs, split_stacks

ROUNDS = 15
WARM_UPS = 3
BATCHES, CLASSES = 4, 8
REPEATS = 3
TRIES = 2
SMALLEST_BYTES = 2**8
LONGEST_SECONDS = 0.8
IN_A_ROW_SECONDS, MOST_IN_A_ROW = 0.03, 5
KINDS = ("all_reduce", "reduce_scatter", "all_gather")
TRANSFER = "send_receive"
COMMAND = "python -m results.runs run"
Told = dict[str, Any]


def measure(megabits: float, chosen: list[Case], seed: int = 0) -> Told:
    """All of a rate: collectives, and the cases. Raises TroubleError where a rank dies."""
    told: Told = {
        **record.origin(COMMAND),
        "machine": record.machine(),
        "megabits_per_second": megabits,
        "cases": [],
        "stuck": [],
    }
    with network(built((2,), (megabits,))) as wiring:
        with tempfile.TemporaryDirectory() as place, ranks(wiring, Path(place)) as hired:
            told["collectives"] = collectives(hired, megabits, seed)
        left = [(case, TRIES) for case in chosen]
        while left:
            left = _some(wiring, left, told)
    return told


def _some(wiring: Wiring, left: list[tuple[Case, int]], told: Told) -> list[tuple[Case, int]]:
    """As many cases as processes live for; what is left then, and how often to try it again.

    What got stuck each time is told as such.
    """
    with tempfile.TemporaryDirectory() as place, ranks(wiring, Path(place)) as hired:
        while left:
            case, tries = left[0]
            try:
                told["cases"].append(run(hired, case))
            except TroubleError as error:
                print(f"{case.name}: {error}", flush=True)
                if tries > 1:
                    return [(case, tries - 1), *left[1:]]
                told["stuck"].append({"name": case.name, "error": str(error)})
                return left[1:]
            print(case.name, told["cases"][-1]["step_seconds"], flush=True)
            left = left[1:]
    return left


def collectives(hired: Ranks, megabits: float, seed: int) -> Told:
    """Seconds by collective and bytes; and how much slower a core computes beside one."""
    one = planned(ANY_MODEL, "data=2; batch over data; zero=2")
    hired.all("helpers", write("torch", one.step, one.program, one.plan.sizes))
    sizes, rate = sizes_at(megabits), megabits * 1e6 / 8
    rows = timed(hired, KINDS, sizes, rate, seed)
    beside = [one for _ in range(5) for one in hired.all("beside", sizes[-1])]
    for size in sizes:
        transfers: list[float] = []
        for _ in range(REPEATS):
            both = hired.all("transfer", size, _times(size, rate))
            transfers += map(_together, zip(*both, strict=True))
        rows.append(_row(TRANSFER, size, transfers))
    return {"rows": rows, "beside": [round(one, 4) for one in beside]}


def sizes_at(megabits: float, longest_seconds: float = LONGEST_SECONDS) -> list[int]:
    """Buffers of up to so many seconds of a port."""
    sizes = [SMALLEST_BYTES]
    while sizes[-1] <= longest_seconds * megabits * 1e6 / 8 / 2:
        sizes.append(2 * sizes[-1])
    return sizes


def timed(
    hired: Ranks, kinds: Sequence[str], sizes: Sequence[int], rate: float, seed: int
) -> list[Told]:
    """Seconds by collective and bytes, in shuffled order."""
    found: dict[tuple[str, int], list[float]] = {}
    for turn in range(REPEATS):
        order = [(kind, size) for kind in kinds for size in sizes]
        random.Random(f"{seed} {turn}").shuffle(order)
        for kind, size in order:
            ranks_ = hired.all("collective", kind, size, _times(size, rate))
            found.setdefault((kind, size), []).extend(map(_together, zip(*ranks_, strict=True)))
    return [_row(kind, size, seconds) for (kind, size), seconds in sorted(found.items())]


def _times(size: int, rate: float) -> int:
    return max(1, min(MOST_IN_A_ROW, int(IN_A_ROW_SECONDS * rate / size)))


def _row(kind: str, size: int, seconds: Sequence[float]) -> Told:
    microseconds = [round(1e6 * one) for one in seconds]
    row = {"collective": kind, "members": 2, "size_bytes": size}
    return {**row, "microseconds": microseconds}


def _together(one: Sequence[tuple[float, float]]) -> float:
    """Seconds of a collective from where the last rank began to where the last one ended."""
    return max(end for _, end in one) - max(begin for begin, _ in one)


def run(hired: Ranks, case: Case) -> Told:
    """A case: its steps and its events in turns."""
    one = case.planned
    job = Job(
        case.text,
        split_stacks(one.step, draw_inputs(one.whole, BATCHES, CLASSES)),
        events_of(case),
    )
    hired.all("load", job)
    hired.all("steps", WARM_UPS)
    steps, busy = [], []
    begin = time.monotonic()
    for _ in range(ROUNDS):
        hired.all("round")
        rows = [rank[0] for rank in hired.all("steps", 1)]
        steps.append(max(seconds for seconds, _ in rows))
        busy.append(sum(seconds - sent for seconds, sent in rows) / len(rows))
    samples = hired.all("samples")
    both = {key: [s for _, mine in samples for s in mine[key]] for key in one.events}
    return {
        "name": case.name,
        "step_seconds": round(median(steps), 6),
        "step_spread": round(spread(steps), 4),
        "busy_seconds": round(median(busy), 6),
        "busy_spread": round(spread(busy), 4),
        "drift": round(max(drift_of(reference) for reference, _ in samples), 4),
        "took_seconds": round(time.monotonic() - begin, 1),
        "events": {key: round(median(seconds), 8) for key, seconds in both.items()},
    }


def events_of(case: Case) -> Events:
    """Texts of a case's events, and what they read, by their keys."""
    return {
        key: (event.text, [(kind.dtype, list(kind.shape)) for kind in event.inputs])
        for key, event in case.planned.events.items()
    }


def spread(samples: list[float]) -> float:
    """The middle half, as a share of the median."""
    low, middle, high = quantiles(samples, n=4)
    return (high - low) / middle


def keep(folder: Path, name: str, told: Told) -> None:
    """Write what was measured."""
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.json").write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")
