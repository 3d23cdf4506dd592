"""What differences of plans are told: laws of the intervals, and where their numbers come from."""

from __future__ import annotations

import csv
import json
from collections import defaultdict
from functools import cache
from itertools import combinations
from math import inf
from pathlib import Path
from statistics import median
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("jax", reason="needs jax, of the extra 'jax'")

from dataclasses import replace

from hierarchies.devices import device_named
from synth.collective.ranking.request import Watcher
from synth.compute import MatrixProduct, product_estimate
from synth.measure.calibration.typical import apply_typical
from synth.step.search.finalists import Finalist
from synth.step.search.pins import Pins
from synth.step.search.resolution import (
    BETWEEN_PRODUCTS,
    CLOCK_ERROR,
    FULL_SHARE,
    PRODUCT_SHAPES,
    PRODUCTS,
    SHAPE_ERRORS,
    SNUG,
    Difference,
    UncertainSeconds,
    UncertaintySource,
    choose_advised,
    compare_seconds,
    estimate_errors,
)
from tests.synth.step.search.test_planner import SYSTEM, planner

ROOT = Path(__file__).parents[4]
SOURCES = st.builds(UncertaintySource, st.sampled_from("abc"), st.integers(0, 2))
ENDS = st.tuples(st.floats(-1, 0), st.floats(0, 3))
LIKELY = st.builds(UncertainSeconds, st.floats(0.1, 100), st.dictionaries(SOURCES, ENDS))


@given(LIKELY, LIKELY)
def test_the_other_way_round_it_is_the_same_difference(
    one: UncertainSeconds, other: UncertainSeconds
) -> None:
    there, back = compare_seconds(one, other), compare_seconds(other, one)
    assert there.seconds == -back.seconds
    assert there.low_seconds == pytest.approx(-back.high_seconds)
    assert there.high_seconds == pytest.approx(-back.low_seconds)
    assert there.is_clear == back.is_clear
    assert there.low_seconds <= there.seconds <= there.high_seconds


@given(LIKELY, LIKELY)
def test_plans_of_equal_seconds_always_tie(one: UncertainSeconds, other: UncertainSeconds) -> None:
    assert not compare_seconds(one, replace(other, seconds=one.seconds)).is_clear
    assert compare_seconds(one, one).low_seconds == 0 == compare_seconds(one, one).high_seconds


@given(LIKELY, LIKELY, SOURCES, ENDS)
def test_what_errs_alike_cancels(
    one: UncertainSeconds,
    other: UncertainSeconds,
    source: UncertaintySource,
    ends: tuple[float, float],
) -> None:
    """Shared by both it adds nothing, each for itself it does."""
    both = [
        replace(each, ends={**each.ends, source: ends})
        for each in (replace(each, ends=dict(each.ends)) for each in (one, other))
    ]
    apart = [
        replace(each, ends={**each.ends, UncertaintySource("own", number): ends})
        for number, each in enumerate((one, other))
    ]

    def width(pair: list[UncertainSeconds]) -> float:
        found = compare_seconds(*pair)
        return found.high_seconds - found.low_seconds

    without = [
        replace(each, ends={key: found for key, found in each.ends.items() if key != source})
        for each in (one, other)
    ]
    if without[0] != without[1]:
        assert width(both) == pytest.approx(width(without))
        assert width(apart) >= width([one, other])


@given(st.lists(LIKELY, min_size=3, max_size=3))
def test_surely_faster_is_an_order(three: list[UncertainSeconds]) -> None:
    one, two, last = three
    if (
        compare_seconds(one, two).low_seconds > 1e-9
        and compare_seconds(two, last).low_seconds > 1e-9
    ):
        assert compare_seconds(one, last).low_seconds > 0


@cache
def finalists() -> tuple[Finalist, ...]:
    """The best of some plans, simulated."""
    pins = Pins.parse("zero=1 remat=no microbatches=4")
    return planner().plans(pins, 3, Watcher()).finalists


def test_a_plan_errs_with_its_parts() -> None:
    """Products and the rest are what it computes; slow links make it slower, fast ones faster."""
    known = apply_typical(SYSTEM)
    some = finalists()
    found = estimate_errors(some, planner().composer, planner()._links[0], known)
    for one, plan in zip(found, some, strict=True):
        rank = plan.found.ranks[plan.found.busiest]
        computed = plan.products.seconds + plan.between.seconds
        assert computed == pytest.approx(rank.compute_seconds, rel=1e-6)
        kinds = {source.what for source in one.ends}
        assert {PRODUCTS, BETWEEN_PRODUCTS, PRODUCT_SHAPES} <= kinds
        assert any(kind.startswith("links of") for kind in kinds)
        assert all(low <= 0 <= high for low, high in one.ends.values())


def test_without_a_calibration_links_are_as_described() -> None:
    some = finalists()[:1]
    bare = replace(SYSTEM, calibration=None)
    [found] = estimate_errors(some, planner().composer, planner()._links[0], bare)
    assert not any(source.what.startswith("links") for source in found.ends)


def test_of_tied_plans_the_one_with_the_fewest_axes_is_advised() -> None:
    some = finalists()
    told = [compare_seconds(UncertainSeconds(1.0), UncertainSeconds(1.0)) for _ in some]
    fewest = min(len(one.candidate.row_of) for one in some)
    assert len(some[choose_advised(some, told, inf)].candidate.row_of) == fewest
    assert choose_advised(some[:1], told[:1], inf) == 0
    slower = compare_seconds(UncertainSeconds(1.0), UncertainSeconds(2.0))
    assert choose_advised(some, [told[0], *[slower for _ in some[1:]]], inf) == 0


