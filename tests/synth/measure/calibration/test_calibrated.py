"""Calibrated systems: written and read, priced, and not faster than what is possible."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import t as student

from grammar import Collective, Goal
from hierarchies import (
    Axis,
    Calibration,
    Crossing,
    Fit,
    InputError,
    MeasuredRange,
    MessageCurve,
    Reduction,
    Residual,
    TableResidual,
    describe_system,
    load,
    placements,
    read,
)
from hierarchies.fabric import roles_of
from machines import bare, calibrated, calibration, measured, predict, span
from synth.collective.price.bound import bound
from synth.collective.price.defaults import defaults
from synth.collective.price.intervals import interval_of_program, widening_ratios
from synth.collective.price.step_prices import Simulator
from synth.collective.ranking.explanation import explain_answer
from synth.collective.ranking.planner import answers
from synth.collective.ranking.request import Request
from synth.collective.semantics.programs import Language
from synth.collective.semantics.schedule import GroupList
from synth.measure.calibration.candidates import SizePrediction
from synth.measure.calibration.fit import fit
from synth.measure.calibration.measurements import Measurement, Sample
from synth.measure.calibration.residuals import EXPECTED, FittedRow
from synth.measure.calibration.residuals import table_residuals as strays_of

seconds = st.floats(0, 1e-3).map(lambda x: round(x * 1e6, 4) * 1e-6)
shares = st.floats(0.01, 1.5)
ratios = st.tuples(*[st.floats(0.1, 5)] * 3).map(sorted)
sentences = st.lists(st.text(st.characters(codec="utf-8"), max_size=20), max_size=3).map(tuple)


members = st.tuples(st.integers(1, 4), st.integers(1, 8))
collectives = st.sampled_from(["all-reduce", "all-gather", "reduce"])
hows = st.tuples(st.sampled_from(["ring", "tree"]), st.sampled_from(["simple", "ll"]))
kinds = st.lists(
    st.builds(
        lambda collective, members, ways, ends, forced: MeasuredRange(
            collective, members, tuple(ways), *ends, forced
        ),
        collectives,
        members,
        st.lists(hows, min_size=1, max_size=3, unique=True),
        st.tuples(st.integers(1, 1 << 30), st.integers(1, 1 << 30)).map(sorted),
        st.booleans(),
    ),
    max_size=3,
).map(tuple)
strays = st.lists(
    st.builds(TableResidual, st.just(0), st.integers(0, 9), st.floats(0.1, 1), st.floats(1, 9)),
    max_size=1,
).flatmap(
    lambda first: st.just(
        (*first, *(TableResidual(1 << 20, 2 + one.tables, one.low / 2, one.high) for one in first))
    )
)


curves = st.builds(
    MessageCurve,
    st.sampled_from((0, 1)),
    st.just((32.0, 512.0, 8192.0)),
    st.tuples(*[st.sampled_from((0.05, 0.5, 1.0, 2.5, 20.0))] * 3),
    st.sampled_from(("simple", "ll")),
    st.sampled_from(("", "direct")),
)
crowds = st.one_of(st.just(()), st.tuples(seconds, st.sampled_from((0.0, 0.1, 0.9))))


@st.composite
def calibrations(draw: st.DrawFn) -> Calibration:
    def fitted(protocol: str, algorithm: str = "", collective: str = "") -> Fit:
        levels = tuple(Crossing(draw(seconds), draw(shares), *draw(crowds)) for _ in range(2))
        return Fit(protocol, levels, draw(seconds), algorithm, collective, draw(st.integers(0, 99)))

    fits = [fitted(protocol) for protocol in ("simple", "ll", "ll128")]
    fits += [fitted("simple", "ring"), fitted("ll", "ring", "all-gather")]
    left = tuple(Residual(edge, 9, *draw(ratios)) for edge in (0, 1 << 16))
    told = tuple(draw(sentences) for _ in range(3))
    found = Calibration(tuple(fits), left, *told, "fastest", draw(kinds), draw(strays))
    several = st.lists(
        curves, max_size=3, unique_by=lambda one: (one.algorithm, one.protocol, one.level)
    )
    return replace(found, curves=tuple(draw(several)))


@given(calibrations())
@settings(max_examples=30, deadline=None)
def test_a_calibrated_system_is_read_as_it_was_written(found: Calibration) -> None:
    for system in (load("dgx-h100:2"), load("dgx-a100:4")):
        whole = replace(system, calibration=found)
        again = read(describe_system(whole, "GPU"))
        assert again.calibration == found
        assert again.hierarchy == whole.hierarchy
        assert [link.bandwidth_bytes_per_second for link in again.links] == [
            link.bandwidth_bytes_per_second for link in whole.links
        ]
        assert describe_system(again, "GPU") == describe_system(whole, "GPU")


def test_a_fitted_system_is_read_as_it_was_written() -> None:
    found = fit(bare(), [measured(calibrated(), "all-reduce", (8, 4), noise=0.1)]).system
    assert read(describe_system(found)).calibration == found.calibration


WRONG = {
    "share = { node": "is missing or unknown",
    'level = "node"': "no level 'pod'",
    "factor = [": "one factor for each size",
    "loss = 1": "less than 1",
    "launch_us = ": "launch_us",
    'protocol = "simple"': "no fit for",
    "members = { node": "is missing or unknown",
    "low = 0.5": "1 is between",
    "ways = ": "ways",
}


@pytest.mark.parametrize("given_text", WRONG)
def test_an_invalid_calibration_is_refused_with_its_location(given_text: str) -> None:
    ring = MeasuredRange("reduce", (1, 8), (("ring", "simple"),), 8, 64)
    told = replace(calibration(), measured=(ring,), strays=(TableResidual(0, 3, 0.5, 2.0),))
    first, *others = told.fits
    crowded = replace(first, levels=(replace(first.levels[0], loss=0.25), first.levels[1]))
    curve = MessageCurve(0, (64.0, 1024.0), (2.0, 1.0), "simple")
    told = replace(told, fits=(crowded, *others), curves=(curve,))
    text = describe_system(replace(load("dgx-a100:2"), calibration=told))
    broken = {
        "share = { node": text.replace('share = { "node"', 'share = { "pod"'),
        'level = "node"': text.replace('level = "node"', 'level = "pod"'),
        "factor = [": text.replace("factor = [2.0, ", "factor = ["),
        "loss = 1": text.replace('loss = { "node" = 0.25', 'loss = { "node" = 1.0'),
        "launch_us = ": text.replace("launch_us = ", "launch = ", 1),
        'protocol = "simple"': text.replace('protocol = "simple"', 'protocol = "plain"'),
        "members = { node": text.replace('members = { "node"', 'members = { "pod"'),
        "low = 0.5": text.replace("low = 0.5", "low = 1.5"),
        "ways = ": text.replace('ways = ["ring simple"]', 'ways = ["ring"]'),
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
    roles = roles_of(asked, tuple(range(len(asked.tree.digits))), ())
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


def test_a_message_costs_by_its_size_whatever_the_number_of_members() -> None:
    """A ring's message is a piece for one of its 8 or 32 members: 64 times as dear below 1 KiB."""
    dear = MessageCurve(0, (1023.0, 1024.0), (64.0, 1.0), "simple")
    levels = Crossing(1e-3, 1.0), Crossing(0.0, 1.0)
    known = Calibration((Fit("simple", levels, 0.0),), (), curves=(dear,))
    system = replace(bare(), calibration=known)
    for members in ((8, 1), (8, 4)):
        ranks = 8 * members[1]
        sizes = tuple(Sample(bytes_each * ranks, 1.0) for bytes_each in (1000, 1024, 4096))
        below, at, above = (
            price.seconds
            for price in predict(system, Measurement("all-gather", members, members, sizes, "ring"))
        )
        # A ring of n nodes waits for n messages but the one that is spared inside.
        waited = round(at / 1e-3)
        assert below == pytest.approx(64 * waited * 1e-3, rel=0.01)
        assert above == pytest.approx(at, rel=0.01)


