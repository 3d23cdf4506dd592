"""The least squares of a calibration, by what must come out of rows that are known."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from math import log

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hierarchies import Calibration, Crossing, Domain, Fit, Link, MessageCurve, System
from machines import SIZES, bare, calibrated, calibration, measured, predict
from synth.collective.algorithms.algorithms import Algorithm
from synth.collective.algorithms.protocols import Protocol
from synth.measure.calibration import solver
from synth.measure.calibration.candidates import FitCandidate, candidates
from synth.measure.calibration.fit import fit
from synth.measure.calibration.measurements import Measurement, Sample
from synth.measure.calibration.residuals import CLASSES, FittedRow, find_outliers, residuals
from synth.measure.calibration.solver import (
    LEAST_LATENCY,
    MOST_SHARE,
    Rows,
    Solution,
    solve,
)

LARGE = tuple(1 << power for power in range(24, 33))
RING = {"algorithm": "ring", "protocol": "simple"}
ONE = np.zeros(9, dtype=np.int64)


def rows_of(system: System, measurements: list[Measurement]) -> Rows:
    """Every row with all its candidates, as a fit has them that knows of no choice."""
    known = [candidates(system, one) for one in measurements]
    samples = [(table, one) for table, some in enumerate(measurements) for one in some.samples]
    return Rows(
        np.array([float(one.size_bytes) for _, one in samples]),
        np.array([one.seconds for _, one in samples]),
        np.array([table for table, _ in samples]),
        np.array([row for row, (table, _) in enumerate(samples) for _ in known[table]]),
        tuple(each for table, _ in samples for each in known[table]),
    )


def told_seconds(solution: Solution, candidate: FitCandidate, size: float) -> float:
    """What the unknowns say of a candidate, added up anew."""
    numbers = solution.unknowns[solution.keys.index(candidate.key)]
    levels = len(candidate.waited)
    hops, shares, peers, losses = (numbers[1 + levels * i :][:levels] for i in range(4))
    limits = [
        size * busy * share * (m / 2) ** (loss / log(2))
        for busy, share, loss, m in zip(
            candidate.way.busy_seconds, shares, losses, candidate.way.members, strict=True
        )
    ]
    limits.append(size * candidate.way.memory_seconds)
    at_once = candidate.way.at_once
    waits = hops * candidate.waited + (peers * candidate.way.peers if at_once else 0.0)
    name = "direct" if at_once else ""
    for curve in solution.columns.curves(solution.logarithms):
        if (curve.algorithm, curve.protocol) == (name, candidate.protocol.value):
            waits[curve.level] *= curve.at(size * candidate.way.message_share)
    return float(numbers[0] + waits.sum() + max(limits))


def scaled(one: Measurement, *factors: float) -> Measurement:
    """The same with its rows' seconds times these, by turns."""
    samples = tuple(
        replace(sample, seconds=sample.seconds * factors[i % len(factors)])
        for i, sample in enumerate(one.samples)
    )
    return replace(one, samples=samples)


def test_a_row_goes_the_fastest_way_the_first_of_those_that_tie() -> None:
    seen = [measured(calibrated(), "all-reduce", members) for members in ((8, 4), (1, 4))]
    rows = rows_of(bare(), seen)
    twice = replace(
        rows,
        row=np.repeat(rows.row, 2),
        candidates=tuple(each for each in rows.candidates for _ in range(2)),
    )
    for given_rows in (rows, twice):
        found = solve(bare(), given_rows)
        for row, size in enumerate(given_rows.sizes):
            mine = np.flatnonzero(given_rows.row == row)
            told = [told_seconds(found, given_rows.candidates[pair], size) for pair in mine]
            assert found.fitted[row] == pytest.approx(min(told), rel=1e-3)
            assert found.chosen[row] == mine[int(np.argmin(told))]


