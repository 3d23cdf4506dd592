"""A calibration claims as measured only what was known to run, and no width that rows cannot tell.

Where the runtime chose, a fit assigns a way to every row. That is an explanation, not a
measurement: only the runtime's own choice at a size was measured.
"""

from __future__ import annotations

from dataclasses import replace
from math import exp, log, sqrt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grammar import Goal
from hierarchies import Axis, MeasuredRange, load
from hierarchies.calibration import NORMAL_MARGIN
from machines import bare, calibrated, measured, predict
from shared import shared
from synth.collective.price.intervals import explain_unmeasured, widening_ratios
from synth.collective.ranking.planner import answers
from synth.collective.ranking.request import Request
from synth.collective.semantics.programs import Language
from synth.measure.calibration.fit import fit
from synth.measure.calibration.measurements import FEWEST_SIZES, Measurement
from synth.measure.calibration.prior import noise
from synth.measure.calibration.residuals import CLASSES, FittedRow, measured_ranges, residuals
from synth.measure.logs.matching import match_log
from synth.measure.logs.reading import parse_logs
from synth.measure.logs.text import read_log_text

HOWS = [("ring", "simple"), ("ring", "ll"), ("tree", "simple"), ("tree", "ll")]


def assigned(ways: list[tuple[str, str]], forced: bool) -> list[FittedRow]:
    """Rows of ascending sizes, each assigned to a way."""
    one = Measurement("all-reduce", (8, 4), (8, 4), ())
    return [
        FittedRow(one, 1 << (10 + at), 1.0, 1.0, ("all-reduce", *way), forced=forced)
        for at, way in enumerate(ways)
    ]


@given(st.lists(st.sampled_from(HOWS), min_size=1, max_size=12), st.data())
def test_where_the_runtime_chose_one_way_is_measured_at_a_size(
    ways: list[tuple[str, str]], data: st.DataObject
) -> None:
    """The way of the largest row that is not larger; none outside of the rows."""
    rows = assigned(ways, forced=False)
    known = measured_ranges(rows)
    size = data.draw(st.integers(512, 2 << (10 + len(ways))))
    at = size.bit_length() - 1 - 10
    covering = [
        how for how in HOWS if any(one.covers("all-reduce", how, (8, 4), size) for one in known)
    ]
    inside = 1 << 10 <= size <= rows[-1].size_bytes
    assert covering == ([ways[at]] if inside else [])


@given(st.lists(st.sampled_from(HOWS), min_size=1, max_size=12))
def test_where_the_algorithm_was_forced_its_rows_are_measured(ways: list[tuple[str, str]]) -> None:
    [known] = measured_ranges(assigned(ways, forced=True))
    assert known.forced
    assert {*known.ways} == {*ways}
    for how in HOWS:
        for size in (known.smallest_bytes, known.largest_bytes):
            assert known.covers("all-reduce", how, (8, 4), size) == (how in ways)


@pytest.mark.parametrize("algorithm", [None, "ring", "tree"])
def test_only_what_was_forced_is_listed_as_measured(algorithm: str | None) -> None:
    """Both algorithms are possible; of a collective with one only, the runtime needs no force."""
    log = measured(calibrated(4, 4), "all-reduce", (4, 4), noise=0.05, algorithm=algorithm)
    gather = measured(calibrated(4, 4), "all-gather", (4, 4), noise=0.05)
    system = fit(bare(4, 4), [log, gather]).system
    assert system.calibration
    for one in system.calibration.measured:
        assert one.forced == (one.collective == "all-gather" or algorithm is not None)
    for way in ("ring", "tree"):
        asked = replace(log, algorithm=way)
        default = replace(log, algorithm=None)
        rows = zip(predict(system, asked), predict(system, default), strict=True)
        for forced, chosen in rows:
            stated = f"all-reduce by {way} was not measured" in explain_unmeasured(
                system, [forced.price]
            )
            assert stated == (way != (algorithm or chosen.way))


