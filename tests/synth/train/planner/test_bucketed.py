"""Buckets of finalists and of walks, held against all sizes tried."""

from __future__ import annotations

from functools import cache, partial

import pytest

pytest.importorskip("jax", reason="needs jax, of the extra 'jax'")

from hierarchies import InputError, load
from hierarchies.devices import device_named
from synth.plan.request import Watcher
from synth.search.space import Budget
from synth.train.models import Spelling
from synth.train.planner.composing import ALL, Candidate
from synth.train.planner.finalists import Finalist
from synth.train.planner.inside import Part
from synth.train.planner.pins import Pins, said_of
from synth.train.planner.planning import Job, Planner
from synth.train.planner.resolution import OWN
from synth.train.planner.sums.buckets import BUCKETS, bucketed
from synth.train.planner.walks.space import PlanSpace
from synth.train.planner.walks.walking import walked
from synth.train.plans import parse_recipe

PINS = Pins.parse("data=16 remat=no microbatches=1")
SMALL = (10**6, *BUCKETS)


@cache
def planner() -> Planner:
    """Six layers of 800,000 parameters over sixteen devices: sums of them are mostly latency."""
    spelling = Spelling(batch=48, dtype="bfloat16")
    sizes = {"layers": 6, "width": 256, "heads": 16, "vocabulary": 8192}
    accelerator = device_named("H100 SXM5 80 GB")
    return Planner(Job("gpt2-tiny", sizes, spelling, load("dgx-h100:2"), accelerator))


def candidate(zero: int) -> Candidate:
    text = f"data=16; batch over data{f'; zero={zero}' if zero else ''}"
    return Candidate(parse_recipe(text), ((2, 8),))


@cache
def simulated(one: Candidate) -> Finalist:
    return planner()._finalist(one)


def waiting(one: Finalist) -> float:
    return one.found.seconds - max(rank.compute_seconds for rank in one.found.ranks)


@pytest.mark.parametrize("zero", [0, 2])
def test_what_is_kept_is_the_best_of_all_sizes(zero: int) -> None:
    alone = simulated(candidate(zero))
    every = [alone, *(simulated(candidate(zero).in_buckets(size)) for size in SMALL)]
    found = bucketed(alone, simulated, 1e12, lambda: 1.0, SMALL)
    assert found.found.seconds <= alone.found.seconds
    allowed = [one for one in every if one.found.seconds <= alone.found.seconds]
    assert waiting(found) == min(map(waiting, allowed))
    assert found.saved_seconds == waiting(alone) - waiting(found) > OWN * alone.found.seconds


def test_what_prices_cannot_tell_or_does_not_fit_stays_alone() -> None:
    alone = simulated(candidate(0))
    assert bucketed(alone, simulated, 0.0, lambda: 1.0, SMALL) is alone
    assert bucketed(alone, simulated, 1e12, lambda: 0.0, SMALL) is alone
    assert bucketed(alone, simulated, 1e12, lambda: 1.0, ()) is alone


def test_plans_have_the_buckets_that_gain_or_those_that_are_pinned() -> None:
    [best] = planner().plans(PINS, 1, Watcher()).finalists
    assert best.candidate.recipe.bucket_bytes
    assert best.saved_seconds > 0
    for word, size in (("no", 0), ("5MB", 5 * 10**6)):
        pins = Pins({**PINS.said, "bucket": word})
        [found] = planner().plans(pins, 1, Watcher()).finalists
        assert found.candidate.recipe.bucket_bytes == size
        assert said_of(found.candidate.recipe, "bucket") == word
        assert waiting(found) >= waiting(best)


@pytest.mark.parametrize("word", ["5", "0MB", "5MiB", "yes", "1.5MB"])
def test_other_words_are_no_sizes(word: str) -> None:
    with pytest.raises(InputError, match="not understood"):
        Pins.parse(f"bucket={word}")


@pytest.mark.parametrize("size", [0, 100_000, 10**6, 4 * 10**6, ALL])
def test_sums_have_all_bytes_and_no_more_than_there_is_room_for(size: int) -> None:
    plan = planner().composer.staged(candidate(0).in_buckets(size).recipe)
    for part, sizes in plan.inside.parameters.items():
        sums = plan.sums(part, sizes)
        whole = plan.inside.gradients * sum(sizes)
        assert sum(one * times for one, times in sums) == pytest.approx(whole)
        largest = plan.inside.gradients * max(sizes)
        assert all(one <= max(size, largest) for one, _ in sums)
    assert plan.sum_pieces <= plan.pieces
    if size == ALL:
        assert plan.sum_pieces == 1
        assert not plan.sums(Part.LAYER, ())


def space(buckets: tuple[int, ...], pins: Pins = PINS) -> PlanSpace:
    one = planner()
    composed, memory = one.composer.on(one._links[0]), one.job.device.memory_bytes
    told = one.job.system, one.job.extents, one.job.knobs(pins), partial(one.job.allows, pins)
    return PlanSpace(*told, composed, memory, one.peak_seconds, buckets)


def test_a_walk_finds_the_best_of_all_plans_in_all_buckets() -> None:
    found, every = space(BUCKETS), planner().job.candidates(PINS)
    both = [one.in_buckets(size) for one in every for size in (0, *BUCKETS)]
    met = walked(found, Budget(len(both)), Watcher())
    assert set(met) <= set(both)
    assert len({one.recipe.bucket_bytes for one in met}) == 1 + len(BUCKETS)
    least = min(found.composed.bound(one) for one in both)
    assert min(found.composed.bound(one) for one in met) == least
    assert least < min(found.composed.bound(one) for one in every)


def test_a_walk_without_buckets_is_what_it_was() -> None:
    met = walked(space(()), Budget(40), Watcher())
    assert not any(one.recipe.bucket_bytes for one in met)


def test_walks_answer_a_plan_once_with_the_buckets_of_the_clock() -> None:
    found = planner().plans(PINS, 3, Watcher(), Budget(60))
    alone = [one.candidate.alone for one in found.finalists]
    assert len(set(alone)) == len(alone)
    best = found.finalists[0]
    again = bucketed(simulated(best.candidate.alone), simulated, 1e12, lambda: 1.0)
    assert best.candidate == again.candidate
    assert best.saved_seconds == again.saved_seconds > 0