def test_what_a_row_is_limited_by_is_what_it_tells_of() -> None:
    """The design is the slope of each row's seconds in each unknown, in expected errors."""
    seen = [measured(calibrated(), "all-reduce", (8, 4), **RING)]
    rows = rows_of(bare(), seen)
    found = solve(bare(), rows)
    width = found.unknowns.shape[1]
    design = found.design[:, : found.unknowns.size]
    assert (design >= 0).all()
    small, large = design[0], design[-1]
    for wire in ((3, 4), (7, 8)):
        crossing = [column for column in range(len(large)) if column % width in wire]
        assert small[crossing].sum() < 1e-3 * large[crossing].sum()
        assert large[crossing].sum() > 0
        assert np.count_nonzero(large[crossing]) == 1
    launch, hops = small[0::width].max(), [small[i::width].max() for i in (1, 2)]
    assert launch > 0
    assert min(hops) > launch


def test_links_carry_twice_their_description_at_most() -> None:
    fast = replace(bare(), calibration=calibration(shares=(6.0, 5.0)))
    seen = [measured(fast, "all-gather", members, **RING) for members in ((8, 4), (1, 4), (8, 1))]
    told = fit(bare(), seen).calibration
    assert max(level.share for one in told.fits for level in one.levels) == MOST_SHARE


def test_links_carry_their_description_at_most_unless_a_row_carries_more() -> None:
    """A line through rows of a protocol that is slow to get going is too steep at first."""

    def most(share: float) -> float:
        system = replace(bare(), calibration=calibration(shares=(share, share)))
        whole = measured(system, "all-gather", (8, 4), **RING)
        rows = [
            replace(s, seconds=s.seconds * (1.2 if s.size_bytes < 1 << 28 else 1.0))
            for s in whole.samples
        ]
        found = fit(bare(), [replace(whole, samples=tuple(rows))]).calibration
        return max(level.share for each in found.fits for level in each.levels)

    assert most(0.99) == 1.0
    assert most(1.5) > 1.4


def test_fitted_latencies_are_positive() -> None:
    """Bytes alone: rows that waited for nothing at all. What is sent at once has short hops, and
    pays for peers.
    """
    none = Calibration(
        tuple(Fit(p, (Crossing(0.0, 0.5),) * 2, 0.0) for p in ("simple", "ll", "ll128")), ()
    )
    machine = replace(bare(), calibration=none)
    seen = [measured(machine, "all-gather", m, **RING) for m in ((8, 4), (1, 4), (2, 4))]
    found = solve(bare(), rows_of(bare(), seen))
    least = LEAST_LATENCY * 0.2
    for key, numbers in zip(found.keys, found.unknowns, strict=True):
        if key[2] == "simple":
            short = 0.1 if key[1] == "direct" else 1.0
            assert numbers[0] >= least * 8.4e-6 * (1 - 1e-9)
            assert numbers[1] >= short * least * 14e-6 * (1 - 1e-9)
            assert numbers[2] >= short * least * 3.4e-6 * (1 - 1e-9)
            assert numbers[7] >= LEAST_LATENCY * 14e-6 * (1 - 1e-9)
            assert numbers[8] >= LEAST_LATENCY * 3.4e-6 * (1 - 1e-9)


@pytest.mark.parametrize("place", range(len(LARGE)))
def test_a_row_far_off_pulls_no_harder_than_one_near_by(place: int) -> None:
    """Not so far that it would be dropped: less than twice what the others say."""
    one = measured(calibrated(), "all-gather", (8, 4), sizes=LARGE, **RING)
    samples = list(one.samples)
    samples[place] = replace(samples[place], seconds=1.9 * samples[place].seconds)
    told = fit(bare(), [replace(one, samples=tuple(samples))]).calibration
    found = told.fit("all-gather", "ring", "simple")
    assert found
    assert found.levels[0].share_among(8) == pytest.approx(0.9, rel=0.02)


def test_large_rows_are_taken_to_be_the_surest() -> None:
    """Two rows against two, of sizes of different noise: the numbers lie nearer to the larger."""
    shared = measured(
        calibrated(), "all-gather", (8, 1), sizes=(1 << 22, 1 << 23, 1 << 30, 1 << 31), **RING
    )
    seen = replace(
        shared,
        samples=tuple(
            replace(s, seconds=s.seconds * (1.1 if s.size_bytes < 1 << 24 else 1.0))
            for s in shared.samples
        ),
    )
    found = fit(bare(), [seen])
    off = [row.fitted_seconds / row.seconds - 1 for row in found.rows]
    assert max(map(abs, off[2:])) < 0.01


