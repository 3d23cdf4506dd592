"""The order of plans beside measured ones: figures by brute force, plans as recipes, the page."""

from __future__ import annotations

from itertools import combinations
from math import inf, prod
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("jax", reason="needs jax, of the extra 'jax'")

from hierarchies import InputError
from results import record
from results.order import __main__ as order
from results.order.groups import FEWEST, elsewhere, groups
from results.order.offers import NOTHING, Asked, Offered, built, recipe_of
from results.order.ranking import FIRST, best_at, ranked, regret, sorted_by, summed
from results.steps.shapes import Plan, Shape
from shared import shared

SECONDS = st.lists(st.floats(0.1, 10.0), min_size=2, max_size=9, unique=True)
SMALL = Shape(layers=4, hidden=256, heads=4, ffn=512, vocab=512, sequence=128)
PLANS = st.builds(
    Plan,
    data=st.sampled_from((1, 2, 4)),
    tensor=st.sampled_from((1, 2, 4)),
    pipe=st.sampled_from((1, 2, 4)),
    micro=st.sampled_from((1, 2, 8)),
    micros=st.sampled_from((2, 4, 8)),
    sharded=st.sampled_from((0, 1, 3)),
    again=st.sampled_from((0.0, 1.0)),
)


@given(SECONDS, st.randoms(use_true_random=False))
def test_place_of_the_best_and_cost_of_the_first(seconds: list[float], random: Random) -> None:
    """By brute force: walk along the order until nothing that is left is faster."""
    ours = list(range(len(seconds)))
    random.shuffle(ours)
    walked = 0
    for at in ours:
        walked += 1
        if all(seconds[at] <= other for other in seconds):
            break
    assert best_at(seconds, ours) == walked
    lost = regret(seconds, ours)
    assert lost is not None
    assert lost == pytest.approx(max(seconds[ours[0]] / other for other in seconds) - 1)
    assert (lost == 0) == (walked == 1)


@given(SECONDS, st.randoms(use_true_random=False))
def test_the_coefficient_is_that_of_its_definition(seconds: list[float], random: Random) -> None:
    """1 - 6 sum d^2 / (n (n^2 - 1)), d being how far apart places are; 1 and -1 at the ends."""
    ours = seconds[:]
    random.shuffle(ours)
    count = len(seconds)

    def place(one: float, among: list[float]) -> int:
        return sum(other < one for other in among)

    apart = (
        place(one, seconds) - place(other, ours) for one, other in zip(seconds, ours, strict=True)
    )
    expected = 1 - 6 * sum(one**2 for one in apart) / (count * (count**2 - 1))
    found = ranked(seconds, sorted_by(ours), ours)["spearman"]
    assert found == pytest.approx(expected, abs=1e-3)
    assert ranked(seconds, sorted_by(seconds), seconds)["spearman"] == pytest.approx(1)
    back = [-one for one in seconds]
    assert ranked(seconds, sorted_by(back), back)["spearman"] == pytest.approx(-1)


@given(st.lists(st.sampled_from((1.0, 2.0, inf)), max_size=6))
def test_an_order_has_what_is_finite_once_and_is_sorted(expected: list[float]) -> None:
    found = sorted_by(expected)
    assert sorted(found) == [at for at, one in enumerate(expected) if one < inf]
    assert all(
        (expected[one], one) < (expected[other], other) for one, other in combinations(found, 2)
    )


def test_a_best_that_is_in_no_order_is_missed() -> None:
    assert best_at([1.0, 2.0], [1]) == 0
    assert regret([1.0, 2.0], [1]) == 1.0
    assert regret([1.0, 2.0], []) is None
    told = summed([ranked([1.0, 2.0], [1], [inf, 1.0]), ranked([1.0, 2.0], [0, 1], [1.0, 2.0])])
    assert (told["groups"], told["in_first"], told["is_first"], told["regret"]) == (2, 1, 1, 0.5)


