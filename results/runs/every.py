"""All plans of a small model, as the planner would try them: which of them is the fastest here.

Two ranks compute; for more, compute is slept (``replay``). Layers are written one by one, so none
is computed again. What is measured is simulated at once, by the same code, and kept with it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

from hierarchies import InputError
from hierarchies.devices import device_named
from results import record
from results.runs.cases import DECODER, RATES, Case, Model
from results.runs.judged import at_rate
from results.runs.measure import measure
from results.runs.replay import WORLDS as REPLAYED
from results.runs.replay import replay, replayed
from results.testbed.systems import built
from synth.step.models import ModelSettings
from synth.step.search.job import PlanningProblem
from synth.step.search.pins import Pins

WORLDS = {2: RATES[1], 4: REPLAYED[4], 8: REPLAYED[8]}
"""By how many ranks the rate of a port, in Mbit/s."""

PINS = Pins.parse("remat=no")
COMMAND = "python -m results.runs every"
Told = dict[str, Any]


def every(world: int, megabits: float, model: Model = DECODER) -> list[Case]:
    """What the planner would try for so many ranks, by the sizes of their axes."""
    spelling = ModelSettings(batch=model.batch, optimizer=model.optimizer)
    system = built((world,), (megabits,))
    priced_on = device_named("H100 SXM5 80 GB")  # candidates are not priced
    job = PlanningProblem(model.name, dict(model.sizes), spelling, system, priced_on)
    return [
        Case(model, text, megabits)
        for text in dict.fromkeys(str(one.recipe) for one in job.candidates(PINS))
    ]


def written(some: Sequence[Case]) -> tuple[list[Case], Counter[str]]:
    """Those that can be run here, and why the others cannot, with how many they are."""
    found, refused = [], Counter[str]()
    for case in some:
        try:
            assert case.text
        except InputError as error:
            refused[error.problem] += 1
        else:
            found.append(case)
    return found, refused


def families(some: Sequence[Case]) -> Iterator[list[Case]]:
    """Cases of the same axes send over the same groups: these are measured once for all."""
    for _, alike in groupby(some, key=lambda case: case.plan.partition(";")[0]):
        yield list(alike)


def measured(world: int, some: Sequence[Case]) -> Told:
    """Runs some plans of so many ranks. Raises TroubleError where a rank dies."""
    if world == 2:
        return measure(some[0].megabits, list(some))
    return replay(world, families(some))


def simulated(world: int, some: Sequence[Case], told: Told) -> list[Told]:
    """Rows of what was measured beside what is simulated of it."""
    if world == 2:
        return [{"world": world, **row} for row in at_rate(told, some)]
    return list(replayed(told, some))


def run(world: int, model: Model = DECODER) -> Told:
    """All plans of a model on so many ranks, measured and simulated."""
    known = every(world, WORLDS[world], model)
    some, refused = written(known)
    return {
        **record.origin(f"{COMMAND} {world}"),
        "machine": record.machine(),
        "model": str(model),
        "tried": len(known),
        "refused": dict(refused.most_common()),
        **_rows(world, some),
        "again": [],
    }


def again(told: Told, world: int, model: Model = DECODER) -> Told:
    """The same with those of its plans that got stuck measured again, each family by itself."""
    stuck = set(told["stuck"])
    some = [case for case in every(world, WORLDS[world], model) if case.name in stuck]
    found = _rows(world, some)
    origin = record.origin(f"{COMMAND} {world} --stuck") | {"plans": len(found["rows"])}
    return told | {
        "stuck": found["stuck"],
        "rows": [*told["rows"], *found["rows"]],
        "measured": [*told["measured"], *found["measured"]],
        "again": [*told["again"], origin],
    }


def anew(told: Told, world: int, model: Model = DECODER) -> Told:
    """The same, what was measured beside what is simulated of it now.

    Raises InputError where programs have changed since.
    """
    known = every(world, WORLDS[world], model)
    rows = [row for part in told["measured"] for row in simulated(world, known, part)]
    return told | {"rows": rows, "simulated": record.origin(f"{COMMAND} {world} --simulate")}


def _rows(world: int, some: Sequence[Case]) -> Told:
    told = measured(world, some)
    return {
        "stuck": [one["name"] for one in told["stuck"]],
        "rows": simulated(world, some, told),
        "measured": [told],
    }