def test_undetermined_numbers_stay_near_related_ones() -> None:
    """A way seen once, and badly, follows its algorithm; what was expected is in the loss."""
    seen = [measured(calibrated(), "all-gather", m, **RING) for m in ((8, 4), (1, 4), (8, 1))]
    odd = scaled(measured(calibrated(), "reduce-scatter", (8, 4), sizes=LARGE[:3], **RING), 3.0)
    found = solve(bare(), rows_of(bare(), [*seen, odd]))
    rows = rows_of(bare(), [*seen, odd])
    noise = np.select([rows.sizes >= 1 << 24, rows.sizes >= 1 << 16], [0.05, 0.1], 0.15)
    off = (found.fitted / rows.seconds - 1) / noise
    of_rows = float((2 * (np.sqrt(1 + off**2) - 1)).sum())
    assert found.loss > of_rows + 1


def test_a_machine_of_other_latencies_is_put_to_scale_as_a_whole() -> None:
    """Rows of one protocol: what no row tells of another is as many times as late as they are."""

    def hops(times: float) -> list[float]:
        late = ((14e-6 * times, 3.4e-6 * times),) * 3
        machine = replace(bare(), calibration=calibration((8.4e-6 * times,) * 3, late, (0.9, 0.8)))
        seen = [measured(machine, "all-gather", members, **RING) for members in ((8, 4), (1, 4))]
        told = fit(bare(), seen).calibration.fit("all-gather", "ring", "ll")
        assert told
        return [level.hop_seconds for level in told.levels]

    for late, usual in zip(hops(8.0), hops(1.0), strict=True):
        assert late / usual == pytest.approx(8.0, rel=0.05)


