"""Calibrations of machines that are known: the fit finds them again, and says what it cannot."""

from __future__ import annotations

import re
from dataclasses import replace
from math import nan

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hierarchies import Calibration, Crossing, Fit, InputError, load
from machines import SIZES, bare, calibrated, calibration, measured, predict
from synth.measure.calibration.fit import fit
from synth.measure.calibration.measurements import SEND_RECEIVE, Measurement, Sample
from synth.measure.calibration.residuals import find_unexpected

FORCED = [("ring", protocol) for protocol in ("simple", "ll", "ll128")]


def every(noise: float) -> list[Measurement]:
    """Rings forced, on groups of three shapes: what tells every number of their ways."""
    return [
        measured(
            calibrated(),
            "all-reduce",
            members,
            noise=noise,
            algorithm=algorithm,
            protocol=protocol,
            seed=seed,
        )
        for seed, members in enumerate([(1, 4), (1, 2), (8, 1), (2, 1), (8, 4)])
        for algorithm, protocol in FORCED
    ]


@pytest.mark.parametrize("noise", [0.0, 0.03])
def test_a_fit_recovers_the_numbers_that_rows_determine(noise: float) -> None:
    found = fit(bare(), every(noise)).calibration
    for known in calibration().fits:
        told = found.fit("all-reduce", "ring", known.protocol)
        assert told
        assert told.launch_seconds == pytest.approx(known.launch_seconds, rel=0.1 + 2 * noise)
        for level, aim in zip(told.levels, known.levels, strict=True):
            assert level.share == pytest.approx(aim.share, rel=0.02 + noise)
            assert level.hop_seconds == pytest.approx(aim.hop_seconds, rel=0.1 + 3 * noise)


@given(
    st.floats(3e-6, 40e-6),
    st.floats(2e-6, 30e-6),
    st.floats(0.3, 1.0),
    st.floats(0.3, 1.0),
    st.integers(0, 1000),
)
@settings(max_examples=8, deadline=None)
def test_prices_of_unseen_sizes_and_nodes_are_as_near_as_the_noise(
    launch: float, hop: float, outer: float, inner: float, seed: int
) -> None:
    hops = ((hop, hop / 4), (hop / 4, hop / 16), (hop / 3, hop / 8))
    known = calibration((launch, launch / 3, launch / 2), hops, (outer, inner))
    machine = replace(bare(), calibration=known)
    seen = [
        measured(machine, collective, members, noise=0.02, seed=seed, sizes=SIZES[::2])
        for collective in ("all-reduce", "all-gather")
        for members in ((1, 4), (2, 4), (8, 4))
    ]
    found = fit(bare(), seen).system
    unseen = measured(machine, "all-gather", (4, 4), sizes=SIZES[1::2])
    large = [
        abs(row.seconds / sample.seconds - 1)
        for row, sample in zip(predict(found, unseen), unseen.samples, strict=True)
        if sample.size_bytes >= 1 << 24
    ]
    assert max(large) < 0.1


def test_a_few_rows_far_off_change_little_and_are_named() -> None:
    rows = every(0.01)
    spoilt = rows[0]
    samples = list(spoilt.samples)
    for place in (4, 15, 25):
        samples[place] = replace(samples[place], seconds=20 * samples[place].seconds)
    spoilt = replace(spoilt, samples=tuple(samples))
    found = fit(bare(), [spoilt, *rows[1:]])
    told = found.calibration.fit("all-reduce", "ring", "simple")
    assert told
    assert told.levels[0].share == pytest.approx(0.9, rel=0.03)
    assert told.levels[1].share == pytest.approx(0.8, rel=0.03)
    assert len(found.calibration.dropped) == 3
    assert all(
        spoilt.source in line and "times the fitted" in line for line in found.calibration.dropped
    )
    assert [row.dropped for row in found.rows].count(True) == 3


@pytest.mark.parametrize("times", [0.4, 1.0, 1.05, 2.0])
def test_one_outlying_size_is_reported_although_it_widens_intervals(times: float) -> None:
    """Nothing else is, nor one that is no farther off than others."""
    rows = measured(calibrated(), "all-reduce", (8, 4), noise=0.01, algorithm="ring")
    at = SIZES.index(1 << 22)
    one = replace(rows.samples[at], seconds=times * rows.samples[at].seconds)
    samples = (*rows.samples[:at], one, *rows.samples[at + 1 :])
    found = fit(bare(), [replace(rows, samples=samples)])
    told = [each.row.size_bytes for each in find_unexpected(found.calibration, found.rows)]
    assert told == ([] if 0.9 < times < 1.1 else [1 << 22])


def test_steps_between_protocols_do_not_spoil_the_bandwidth() -> None:
    seen = [
        measured(calibrated(), "all-gather", members, noise=0.02) for members in ((8, 4), (4, 4))
    ]
    told = fit(bare(), seen).calibration.fit("all-gather", "ring", "simple")
    assert told
    assert told.levels[0].share == pytest.approx(0.9, rel=0.04)


