"""Steps of more ranks than there are cores: compute is slept, all else is real.

What two ranks were measured to compute is slept by each of 4 to 32, whose batches are as large:
they send, in their order and blocking as the written file does, over a network of as many hosts.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import replace
from math import prod
from pathlib import Path
from statistics import median
from typing import Any

from results import record
from results.runs.cases import DECODER, DP, WIDE, Case, Model, planned
from results.runs.measure import sizes_at, spread, timed
from results.runs.predicted import calibrated, simulated
from results.runs.ranks import ranks
from results.testbed.hosts.network import network
from results.testbed.systems import built
from synth.train.emit import write
from synth.train.plans import Done, Moved

WORLDS: Mapping[int, float] = {4: 400.0, 8: 200.0, 16: 200.0, 32: 100.0}
"""By how many ranks the rate of a port: two cores carry no more."""
STEPS = 7
LONGEST_SECONDS = 0.4
COMMAND = "python -m results.runs replay"
MODELS = (WIDE, DECODER)
Told = dict[str, Any]
Entry = tuple[Any, ...]


def replay(world: int, folder: Path) -> Told:
    """All cases of so many ranks. Raises TroubleError where one dies."""
    megabits = WORLDS[world]
    rate = megabits * 1e6 / 8
    with (
        network(built((world,), (megabits,))) as wiring,
        tempfile.TemporaryDirectory() as place,
        ranks(wiring, Path(place)) as hired,
    ):
        one = planned(WIDE, f"data={world}; batch over data")
        text = write("torch", one.step, one.program, one.plan.sizes, overlap=True)
        hired.all("helpers", text)
        rows = timed(hired, ("all_reduce",), sizes_at(megabits, LONGEST_SECONDS), rate, world)
        told: Told = {
            **record.origin(COMMAND),
            "machine": record.machine(),
            "megabits_per_second": megabits,
            "world": world,
            "collectives": {"rows": rows},
            "cases": [],
        }
        for case in _cases(world):
            hired.all("replay", entries := list(_entries(case, folder)), 1)
            steps = list(zip(*hired.all("replay", entries, STEPS), strict=True))
            seconds = [max(taken for taken, _ in row) for row in steps]
            slept = [sum(slept for _, slept in row) / world for row in steps]
            told["cases"].append(
                {
                    "name": case.name,
                    "step_seconds": round(median(seconds), 6),
                    "step_spread": round(spread(seconds), 4),
                    "busy_seconds": round(median(slept), 6),
                }
            )
            print(case.name, told["cases"][-1]["step_seconds"], flush=True)
        return told


def replayed(path: Path) -> Iterator[Told]:
    """What was measured beside what is simulated of it."""
    if not path.exists():
        return
    told = record.read(path)
    systems = calibrated(told["megabits_per_second"], told["collectives"]["rows"], told["world"])
    for row, case in zip(told["cases"], _cases(told["world"]), strict=True):
        found = simulated(case, systems, _seconds(case, path.parent), 0.0)
        yield {
            "model": str(case.model),
            "plan": case.plan + (", overlapped" if case.overlap else ""),
            "megabits": case.megabits,
            **{key: row[key] for key in ("step_seconds", "step_spread", "busy_seconds")},
            "step_error": round(found.seconds / row["step_seconds"] - 1, 4),
            "busy_error": round(found.compute_seconds / row["busy_seconds"] - 1, 4),
        }


def _cases(world: int) -> list[Case]:
    """Batches grow with the ranks, so that each computes what one of two does."""
    larger = [replace(model, batch=model.batch * world // 2) for model in MODELS]
    plan = f"data={world}; batch over data"
    return [Case(model, plan, WORLDS[world], early) for model in larger for early in (False, True)]


def _seconds(case: Case, folder: Path) -> dict[int, float]:
    """Of each block, by the ``id`` of its last operation, what one of two ranks took."""
    [model] = [one for one in MODELS if one.name == case.model.name]
    known = _events(model, folder)
    two, many = planned(model, DP).pairs, case.planned.pairs
    return {
        id(done): known[event.key] if done is block.of[-1] else 0.0
        for (block, _), (_, event) in zip(many, two, strict=True)
        for done in block.of
    }


def _events(model: Model, folder: Path) -> dict[str, float]:
    told = record.read(folder / "400.json")
    [row] = [one for one in told["cases"] if one["name"] == Case(model, DP, 400.0).name]
    found: dict[str, float] = row["events"]
    return found


def _entries(case: Case, folder: Path) -> Iterator[Entry]:
    """What each rank does: sleeps, and all-reduces of so many numbers."""
    one, seconds = case.planned, _seconds(case, folder)
    program = one.program.instructions
    parts = one.plan.sizes
    moved = [move for move in program if isinstance(move, Moved) and move.path.requests(parts)]
    sizes = {move.value.name: prod(move.value.type.shape) for move in moved}
    made = {
        value.name for done in program if isinstance(done, Done) for value in done.operation.results
    }
    for instruction in program:
        if isinstance(instruction, Moved) and instruction.path.requests(parts):
            name = instruction.value.name
            early = case.overlap and name in made
            yield ("wait", name) if early else ("send", name, sizes[name])
        elif isinstance(instruction, Done):
            if seconds[id(instruction)]:
                yield ("sleep", seconds[id(instruction)])
            for value in instruction.operation.results:
                if case.overlap and value.name in sizes:
                    yield ("begin", value.name, sizes[value.name])
