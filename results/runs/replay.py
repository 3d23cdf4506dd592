"""Steps of more ranks than there are cores: compute is slept, all else is real.

What two ranks, with a core each, take for the events of a plan is slept by each of 4 to 32: they
send, in their order and blocking as the written file does, over a network of as many hosts. Plans
are run by families that send alike. A family's collectives are measured before and after its
steps, each among the groups of its plans, all groups at once, and before every step two ranks
measure the reference; where ranks are stuck the family is run again.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from statistics import median
from typing import Any

from results import record
from results.runs.cases import DECODER, DEEP, Case, Model
from results.runs.measure import ROUNDS, TRANSFER, TRIES, WARM_UPS, events_of, sizes_at, spread
from results.runs.predicted import FREE, beside, calibrated, predicted
from results.runs.ranks import Ranks, ranks
from results.runs.standins import StandIn, functions
from results.testbed.hosts.crew import TroubleError
from results.testbed.hosts.network import network
from results.testbed.hosts.wiring import Wiring
from results.testbed.systems import built
from synth.step.profiles import drift_of
from synth.step.sharding.plan import PIPE

WORLDS: Mapping[int, float] = {4: 400.0, 8: 200.0, 16: 200.0, 32: 100.0}
"""By how many ranks the rate of a port: two cores carry no more."""
PROFILING = (0, 1)
REPEATS = 5
LONGEST_SECONDS = 0.4
SMALL = Model("mlp", (("width", 512), ("layers", 4)), 2048)
COMMAND = "python -m results.runs replay"
Told = dict[str, Any]


def families(world: int) -> Iterator[list[Case]]:
    """Cases by what they send over which axes.

    Batches grow with the parts that they are cut in, so that each rank computes what one of two
    does.
    """
    rate, whole = WORLDS[world], f"data={world}; batch over data"

    def case(model: Model, plan: str, data: int, early: bool = False) -> Case:
        larger = Model(model.name, model.sizes, model.batch * data // 2)
        return Case(larger, plan, rate, early)

    several = f"{whole}; 4 microbatches"
    yield [
        case(SMALL, whole, world),
        case(SMALL, whole, world, early=True),
        case(SMALL, several, world),
    ]
    yield [case(SMALL, f"{whole}; zero={stage}", world) for stage in (1, 2, 3)]
    data = world // 4
    weights = "weights over tensor as Megatron"
    both = (
        f"data={data} tensor=4; batch over data; {weights}" if data > 1 else f"tensor=4; {weights}"
    )
    yield [case(DECODER, both, 2 * data)]
    for stages, schedules in ((2, ("1f1b, 4",)), (4, ("gpipe, 4", "1f1b, 8")), (8, ("1f1b, 8",))):
        data = world // stages
        if not data:
            continue
        axes = f"data={data} pipe={stages}; batch over data" if data > 1 else f"pipe={stages}"
        yield [
            case(DEEP, f"{axes}; schedule {schedule} microbatches", 2 * data)
            for schedule in schedules
        ]


@dataclass(frozen=True)
class Asked:
    """A collective among so many, as a case has it over some axes."""

    kind: str
    members: int
    case: Case
    axes: tuple[str, ...]


def asked(cases: Sequence[Case]) -> list[Asked]:
    """All that some cases send, once each."""
    found: dict[tuple[str, int], Asked] = {}
    for case in cases:
        sizes = case.planned.plan.sizes
        for moved in case.planned.program.moved():
            for move in moved.path.requests(sizes):
                kind, members = move.how.value.replace("-", "_"), prod(sizes[a] for a in move.axes)
                if members > 1:
                    found.setdefault((kind, members), Asked(kind, members, case, move.axes))
        if case.planned.plan.order is not None:
            found.setdefault((TRANSFER, 2), Asked(TRANSFER, 2, case, (PIPE,)))
    return list(found.values())


def replay(world: int, several: Iterable[Sequence[Case]]) -> Told:
    """Families of cases of so many ranks. Raises TroubleError where one dies."""
    megabits = WORLDS[world]
    told: Told = {
        **record.origin(f"{COMMAND} {world}"),
        "machine": record.machine(),
        "megabits_per_second": megabits,
        "world": world,
        "families": [],
        "stuck": [],
    }
    with network(built((world,), (megabits,))) as wiring:
        for cases in several:
            for tries in range(TRIES, 0, -1):
                try:
                    told["families"].append(_family(wiring, cases, megabits))
                    break
                except TroubleError as error:
                    print(f"{cases[0].name} and its like: {error}", flush=True)
                    if tries == 1:
                        told["stuck"] += [{"name": one.name, "error": str(error)} for one in cases]
    return told


def _family(wiring: Wiring, cases: Sequence[Case], megabits: float) -> Told:
    """Its collectives, before and after its cases."""
    with tempfile.TemporaryDirectory() as place, ranks(wiring, Path(place)) as hired:
        for case in cases:
            hired.all("open", case.name, case.text)
        samples: dict[tuple[str, int, int], list[float]] = {}
        _calibrate(hired, asked(cases), megabits, samples)
        found = [_run(hired, case) for case in cases]
        _calibrate(hired, asked(cases), megabits, samples)
    rows = [
        {
            "collective": kind,
            "members": members,
            "size_bytes": size,
            "microseconds": [round(1e6 * one) for one in seconds],
        }
        for (kind, members, size), seconds in sorted(samples.items())
    ]
    return {"collectives": {"rows": rows}, "cases": found}


def _calibrate(
    hired: Ranks, wanted: Sequence[Asked], megabits: float, samples: dict[Any, list[float]]
) -> None:
    """Each some times in turns, at every other power of two."""
    for _ in range(REPEATS):
        for one in wanted:
            for size in sizes_at(megabits, LONGEST_SECONDS)[::2]:
                given = (size, soon(len(hired.pids)))
                if one.kind == TRANSFER:
                    seconds = hired.all("pass_on", one.case.name, *given)
                else:
                    seconds = hired.all("meet", one.case.name, one.kind, one.axes, *given)
                samples.setdefault((one.kind, one.members, size), []).append(max(seconds))


def soon(world: int) -> float:
    """A moment at which every process has been told what to do then."""
    return time.perf_counter() + 0.01 + 0.001 * world


def _run(hired: Ranks, case: Case) -> Told:
    """A case: its events on two ranks, then its steps on all."""
    begin = time.monotonic()
    hired.some(PROFILING, "bench", events_of(case))
    for _ in range(ROUNDS):
        hired.some(PROFILING, "round")
    profiled = hired.some(PROFILING, "samples")
    measured = [mine for _, mine in profiled]
    events = {
        key: round(median(one for mine in measured for one in mine[key]), 8)
        for key in case.planned.events
    }
    hired.all("stand_in", case.name, StandIn(case.text, functions(case), events))
    steps, slept = [], []
    for turn in range(WARM_UPS + ROUNDS):
        hired.some(PROFILING, "refer")
        rows = hired.all("act", soon(len(hired.pids)))
        if turn >= WARM_UPS:
            steps.append(max(seconds for seconds, _ in rows))
            slept.append(sum(mine for _, mine in rows) / len(rows))
    drifts = [
        drift_of(part)
        for (before, _), (both, _) in zip(profiled, hired.some(PROFILING, "samples"), strict=True)
        for part in (before, both[len(before) :])
    ]
    told = {
        "name": case.name,
        "step_seconds": round(median(steps), 6),
        "step_spread": round(spread(steps), 4),
        "busy_seconds": round(median(slept), 6),
        "busy_spread": round(spread(slept), 4),
        "drift": round(max(drifts), 4),
        "took_seconds": round(time.monotonic() - begin, 1),
        "events": events,
    }
    print(case.name, told["step_seconds"], told["step_spread"], flush=True)
    return told


def replayed(told: Told, some: Sequence[Case]) -> Iterator[Told]:
    """What was measured of some cases beside what is simulated of it."""
    by_name = {case.name: case for case in some}
    for family in told["families"]:
        rows = family["collectives"]["rows"]
        systems = calibrated(told["megabits_per_second"], rows, told["world"])
        for row in family["cases"]:
            case = by_name[row["name"]]
            said = predicted(case, systems, row["events"], FREE)
            yield {"world": told["world"], **beside(case, row, said)}
