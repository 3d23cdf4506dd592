"""No fusion and no buckets go below the bound: all of a small step, and walks among others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations, permutations
from random import Random

import pytest

import bucketed_steps
from fused_steps import SUMS, Priced, best, partitions, small
from grammar.tensors.operations import Step
from grammar.tensors.sharding import Sharding, Type
from hierarchies import InputError
from synth.train.fusion import Fusions, alone, least, sectioned
from synth.train.fusion.bounds import Made, chain, cheapest, communication, growing
from synth.train.planner.finalists import RUNTIME
from synth.train.plans import apply, parse_recipe, plan_of, prepared
from synth.train.plans.together.buckets import buckets_of


def sums_of(step: Step) -> tuple[str, ...]:
    """Its gradients that are summed."""
    plan = plan_of(step, parse_recipe("data=2; batch over data"))
    found = buckets_of(prepared(step, plan), apply(step, plan), plan.sizes, 2**62)
    return tuple(name for bucket in found for name in bucket)


@pytest.mark.parametrize(
    ("launch", "rate"),
    [(1e-6, 1e9), (1e-4, 1e9), pytest.param(1e-6, 1e7, marks=pytest.mark.slow)],
)
def test_nothing_that_there_is_goes_below(launch: float, rate: float) -> None:
    one = Priced(small(), launch, rate)
    bound = one.least(SUMS)
    least_seconds = best(launch, rate)
    assert bound.seconds <= least_seconds * (1 + 1e-12)
    assert bound.seconds > 0.7 * least_seconds
    assert 0 < bound.compute_seconds < least_seconds


@pytest.mark.parametrize(
    ("launch", "rate", "steps"),
    [
        (1e-6, 1e11, 4),
        (1e-5, 1e9, 4),
        pytest.param(1e-6, 1e10, 25, marks=pytest.mark.slow),
        pytest.param(1e-4, 1e7, 25, marks=pytest.mark.slow),
    ],
)
def test_walks_never_go_below(launch: float, rate: float, steps: int) -> None:
    """From kernels of one operation, and from sections; every step may be up."""
    one = Priced(bucketed_steps.step(), launch, rate)
    sums = sums_of(one.step)
    assert len(sums) > 4
    bound = one.least(sums).seconds
    rng = Random(steps)
    for start in (alone(one.step, one.plan), sectioned(one.step, one.plan, RUNTIME)):
        space = Fusions(one.step, start, sums, one.seconds)
        at = start
        for _ in range(steps):
            assert one.seconds(at) >= bound * (1 - 1e-12)
            feasible = (
                move for move in space.moves(at, rng) if isinstance(space.price(move), float)
            )
            at = next(feasible)


class Dear(Priced):
    """Where twice the bytes take more than twice as long."""

    def sending(self, kind: Type, source: Sharding, target: Sharding) -> float:
        return self.launch + kind.bytes**2 / self.bytes_per_second


def test_slices_of_a_stack_are_summed_one_by_one() -> None:
    """Together a stack's would take longer than all that there is."""
    one = Dear(bucketed_steps.step(), 1e-6)
    assert one.plan.buckets == ()
    bound = one.least(sums_of(one.step)).seconds
    assert 0.99 * one.seconds(one.plan) < bound <= one.seconds(one.plan)


@pytest.mark.parametrize("seed", range(60))
def test_no_buckets_end_before_the_bound(seed: int) -> None:
    """By brute force: any buckets in any order, each once all in it and in those before is made.

    What leads to several gradients is done once, what leads to one alone when it is wanted.
    """
    rng = Random(seed)
    made = []
    for _ in range(4):
        alone = rng.choice((0.0, rng.uniform(0, 60)))
        before, after = alone + rng.uniform(0, 100), rng.choice((0.0, 7.0))
        made.append(Made(rng.randint(1, 50), before, after, alone))
    launch, dear = rng.choice((0.0, 20.0)), rng.choice((0.0, 2.0))

    def seconds(elements: int) -> float:
        return launch + elements + dear * max(0, elements - 40)

    def end(buckets: Sequence[tuple[str, ...]]) -> float:
        there = list[Made]()
        now = last = 0.0
        for bucket in buckets:
            members = [made[int(name)] for name in bucket]
            there += members
            shared = max(one.before - one.alone for one in there)
            now = max(now, shared + sum(one.alone for one in there))
            now += seconds(sum(one.elements for one in members))
            last = max(last, *(now + one.after for one in members))
        return last

    bound = communication(made, seconds)
    every = (order for some in partitions(list("0123")) for order in permutations(some))
    soonest = min(map(end, every))
    assert 0.6 * soonest < bound <= soonest * (1 + 1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_what_grows_is_the_least_of_all_larger_buckets(seed: int) -> None:
    rng = Random(seed)
    members = [rng.randint(1, 9) for _ in range(5)]
    some = [sum(chosen) for k in range(1, 6) for chosen in combinations(members, k)]
    seconds = {size: rng.random() for size in some}
    found = growing(seconds.__getitem__, members)
    for size in range(1, sum(members) + 1):
        assert found(size) == min(seconds[one] for one in some if one >= size)


@pytest.mark.parametrize("seed", range(30))
def test_nothing_ends_before_the_last_gradient_is_summed(seed: int) -> None:
    """By brute force: whichever gradient is the last of all, and in whatever buckets."""
    rng = Random(seed)
    made = [Made(rng.randint(1, 50), rng.uniform(0, 20), rng.choice((0.0, 7.0))) for _ in range(4)]
    all_made = max(one.before for one in made) + rng.uniform(0, 300)

    def end(last: Made, buckets: list[tuple[str, ...]]) -> float:
        some = [[made[int(name)] for name in bucket] for bucket in buckets]
        ready = [max(all_made if each is last else each.before for each in one) for one in some]
        now = latest = 0.0
        for at in sorted(range(len(some)), key=ready.__getitem__):
            now = max(now, ready[at]) + 5.0 + sum(each.elements for each in some[at])
            latest = max(latest, *(now + each.after for each in some[at]))
        return latest

    bound = chain(made, all_made, lambda elements: 5.0 + elements)
    soonest = min(end(last, buckets) for last in made for buckets in partitions(list("0123")))
    assert 0.3 * soonest < bound <= soonest * (1 + 1e-12)


def test_the_cheapest_size_is_found_where_sums_are_not_plain() -> None:
    """Of a step down in the seconds an element, which nobody looks for there, too."""

    def seconds(size: int) -> float:
        return 10.0 + size if size < 700 else 710.0 + (size - 700) / 8

    least_each = min(seconds(size) / size for size in range(3, 1500))
    found = cheapest(seconds, 3, 1499)
    assert 0.998 * least_each <= found <= least_each


def test_microbatches_have_no_bound() -> None:
    one = Priced(bucketed_steps.step(), 1e-6)
    plan = replace(one.plan, microbatches=2)
    with pytest.raises(InputError, match="no microbatches"):
        least(one.step, plan, (), one.rooflines, one.sending)


def test_sums_that_are_not_sent_are_refused() -> None:
    with pytest.raises(InputError, match="not all sums go once"):
        Priced(small(), 1e-6).least(("a",))
