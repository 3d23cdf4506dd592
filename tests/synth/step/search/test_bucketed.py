"""Buckets of plans that are searched and simulated, held against all sizes tried."""

from __future__ import annotations

from functools import cache, partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("jax", reason="needs jax, of the extra 'jax'")

from hierarchies import InputError, load
from hierarchies.devices import device_named
from results.plans.families import group_by_recipe
from synth.collective.ranking.request import Watcher
from synth.step.models import ModelSettings
from synth.step.search.buckets import BUCKETS, _find_lowest, find_nearest_size, try_buckets
from synth.step.search.composing.composer import Composition
from synth.step.search.composing.inside import ModelPart
from synth.step.search.composing.sending import UNLIMITED_BYTES
from synth.step.search.finalists import Finalist
from synth.step.search.job import PlanningProblem
from synth.step.search.links import PlacedRecipe
from synth.step.search.pins import Pins, pin_value_of
from synth.step.search.planning import Planner
from synth.step.search.resolution import CLOCK_ERROR
from synth.step.search.searching import Search
from synth.step.sharding import parse_recipe

PINS = Pins.parse("data=16 remat=no microbatches=1")
SMALL = (10**6, *BUCKETS)


@cache
def planner() -> Planner:
    """Six layers of 800,000 parameters over sixteen devices: sums of them are mostly latency."""
    spelling = ModelSettings(batch=48, dtype="bfloat16")
    sizes = {"layers": 6, "width": 256, "heads": 16, "vocabulary": 8192}
    accelerator = device_named("H100 SXM5 80 GB")
    return Planner(PlanningProblem("gpt2-tiny", sizes, spelling, load("dgx-h100:2"), accelerator))


def candidate(zero: int) -> PlacedRecipe:
    text = f"data=16; batch over data{f'; zero={zero}' if zero else ''}"
    return PlacedRecipe(parse_recipe(text), ((2, 8),))


@cache
def composed(links: int = 0) -> Composition:
    one = planner()
    return one.composer.on(one._links[links])


@cache
def every() -> list[PlacedRecipe]:
    return planner().job.candidates(Pins.parse("tensor=1 remat=no"))


@given(st.data())
def test_no_size_of_buckets_is_below_the_bound_of_all(data: st.DataObject) -> None:
    """Neither with the links there are nor with links that nothing can beat."""
    one = data.draw(st.sampled_from(every()))
    sizes = data.draw(st.lists(st.integers(1, 2 * 10**9), max_size=4))
    low, high = (composed(links).bound(one, sizes) for links in (1, 0))
    took = composed().seconds([one, *map(one.in_buckets, sizes)])
    assert low <= high * (1 + 1e-9)
    assert high <= min(took)


@pytest.mark.parametrize("pins", ["pipe=1 tensor=1", "zero=2 remat=no"])
def test_the_search_is_that_of_all_plans_in_all_buckets(pins: str) -> None:
    """One by one: alone, or in the best of the buckets that fit if these gain what is told."""
    some, composer = planner().job.candidates(Pins.parse(pins)), planner().composer
    memory = max(composer.size_bytes(one.in_buckets(BUCKETS[1]).recipe) for one in some)
    search = Search(composer, group_by_recipe(some), memory, *planner()._links, Watcher(), BUCKETS)
    expected, buckets = [], 0
    for one in some:
        several = [one, *map(one.in_buckets, BUCKETS)]
        fit = [each for each in several if composer.size_bytes(each.recipe) <= memory]
        alone, *others = composed().seconds(fit)
        best = min(others, default=alone)
        expected.append(best if best < (1 - CLOCK_ERROR) * alone else alone)
        buckets += expected[-1] is best
    found = [*search.cheapest()]
    assert [one.seconds for one in found] == sorted(expected)
    assert sum(bool(one.candidate.recipe.bucket_bytes) for one in found) == buckets > 0
    for each in found:
        assert each.size_bytes == composer.size_bytes(each.candidate.recipe) <= memory
        assert composed().seconds([each.candidate]) == [each.seconds]


@cache
def simulated(one: PlacedRecipe) -> Finalist:
    return planner().simulate(one)