def test_a_plan_that_computes_again_is_not_advised_where_another_is_as_fast() -> None:
    """Though it needs less memory, of which there is enough."""
    [whole, *_] = finalists()
    again = replace(whole.candidate, recipe=replace(whole.candidate.recipe, remat=True))
    less = replace(whole, candidate=again)
    told = [compare_seconds(UncertainSeconds(1.0), UncertainSeconds(1.0))] * 2
    assert not whole.candidate.recipe.remat
    assert choose_advised([less, whole], told, inf) == 1
    assert choose_advised([whole, less], told, inf) == 0


class Lean(Finalist):
    """A plan that needs a little less memory than it does."""

    @property
    def size_bytes(self) -> int:
        return super().size_bytes - 1


def test_of_plans_alike_the_least_at_risk_is_advised_and_then_the_least_memory() -> None:
    """Not the one that needs least memory, though it may take longer."""
    first = replace(finalists()[0], by_framework=True)
    lean = Lean(**vars(first))
    fuller = replace(finalists()[0], by_framework=False)
    risk = [Difference(0.0, -at_worst, at_worst, ()) for at_worst in (0.0, 0.1, 0.2)]
    assert choose_advised([first, lean, lean], risk, inf) == 0
    assert choose_advised([fuller, first, lean], risk, inf) == 1
    assert choose_advised([fuller, lean, first], risk, inf) == 1
    assert choose_advised([fuller, first, lean], [risk[0], risk[1], risk[1]], inf) == 2


def test_a_plan_that_fills_the_memory_is_not_advised_where_another_is_as_fast() -> None:
    some = finalists()
    told = [compare_seconds(UncertainSeconds(1.0), UncertainSeconds(1.0)) for _ in some]
    least = min(one.size_bytes for one in some)
    assert some[choose_advised(some, told, least / FULL_SHARE)].size_bytes == least
    assert choose_advised(some, told, least / 2) == choose_advised(some, told, inf)


def test_a_plan_that_may_not_fit_is_not_advised_where_one_like_it_surely_does() -> None:
    """Memory that is predicted is off by a quarter in one of ten runs; more room is worth less."""
    first = replace(finalists()[0], by_framework=True)
    lean = Lean(**vars(first))
    risk = [Difference(0.0, -at_worst, at_worst, ()) for at_worst in (0.0, 0.1)]
    assert choose_advised([first, lean], risk, lean.size_bytes / SNUG) == 1
    assert choose_advised([first, lean], risk, first.size_bytes / SNUG) == 0
    assert choose_advised([first, lean], risk, lean.size_bytes) == 0


def test_a_plan_again_is_the_same_plan() -> None:
    one = finalists()[0]
    again = planner().simulate(one.candidate)
    links = planner()._links[0]
    found = compare_seconds(
        *estimate_errors([one, again], planner().composer, links, apply_typical(SYSTEM))
    )
    assert (found.low_seconds, found.high_seconds) == (0, 0)


def test_similar_plans_that_ran_differ_as_described() -> None:
    """Measured on a shaped network: nine of ten pairs whose parts differ by less than 5 %."""
    told = json.loads((ROOT / "results" / "runs" / "runs.json").read_text(encoding="utf-8"))
    alike: dict[tuple[Any, ...], list[Any]] = defaultdict(list)
    for row in (*told["rows"], *told["replayed"]):
        if row["drift"] <= 0.1:
            alike[row.get("world", 2), row["model"], row["megabits"]].append(row)
    errors = []
    for rows in alike.values():
        for one, other in combinations(rows, 2):
            computing, steps = (
                [row[f"{what}_seconds"] for row in (one, other)] for what in ("busy", "step")
            )
            simulated = [row["step_seconds"] * (1 + row["step_error"]) for row in (one, other)]
            waiting = [step - busy for step, busy in zip(steps, computing, strict=True)]
            apart = sum(abs(first - second) for first, second in (computing, waiting))
            if apart < 0.05 * min(simulated):
                error = (simulated[0] - simulated[1]) - (steps[0] - steps[1])
                errors.append(abs(error) / min(simulated))
    assert len(errors) >= 20
    assert sorted(errors)[int(0.9 * len(errors))] <= CLOCK_ERROR


def test_unequal_layers_take_the_stated_sharding() -> None:
    """All products of a layer, measured, beside the middle of those on the device."""
    path = ROOT / "tests" / "synth" / "compute" / "matmuls.csv"
    lines = [line for line in path.read_text(encoding="utf-8").splitlines() if line[0] != "#"]
    layers: dict[str, dict[Any, list[float]]] = defaultdict(lambda: defaultdict(lambda: [0.0, 0.0]))
    for row in csv.DictReader(lines):
        if int(row["rows"]) >= 512:
            sizes = {what: int(row[what]) for what in ("rows", "columns", "depth")}
            product = MatrixProduct(**sizes, dtype="f16")
            estimate = product_estimate(product, device_named(row["device"]))
            layer = layers[row["device"]][row["model"], row["rows"]]
            layer[0] += float(row["milliseconds"]) * 1e-3
            layer[1] += estimate.seconds
    ratios = []
    for several in layers.values():
        each = [measured / estimated for measured, estimated in several.values()]
        ratios += [one / median(each) for one in each]
    assert len(ratios) == 15
    assert SHAPE_ERRORS[0] == pytest.approx(min(ratios), abs=0.01)
    assert SHAPE_ERRORS[1] == pytest.approx(max(ratios), abs=0.01)
