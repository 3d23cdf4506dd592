"""Plans of whole steps: what is composed against the simulator, what is found against all."""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from itertools import combinations, islice, pairwise
from operator import lt
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("jax", reason="needs jax, of the extra 'jax'")

from grammar import Goal
from grammar.tensors.operations import Step
from hierarchies import Axis, InputError, load, placements
from hierarchies.devices import device_named
from results.plans.families import group_by_recipe
from results.speedup.perfect import Several, perfectly
from synth.collective.ranking.oracle import ProgramPrices
from synth.collective.ranking.request import Watcher
from synth.search import forks
from synth.step.models import ModelSettings, zoo_step
from synth.step.schedules import SCHEDULES, Action, Pass, time_schedule
from synth.step.search.composing.balancing import LayerBalancer, balance_layers
from synth.step.search.composing.clock import StageLayout, Structure, lay_out_stages
from synth.step.search.composing.composer import SCALED_EXCESS
from synth.step.search.composing.inside import ModelPart, extrapolate
from synth.step.search.composing.timing import CLOCK_BATCH, PlanClock
from synth.step.search.composing.writing import MICROBATCHES, write_insides
from synth.step.search.explaining import list_savings
from synth.step.search.finalists import Finalist, FinalistPool, simulate_finalist
from synth.step.search.job import SEARCHED_SCHEDULES, PlanningProblem
from synth.step.search.links import BoundLinks, ComposedPlan, PlacedRecipe, PricedLinks
from synth.step.search.pins import Pins
from synth.step.search.planning import Planner
from synth.step.search.searching import Search
from synth.step.sharding import StepPhase, parse_recipe
from synth.step.sharding.recipes import CHUNKED_SCHEDULES
from tests.plans_alone import PassSeconds

FORKED = pytest.mark.skipif(not forks.FORKS, reason="processes cannot be forks here")
SIZES = {"layers": 8, "width": 4096, "heads": 32, "sequence": 2048, "vocabulary": 32768}
SYSTEM = load("dgx-h100:2")


@cache
def job(batch: int = 32, model: str = "gpt2-small") -> PlanningProblem:
    spelling = ModelSettings(batch=batch, dtype="bfloat16")
    return PlanningProblem(model, SIZES, spelling, SYSTEM, device_named(SYSTEM.device))


@cache
def planner(model: str = "gpt2-small") -> Planner:
    return Planner(job(model=model))


MEGATRON = "weights over tensor as Megatron; vocabulary over tensor"
INTERLEAVED = "schedule interleaved-1f1b, 2 chunks, 4 microbatches"
RECIPES = (
    "data=16; batch over data; zero=1; 2 microbatches",
    f"data=4 tensor=4; batch over data; {MEGATRON}; zero=1; 4 microbatches",
    f"pipe=2 data=2 tensor=4; batch over data; {MEGATRON}; schedule 1f1b, 4 microbatches",
    f"pipe=4 tensor=4; {MEGATRON}; schedule 1f1b, 8 microbatches; stages of 2, 3, 2, 1 layers",
)
MORE = (
    f"pipe=4 tensor=4; tokens over tensor; {MEGATRON}; schedule 1f1b, 8 microbatches",
    f"data=2 tensor=8; batch over data; tokens over tensor; {MEGATRON}; zero=2; 8 microbatches",
    "pipe=4 data=4; batch over data; zero=1; schedule interleaved-1f1b, 2 chunks, 8 microbatches",
    "pipe=8 data=2; batch over data; zero=2; remat layers; schedule 1f1b, 16 microbatches",
    f"pipe=2 data=8; batch over data; zero=1; {INTERLEAVED}; stages of 2, 3, 2, 1 layers",
)


def check(text: str, seconds: float, memory: float, model: str = "gpt2-small") -> None:
    """Composed and simulated, on the first and the last placement: so near are both."""
    recipe, asked = parse_recipe(text), job(model=model)
    axes = tuple(Axis(name, size) for name, size in recipe.axes)
    several = list(placements(SYSTEM.hierarchy, axes))
    for one in {several[0], several[-1]}:
        candidate = PlacedRecipe(recipe, one.matrix)
        composer = planner(model).composer
        [expected] = composer.on(PricedLinks(SYSTEM)).seconds([candidate])
        answers = ProgramPrices(SYSTEM, stripes=False)
        found = simulate_finalist(asked.of_layers, asked.layers, candidate, answers, asked.device)
        assert expected == pytest.approx(found.found.seconds, rel=seconds)
        assert composer.size_bytes(recipe) == pytest.approx(found.size_bytes, rel=memory)


