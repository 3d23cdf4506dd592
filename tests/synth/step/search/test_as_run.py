"""A step's clock has what runs: the runtime's own choices, and programs only where these gain."""

from __future__ import annotations

from functools import cache

import pytest

pytest.importorskip("jax", reason="needs jax, of the extra 'jax'")

from grammar import Goal
from grammar.tensors.sharding import Sharding, Type
from hierarchies import Placement, Reduction, load
from hierarchies.devices import device_named
from machines import precise
from synth.collective.price.defaults import defaults
from synth.collective.price.step_prices import Simulator
from synth.collective.price.steps import total_seconds
from synth.collective.ranking.answers import unproved_answer
from synth.collective.ranking.candidates import CandidateSearch
from synth.collective.ranking.how_to_get import AdviceKind, advise, seconds_as_advised
from synth.collective.ranking.library import Library
from synth.collective.ranking.oracle import PlacedGoal, ProgramPrices
from synth.collective.ranking.request import Request, Watcher
from synth.collective.semantics.programs import Language
from synth.measure.calibration.typical import apply_typical
from synth.step.models import ModelSettings
from synth.step.redistribution.seconds import NetworkPrices
from synth.step.search.finalists import RUNTIME, Finalist
from synth.step.search.job import PlanningProblem
from synth.step.search.links import SEGMENTS, place_alone
from synth.step.search.pins import Pins
from synth.step.search.planning import Planner
from synth.step.sharding import apply, prepare_step
from synth.step.simulation.predicting import predict_step
from synth.step.simulation.sources import Rooflines, build_sources

TYPICAL, STATED = apply_typical(load("dgx-h100:2")), precise("p2-a100:2")


@cache
def planner() -> Planner:
    """Of a model so small that messages decide, on prices that claim no gain below two times."""
    spelling = ModelSettings(batch=64, dtype="bfloat16")
    return Planner(
        PlanningProblem("gpt2-tiny", {}, spelling, TYPICAL, device_named(TYPICAL.device))
    )


@cache
def best() -> Finalist:
    pins = Pins.parse("zero=1 pipe=1 tensor=1 remat=no microbatches=1 bucket=no")
    return planner().plans(pins, 1, Watcher()).finalists[0]


def test_a_step_whose_programs_do_not_surely_gain_takes_the_runtimes_own_choices() -> None:
    """The clock again, from the defaults of every request of every path, asked by themselves."""
    found = best()
    assert not planner().gaining(found)
    differ = [one.answer for one in planner().sending(found)]
    assert any(one.candidate.seconds < 0.9 * one.baseline_seconds for one in differ)
    simulator, placement = Simulator(TYPICAL), found.placement
    network = NetworkPrices(ProgramPrices(TYPICAL, stripes=False), placement)

    def by_default(value: Type, source: Sharding, target: Sharding) -> float:
        chosen = network.redistribution(value, source, target)
        total = 0.0
        for one in (each.communication.request for each in chosen.requests):
            assert isinstance(one, Request)
            on = Reduction(Placement(TYPICAL.hierarchy, one.axes, one.placement), one.over)
            own = defaults(simulator, on, one.payload_bytes, one.goal)
            total += total_seconds(own.baseline)
        return total

    step, job = planner().job.step, planner().job
    program, plan = apply(step, found.plan), found.plan
    own = build_sources(Rooflines(job.device), network)
    again = type(own)(own.computing, by_default, own.handing)
    said = predict_step(prepare_step(step, plan), plan, program, again, RUNTIME)
    assert found.found.seconds == pytest.approx(said.seconds, rel=1e-9)


@pytest.mark.parametrize("system", [TYPICAL, STATED], ids=["typical", "stated"])
@pytest.mark.parametrize("goal", [Goal.ALL_REDUCE, Goal.REDUCE_SCATTER, Goal.ALL_GATHER])
def test_composed_seconds_are_of_what_an_answer_advises(system: object, goal: Goal) -> None:
    """Priced without a proof as the answers that are proved: the same line or file, or neither."""
    assert isinstance(system, type(STATED))
    priced = ProgramPrices(system, segments=SEGMENTS, stripes=False)
    met = set()
    nodes, each = system.hierarchy.cardinalities
    for row in ((1, each), (nodes, 1), (nodes, each)):
        placement = place_alone(system, row)
        for power in (4, 12, 20, 24, 28):
            placed = PlacedGoal(goal, 2**power, Reduction(placement, ("over",)))
            answer = priced.answer(placed)
            told = priced.advised_seconds(placed)
            assert told == seconds_as_advised(answer)
            how = advise(answer).by
            ours = (
                answer.runtime_seconds if how in (AdviceKind.FILE, AdviceKind.ENVIRONMENT) else None
            )
            assert told == (answer.baseline_seconds if ours is None else ours)
            met.add(how)
    assert AdviceKind.DEFAULT in met
    if system is STATED and goal is Goal.ALL_REDUCE:
        assert AdviceKind.FILE in met or AdviceKind.ENVIRONMENT in met


@pytest.mark.parametrize("name", ["p2-a100:4", "dgx-h100:2"])
def test_plans_omitted_as_unprofitable_are_not_advised(name: str) -> None:
    """As the best program of all says, looked for without a limit."""
    system = precise(name)
    priced = ProgramPrices(system, segments=SEGMENTS, stripes=False)
    simulator = priced.simulator
    row = system.hierarchy.cardinalities
    gained = set()
    for power in (12, 18, 24, 30):
        placement, size = place_alone(system, row), 2**power
        how = Library(Language()), simulator, size, SEGMENTS
        search = CandidateSearch(*how, stripes=False)
        placed = PlacedGoal(Goal.ALL_REDUCE, size, Reduction(placement, ("over",)))
        [found] = search.distinct(placed.reduction, 1)
        answer = unproved_answer(simulator, found.what, Goal.ALL_REDUCE, size)
        assert priced.advised_seconds(placed) == seconds_as_advised(answer)
        gained.add(answer.gains)
    assert gained == ({True, False} if name == "p2-a100:4" else {False})