@pytest.mark.parametrize("zero", [0, 2])
def test_kept_programs_tie_with_the_best_of_all_sizes(zero: int) -> None:
    alone = simulated(candidate(zero))
    every = [alone, *(simulated(candidate(zero).in_buckets(size)) for size in SMALL)]
    _, first = find_nearest_size(composed(), candidate(zero), SMALL)
    found = try_buckets(alone, simulated, 1e12, lambda: 1.0, lambda: (SMALL, first))
    assert found.found.seconds <= (1 + CLOCK_ERROR) * min(one.found.seconds for one in every)
    computed = [one.found.ranks[0].compute_seconds for one in every]
    assert computed == pytest.approx([computed[0]] * len(every))
    saved = alone.found.seconds - found.found.seconds
    assert found.saved_seconds == saved > CLOCK_ERROR * alone.found.seconds


def test_tied_or_oversized_gradients_stay_in_their_own_buckets() -> None:
    alone = simulated(candidate(0))
    for first in range(len(SMALL)):
        sizes = partial(lambda at: (SMALL, at), first)
        assert try_buckets(alone, simulated, 0.0, lambda: 1.0, sizes) is alone
        assert try_buckets(alone, simulated, 1e12, lambda: 0.0, sizes) is alone


@given(st.integers(0, 6), st.lists(st.integers(1, 9), min_size=7, max_size=7))
def test_sizes_are_tried_until_the_next_is_no_faster(first: int, told: list[int]) -> None:
    """It is faster than its neighbours, and than the first; of a valley it is the lowest."""
    at = _find_lowest(told.__getitem__, 7, first)
    assert told[at] == min(told[max(0, at - 1) : at + 2])
    assert told[at] < told[first] or at == first
    low = told.index(min(told))
    falls, rises = told[: low + 1], told[low:]
    strictly = len({*falls}) == len(falls) and len({*rises}) == len(rises)
    if strictly and falls == sorted(falls, reverse=True) and rises == sorted(rises):
        assert at == low


@pytest.mark.parametrize("zero", [0, 2])
def test_each_distinct_size_is_tried(zero: int) -> None:
    """Beginning with the best as composed; what holds all gradients is tried once."""
    one = candidate(zero)
    sizes, first = find_nearest_size(composed(), one)
    assert 1 < len(sizes) < len(BUCKETS)
    assert tuple(sizes) == BUCKETS[: len(sizes)]
    took = composed().seconds([one.in_buckets(size) for size in BUCKETS])
    assert took[first] == min(took)
    assert len({*took[len(sizes) - 1 :]}) == 1


def test_plans_have_the_buckets_that_gain_or_those_that_are_pinned() -> None:
    [best] = planner().plans(PINS, 1, Watcher()).finalists
    assert best.candidate.recipe.bucket_bytes
    assert best.saved_seconds > 0
    for word, size in (("no", 0), ("5MB", 5 * 10**6)):
        pins = Pins({**PINS.values, "bucket": word})
        [found] = planner().plans(pins, 1, Watcher()).finalists
        assert found.candidate.recipe.bucket_bytes == size
        assert pin_value_of(found.candidate.recipe, "bucket") == word
        assert found.found.seconds >= best.found.seconds


@pytest.mark.parametrize("word", ["5", "0MB", "5MiB", "yes", "1.5MB"])
def test_other_words_are_no_sizes(word: str) -> None:
    with pytest.raises(InputError, match="not understood"):
        Pins.parse(f"bucket={word}")


@pytest.mark.parametrize("size", [0, 100_000, 10**6, 4 * 10**6, UNLIMITED_BYTES])
def test_sums_have_all_bytes_and_no_more_than_there_is_room_for(size: int) -> None:
    plan = planner().composer.staged(candidate(0).in_buckets(size).recipe)
    for part, sizes in plan.inside.parameters.items():
        sums = plan.sums(part, sizes, size)
        whole = plan.inside.gradients * sum(sizes)
        assert sum(one * times for one, times in sums) == pytest.approx(whole)
        largest = plan.inside.gradients * max(sizes)
        assert all(one <= max(size, largest) for one, _ in sums)
    assert plan.sum_pieces <= plan.pieces
    if size == UNLIMITED_BYTES:
        assert plan.sum_pieces == 1
        assert not plan.sums(ModelPart.LAYER, (), size)