def test_what_the_rows_cannot_tell_is_said() -> None:
    one = measured(calibrated(), "all-reduce", (1, 4), algorithm="ring", protocol="simple")
    said = "\n".join(fit(bare(), [one]).calibration.undetermined)
    assert "no row crosses level 'node'" in said
    assert "no row went by protocol ll128" in said
    assert "one sum of launch and hop of level 'gpu'" in said


def test_levels_that_no_row_crosses_stay_as_described() -> None:
    one = measured(calibrated(), "all-reduce", (1, 4))
    found = fit(bare(), [one]).calibration
    for each in found.fits:
        node, described = each.levels[0], {"simple": 14e-6, "ll": 2.7e-6, "ll128": 4e-6}
        assert node.hop_seconds == pytest.approx(described[each.protocol])


def test_two_shapes_tell_launch_from_hop() -> None:
    seen = [
        measured(calibrated(), "all-reduce", members, algorithm="ring", protocol="simple")
        for members in ((1, 4), (1, 2))
    ]
    assert not any("one sum" in line for line in fit(bare(), seen).calibration.undetermined)


def test_unforced_rows_go_the_fastest_way() -> None:
    rows = fit(bare(), [*every(0.0), measured(calibrated(), "all-reduce", (8, 4))]).rows
    chosen = [row.way for row in rows if row.measurement.algorithm is None]
    assert chosen[0][2] == "ll"
    assert chosen[-1][1:] == ("ring", "simple")


def test_sends_around_a_circle_use_one_port_of_a_node() -> None:
    around = measured(calibrated(), SEND_RECEIVE, (2, 4), sizes=(1 << 26, 1 << 28, 1 << 30))
    last = around.samples[-1]
    assert last.size_bytes / last.seconds == pytest.approx(0.9 * 25e9, rel=0.01)


def row(*samples: Sample, members: tuple[int, ...] = (1, 4), **more: str) -> Measurement:
    return Measurement("all-reduce", members, members, samples, source="a.txt", **more)


def three(**more: object) -> tuple[Sample, ...]:
    return tuple(Sample(8 << i, 1e-5 * (1 + i)) for i in range(3))


BAD = {
    "nothing": ([], "nothing to fit"),
    "few sizes": ([row(*three()[:2])], "2 sizes of all-reduce"),
    "zero": ([row(*three(), Sample(1024, 0.0))], "0.0 s for 1024 bytes"),
    "nan": ([row(*three(), Sample(1024, nan))], "nan s for 1024 bytes"),
    "negative": ([row(*three(), Sample(1024, -1.0))], "-1.0 s"),
    "row twice": ([row(*three(), three()[0])], "1 sizes stand twice, the first of 8 bytes"),
    "table twice": ([row(*three()), row(*three())], "stand here again"),
    "too many ranks": ([row(*three(), members=(1, 8))], "8 of the 4 children of level 'gpu'"),
    "another depth": ([row(*three(), members=(4,))], "on 1 levels of known"),
    "one rank": ([row(*three(), members=(1, 1))], "groups of one rank"),
    "an algorithm": ([row(*three(), algorithm="rings")], "no algorithm 'rings'"),
    "a protocol": ([row(*three(), protocol="LL256")], "no protocol 'LL256'"),
    "no such thing": ([row(*three(), algorithm="NVLS")], "cannot be carried out"),
    "uneven": (
        [Measurement("all-reduce", (1, 2), (1, 3), three(), source="a.txt")],
        "groups of 2 among the 3",
    ),
    "a collective": (
        [Measurement("all-reduced", (1, 4), (1, 4), three(), source="a.txt")],
        "no collective 'all-reduced'",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_what_cannot_be_fitted_is_said(name: str) -> None:
    rows, said = BAD[name]
    with pytest.raises(InputError, match=re.escape(said)):
        fit(bare(), rows)


def test_rows_of_0_bytes_are_ignored() -> None:
    with_none = row(Sample(0, 0.0), *three())
    assert fit(bare(), [with_none]).calibration == fit(bare(), [row(*three())]).calibration


def test_fewer_gpus_than_a_node_has() -> None:
    """Five of eight: the level is priced as if it had five."""
    machine = load("dgx-a100:1")
    known = calibration()
    seen = Measurement(
        "all-gather", (1, 5), (1, 5), tuple(Sample(size, 1.0) for size in SIZES), source="5"
    )
    truth = predict(replace(machine, calibration=known), seen)
    seen = replace(
        seen,
        samples=tuple(
            Sample(*each) for each in zip(SIZES, (r.seconds for r in truth), strict=True)
        ),
    )
    again = predict(fit(machine, [seen]).system, seen)
    assert all(abs(a.seconds / b.seconds - 1) < 0.1 for a, b in zip(again, truth, strict=True))


def test_a_calibration_before_is_not_looked_at() -> None:
    rows = every(0.0)[:3]
    wrong = Calibration((Fit("simple", (Crossing(1.0, 0.1),) * 2, 1.0),), ())
    assert (
        fit(replace(bare(), calibration=wrong), rows).calibration == fit(bare(), rows).calibration
    )
