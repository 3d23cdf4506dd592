"""Calibrated systems: written and read, priced, and not faster than what is possible."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grammar import Goal
from hierarchies import (
    Axis,
    Calibration,
    Crossing,
    Fit,
    InputError,
    Reduction,
    Residual,
    described,
    load,
    placements,
    read,
)
from hierarchies.fabric import cast
from machines import bare, calibrated, calibration, measured
from synth.bound import bound
from synth.calibration.fitting import fit
from synth.calibration.predicting import predict
from synth.defaults import defaults
from synth.margins import Interval, interval, tied, widened
from synth.plan import answers
from synth.request import Request
from synth.simulator import Simulator

seconds = st.floats(0, 1e-3).map(lambda x: round(x * 1e6, 4) * 1e-6)
shares = st.floats(0.01, 1.5)
ratios = st.tuples(*[st.floats(0.1, 5)] * 3).map(sorted)
sentences = st.lists(st.text(st.characters(codec="utf-8"), max_size=20), max_size=3).map(tuple)


@st.composite
def calibrations(draw: st.DrawFn) -> Calibration:
    def fitted(protocol: str, algorithm: str = "", collective: str = "") -> Fit:
        levels = tuple(Crossing(draw(seconds), draw(seconds), draw(shares)) for _ in range(2))
        return Fit(protocol, levels, draw(seconds), algorithm, collective, draw(st.integers(0, 99)))

    fits = [fitted(protocol) for protocol in ("simple", "ll", "ll128")]
    fits += [fitted("simple", "ring"), fitted("ll", "ring", "all-gather")]
    left = tuple(Residual(edge, 9, *draw(ratios)) for edge in (0, 1 << 16))
    return Calibration(tuple(fits), left, draw(sentences), draw(sentences), draw(sentences))


@given(calibrations())
@settings(max_examples=30, deadline=None)
def test_a_calibrated_system_is_read_as_it_was_written(found: Calibration) -> None:
    for system in (load("dgx-h100:2"), load("dgx-a100:4")):
        whole = replace(system, calibration=found)
        again = read(described(whole, "GPU"))
        assert again.calibration == found
        assert again.hierarchy == whole.hierarchy
        assert [link.bandwidth_bytes_per_second for link in again.links] == [
            link.bandwidth_bytes_per_second for link in whole.links
        ]
        assert described(again, "GPU") == described(whole, "GPU")


def test_a_fitted_system_is_read_as_it_was_written() -> None:
    found = fit(bare(), [measured(calibrated(), "all-reduce", (8, 4), noise=0.1)]).system
    assert read(described(found)).calibration == found.calibration


WRONG = {
    "share = { node": "is missing or unknown",
    "launch_us = ": "launch_us",
    'protocol = "simple"': "no fit for",
}


@pytest.mark.parametrize("given_text", WRONG)
def test_a_calibration_that_is_wrong_is_told_with_its_place(given_text: str) -> None:
    text = described(replace(load("dgx-a100:2"), calibration=calibration()))
    broken = {
        "share = { node": text.replace('share = { "node"', 'share = { "pod"'),
        "launch_us = ": text.replace("launch_us = ", "launch = ", 1),
        'protocol = "simple"': text.replace('protocol = "simple"', 'protocol = "plain"'),
    }[given_text]
    with pytest.raises(InputError, match=WRONG[given_text]) as caught:
        read(broken, where="my.toml")
    assert str(caught.value).startswith("my.toml")


def test_calibrations_that_contradict_themselves_are_refused() -> None:
    one = calibration().fits[0]
    with pytest.raises(InputError, match="two fits"):
        Calibration((one, one), ())
    with pytest.raises(InputError, match="no fit for any algorithm"):
        Calibration((one, replace(one, protocol="ll", algorithm="ring")), ())
    with pytest.raises(InputError, match="no fit for the protocol 'simple'"):
        Calibration((replace(one, protocol="ll"),), ())
    with pytest.raises(InputError, match="levels for a system"):
        replace(load("tpu-v4-pod-slice"), calibration=calibration())


def reduction(sizes: tuple[int, ...], over: tuple[str, ...], which: int) -> Reduction:
    axes = tuple(Axis(f"a{i}", size) for i, size in enumerate(sizes))
    known = list(placements(bare().hierarchy, axes))
    return Reduction(known[which % len(known)], over)


@given(calibrations(), st.integers(0, 5), st.floats(1, 1e9), st.floats(1, 10))
@settings(max_examples=60, deadline=None)
def test_prices_never_fall_with_size_and_are_above_the_bound(
    found: Calibration, which: int, size: float, times: float
) -> None:
    system = replace(bare(), calibration=found)
    asked = reduction((8, 4), ("a0",), which)
    roles = cast(asked, tuple(range(len(asked.tree.digits))), ())
    for goal in (Goal.ALL_REDUCE, Goal.ALL_GATHER, Goal.ALL_TO_ALL):
        options = defaults(Simulator(system), asked, size, goal)
        floor = bound(system, asked, size, goal)
        assert options.seconds[options.chosen] >= floor.seconds * (1 - 1e-9)
        for collective in goal.alphabet:
            for line in Simulator(system).lines(collective, roles):
                assert line.seconds(size) <= line.seconds(size * times) * (1 + 1e-12)


def test_a_launch_is_paid_once_a_step() -> None:
    asked = reduction((32,), ("a0",), 0)
    request = Request((Axis("a0", 32),), ("a0",), 1024.0)
    for best in answers(calibrated(), request).answers:
        assert all(price.latency_seconds >= 6e-6 for price in best.prices if price.algorithm)
    dear = replace(bare(), calibration=calibration(launches=(1.0, 1.0, 1.0)))
    chosen = defaults(Simulator(dear), asked, 1024.0).baseline
    assert 1.0 <= chosen[0].seconds < 1.01


def test_messages_that_keep_a_distance_do_so_while_bytes_move() -> None:
    known = Calibration((Fit("simple", (Crossing(0.0, 1e-3, 1.0),) * 2, 0.0),), ())
    asked = reduction((32,), ("a0",), 0)
    prices = [
        defaults(Simulator(replace(bare(), calibration=known)), asked, size).options["ring"][0]
        for size in (1e3, 1e6, 1e11)
    ]
    assert prices[0].seconds == pytest.approx(prices[1].seconds)
    assert prices[0].work.alone_seconds == pytest.approx(prices[0].seconds)
    nominal = defaults(Simulator(bare()), asked, 1e11).options["ring"][0]
    assert prices[2].seconds == pytest.approx(nominal.seconds, rel=1e-3)


def test_a_bound_is_of_what_is_faster_description_or_measurement() -> None:
    asked = reduction((32,), ("a0",), 0)
    nominal = bound(bare(), asked, 1e9).seconds
    slower = replace(bare(), calibration=calibration(shares=(0.5, 0.5)))
    faster = replace(bare(), calibration=calibration(shares=(1.6, 1.6)))
    assert bound(slower, asked, 1e9).seconds == nominal
    assert bound(faster, asked, 1e9).seconds == pytest.approx(nominal / 1.6)


def test_intervals_are_of_the_way_and_size_and_add_up() -> None:
    left = (
        Residual(0, 10, 0.5, 1.0, 2.0),
        Residual(1 << 20, 10, 0.9, 1.0, 1.2),
        Residual(1 << 20, 10, 0.95, 1.0, 1.05, "simple", "ring", "all-reduce"),
    )
    known = Calibration(calibration().fits, left)
    assert widened(known, ("all-reduce", "ring", "simple"), 1 << 30) == (0.95, 1.05)
    assert widened(known, ("all-reduce", "tree", "simple"), 1 << 20) == (0.9, 1.2)
    assert widened(known, ("all-reduce", "ring", "simple"), 8) == (0.5, 2.0)
    assert widened(None, ("all-reduce", "ring", "simple"), 8) == (1.0, 1.0)
    system = replace(bare(), calibration=known)
    request = Request((Axis("a0", 32),), ("a0",), float(1 << 30), stripes=False)
    for answer in answers(system, request).answers:
        found = interval(system, answer.prices)
        total = sum(price.seconds for price in answer.prices)
        assert found
        assert 0.9 * total <= found.low_seconds <= total <= found.high_seconds <= 1.2 * total
        half = interval(system, answer.prices, total / 2)
        assert half
        assert half.high_seconds == pytest.approx(found.high_seconds / 2)


def test_ties_are_intervals_that_overlap() -> None:
    near, far = Interval(1.0, 1.2), Interval(1.3, 1.5)
    assert tied(near, Interval(1.2, 1.4))
    assert not tied(near, far)
    assert not tied(None, None)
    assert interval(bare(), ()) is None


def test_intervals_hold_as_many_unseen_rows_as_they_say() -> None:
    seen = [
        measured(calibrated(), collective, members, noise=0.1, seed=seed)
        for seed, (collective, members) in enumerate(
            [("all-reduce", (8, 4)), ("all-gather", (8, 4)), ("all-gather", (4, 4))]
        )
    ]
    system = fit(bare(), seen).system
    unseen = [
        measured(calibrated(), one.collective, one.members, noise=0.1, seed=100 + i)
        for i, one in enumerate(seen)
    ]
    held = [
        said.low_seconds <= sample.seconds <= said.high_seconds
        for one in unseen
        for said, sample in zip(predict(system, one), one.samples, strict=True)
    ]
    assert sum(held) / len(held) > 0.8