@given(PLANS)
def test_a_published_plan_is_a_recipe_of_as_many_devices(plan: Plan) -> None:
    if plan.sharded and plan.data == 1:
        assert recipe_of(plan).zero == 0
        return
    recipe = recipe_of(plan)
    assert prod(size for _, size in recipe.axes) == plan.devices
    assert recipe.stages == plan.pipe
    assert (recipe.zero, recipe.microbatches) == (plan.sharded, plan.micros)
    assert recipe.remat == (plan.again == 1.0)


def test_text_outside_recipes_is_refused() -> None:
    with pytest.raises(InputError, match="a part of a layer"):
        recipe_of(Plan(2, 1, 1, 1, 1, again=0.5))
    with pytest.raises(InputError, match="a schedule of 1 microbatch"):
        recipe_of(Plan(1, 1, 2, 1, 1))


def test_a_plan_that_is_not_tried_is_not_offered() -> None:
    """What is offered is among the planner's own, and priced as it prices that."""
    known = Offered(Asked(SMALL, 96, "aws-p5:1", "H100 SXM5 80 GB"))
    offer = known.offer(Plan(4, 2, 1, 2, 12, 1))
    assert not offer.refused
    assert offer.candidate is not None
    assert offer.candidate in known.job.candidates(NOTHING)
    assert 0 < offer.seconds < inf
    found = known.simulated(offer.candidate)
    assert found.found.seconds == pytest.approx(offer.seconds, rel=0.5)
    assert found.size_bytes == pytest.approx(offer.size_bytes, rel=0.5)
    assert known.offer(Plan(1, 1, 8, 8, 12), [1, 1, 1, 1, 0, 0, 0, 0]).refused == "not tried"
    assert "samples" in known.offer(Plan(4, 2, 1, 3, 8)).refused


def test_stages_are_priced_as_they_were_built() -> None:
    """More layers on one stage take longer, as long as more of the slowest."""
    known = Offered(Asked(SMALL, 96, "aws-p5:1", "H100 SXM5 80 GB"))
    plan = Plan(4, 1, 2, 2, 12, 1)
    even, uneven = known.offer(plan, [2, 2]), known.offer(plan, [3, 1])
    assert even.candidate is not None
    assert uneven.candidate is not None
    assert (even.candidate.recipe.layers, uneven.candidate.recipe.layers) == ((), (3, 1))
    assert known.offer(plan) == even
    assert even.seconds < uneven.seconds < 1.5 * even.seconds


@given(st.lists(st.integers(0, 5), min_size=1, max_size=9))
def test_every_stage_has_a_layer_and_none_is_lost(layers: list[int]) -> None:
    if sum(layers) < len(layers):
        with pytest.raises(InputError, match="more stages than layers"):
            built(layers)
        return
    found = built(layers) or (sum(layers) // len(layers),) * len(layers)
    assert (sum(found), len(found)) == (sum(layers), len(layers))
    assert min(found) >= 1
    if 0 not in layers:
        assert list(found) == layers


def test_groups_are_of_plans_that_differ_and_ran() -> None:
    shared("steps")
    found = list(groups())
    for group in found:
        ran = {(one.shape, one.plan) for one in group.plans}
        assert len(ran) == len(group.plans) >= FEWEST
        assert not ran & set(group.crashed)
        assert {one.plan.devices for one in group.plans} == {group.devices}
        for one in group.plans:
            layers = group.layers(one.shape, one.plan)
            assert (sum(layers), len(layers)) in {(one.shape.layers, one.plan.pipe), (0, 0)}
    judged: dict[str, int] = {}
    for group in found:
        for name in group.family.told["sets"]:
            judged[name] = judged.get(name, 0) + 1
    assert "nanotron_bench" not in elsewhere(judged)
    assert all(one["why"] for one in elsewhere(judged).values())


def test_the_page_matches_the_data() -> None:
    data = record.read(order.DATA)
    assert order.page(data).is_current


def test_the_data_are_of_every_plan() -> None:
    for one in record.read(order.DATA)["groups"]:
        assert one["fitting"] <= one["plans"] - sum(one["refused"].values())
        assert len(one["first"]) == min(FIRST, one["fitting"])
        best, first = one["best"]["measured"], one["first"][0]["measured"]
        if one["plan"]["best"] == 1:
            assert best == first
