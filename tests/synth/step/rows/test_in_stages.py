"""Rows of a step in microbatches and stages: against every plan, and against what plans do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from math import inf

import numpy as np
import pytest

pytest.importorskip("jax", reason="needs jax, of the extra 'jax'")

from grammar.tensors.operations import Operand, Operation, Step
from grammar.tensors.sharding import Sharding, Type, part_shape
from ordered_steps import judge_order
from sharded_steps import in_float64, judge, on_one_device
from synth.search.space import BestFound, Optimal
from synth.step.factors import part_of
from synth.step.rows import PlanSolution, Prices, choose, list_options, plain_prices, seconds_of
from synth.step.rows.options import list_shardings
from synth.step.rows.tables import StepCosts, costs_of
from synth.step.sharding import (
    Cuts,
    LocalOperation,
    Plan,
    RedistributedValue,
    SentValue,
    StepProgram,
    apply,
    parse_plan,
    parse_recipe,
    plan_of,
    plan_text,
    prepare_step,
)
from synth.step.sharding.plan import TIME, Rows, scan_operands_of
from synth.step.sharding.program import EVERYWHERE
from synth.step.sharding.stages import ONCE_PHASES
from synth.step.work import length_of
from traced_steps import step, two_weights

IN_TWO = "data=2 pipe=2; batch over data; schedule 1f1b, 2 microbatches"


def prices(plan: Plan, fast: float = 1.0) -> Prices:
    rates = {"data": 3.0 * fast, "tensor": 7.0 * fast, "pipe": 5.0 * fast}
    return plain_prices(plan.sizes, rates, 50.0, 900.0)


def every_plan(one: Step, plan: Plan) -> Iterator[Plan]:
    """Every way to cut it along its axes of devices; along time as it is."""
    graph, cuts, sizes = prepare_step(one, plan).graph, plan.cuts, plan.parts
    inputs = [
        list_shardings(value.type, sizes, (), lie.along(TIME))
        for value, lie in zip(graph.inputs, cuts.inputs, strict=True)
    ]
    rows = [
        [way.rows for way in list_options(operation, sizes, in_time=in_time(cut))]
        for operation, cut in zip(graph.operations, cuts.operations, strict=True)
    ]
    for found in product(product(*inputs), product(*rows)):
        yield replace(plan, cuts=Cuts(*found))


def in_time(cut: Rows | Cuts):  # type: ignore[no-untyped-def]
    assert not isinstance(cut, Cuts)
    return dict(cut).get(TIME)


class Charged:
    """Seconds of a program where everyone who reads a value pays for its way there.

    What every stage has is not paid to be sent: each might redistribute it itself.
    """

    def __init__(self, one: Step, plan: Plan, prices: Prices) -> None:
        self.plan, self.prices, self.ready = plan, prices, prepare_step(one, plan)
        program = apply(one, plan)
        ends = [
            (self.ready.graph.outputs[out], program.outputs[out], program.homes[place])
            for out, place in self.ready.updates
        ]
        homes = zip(self.ready.graph.inputs, program.homes, strict=True)
        done = zip(program.instructions, program.places, strict=True)
        self.everywhere = {value.name for value, home in homes if home == EVERYWHERE} | {
            value.name
            for one, place in done
            if isinstance(one, LocalOperation) and place.stage == EVERYWHERE
            for value in one.operation.results
        }
        self.seconds = self._of(program, 1, ends)

    def _of(
        self, program: StepProgram, around: int, ends: Sequence[tuple[Operand, Sharding, int]]
    ) -> float:
        total, made, sent = 0.0, {}, {}
        read: list[tuple[Operand, Sharding, int]] = list(ends)
        for at, one in enumerate(program.instructions):
            often = bool(program.places) and program.places[at].when not in ONCE_PHASES
            times = around * (self.plan.microbatches if often else 1)
            match one:
                case RedistributedValue(value, path):
                    made[value.name, path.target] = path.source, times * self._moved(one)
                case SentValue(value, lie, _, target):
                    sent[value.name, lie, target] = times * self._sent(one)
                case LocalOperation(operation, how, body):
                    stage = program.places[at].stage if program.places else EVERYWHERE
                    both = zip(operation.operands, how.operands, strict=True)
                    read += [(*pair, stage) for pair in both]
                    total += self._done(operation, how, body, times)
        for value, lie, stage in read:
            if str(value) not in self.everywhere:
                total += sent.get((str(value), lie, stage), 0.0)
            while (str(value), lie) in made:
                lie, seconds = made[str(value), lie]
                total += seconds
        return total

    def _done(self, operation: Operation, how, body: StepProgram | None, times: int) -> float:  # type: ignore[no-untyped-def]
        if body is None:
            return times * self.prices.computing(part_of(operation, how, self.plan.parts).operation)
        assert operation.body is not None
        divided = scan_operands_of(operation.parameter)
        carried = zip(operation.body.outputs, divided.carry(body.inputs), strict=False)
        ends = [(value, lie, EVERYWHERE) for value, lie in carried]
        return self._of(body, times * length_of(operation), ends)

    def _moved(self, one: RedistributedValue) -> float:
        kind, source, target = one.value.type, one.path.source, one.path.target
        cut = [TIME in axes for axes in source.dimensions]
        shape = tuple(
            size // self.plan.microbatches if timed else size
            for size, timed in zip(kind.shape, cut, strict=True)
        )
        return self.prices.sending(
            Type(kind.dtype, shape), source.without(TIME), target.without(TIME)
        )

    def _sent(self, one: SentValue) -> float:
        shape = part_shape(one.value.type, one.sharding, self.plan.parts)
        size = Type(one.value.type.dtype, shape).bytes
        return self.prices.handing(size, one.source, one.target)


@pytest.mark.parametrize("fast", [1.0, 1e3])
@pytest.mark.parametrize("text", [IN_TWO, "data=2; batch over data; 2 microbatches"])
def test_rows_of_two_stages_are_the_best_of_all_plans(text: str, fast: float) -> None:
    one = two_weights("pow")
    plan = plan_of(one, parse_recipe(text))
    rates = prices(plan, fast)
    found = choose(one, plan, rates)
    assert isinstance(found, PlanSolution)
    assert isinstance(found.found, Optimal)
    least, count = inf, 0
    for other in every_plan(one, plan):
        least = min(least, Charged(one, other, rates).seconds)
        count += 1
    assert count == 1152
    assert found.found.seconds == pytest.approx(least)
    assert Charged(one, found.plan, rates).seconds == pytest.approx(least)


OF_LAYERS = (
    ("mlp-tiny", IN_TWO),
    ("mlp-tiny", f"{IN_TWO}; zero=2"),
    *(
        pytest.param(*one, marks=pytest.mark.slow)
        for one in (
            ("mlp-tiny", "data=2 tensor=2; batch over data; zero=3; 2 microbatches"),
            ("gpt2-tiny", f"{IN_TWO}; zero=1; remat layers"),
            ("llama3-tiny", IN_TWO.replace("1f1b,", "interleaved-1f1b, 2 chunks,")),
        )
    ),
)


def of_layers(name: str) -> Step:
    return in_float64(step(name, (("layers", 4),)))


@pytest.mark.parametrize(("name", "text"), OF_LAYERS)
def test_the_costs_of_any_choice_are_what_its_plan_does(name: str, text: str) -> None:
    one = of_layers(name)
    plan = plan_of(one, parse_recipe(text))
    rates = prices(plan)
    tables = costs_of(one, plan, rates)
    draw = np.random.default_rng(0)
    for _ in range(3):
        states = _any_choice(tables, draw)
        other = replace(plan, cuts=tables.cuts(states))
        charged = Charged(one, other, rates).seconds
        assert tables.costs.cost(states) == pytest.approx(charged)
        assert seconds_of(one, other, rates).all <= charged * (1 + 1e-9)


def _any_choice(tables: StepCosts, draw: np.random.Generator) -> list[int]:
    """Of each variable a state that may stand beside those before it."""
    costs = tables.costs
    found: list[int] = []
    for at, alone in enumerate(costs.alone):
        beside = alone.copy()
        for other in costs.neighbours[at]:
            if other < at:
                beside += costs.table(other, at)[found[other]]
        found.append(int(draw.choice(np.flatnonzero(np.isfinite(beside)))))
    return found


@pytest.mark.parametrize(("name", "text"), OF_LAYERS)
def test_rows_in_stages_compute_what_one_device_does(name: str, text: str) -> None:
    """And are a plan in full, in the stages and the order of the recipe."""
    one = of_layers(name)
    plan = plan_of(one, parse_recipe(text))
    rates = prices(plan, 1e6)
    found = choose(one, plan, rates, gap=1e-3)
    assert isinstance(found, PlanSolution)
    assert isinstance(found.found, Optimal | BestFound)
    assert found.found.seconds <= Charged(one, plan, rates).seconds * 1.001
    assert found.plan.cuts != plan.cuts
    assert replace(found.plan, cuts=plan.cuts) == plan
    assert parse_plan(plan_text(one, found.plan), one) == found.plan
    ready, program = prepare_step(one, found.plan), apply(one, found.plan)
    if plan.order is not None:
        judge_order(ready, found.plan, program)
    judge(ready, program, plan.parts, on_one_device(ready))