def test_of_several_starts_the_fit_of_the_least_loss_is_taken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Rows that scatter: descents from different latencies end in different minima."""
    seen = [scaled(measured(calibrated(), "all-reduce", (8, 4)), 1.0, 3.0, 0.5)]
    rows, starts = rows_of(bare(), seen), solver._Problem.starts
    losses = []
    for number in range(3):
        with monkeypatch.context() as patch:
            patch.setattr(
                solver._Problem,
                "starts",
                lambda problem, number=number: starts(problem)[number : number + 1],
            )
            losses.append(solve(bare(), rows).loss)
    assert losses[0] > min(losses)
    assert solve(bare(), rows).loss == min(losses)


def test_sends_around_a_circle_use_all_ports_of_a_device() -> None:
    """Eight NICs of four GPUs: two for each. A bus carries what all its children send."""
    nics = replace(bare().links[0], ports=8)
    [way] = candidates(
        replace(bare(), links=(nics, bare().links[1])),
        Measurement("send-receive", (2, 4), (2, 4), ()),
    )[:1]
    assert way.way.busy_seconds == (1 / 50e9, 1 / 300e9)
    bus = Link(Domain.BUS, 60e9, 2e-6)
    [way] = candidates(
        replace(bare(), links=(bare().links[0], bus)),
        Measurement("send-receive", (2, 4), (2, 4), ()),
    )
    assert way.way.busy_seconds == (1 / 25e9, 4 / 60e9)


@pytest.mark.parametrize("word", ["ring", "Tree", "RING"])
def test_a_forced_row_has_the_ways_that_it_was_forced_to(word: str) -> None:
    asked = Measurement("all-reduce", (2, 4), (2, 4), (), word)
    assert {each.way.algorithm.value for each in candidates(bare(), asked)} == {word.lower()}
    assert len(candidates(bare(), asked)) == 3
    assert len(candidates(bare(), replace(asked, protocol="LL"))) == 1


def test_a_system_has_the_protocols_that_it_was_calibrated_by() -> None:
    """One that no row went by would be priced by the description, beside what was measured."""
    simple = Calibration((Fit("simple", (Crossing(1e-4, 0.5),) * 2, 1e-4),), ())
    asked = Measurement("all-gather", (2, 4), (2, 4), (Sample(8, 1.0), Sample(1 << 30, 1.0)))
    said = predict(replace(bare(), calibration=simple), asked)
    assert [one.price.protocol.value for one in said] == ["simple", "simple"]
    around = replace(asked, collective="send-receive")
    assert [one.price.protocol.value for one in predict(calibrated(), around)] == ["ll", "simple"]


def test_a_runtime_that_takes_the_fastest_and_one_that_follows_its_model() -> None:
    """Trees made fast: who takes the fastest way goes by trees, the model knows nothing of it."""
    slow, fast = Crossing(1e-6, 0.1), Crossing(1e-6, 1.0)
    fits = (Fit("simple", (slow,) * 2, 0.0), Fit("simple", (fast,) * 2, 0.0, "tree", "all-reduce"))
    asked = Measurement("all-reduce", (8, 4), (8, 4), (Sample(1 << 30, 1.0),))
    for runtime, way in (("fastest", "tree"), ("model", "ring")):
        known = replace(bare(), calibration=Calibration(fits, (), runtime=runtime))
        assert [one.price.algorithm for one in predict(known, asked)] == [Algorithm(way)]


def test_a_step_in_the_cost_of_messages_is_found_from_other_collectives_and_nodes() -> None:
    """Messages of more than 2 KiB take four times as long; one table of larger groups is unseen."""
    curves = tuple(
        MessageCurve(0, (2048.0, 4096.0), (1.0, 4.0), protocol) for protocol in ("simple", "ll")
    )
    known = calibration()
    fits = tuple(fit for fit in known.fits if fit.protocol in ("simple", "ll"))
    machine = replace(bare(), calibration=replace(known, fits=fits, curves=curves))
    forced = {"algorithm": "ring", "protocol": "ll"}
    seen = [
        measured(machine, collective, members, **forced)
        for collective, members in (
            ("all-gather", (2, 4)),
            ("all-gather", (4, 4)),
            ("all-reduce", (4, 4)),
            ("all-gather", (1, 4)),
        )
    ]
    found = fit(bare(), seen)
    [curve] = [one for one in found.calibration.curves if (one.level, one.protocol) == (0, "ll")]
    assert 2.5 < curve.at(65536) / curve.at(512) < 6
    unseen = measured(machine, "all-gather", (8, 4), **forced)
    for sample, said in zip(unseen.samples, predict(found.system, unseen), strict=True):
        # Sizes stand four times apart, so a step within them is a slope.
        if not 512 < sample.size_bytes / 32 < 8192:
            assert said.seconds == pytest.approx(sample.seconds, rel=0.15)


def test_steps_that_would_go_too_far_are_halved() -> None:
    """Of rows that contradict each other by a third whole steps stop at a loss of 257."""
    seen = [
        measured(calibrated(), collective, members, noise=0.3, seed=9 * number)
        for number, (collective, members) in enumerate(
            product(("all-reduce", "all-gather"), ((8, 4), (1, 4)))
        )
    ]
    assert solve(bare(), rows_of(bare(), seen)).loss < 240


# What the form of prices adds: peers, losses, and which rows say nothing of latencies.


def of_form(peers: tuple[float, float], loss: float) -> System:
    """A machine of 64 nodes whose all-to-alls pay for peers and whose network loses bandwidth."""
    between = Crossing(18e-6, 0.9, peers[0], loss=loss)
    fits = (Fit("simple", (between, Crossing(4e-6, 0.8, peers[1])), 20e-6),)
    return replace(bare(nodes=64), calibration=Calibration(fits, ()))


@given(st.floats(3e-6, 60e-6), st.floats(1e-6, 10e-6))
@settings(max_examples=5, deadline=None)
def test_what_peers_cost_is_told_by_two_numbers_of_ranks(between: float, inside: float) -> None:
    known = of_form((between, inside), 0.0)
    how = {"protocol": "simple"}
    seen = [measured(known, "all-to-all", m, **how) for m in ((1, 4), (2, 4), (8, 4))]
    asked = measured(known, "all-to-all", (64, 4), sizes=SIZES[:12], **how)
    found = predict(fit(bare(nodes=64), seen).system, asked)
    for row, sample in zip(found, asked.samples, strict=True):
        assert row.seconds == pytest.approx(sample.seconds, rel=0.15)


def test_an_all_to_all_pays_for_peers_where_none_was_measured() -> None:
    """Its price among 256 ranks by tables of all-gathers alone, by one protocol: 252 peers, 14 us
    each as the description has it, and 3 inside.
    """
    seen = [measured(calibrated(), "all-gather", m, **RING) for m in ((1, 4), (8, 4))]
    system = fit(bare(nodes=64), seen).system
    asked = measured(calibrated(64), "all-to-all", (64, 4), sizes=(1024,))
    [found] = predict(system, asked)
    assert 252 * 14e-6 < found.seconds < 1.2 * 252 * 14e-6


@given(st.floats(0.0, 0.3))
@settings(max_examples=5, deadline=None)
def test_three_node_counts_determine_the_loss_of_each_doubling(loss: float) -> None:
    known = of_form((0.0, 0.0), loss)
    seen = [measured(known, "all-gather", (m, 4), **RING) for m in (2, 4, 8)]
    asked = measured(known, "all-gather", (64, 4), sizes=LARGE[4:], **RING)
    found = predict(fit(bare(nodes=64), seen).system, asked)
    for row, sample in zip(found, asked.samples, strict=True):
        assert row.seconds == pytest.approx(sample.seconds, rel=0.1)


@given(st.floats(0.1, 1.0))
@settings(max_examples=5, deadline=None)
def test_bandwidth_bound_rows_determine_no_latency(share: float) -> None:
    """From 1 GiB on, at any share of the bandwidth: 1 KiB costs what the description says."""
    slow = replace(bare(), calibration=calibration(shares=(share, share)))
    seen = [
        measured(slow, "all-gather", (8, 4), sizes=[1 << power for power in range(30, 34)], **RING)
    ]
    asked = measured(bare(), "all-gather", (8, 4), sizes=(1024,), **RING)
    [found] = predict(fit(bare(), seen).system, asked)
    launch = Protocol.SIMPLE.launch_seconds
    assert found.seconds == pytest.approx(asked.samples[0].seconds + launch, rel=0.5)


# Of rows that a fit has not seen.


def test_residuals_are_of_rows_that_the_fit_had_not_seen() -> None:
    """Every other size takes half as long again: either half says of the other that it is off."""
    one = scaled(measured(calibrated(), "all-gather", (8, 4), sizes=LARGE, **RING), 1.0, 1.5)
    rows = fit(bare(), [one]).rows
    for number, row in enumerate(rows):
        aim = (1.5, 1 / 1.5)[number % 2]
        assert row.halves_seconds / row.seconds == pytest.approx(aim, rel=0.05)


def test_strays_are_of_tables_that_the_fit_had_not_seen() -> None:
    """A table that is off from all others does not tell how far it is off."""
    seen = [
        measured(calibrated(), "all-gather", members, sizes=LARGE, **RING)
        for members in ((8, 4), (4, 4), (2, 4))
    ]
    far = scaled(measured(calibrated(), "all-gather", (8, 1), sizes=LARGE, **RING), 1.6)
    found = fit(bare(), [*seen, far]).rows
    without = {
        int(said.price.size_bytes): said.seconds for said in predict(fit(bare(), seen).system, far)
    }
    mine = [row for row in found if row.measurement.members == (8, 1)]
    assert len(mine) == len(LARGE)
    for row in mine:
        assert row.tables_seconds == pytest.approx(without[row.size_bytes], rel=0.05)
        assert row.tables_seconds < 0.7 * row.seconds


def test_rows_that_were_dropped_are_not_seen_by_halves_either() -> None:
    one = measured(calibrated(), "all-gather", (8, 4), sizes=LARGE, **RING)
    samples = list(one.samples)
    samples[3] = replace(samples[3], seconds=30 * samples[3].seconds)
    rows = fit(bare(), [replace(one, samples=tuple(samples))]).rows
    assert [row.dropped for row in rows] == [number == 3 for number in range(len(rows))]
    for row in rows:
        if not row.dropped:
            assert row.halves_seconds == pytest.approx(row.seconds, rel=0.02)


# What strays, and by how much.


@given(st.floats(0.3, 0.49) | st.floats(2.05, 30), st.integers(0, 8))
def test_a_row_off_by_more_than_twice_and_alone_is_dropped(times: float, place: int) -> None:
    seconds = np.ones(9)
    seconds[place] = times
    away = find_outliers(np.array(LARGE, dtype=float), seconds, np.ones(9), ONE)
    assert away.tolist() == [number == place for number in range(9)]


@given(st.floats(0.52, 1.9), st.integers(0, 8))
def test_a_row_off_by_less_is_kept(times: float, place: int) -> None:
    seconds = np.ones(9)
    seconds[place] = times
    assert not find_outliers(np.array(LARGE, dtype=float), seconds, np.ones(9), ONE).any()


def test_where_rows_spread_widely_a_row_must_be_farther_off() -> None:
    off = np.array([-0.4, -0.3, -0.2, 0.0, 0.1, 0.2, 0.3, 0.4, 1.2])
    assert not find_outliers(np.full(9, float(CLASSES[-1])), np.exp(off), np.ones(9), ONE).any()


@given(st.floats(3, 400), st.integers(3, 9))
def test_whole_tables_are_never_dropped(times: float, rows: int) -> None:
    """A table of its own that is off beside two of twenty rows that are not."""
    seconds = np.concatenate([np.ones(40), np.full(rows, times)])
    tables = np.repeat([0, 1, 2], [20, 20, rows])
    seconds[7] = 5.0
    away = find_outliers(np.full(len(seconds), 1e9), seconds, np.ones(len(seconds)), tables)
    assert np.flatnonzero(away).tolist() == [7]


@given(st.permutations(range(1, 42)))
@settings(max_examples=20)
def test_residuals_hold_nine_of_ten_rows(order: list[int]) -> None:
    """Of 41 rows the second smallest and the second largest: of 42 new ones 2 lie below."""
    one = measured(calibrated(), "all-gather", (8, 4), sizes=LARGE[:3], **RING)
    way = ("all-gather", "ring", "simple")
    rows = [FittedRow(one, LARGE[0], float(ratio), 1.0, way, halves_seconds=1.0) for ratio in order]
    for found in residuals(rows):
        assert (found.low, found.median, found.high) == (2.0, 21.0, 40.0)


def test_residuals_of_several_shapes_are_of_tables_and_of_one_of_halves() -> None:
    way = ("all-gather", "ring", "simple")
    for shapes, aim in (([(8, 4)], 2.0), ([(8, 4), (4, 4)], 5.0)):
        rows = [
            FittedRow(
                replace(measured(calibrated(), "all-gather", m, sizes=LARGE[:3]), samples=()),
                LARGE[0],
                10.0,
                1.0,
                way,
                halves_seconds=5.0,
                tables_seconds=2.0,
            )
            for m in shapes
            for _ in range(8)
        ]
        own = next(one for one in residuals(rows) if one.collective)
        assert own.median == 10.0 / (2.0 if len(shapes) > 1 else 5.0)
        assert aim == own.median


def test_a_twentieth_of_the_rows_may_lie_outside_on_either_side() -> None:
    """Of 39 rows the second smallest has 2 of 40 new ones below it, which is a twentieth."""
    one = Measurement("all-reduce", (8, 4), (8, 4), ())
    way = ("all-reduce", "ring", "simple")
    rows = [FittedRow(one, 8, float(n), 1.0, way, halves_seconds=1.0) for n in range(1, 40)]
    assert {(found.low, found.high) for found in residuals(rows)} == {(2.0, 38.0)}