def test_what_the_runtime_did_not_choose_is_as_uncertain_as_what_nobody_ran() -> None:
    log = measured(calibrated(4, 4), "all-reduce", (4, 4), noise=0.02)
    found = fit(bare(4, 4), [log]).calibration
    for one in found.measured:
        [(algorithm, _)] = one.ways
        other = "tree" if algorithm == "ring" else "ring"
        for size in (one.smallest_bytes, one.largest_bytes):
            stray = found.stray(("all-reduce", other, "simple"), (4, 4), size)
            assert stray
            assert found.stray(("all-reduce", *one.ways[0]), (4, 4), size) is None
            low, high = widening_ratios(found, ("all-reduce", other, "simple"), (4, 4), size)
            assert low <= stray.low < 1 < stray.high <= high


def test_one_log_of_the_default_advises_no_algorithm_that_nobody_ran() -> None:
    """Nothing faster than what ran is claimed from that log, however trees are priced."""
    system = load("aws-p4d:2")
    path = shared("nccl-tests-logs", "aws-p4d-a100-efa-2x8-allreduce-1.txt")
    [log] = parse_logs(read_log_text(path), path.name)
    known = fit(system, [match_log(system, log).measurement]).system
    for size in (1 << 20, 1 << 26, 1 << 30):
        request = Request(
            (Axis("data", 16),), ("data",), size, 1, Language(1, goal=Goal.ALL_REDUCE)
        )
        [best] = answers(known, request).answers
        assert best.runtime_seconds <= best.baseline_seconds
        assert not best.gains
        assert (
            "not measured here" in best.not_measured
            or "cannot be distinguished" in best.not_measured
        )


@given(
    st.sampled_from(CLASSES),
    st.lists(st.floats(0.5, 2), min_size=1, max_size=12),
    st.integers(1, 4),
)
def test_few_sizes_keep_at_least_the_expected_spread(
    smallest: int, ratios: list[float], sizes: int
) -> None:
    one = Measurement("all-reduce", (8, 4), (8, 4), ())
    way = ("all-reduce", "ring", "simple")
    rows = [
        FittedRow(one, max(smallest, 1) + at % sizes, ratio, 1.0, way, halves_seconds=1.0)
        for at, ratio in enumerate(ratios)
    ]
    found = residuals(rows)[-1]
    few = min(len(ratios), sizes)
    narrowest = NORMAL_MARGIN * noise(smallest) * sqrt(1 + 1 / few)
    width = min(log(found.high / found.median), log(found.median / found.low))
    if few < FEWEST_SIZES:
        assert width >= narrowest * (1 - 1e-4)
    if len({*ratios}) == 1:
        aim = exp(2 * narrowest * (few < FEWEST_SIZES))
        assert found.high / found.low == pytest.approx(aim, rel=1e-4)


@pytest.mark.parametrize("kept_from", ["ring", "tree"])
def test_an_algorithm_that_the_runtime_was_kept_from_did_not_run(kept_from: str) -> None:
    """Where one is left it is known to have run, as if it had been forced."""
    other = "tree" if kept_from == "ring" else "ring"
    asked = measured(calibrated(4, 4), "all-reduce", (4, 4), algorithm=other)
    log = replace(asked, algorithm=None, without=(kept_from,))
    assert all(said.way == other for said in predict(bare(4, 4), log))
    found = fit(bare(4, 4), [log]).calibration
    assert {one.forced for one in found.measured} == {True}
    assert {way for one in found.measured for way, _ in one.ways} == {other}


def test_several_ways_of_one_range_count_as_measured_only_if_forced() -> None:
    """As files of older versions list them: all ways that the fit assigned, over all sizes."""
    both = MeasuredRange("all-reduce", (8, 4), (("ring", "ll"), ("tree", "ll")), 8, 1 << 30)
    for how in both.ways:
        assert not both.covers("all-reduce", how, (8, 4), 1 << 20)
        assert replace(both, forced=True).covers("all-reduce", how, (8, 4), 1 << 20)