def test_no_price_is_below_its_bound_where_long_messages_are_cheap() -> None:
    cheap = MessageCurve(0, (64.0, 1024.0), (1.0, 0.05), "simple")
    known = replace(calibration(), curves=(cheap,))
    system, asked = replace(bare(), calibration=known), reduction((32,), ("a0",), 0)
    for size in (1e3, 1e5, 1e7):
        for name, prices in defaults(Simulator(system), asked, size).options.items():
            taken = sum(price.seconds for price in prices)
            assert taken >= bound(system, asked, size).seconds * (1 - 1e-9), name


def test_of_groups_that_wait_differently_the_slowest_counts_at_each_size() -> None:
    """Three ranks of one node beside two of two nodes, whose short messages are dear."""
    dear = MessageCurve(0, (64.0, 1024.0), (100.0, 1.0), "simple")
    fits = (Fit("simple", (Crossing(1e-6, 1.0), Crossing(2e-6, 1.0)), 0.0),)
    system = replace(bare(), calibration=Calibration(fits, (), curves=(dear,)))
    groups = GroupList(((0, 1, 2), (3, 4)), (1.0, 1.0))
    simulator = Simulator(system)
    together, alone = (
        simulator.exchange(Collective.ALL_GATHER, each, 16.0).latency_seconds
        for each in (groups, GroupList(((3, 4),), (1.0,)))
    )
    assert together >= alone * (1 - 1e-9)
    assert alone == pytest.approx(100e-6, rel=1e-6)