@pytest.mark.parametrize("text", RECIPES)
def test_composed_seconds_are_near_simulated_ones(text: str) -> None:
    check(text, 0.1, 0.15)


ONE_BY_ONE = (
    "data=16; batch over data; zero=3; 2 microbatches",
    f"pipe=2 data=8; batch over data; zero=3; remat layers; {INTERLEAVED}",
)


@pytest.mark.parametrize("text", ONE_BY_ONE)
def test_a_layer_does_not_wait_until_all_of_it_is_put_together(text: str) -> None:
    """In short stages most of all, where that would be a large part of what is sent."""
    check(text, 0.15, 0.15)


AFTER_ALL = (
    "data=16; batch over data",
    "data=16; batch over data; buckets of 400 MB",
    "data=16; batch over data; zero=1",
    "data=16; batch over data; zero=2; buckets of 100 MB",
)


@pytest.mark.parametrize("text", AFTER_ALL)
def test_the_update_waits_for_all_sums_and_nothing_goes_beside_it(text: str) -> None:
    """Of a step that is done at once; copies of parameters come beside the forward pass."""
    check(text, 0.06, 0.15)


@pytest.mark.slow
@pytest.mark.parametrize("text", MORE)
def test_composed_seconds_of_other_models_are_near_simulated_ones(text: str) -> None:
    check(text, 0.2, 0.2)


EXPERTS = (
    "data=4 expert=4; batch over data and expert; experts over expert; zero=1; 2 microbatches",
    "pipe=2 expert=8; batch over expert; experts over expert; schedule 1f1b, 4 microbatches",
    "data=2 expert=8; batch over data and expert; experts over expert; zero=3; remat layers",
)


@pytest.mark.parametrize("text", EXPERTS)
def test_composed_seconds_of_experts_are_near_simulated_ones(text: str) -> None:
    check(text, 0.1, 0.15, "mixtral-8x7b")


def test_gradients_are_added_up_layer_by_layer() -> None:
    """What is done with stacks of gradients grows with the layers, as the layers' own work does."""
    recipe = parse_recipe(f"tensor=4; {MEGATRON}; {MICROBATCHES} microbatches")
    [one] = write_insides(job().traced, recipe, [1], job().device)
    bytes_of_layer = one.stored[ModelPart.LAYER]
    rate = job().device.memory_bytes_per_second
    assert 0.5 * bytes_of_layer / rate < one.summing_seconds < 4 * bytes_of_layer / rate
    assert (
        one.work[StepPhase.BACKWARD, ModelPart.FIRST].seconds
        < one.work[StepPhase.BACKWARD, ModelPart.LAYER].seconds
    )


def test_four_samples_are_what_two_are_and_two_more() -> None:
    recipe = parse_recipe(f"tensor=4; {MEGATRON}; {MICROBATCHES} microbatches")
    one, two, four = write_insides(job().traced, recipe, (1, 2, 4), job().device)
    [alone] = write_insides(job().traced, recipe, [4], job().device)
    assert alone == four
    found = extrapolate(one, two, 4)
    assert found is not None
    assert found.seconds(8) == pytest.approx(four.seconds(8), rel=0.05)
    assert found.saved[ModelPart.LAYER] == four.saved[ModelPart.LAYER]
    for key, work in found.work.items():
        assert dict(work.sent) == dict(four.work[key].sent)


