"""Kernels by levels: as few as the longest chain has, none waits for itself, attention together."""

from __future__ import annotations

from graphlib import TopologicalSorter
from random import Random

import pytest

import bucketed_steps
from fused_steps import Priced, small
from grammar.tensors.primitives import MULTIPLIED
from hierarchies import InputError
from hierarchies.devices import device_named
from synth.train.fusion import alone
from synth.train.fusion.flow import Flow
from synth.train.fusion.levels import kernels_by_levels, levels_of
from synth.train.fusion.starts import levelled
from synth.train.planner.finalists import rooflines_of
from synth.train.plans import apply, parse_recipe, plan_of


@pytest.mark.parametrize("seed", range(40))
def test_levels_are_as_many_as_the_longest_chain_has_kernels(seed: int) -> None:
    """Along a chain a kernel ends with each that is between; by brute force, over all chains."""
    rng = Random(seed)
    before = {
        at: {*rng.choices(range(at), k=rng.randint(0, 2))} if at else set() for at in range(9)
    }
    between = {at for at in before if rng.random() < 0.4}

    def chains(at: int) -> list[list[int]]:
        return [[*some, at] for one in before[at] for some in chains(one)] or [[at]]

    def kernels(chain: list[int]) -> int:
        inside = [at not in between for at in chain]
        return sum(own and not last for last, own in zip([False, *inside], inside, strict=False))

    found = levels_of(before, between)
    levels = {found[at] for at in before if at not in between}
    assert len(levels) == max(kernels(chain) for at in before for chain in chains(at))
    unit = {at: (at if at in between else -1 - found[at]) for at in before}
    waits: dict[int, set[int]] = {one: set() for one in unit.values()}
    for at, read in before.items():
        waits[unit[at]] |= {unit[one] for one in read} - {unit[at]}
    assert len([*TopologicalSorter(waits).static_order()]) == len(waits)
    for at, read in before.items():
        early = max((found[one] + (one not in between) for one in read), default=0)
        assert at not in between or found[at] == early


def test_what_waits_for_itself_has_no_levels() -> None:
    with pytest.raises(InputError, match="wait for each other"):
        levels_of({0: (1,), 1: (0,)}, {0})


def test_a_step_without_products_is_one_kernel_and_its_update() -> None:
    one = Priced(small(), 1e-6)
    assert [*kernels_by_levels(Flow.of(one.step, one.plan), ())] == [
        ("a", "g1", "b", "g2"),
        ("u1", "u2"),
    ]


def test_loops_are_in_no_kernel_and_the_rest_is_sooner_than_alone() -> None:
    one = Priced(bucketed_steps.step(), 1e-6)
    found = levelled(one.step, one.plan, one.rooflines)
    assert one.seconds(found) < one.seconds(alone(one.step, one.plan))


def test_attention_of_a_layer_is_two_kernels() -> None:
    """Two products forward, four backward; no other kernel has several."""
    step = bucketed_steps.zoo("llama3-tiny", unrolled=True)
    plan = plan_of(step, parse_recipe("data=2; batch over data"))
    products = {one.results[0].name for one in step.graph.operations if one.primitive in MULTIPLIED}
    rooflines = rooflines_of(step, plan, device_named("H100 SXM5 80 GB"))
    kernels = [*kernels_by_levels(Flow.of(step, plan), rooflines.scores)]
    counts = [len(products.intersection(some)) for some in kernels]
    assert sorted(count for count in counts if count > 1) == [2, 2, 4, 4]
    assert apply(step, levelled(step, plan, rooflines)).fused