@pytest.mark.parametrize(
    ("curve", "problem"),
    [
        (MessageCurve(2, (64.0,), (2.0,), "simple"), "a curve of level 2"),
        (MessageCurve(0, (64.0,), (2.0,), "none"), "a curve of 'none'"),
        (MessageCurve(0, (64.0,), (2.0,), "simple", "ring"), "a curve of messages by 'ring'"),
    ],
)
def test_curves_that_nothing_uses_are_refused(curve: MessageCurve, problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        replace(calibration(), curves=(curve,))
    once = MessageCurve(0, (64.0,), (2.0,), "simple")
    with pytest.raises(InputError, match="two curves"):
        replace(calibration(), curves=(once, once))


def test_peers_are_paid_for_whatever_is_on_the_wire() -> None:
    """31 peers of an all-to-all, 28 of them on other nodes; other collectives have none."""
    asked, plain = reduction((32,), ("a0",), 0), calibration()
    dear = replace(plain, fits=tuple(_peers(fit, 1e-5, 1e-6) for fit in plain.fits))
    for size in (1e3, 1e9):
        for goal, more in ((Goal.ALL_TO_ALL, 28 * 1e-5 + 3 * 1e-6), (Goal.ALL_REDUCE, 0.0)):
            before, now = (
                min(
                    defaults(
                        Simulator(replace(bare(), calibration=one)), asked, size, goal
                    ).seconds.values()
                )
                for one in (plain, dear)
            )
            assert now == pytest.approx(before + more)


def _peers(fit: Fit, between: float, inside: float) -> Fit:
    each = zip(fit.levels, (between, inside), strict=True)
    return replace(fit, levels=tuple(replace(one, peer_seconds=cost) for one, cost in each))


@given(st.integers(1, 3), st.floats(0, 0.9))
def test_more_nodes_have_a_smaller_share_of_the_bandwidth(doublings: int, loss: float) -> None:
    """Large rings on all 2 ** n nodes: the seconds of their bytes, against those without a loss."""
    system, members = bare(), (1 << doublings, 1)
    asked = Measurement("all-gather", members, members, (Sample(1 << 40, 1.0),))
    levels = (Crossing(0.0, 0.5, 0.0, loss), Crossing(0.0, 0.5))
    plain = (Crossing(0.0, 0.5),) * 2
    lost, kept = (
        predict(replace(system, calibration=Calibration((Fit("simple", each, 0.0),), ())), asked)
        for each in (levels, plain)
    )
    left = (1 - loss) ** (doublings - 1)
    assert lost[0].seconds == pytest.approx(kept[0].seconds / left)


def test_a_bound_uses_the_faster_of_description_and_measurement() -> None:
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
    assert widening_ratios(known, ("all-reduce", "ring", "simple"), (8, 4), 1 << 30) == (0.95, 1.05)
    assert widening_ratios(known, ("all-reduce", "tree", "simple"), (8, 4), 1 << 20) == (0.9, 1.2)
    assert widening_ratios(known, ("all-reduce", "ring", "simple"), (8, 4), 8) == (0.5, 2.0)
    assert widening_ratios(None, ("all-reduce", "ring", "simple"), (8, 4), 8) == (1.0, 1.0)
    system = replace(bare(), calibration=known)
    request = Request((Axis("a0", 32),), ("a0",), float(1 << 30), stripes=False)
    for answer in answers(system, request).answers:
        found = interval_of_program(system, answer.prices)
        total = sum(price.seconds for price in answer.prices)
        assert found
        assert 0.9 * total <= found.low_seconds <= total <= found.high_seconds
        assert found.high_seconds <= 1.2 * total * (1 + 1e-12)
        half = interval_of_program(system, answer.prices, total / 2)
        assert half
        assert half.high_seconds == pytest.approx(found.high_seconds / 2)


@given(calibrations(), collectives, hows, members, st.integers(1, 1 << 31))
def test_what_was_not_measured_is_never_narrower_than_what_was(
    found: Calibration,
    collective: str,
    how: tuple[str, str],
    ranks: tuple[int, int],
    size: int,
) -> None:
    way = (collective, *how)
    seen = replace(found, measured=(MeasuredRange(collective, ranks, (how,), 1, 1 << 31),))
    low, high = widening_ratios(found, way, ranks, size)
    least, most = widening_ratios(seen, way, ranks, size)
    assert low <= least <= 1 <= most <= high


@given(calibrations(), collectives, hows, members, st.integers(1, 1 << 40), st.integers(0, 2))
def test_intervals_open_with_the_distance_from_what_was_measured(
    found: Calibration,
    collective: str,
    how: tuple[str, str],
    ranks: tuple[int, int],
    size: int,
    which: int,
) -> None:
    """Twice as many nodes, or GPUs, or bytes: never narrower where these were not measured."""
    kind = MeasuredRange(collective, (1, 1), (how,), 1, 1)
    one_size = replace(
        found, measured=(kind,), strays=tuple(s for s in found.strays if not s.smallest_bytes)
    )
    farther = [*ranks, size]
    farther[which] *= 2
    *more, larger = farther
    one_size = replace(one_size, residuals=())
    low, high = widening_ratios(one_size, (collective, *how), ranks, size)
    least, most = widening_ratios(one_size, (collective, *how), tuple(more), larger)
    assert least <= low * (1 + 1e-12)
    assert most >= high * (1 - 1e-12)


def test_a_row_is_of_its_collective_members_way_and_sizes() -> None:
    ways = (("ring", "simple"), ("tree", "ll"))
    kind = MeasuredRange("all-reduce", (2, 4), ways, 64, 1 << 20, forced=True)
    known = replace(
        calibration(),
        measured=(kind,),
        strays=(TableResidual(0, 3, 0.25, 4.0), TableResidual(1 << 16, 3, 0.5, 2.0)),
    )
    seen = ("all-reduce", "ring", "simple")
    assert (
        widening_ratios(known, seen, (2, 4), 64)
        == widening_ratios(known, seen, (2, 4), 1 << 20)
        == (0.9, 1.1)
    )
    assert widening_ratios(known, seen, (2, 2), 64) == (
        pytest.approx(1 / opened(4.0, 0.5)),
        pytest.approx(opened(4.0, 0.5)),
    )
    assert widening_ratios(known, seen, (2, 4), 32)[1] == pytest.approx(opened(4.0, 1))
    assert widening_ratios(known, seen, (2, 4), 1 << 21)[1] == pytest.approx(opened(2.0, 0.5))
    assert widening_ratios(known, seen, (2, 4), 1 << 40)[1] == pytest.approx(opened(2.0, 3))
    assert widening_ratios(known, seen, (8, 4), 1 << 16)[1] == pytest.approx(opened(2.0, 1))
    assert widening_ratios(known, seen, (), 1 << 16) == (0.5, 2.0)
    assert widening_ratios(known, ("all-gather", "ring", "simple"), (2, 4), 64) == (0.25, 4.0)
    assert widening_ratios(known, ("all-reduce", "ring", "ll"), (2, 4), 64) == (0.25, 4.0)


def opened(ratio: float, doublings: float) -> float:
    """A ratio of nine in ten with a fifth, as a logarithm, for each halving besides."""
    return float(np.exp(np.hypot(np.log(ratio), 1.645 * 0.2 * doublings)))


def test_all_to_alls_are_fitted_by_all_to_alls() -> None:
    ring = MeasuredRange("all-reduce", (8, 4), (("ring", "simple"),), 8, 1 << 30)
    known = replace(
        calibration(),
        measured=(ring, replace(ring, collective="all-to-all", ways=(("direct", "simple"),))),
        strays=(TableResidual(0, 3, 0.5, 2.0), TableResidual(0, 2, 0.2, 5.0, "all-to-all")),
    )
    way = ("all-to-all", "direct", "simple")
    assert widening_ratios(known, way, (4, 4), 8)[1] == pytest.approx(opened(5.0, 0.5))
    without = replace(known, measured=(ring,), strays=known.strays[:1])
    assert widening_ratios(without, way, (8, 4), 8)[1] == pytest.approx(opened(2.0, 2.5))


def _row(table: int, number: int, off: float) -> FittedRow:
    """A row of a table that lies so far from a fit without it, in logarithms."""
    size = 1 << 20
    one = Measurement("all-reduce", (8, 4), (8, 4), (Sample(size, 1.0),), f"way {table}")
    way = ("all-reduce", "ring", "simple")
    seconds = float(np.exp(off)) * (1 + 1e-9 * number)
    return FittedRow(one, size, seconds, 1.0, way, tables_seconds=1.0, halves_seconds=1.0)


@pytest.mark.parametrize("tables", [1, 3, 10, 40])
def test_strays_hold_rows_of_another_table(tables: int) -> None:
    """Tables drawn at random, all rows of one off together: nine of ten further ones are held.

    What a table was expected to be off by counts as two more, and here it is off by as much.
    """
    random, spread, held = np.random.default_rng(tables), 0.2, []
    for _ in range(400):
        offs = random.normal(0, spread, tables)
        [stray] = strays_of([_row(i, j, off) for i, off in enumerate(offs) for j in range(3)])
        assert stray.tables == tables
        other = float(np.exp(random.normal(0, spread)))
        held.append(stray.low <= other <= stray.high)
    assert 0.87 <= np.mean(held) <= (0.94 if tables > 20 else 1)


def test_strays_are_wide_where_tables_are_few() -> None:
    """The same mean error of one table, of two, of many; and of none, where all is expectation."""
    spread, weight = EXPECTED
    none = [replace(_row(0, j, spread), tables_seconds=0.0) for j in range(9)]
    [unknown] = strays_of(none)
    highs = [
        strays_of([_row(i, j, spread) for i in range(n) for j in range(9)])[0].high
        for n in (1, 2, 5, 20)
    ]
    assert unknown.tables == 0
    assert [unknown.high, *highs] == sorted([unknown.high, *highs], reverse=True)
    assert unknown.high == pytest.approx(np.exp(student.ppf(0.95, weight) * spread), rel=1e-5)
    assert highs[-1] == pytest.approx(np.exp(student.ppf(0.95, weight + 20) * spread), rel=1e-5)


def test_strays_of_large_sizes_are_expected_to_be_small() -> None:
    """Where no table was left out, the ends are those of other machines' tables."""
    [small, large] = strays_of(
        [replace(_row(0, 0, 0.3), tables_seconds=0.0, size_bytes=1 << n) for n in (20, 28)]
    )
    assert small.high == pytest.approx(1.8, rel=0.05)
    assert large.high == pytest.approx(1.35, rel=0.05)


def test_without_a_calibration_there_is_no_interval() -> None:
    assert interval_of_program(bare(), ()) is None


def test_intervals_contain_the_stated_share_of_unseen_rows() -> None:
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
        span(said)[0] <= sample.seconds <= span(said)[1]
        for one in unseen
        for said, sample in zip(predict(system, one), one.samples, strict=True)
    ]
    assert sum(held) / len(held) > 0.8