def test_all_that_is_priced_is_found_without_pricing_all() -> None:
    """Bounds leave out nothing: the ten cheapest are those of all, priced one by one."""
    some = job().candidates(Pins.parse("zero=1 microbatches=4 remat=no"))
    links, composer = PricedLinks(SYSTEM), planner().composer
    memory = sorted(composer.size_bytes(one.recipe) for one in some)[len(some) // 2]
    search = Search(composer, group_by_recipe(some), memory, links, BoundLinks(SYSTEM), Watcher())
    found = [one.seconds for one in islice(search.cheapest(), 10)]
    fitting = [one for one in some if composer.size_bytes(one.recipe) <= memory]
    seconds = sorted(composer.on(links).seconds(fitting))
    assert found == seconds[:10]
    assert search.fitting == len(fitting)
    assert search.priced < len(fitting)
    assert search.complete
    among = [one for one in fitting if one.ranks == 2]
    found = [one.seconds for one in search.cheapest(lambda one: one.ranks == 2)]
    assert found == sorted(composer.on(links).seconds(among))


def test_the_front_is_that_of_all_that_fit() -> None:
    some = job().candidates(Pins.parse("zero=1 microbatches=4 remat=no"))
    links, composer = PricedLinks(SYSTEM), planner().composer
    search = Search(composer, group_by_recipe(some), 1e12, links, BoundLinks(SYSTEM), Watcher())
    seconds = composer.on(links).seconds(some)
    both = {
        (took, composer.size_bytes(one.recipe)) for took, one in zip(seconds, some, strict=True)
    }
    unbeaten = {
        one for one in both if not any(a <= one[0] and b <= one[1] for a, b in both - {one})
    }
    assert [(one.seconds, one.size_bytes) for one in search.front()] == sorted(unbeaten)


def test_more_of_one_structure_than_are_timed_at_once_come_in_order() -> None:
    [first, *_] = job().candidates(Pins.parse("pipe=1 zero=1 tensor=1 microbatches=2 remat=no"))
    some = [first] * (2 * CLOCK_BATCH + 1)
    composer = planner().composer
    search = Search(
        composer, group_by_recipe(some), 1e15, PricedLinks(SYSTEM), BoundLinks(SYSTEM), Watcher()
    )
    assert len([*search.cheapest()]) == len(some)


def test_without_fitting_plans_the_least_memory_is_reported() -> None:
    some = job().candidates(Pins.parse("pipe=1 tensor=1 remat=no"))
    composer = planner().composer
    search = Search(
        composer, group_by_recipe(some), 1.0, PricedLinks(SYSTEM), BoundLinks(SYSTEM), Watcher()
    )
    assert not [*search.cheapest()]
    assert search.nearest is not None
    assert search.nearest[1] == min(composer.size_bytes(one.recipe) for one in some)


def test_plans_that_fit_only_by_estimate_are_reported() -> None:
    """On the clock it may need more: then others of its kind are passed over, and no other."""
    some = job().candidates(Pins.parse("pipe=1 zero=0 microbatches=2 remat=no"))[:3]
    composed = [ComposedPlan(one, 1.0, 90.0) for one in some]
    found = Planner(job()).simulate(some[0])
    taken = FinalistPool(100.0, Counter())
    assert taken.simulate(iter(composed), 3, lambda one: found, Watcher())
    assert not taken.simulated
    assert taken.nearest == (some[0], found.size_bytes)
    assert taken.looked_at == composed


@pytest.mark.parametrize("fit", [2, 3])
@pytest.mark.parametrize("processes", [1, 2, 8])
def test_extra_plans_are_reported_once_by_any_simulating_process(fit: int, processes: int) -> None:
    """Whether or not as many fit as are wanted, and though it is one of those that come, too."""
    found = Planner(job()).simulate(job().candidates(Pins.parse("pipe=1 zero=0 remat=no"))[0])
    some = job().candidates(Pins.parse("pipe=1 zero=0 microbatches=2 remat=no"))[:4]
    composed = [ComposedPlan(one, 1.0 + at, 90.0) for at, one in enumerate(some)]
    asked: list[ComposedPlan] = []

    def simulated(one: ComposedPlan) -> Finalist | InputError:
        asked.append(one)
        fits = one is composed[3] or composed.index(one) < fit
        return replace(found, candidate=one.candidate) if fits else InputError("it does not fit")

    with perfectly(lambda: 0.0, 0.0):
        taken = FinalistPool(1e12, Counter(), beside=[composed[3]])
        assert taken.simulate(iter(composed[:3]), 3, simulated, Several(processes))
    assert [one.candidate for one in taken.simulated] == some[:fit]
    assert [each.candidate for each in taken.results if isinstance(each, Finalist)] == [some[3]]
    assert sorted(map(composed.index, asked)) == [0, 1, 2, 3]
    assert len(taken.looked_at) == 3


def test_a_search_that_is_stopped_reports_it() -> None:
    class Stops(Watcher):
        calls = 0

        def go_on(self) -> bool:
            self.calls += 1
            return self.calls < 3

    some = job().candidates(Pins.parse("pipe=1 tensor=1 remat=no"))
    search = Search(
        planner().composer,
        group_by_recipe(some),
        1e12,
        PricedLinks(SYSTEM),
        BoundLinks(SYSTEM),
        Stops(),
    )
    assert not search.complete
    assert search.plans == search.fitting < len(some)
    assert next(search.cheapest()) is not None


SOME = st.floats(0.01, 10.0)


def seconds_of(
    lies: StageLayout, parts: list[tuple[float, float]], once: list[float], link: float
) -> PassSeconds:
    """Of a plan, from seconds of its parts forward and backward."""
    forward, backward = (
        lies.of_stages(dict(zip(ModelPart, some, strict=True))) for some in zip(*parts, strict=True)
    )
    both = tuple(map(sum, zip(forward, backward, strict=True)))
    told = tuple(once[: len(lies.ranks)])
    links = [link] * (len(lies.of_rank) - 1)
    return PassSeconds(lies, forward, backward, lies.of_ranks(both), told, links)


def time_passes(structure: Structure, told: PassSeconds) -> float:
    return float(PlanClock().seconds(structure, told.columns)[0])


def bound_passes(microbatches: int, told: PassSeconds) -> float:
    return float(told.columns.bounds(np.array([microbatches]), whole=np.array([True]))[0])


SHARES = st.lists(st.integers(1, 4), min_size=12, max_size=12)


@given(
    structure=st.tuples(st.integers(2, 6), st.integers(1, 5), st.sampled_from(SEARCHED_SCHEDULES)),
    shares=st.one_of(st.none(), SHARES),
    parts=st.lists(st.tuples(SOME, SOME), min_size=3, max_size=3),
    once=st.lists(SOME, min_size=6, max_size=6),
    link=st.one_of(st.just(0.0), SOME),
)
def test_no_order_is_faster_than_its_bound(
    structure: tuple[int, int, str],
    shares: list[int] | None,
    parts: list[tuple[float, float]],
    once: list[float],
    link: float,
) -> None:
    ranks, rounds, schedule = structure
    chunks = 2 if schedule in CHUNKED_SCHEDULES else 1
    layers = tuple((shares or [2] * 12)[: ranks * chunks])
    lies = lay_out_stages(sum(layers), ranks, chunks, layers if shares else ())
    told = seconds_of(lies, parts, once, link)
    clock = time_passes((ranks, schedule, ranks * rounds, chunks), told)
    bound = told.bound(ranks * rounds, whole=True)
    assert bound_passes(ranks * rounds, told) == bound <= clock * (1 + 1e-9)


@given(
    st.integers(2, 6),
    st.sampled_from(SEARCHED_SCHEDULES),
    SHARES,
    st.lists(st.tuples(SOME, SOME), min_size=3, max_size=3),
)
def test_uneven_stages_take_on_the_clock_what_their_passes_take_in_order(
    ranks: int, schedule: str, shares: list[int], parts: list[tuple[float, float]]
) -> None:
    """By the clock of orders, which knows each pass by itself, and no kinds."""
    chunks = 2 if schedule in CHUNKED_SCHEDULES else 1
    layers = tuple(shares[: ranks * chunks])
    order = SCHEDULES[schedule](ranks, 2 * ranks, chunks)
    lies = lay_out_stages(sum(layers), ranks, chunks, layers)
    told = seconds_of(lies, parts, [0.0] * 6, 0.0)

    def seconds(action: Action) -> float:
        at = int(action.kind is not Pass.FORWARD)
        ends = (action.stage == 0) * parts[0][at] + (action.stage == len(layers) - 1) * parts[2][at]
        return ends + layers[action.stage] * parts[1][at]

    structure = ranks, schedule, 2 * ranks, chunks
    found = time_passes(structure, told)
    assert found == told.seconds(structure) == pytest.approx(time_schedule(order, seconds).seconds)


def test_equal_stages_in_turn_reach_the_bound() -> None:
    told = seconds_of(lay_out_stages(4, 4, 1), [(0.0, 0.0), (1.0, 2.0), (0.0, 0.0)], [0.5] * 3, 0.0)
    assert time_passes((4, "1f1b", 8, 1), told) == bound_passes(8, told) == 33.5


@given(
    st.integers(1, 4),
    st.integers(1, 2),
    st.integers(0, 5),
    st.tuples(st.integers(0, 9), st.integers(1, 5), st.integers(0, 9)),
)
def test_the_fastest_cut_is_that_of_all_cuts(
    ranks: int, chunks: int, more: int, each: tuple[int, int, int]
) -> None:
    """Of all layers for each stage that add up: the slowest rank is as fast as in the best."""
    stages = ranks * chunks
    layers = stages + more
    seconds = dict(zip(ModelPart, map(float, each), strict=True))

    def slowest(cut: Sequence[int]) -> float:
        ends = [each[0] * (at == 0) + each[2] * (at == stages - 1) for at in range(stages)]
        own = [end + size * each[1] for end, size in zip(ends, cut, strict=True)]
        return max(sum(own[rank::ranks]) for rank in range(ranks))

    found, least = balance_layers(layers, ranks, chunks, seconds)
    cuts = [
        [end - begin for begin, end in pairwise((0, *ends, layers))]
        for ends in combinations(range(1, layers), stages - 1)
    ]
    assert (len(found), sum(found)) == (stages, layers)
    assert min(found) > 0
    assert slowest(found) == least == min(map(slowest, cuts))


def test_bounds_of_links_are_below_their_prices() -> None:
    priced, least = PricedLinks(SYSTEM), BoundLinks(SYSTEM)
    rows: dict[Goal, list[bool]] = defaultdict(list)
    for goal in (Goal.ALL_REDUCE, Goal.ALL_GATHER, Goal.REDUCE_SCATTER):
        for row in ((2, 1), (1, 8), (2, 4), (2, 8)):
            for size in (2.0**10, 2.0**20 + 1, 2.0**29):
                bound, price = least.seconds(goal, row, size), priced.seconds(goal, row, size)
                rows[goal].append(bound <= price * (1 + 1e-9))
    assert all(all(each) for each in rows.values())


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("tensor=8 tensor=4", "tensor=8 and tensor=4"),
        ("tensor", "not understood"),
        ("zero=4", "not understood"),
        ("colour=red", "not understood"),
        ("schedule=best", "not understood"),
    ],
)
def test_pins_that_are_none_are_named(text: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        Pins.parse(text)


@pytest.mark.parametrize(
    ("text", "said"),
    [("tensor=5", "has tensor=5"), ("pipe=4 zero=1 data=8", "has pipe=4 data=8")],
)
def test_pins_that_no_plan_has_are_named(text: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        job().candidates(Pins.parse(text))


@pytest.mark.parametrize("model", ["bert-tiny", "dropless-tiny"])
def test_a_step_without_microbatches_is_planned_in_one_piece(model: str) -> None:
    system = load("dgx-h100:1")
    spelling = ModelSettings(batch=16, dtype="bfloat16")
    one = PlanningProblem(model, {}, spelling, system, device_named(system.device))
    assert not one.divides
    assert ("sorted" in one.assumed) == (model == "dropless-tiny")
    found = Planner(one).plans(Pins({}), 2, Watcher())
    assert len(found.finalists) == 2
    assert all(each.candidate.recipe.microbatches == 1 for each in found.finalists)
    assert found.least_seconds < found.finalists[0].found.seconds


def test_no_plan_is_below_the_lower_bound_however_many_samples_a_device_has() -> None:
    """With 32,768 samples a device; scaled from one and two samples, seconds are threefold."""
    system = load("dgx-h100:1")
    spelling = ModelSettings(batch=2**18, dtype="bfloat16")
    device = device_named(system.device)
    planner = Planner(PlanningProblem("gpt2-tiny", {}, spelling, system, device))
    found = planner.plans(Pins.parse("data=8 remat=no"), 3, Watcher())
    within, samples = min(planner.composer._insides, key=lambda cut: -cut[1])
    [exact] = write_insides(planner.job.traced, within, [samples], device)
    share = planner.composer.inside((within, samples)).seconds(2) / exact.seconds(2)
    assert 1.0 <= share < 1 / (1 - SCALED_EXCESS)
    least = found.least_seconds
    assert all(0.5 * plan.found.seconds < least < plan.found.seconds for plan in found.finalists)


def test_several_processes_find_what_one_finds() -> None:
    found = []
    for processes in (1, 2):
        pins = Pins.parse("tensor=4 remat=no microbatches=4")
        planned = Planner(job()).plans(pins, 3, Several(processes), front=True)
        told = [(one.candidate, one.found.seconds, one.size_bytes) for one in planned.finalists]
        assert planned.front == tuple(planned.search.front())
        found.append((told, planned.looked_at, planned.front, planned.refused))
    assert found[0] == found[1]


@FORKED
def test_forks_trace_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """JAX has threads, which a fork has not; and what is traced here need not be traced there."""
    pids = tmp_path / "pids"

    def told(*how: Any) -> Step:
        with pids.open("a", encoding="utf-8") as file:
            file.write(f"{os.getpid()}\n")
        return zoo_step(*how)

    monkeypatch.setattr("synth.step.search.job.zoo_step", told)
    monkeypatch.setattr(forks, "WORTH_SECONDS", 0)
    spelling = ModelSettings(batch=16, dtype="bfloat16")
    system, device = load("dgx-h100:1"), device_named(SYSTEM.device)
    one = PlanningProblem("mixtral-tiny", {"experts": 8}, spelling, system, device)
    found = Planner(one).plans(Pins.parse("tensor=1 remat=no zero=1 pipe=1"), 2, Several(2))
    assert any("expert" in dict(each.candidate.recipe.axes) for each in found.looked_at)
    assert {*pids.read_text(encoding="utf-8").split()} == {str(os.getpid())}


@FORKED
def test_prices_learned_for_a_plan_are_reused_in_its_simulation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(forks, "WORTH_SECONDS", 0)
    some = job().candidates(Pins.parse("pipe=1 zero=0 microbatches=2 remat=no"))[:6]
    learned: list[ComposedPlan] = []

    def coming() -> Iterator[ComposedPlan]:
        for one in some:
            learned.append(ComposedPlan(one, 1.0, 90.0))
            yield learned[-1]

    def simulated(one: ComposedPlan) -> InputError:
        return InputError(str(one in learned))

    taken = FinalistPool(100.0, Counter())
    assert taken.simulate(coming(), 6, simulated, Several(2), lambda: len(learned))
    assert taken.refused == {"True": 6}


def test_the_vocabulary_may_be_whole() -> None:
    for value, cut in (("yes", True), ("no", False)):
        some = job().candidates(Pins.parse(f"tensor=4 vocabulary={value}"))
        assert some
        assert all(bool(one.recipe.vocabulary) is cut for one in some)


@pytest.mark.slow
def test_freed_bytes_match_the_needs_of_such_plans() -> None:
    small = replace(job().device, memory_bytes=2e9)
    one = Planner(replace(job(), device=small))
    pins = Pins.parse("zero=0 remat=no pipe=1 tensor=1")
    found = one.plans(pins, 1, Watcher())
    assert not found.finalists
    assert found.search.nearest is not None
    for each in list_savings(one.job, one.composer, pins, found):
        if each.what.startswith("without "):
            others = pins.without(each.what.removeprefix("without ").partition("=")[0])
            sizes = [one.composer.size_bytes(e.recipe) for e in one.job.candidates(others)]
            assert each.size_bytes == min(sizes)
        assert each.size_bytes + each.freed_bytes == pytest.approx(found.search.nearest[1])
    kinds = {each.what for each in list_savings(one.job, one.composer, pins, found)}
    assert {"without zero=0", "without remat=no", "half the sequence"} <= kinds


@pytest.mark.parametrize("model", ["resnet-tiny", "lstm-tiny"])
def test_a_model_without_layers_that_are_alike_is_planned_without_stages(model: str) -> None:
    """They are few: so all are simulated, and the fastest of all are told."""
    system = load("dgx-h100:1")
    spelling = ModelSettings(batch=8, dtype="bfloat16")
    one = Planner(PlanningProblem(model, {}, spelling, system, device_named(system.device)))
    found = one.plans(Pins({}), 3, Watcher())
    every = one.job.candidates(Pins({}))
    assert found.search.fitting == len(every)
    assert {each.recipe.zero for each in every} == {0, 1, 2, 3}
    assert {each.recipe.remat for each in every} == {True, False}
    assert all({name for name, _ in each.recipe.axes} == {"data"} for each in every)
    composed = [ComposedPlan(each, 0.0, 0.0) for each in every]
    simulated = [one._simulated(Pins({}), each) for each in composed]
    seconds = sorted(each.found.seconds for each in simulated if isinstance(each, Finalist))
    recipes = [each.found.seconds for each in found.finalists if each.rows is None]
    assert recipes[:2] == seconds[:2]
    with pytest.raises(InputError, match="has pipe=2") as error:
        one.plans(Pins.parse("pipe=2"), 1, Watcher())
    assert error.value.hint == "pipe is 1"


def test_many_samples_that_compute_faster_than_two_are_no_less_than_what_none_can_beat() -> None:
    system = load("dgx-h100:1")
    spelling = ModelSettings(batch=16384, dtype="bfloat16")
    job = PlanningProblem(
        "resnet-tiny", {"groups": 8}, spelling, system, device_named(system.device)
    )
    found = Planner(job).plans(Pins.parse("data=8"), 1, Watcher())
    [rank] = found.finalists[0].found.ranks
    assert found.least_seconds <= rank.compute_seconds


def test_a_prime_number_of_layers_is_cut_as_is_fastest() -> None:
    """Which stage is the slowest is a choice of the clock, too: by that others gain little."""
    one = Planner(replace(job(), changes={**SIZES, "layers": 13}))
    found = one.plans(Pins.parse("pipe=4 tensor=4 microbatches=8 chunks=1 remat=no"), 1, Watcher())
    [best] = found.finalists
    layers = best.candidate.recipe.layers
    assert (len(layers), sum(layers), max(layers)) == (4, 13, 4)
    cuts = [(0, *cut, 13) for cut in combinations(range(1, 13), 3)]
    every = [tuple(end - begin for begin, end in pairwise(cut)) for cut in cuts]
    several = [
        replace(best.candidate, recipe=replace(best.candidate.recipe, layers=each))
        for each in every
    ]
    composed = one.composer.on(PricedLinks(SYSTEM))
    [own] = composed.seconds([best.candidate])
    assert own <= min(composed.seconds(several)) * 1.02


def test_a_profitable_cut_replaces_equal_stages() -> None:
    """Eight layers on two stages: the second, with a large vocabulary, is better with three."""
    words = replace(job(), changes={**SIZES, "vocabulary": 262144})
    some = words.families(Pins.parse("pipe=2 tensor=8 microbatches=8 remat=no chunks=1"))
    composed = Planner(words).composer.on(PricedLinks(SYSTEM))
    for family in some:
        for found in LayerBalancer(composed, words.device.memory_bytes).cut(family):
            first, last = found.recipe.layers
            assert first > last
            assert first + last == 8
            assert replace(found.recipe, layers=()) == family.recipe
            before = [PlacedRecipe(family.recipe, one.rows) for one in found]
            assert all(map(lt, composed.seconds([*found]), composed.seconds(before)))
            size = composed.composer.size_bytes(found.recipe)
            assert found in LayerBalancer(composed, size).cut(family)
            assert found not in LayerBalancer(composed, size - 1).cut(family)


@pytest.mark.parametrize("memory_bytes", [0.0, 1e15])
def test_no_plan_is_lost_where_a_family_is_cut_in_several_ways(memory_bytes: float) -> None:
    """Where the inside of a stage lies otherwise another cut may be fastest."""
    words = replace(job(), changes={**SIZES, "vocabulary": 65536})
    balancing = LayerBalancer(Planner(words).composer.on(PricedLinks(SYSTEM)), memory_bytes)
    several = 0
    for family in words.families(Pins.parse("pipe=2 remat=no zero=1 microbatches=4")):
        cut = [*balancing.cut(family)]
        several += len(cut) > 1
        both = ((*each,) for one in cut for each in zip(one.numbers, one.matrices, strict=True))
        assert sorted(both) == [*zip(family.numbers, family.matrices, strict=True)]
        assert all(replace(one.recipe, layers=family.recipe.layers) == family.recipe for one in cut)
    assert bool(several) == bool(memory_bytes)


def test_missing_rates_of_the_device_are_reported() -> None:
    system = load("dgx1-v100:1")
    spelling = ModelSettings(batch=16, dtype="bfloat16")
    one = PlanningProblem("gpt2-tiny", {}, spelling, system, device_named(system.device))
    with pytest.raises(InputError, match="no matrix rate of bf16"):
        Planner(one).plans(Pins.parse("pipe=1"), 1, Watcher())


def test_plans_have_what_is_pinned() -> None:
    pins = Pins.parse("tensor=4, zero=2; remat=no")
    some = job().candidates(pins)
    assert some
    assert all(dict(one.recipe.axes)["tensor"] == 4 for one in some)
    assert {(one.recipe.zero, one.recipe.remat) for one in some} == {(2, False)}
