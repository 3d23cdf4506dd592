"""What fusing operators and gradients' sums together gains, and how far from the best it may be.

``python -m results.fusion`` writes fusion.json and a section of README.md. Models are the zoo's,
few layers written one after the other, a batch of 8 a device, data parallel over a whole machine;
sections by rooflines of its devices, all-reduces as the runtime does them by itself. Each search
begins at sections with sums of up to 25 MiB, or at what is built of that (kernels by levels,
buckets that end first, products put off) if it is faster, and prices as many plans as the others,
with those. ``--dry`` prints, and keeps nothing.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from time import process_time
from typing import Any

from grammar.tensors.operations import Step
from grammar.tensors.sharding import Sharding, Type
from hierarchies import Axis, InputError, load, placements
from hierarchies.devices import device_named
from results import pages, record
from synth.search.space import BestFound, Budget, Optimal
from synth.train.bucketing.gradients import promptly
from synth.train.bucketing.replica import AXIS, summed_first
from synth.train.bucketing.sums import Sums
from synth.train.fusion import Fusions, alone, growing, jointly, least, sectioned
from synth.train.fusion.flow import Flow
from synth.train.fusion.starts import levelled, postponed, soonest_together
from synth.train.models import Spelling, zoo_step
from synth.train.planner.finalists import RUNTIME, rooflines_of
from synth.train.plans import Plan, apply, parse_recipe, plan_of, prepared
from synth.train.plans.together.buckets import buckets_of
from synth.train.simulation import Simulated
from synth.train.simulation.device import Sending
from synth.train.simulation.predicting import Sources, predicted
from synth.train.simulation.sources import Rooflines

DATA = Path(__file__).with_name("fusion.json")
COMMAND = "python -m results.fusion"
CASES: tuple[tuple[str, dict[str, int], str], ...] = (
    ("gpt2-small", {"layers": 2}, "dgx-h100:2"),
    ("gpt2-small", {"layers": 2}, "p2-a100:2"),
    ("gpt2-small", {"layers": 2}, "p2-v100:2"),
    ("llama3-tiny", {}, "p2-a100:2"),
)
BATCH = 8
MIB = 2**20
USUAL_BYTES = 25 * MIB
STATES, SEED, DRAWN = 120, 0, 1
AIM = 1.05
SEARCHES = {"operators": {"tensors": False}, "tensors": {"operators": False}, "both": {}}


@dataclass(frozen=True, eq=False)
class Case:
    """A step, data parallel over all of a machine."""

    step: Step
    plan: Plan
    rooflines: Rooflines
    sums: Sums

    def sending(self, kind: Type, source: Sharding, target: Sharding) -> float:
        """All that is sent is summed."""
        return self.sums.seconds(kind.bytes)

    def at_least(self, every: Sequence[str]) -> Sending:
        """What no sum of so many bytes or more takes less than: the runtime's choice of algorithms
        takes some larger ones a little faster.
        """
        sent = Flow.of(self.step, self.plan).sent
        seconds = growing(self.sums.seconds, [sent[name].value.type.bytes for name in every])
        return lambda kind, source, target: seconds(kind.bytes)

    @cached_property
    def _sources(self) -> Sources:
        return Sources(
            lambda section: self.rooflines(section).seconds, self.sending, lambda *_: 0.0
        )

    def seconds(self, plan: Plan) -> float:
        return self.run(plan).seconds

    def run(self, plan: Plan) -> Simulated:
        """A plan on the clock."""
        ready = prepared(self.step, plan)
        found = predicted(ready, plan, apply(self.step, plan), self._sources, RUNTIME).run
        assert isinstance(found, Simulated)
        return found

    def buckets(self, most_bytes: int) -> tuple[tuple[str, ...], ...]:
        ready, program = prepared(self.step, self.plan), apply(self.step, self.plan)
        return buckets_of(ready, program, self.plan.sizes, most_bytes)


def case(model: str, changes: dict[str, int], machine: str) -> Case:
    system = load(machine)
    spelling = Spelling(batch=BATCH * system.devices, unrolled=True)
    step = promptly(zoo_step(model, changes, spelling))
    recipe = parse_recipe(f"{AXIS}={system.devices}; batch over {AXIS}")
    plan = summed_first(step, plan_of(step, recipe))
    [placement] = placements(system.hierarchy, (Axis(AXIS, system.devices),))
    rooflines = rooflines_of(step, plan, device_named(system.device))
    return Case(step, plan, rooflines, Sums(system, placement))


def measured(model: str, changes: dict[str, int], machine: str) -> dict[str, Any]:
    """One case: what was there before any search, what each finds, and the bound."""
    begun = process_time()
    one = case(model, changes, machine)
    [every] = one.buckets(2**62)
    bound = least(one.step, one.plan, every, one.rooflines, one.at_least(every))
    sections = sectioned(one.step, one.plan, RUNTIME)
    start = usual(one)
    plans = {"alone": alone(one.step, one.plan), "sections": sections, "usual": start}
    found = {name: one.seconds(plan) for name, plan in plans.items()}
    states = {}
    for name, only in SEARCHES.items():
        found[name], states[name] = searched(one, every, start, bound.seconds, only)
    return {
        "model": model,
        "changes": changes,
        "machine": machine,
        "operations": len(one.step.graph.operations),
        "gradients": len(every),
        "seconds": found,
        "states": states,
        "bound": {
            "compute": bound.compute_seconds,
            "communication": bound.communication_seconds,
            "chain": bound.chain_seconds,
        },
        "processor_seconds": process_time() - begun,
    }


def searched(
    one: Case, every: tuple[str, ...], start: Plan, least_seconds: float, only: dict[str, bool]
) -> tuple[float, dict[str, Any]]:
    """Seconds of the best plan that one search finds, and what it is."""
    tried = list(starts(one, every, start, **only))
    first = min(tried, key=one.seconds)
    space = Fusions(one.step, first, every, one.seconds, least_seconds, **only, drawn=DRAWN)
    best = jointly(space, Budget(STATES - len(tried), SEED))
    assert isinstance(best, Optimal | BestFound)
    return best.seconds, {
        "kernels": len(best.state.fused),
        "sums": _sums(best.state, every),
        "built_seconds": one.seconds(first),
        "computing_seconds": one.run(best.state).compute_seconds,
    }


def usual(one: Case) -> Plan:
    """Sums of up to 25 MiB, and the sections that there are then."""
    plan = replace(one.plan, buckets=one.buckets(USUAL_BYTES))
    return sectioned(one.step, plan, RUNTIME)


def starts(
    one: Case, every: tuple[str, ...], start: Plan, operators: bool = True, tensors: bool = True
) -> Iterator[Plan]:
    """Where a search may begin: at what is usual, or at what is built of that."""

    def together(plan: Plan) -> Plan:
        bare = replace(plan, buckets=())
        return soonest_together(bare, every, one.run(bare), one.sums.seconds)

    yield start
    kernels = levelled(one.step, start, one.rooflines) if operators else start
    yield together(kernels) if tensors else kernels
    if operators and tensors:
        with suppress(InputError):
            later = postponed(one.step, kernels, every, one.rooflines, one.sums.seconds)
            found = together(later)
            apply(one.step, found)
            yield found


def _sums(plan: Plan, every: tuple[str, ...]) -> int:
    """How many all-reduces there are."""
    return len(every) - sum(len(one) - 1 for one in plan.buckets)


def page(data: dict[str, Any]) -> str:
    """README.md with its section about fusion as the data has it."""
    return pages.page("fusion", data=data, aim=AIM)


def main() -> None:
    given = argparse.ArgumentParser(description=__doc__)
    given.add_argument("--dry", action="store_true", help="print, and keep nothing")
    dry = given.parse_args().dry
    asked = {"states": STATES, "seed": SEED, "drawn": DRAWN}
    cases = [measured(*one) for one in CASES]
    data = record.origin(COMMAND) | {"machine": record.machine()} | asked | {"cases": cases}
    if dry:
        print(json.dumps(data, indent=1))
    else:
        pages.keep(DATA, data, page)


if __name__ == "__main__":
    main()