def width(said: SizePrediction) -> float:
    low, high = span(said)
    return high / low


def test_a_fit_lists_measured_classes_and_has_narrower_intervals_for_them() -> None:
    seen = [
        measured(calibrated(), "all-reduce", (8, 4), noise=0.1),
        measured(calibrated(), "all-gather", (8, 4), noise=0.1, sizes=[1 << n for n in range(6)]),
    ]
    system = fit(bare(), seen).system
    assert system.calibration
    kinds = {(one.collective, one.members) for one in system.calibration.measured}
    assert kinds == {("all-reduce", (8, 4)), ("all-gather", (8, 4))}
    for one in seen:
        for other in ((4, 4), (8, 1), (1, 4)):
            asked = replace(one, members=other, busy=other)
            for here, there in zip(predict(system, one), predict(system, asked), strict=True):
                assert width(here) <= width(there) * (1 + 1e-9) or (
                    (here.way, here.price.protocol) != (there.way, there.price.protocol)
                )
    large = replace(seen[1], samples=seen[0].samples)
    spans = [width(said) for said in predict(system, large)]
    assert min(spans[6:]) > max(spans[:3])


def test_an_answer_lists_unmeasured_prices_with_their_sources() -> None:
    """Only trees were run, of all-reduces over all ranks: no rings, and no other collective."""
    known = replace(bare(4, 4), calibration=calibration(shares=(0.95, 0.95)))
    ran = [
        measured(
            known, "all-reduce", (4, 4), algorithm="tree", protocol=protocol, noise=0.05, seed=n
        )
        for n, protocol in enumerate(("simple", "ll"))
    ]
    system = fit(bare(4, 4), ran).system
    tree = {"all-reduce by tree"}
    for goal, size in (
        (Goal.ALL_REDUCE, 2**30),
        (Goal.ALL_REDUCE, 2**14),
        (Goal.ALL_GATHER, 2**20),
    ):
        request = Request((Axis("data", 16),), ("data",), size, 4, Language(3, goal=goal))
        for answer in answers(system, request).answers:
            phases = [price for stripe in answer.stripes for price in stripe.prices]
            phases += answer.defaults.baseline
            sent = {f"{one.what} by {one.algorithm.value}" for one in phases if one.algorithm}
            assert bool(answer.not_measured) == (not sent <= tree)
            if sent - tree:
                assert answer.not_measured in explain_answer(answer)
                named, source = answer.not_measured.split(" not measured here: priced from ")
                assert set(named.rpartition(" ")[0].split(", ")) == sent - tree
                assert source == "all-reduce by tree"
    assert all(not one.not_measured for one in answers(known, request).answers)


def test_what_was_not_measured_is_as_uncertain_as_whole_tables() -> None:
    known = calibrated(4, 4)
    ran = [
        measured(known, what, (4, 4), algorithm=how, noise=0.02, seed=n)
        for n, (what, how) in enumerate((("all-reduce", "tree"), ("all-gather", "ring")))
    ]
    found = fit(bare(4, 4), ran).calibration
    for size in (2**14, 2**20, 2**26):
        wide = found.stray(("all-reduce", "ring", "simple"), (4, 4), size)
        assert wide
        low, high = widening_ratios(found, ("all-reduce", "ring", "simple"), (4, 4), size)
        assert low <= wide.low < 1 < wide.high <= high
        nearer = widening_ratios(found, ("all-reduce", "tree", "simple"), (4, 4), size)
        assert low < nearer[0]
        assert nearer[1] < high
