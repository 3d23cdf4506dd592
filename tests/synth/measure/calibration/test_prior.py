"""What measured collectives tell of others: kinds of rounds, one way or both, and never less."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grammar import Collective
from hierarchies import Calibration, Crossing, Fit, System
from hierarchies.calibration import ANY
from machines import bare, calibration, measured, predict
from synth.collective.algorithms.algorithms import RECIPES
from synth.measure.calibration.candidates import COLLECTIVES
from synth.measure.calibration.fit import fit
from synth.measure.calibration.prior import (
    ALONE,
    OWN,
    SPREADS,
    TRAITS,
    Key,
    expected_prior,
    part_of_column,
    unmeasured_ways,
)

RINGS = ("all-reduce", "reduce-scatter", "all-gather")
CHAINS = ("reduce", "broadcast")
HALVES = {"all-reduce": (0.5, 0.5), "reduce-scatter": (1.0, 0.0), "all-gather": (0.0, 1.0)}
SHAPES = ((1, 4), (8, 4))


def machine(reducing: float, copying: float, one_way: float = 1.0) -> System:
    """Rings and chains whose rounds take so many times as long, in latency and on the wire."""
    plain = next(each for each in calibration().fits if each.protocol == "simple")
    halves = {**HALVES, "reduce": HALVES["reduce-scatter"], "broadcast": HALVES["all-gather"]}
    fits = [plain]
    for name, (some, others) in halves.items():
        times = (some * reducing + others * copying) * (one_way if name in CHAINS else 1.0)
        levels = tuple(
            Crossing(each.hop_seconds * times, each.share / times) for each in plain.levels
        )
        fits.append(replace(plain, levels=levels, collective=name, algorithm="ring"))
    return replace(bare(), calibration=Calibration(tuple(fits), calibration().residuals))


def errors(known: System, seen: tuple[str, ...], unseen: str, noise: float) -> np.ndarray:
    """Of the prices of a collective that the fit had not seen, smallest size first."""
    tables = [
        measured(known, name, members, noise=noise, algorithm="ring", protocol="simple", seed=seed)
        for seed, (name, members) in enumerate(product(seen, SHAPES))
    ]
    told = measured(known, unseen, (8, 4), algorithm="ring", protocol="simple")
    found = predict(fit(bare(), tables).system, told)
    return np.array(
        [row.seconds / sample.seconds - 1 for row, sample in zip(found, told.samples, strict=True)]
    )


@given(st.floats(0.9, 1.6), st.floats(0.9, 1.3), st.integers(0, 2))
@settings(max_examples=8, deadline=None)
def test_two_halves_tell_the_whole(reducing: float, copying: float, percents: int) -> None:
    off = errors(machine(reducing, copying), RINGS[1:], RINGS[0], percents / 100)
    assert abs(off[-4:]).max() < 0.03 + percents / 100


@pytest.mark.parametrize("unseen", RINGS[1:])
@given(st.floats(0.9, 1.6), st.floats(0.9, 1.3))
@settings(max_examples=8, deadline=None)
def test_the_whole_and_a_half_tell_more_of_the_other_than_their_mean(
    unseen: str, reducing: float, copying: float
) -> None:
    known = machine(reducing, copying)
    seen = tuple(name for name in RINGS if name != unseen)
    off = errors(known, seen, unseen, 0.0)
    times = {name: a * reducing + b * copying for name, (a, b) in HALVES.items()}
    by_mean = sum(times[name] for name in seen) / 2 / times[unseen] - 1
    assert abs(off[-4:]).max() < 0.03 + 0.7 * abs(by_mean)


@pytest.mark.parametrize("unseen", CHAINS)
def test_what_is_cheaper_one_way_is_told_by_the_other_collective_that_goes_one_way(
    unseen: str,
) -> None:
    """On links that carry what is described at most, as a fit assumes of ways without rows."""
    known = machine(1.8, 1.5, one_way=0.6)
    both = errors(known, (*RINGS, *(name for name in CHAINS if name != unseen)), unseen, 0.01)
    none = errors(known, RINGS, unseen, 0.01)
    assert 3 * abs(both[-1]) < abs(none[-1])
    assert abs(both[0]) < abs(none[0])


def keys(*ways: tuple[str, str]) -> list[Key]:
    found = [(ANY, ANY, "simple"), *((ANY, by, "simple") for by in {by for _, by in ways})]
    return [*found, *((name, by, "simple") for name, by in ways)]


def test_every_collective_has_traits_and_each_side_of_each_sums_to_one() -> None:
    assert set(TRAITS) == set(COLLECTIVES)
    for traits in TRAITS.values():
        assert sum(traits.get(name, 0) for name in ("one way", "both ways")) == 1
        assert sum(traits.get(name, 0) for name in ("reducing", "copying")) == 1


@pytest.mark.parametrize("what", range(5))
def test_expectations_are_those_of_traits_drawn_one_by_one(what: int) -> None:
    """By the sum over traits, not by the matrices of the module."""
    ways = [(name, "ring") for name in (*RINGS, *CHAINS)]
    asked = [*keys(*ways), ("all-reduce", "in-network", "simple")]
    asked.insert(1, (ANY, "in-network", "simple"))
    rows, wanted = expected_prior(asked, what)
    covariance = np.linalg.inv(rows.T @ rows)
    assert np.linalg.solve(rows, wanted) == pytest.approx(1.0)

    def common(first: Key, other: Key) -> float:
        shared = sum(
            TRAITS[first[0]].get(trait, 0) * TRAITS[other[0]].get(trait, 0) * spread[what] ** 2
            for trait, spread in SPREADS.items()
        )
        return shared + OWN[what] ** 2 * (first == other)

    place = {key: number for number, key in enumerate(asked)}
    ring = place[ANY, "ring", "simple"]
    rings = [key for key in asked if key[0] and key[1] == "ring"]
    for first, other in product(rings, rings):
        found = covariance[place[first], place[other]] - covariance[ring, ring]
        assert found == pytest.approx(common(first, other))
    switch = place["all-reduce", "in-network", "simple"]
    alone = covariance[switch, switch] - covariance[1, 1]
    assert alone == pytest.approx(ALONE[what] ** 2)


@given(st.lists(st.floats(0.1, 5.0), min_size=36, max_size=36))
def test_ways_without_rows_are_all_named_and_none_is_cheaper_than_may_be(some: list[float]) -> None:
    asked = keys(("all-reduce", "ring"), ("broadcast", "ring"))
    lowest = np.full((len(asked), 9), 0.5)
    found = dict(unmeasured_ways(asked, np.array(some).reshape(len(asked), 9), lowest))
    assert {key[:2] for key in found} == {
        (collective.value, by.value)
        for collective, by in RECIPES
        if by.value == "ring" and collective not in (Collective.ALL_REDUCE, Collective.BROADCAST)
    }
    assert all((numbers >= 0.5).all() for numbers in found.values())


def test_columns_are_launch_and_the_parts_by_level() -> None:
    assert [part_of_column(column, 2) for column in range(9)] == [0, 1, 1, 2, 2, 3, 3, 4, 4]


def test_a_calibration_lists_sources_of_prices_of_unmeasured_collectives() -> None:
    told = fit(bare(), [measured(bare_known(), name, (8, 4)) for name in RINGS[1:]]).calibration
    whole = told.fit("all-reduce", "ring", "simple")
    assert isinstance(whole, Fit)
    assert whole.key == ("all-reduce", "ring", "simple")
    assert whole.rows == 0
    halves = [told.fit(name, "ring", "simple") for name in RINGS[1:]]
    shares = [1 / half.levels[0].share for half in halves if half]
    assert min(shares) <= (1 / whole.levels[0].share) * 1.05
    assert 1 / whole.levels[0].share <= max(shares) * 1.05


def bare_known() -> System:
    return machine(1.4, 1.0)
