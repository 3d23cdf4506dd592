"""Rows of rankings in words: the figures that no other room knows, and what is left unsaid."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from hierarchies import Axis, System, load, placements
from hierarchies.units import format_bytes, format_duration
from machines import precise
from synth.ask.answers.ranked import RankingReply, SweepReply
from synth.collective.algorithms.algorithms import Choice
from synth.collective.price.resolution import FINEST
from synth.collective.ranking.advice import rank_with_advice
from synth.collective.ranking.planner import answers
from synth.collective.ranking.request import DefaultComparison, Request
from synth.collective.ranking.sizes import sweep
from synth.collective.semantics.programs import Language
from synth.measure.calibration.typical import apply_typical
from synth.show.report.details import answers_of
from synth.show.terminal.deciding import find_deciding_runs, is_wide
from synth.show.terminal.rows import (
    bus_bandwidth,
    default_by_size,
    default_rows,
    ranked_table,
    rows,
    stripe,
    stripe_lines,
)


def test_bus_bandwidth_is_as_nccl_tests_count_it() -> None:
    assert bus_bandwidth("all-reduce", 1e9, 1e-2, 8) == "175 GB/s"
    assert bus_bandwidth("all-gather", 1e9, 1e-2, 8) == "87.5 GB/s"
    assert bus_bandwidth("broadcast", 1e9, 1e-2, 8) == "100 GB/s"
    assert bus_bandwidth("reduce", 1e9, 0.0, 8) == "-"


@pytest.mark.parametrize(
    ("program", "segments", "share", "lines"),
    [
        ("", [1], "", "(nothing to do)"),
        ("one; two", [1, 1], "", "one;\ntwo"),
        ("one", [4], "", "one\nin 4 segments"),
        ("one", [1, 4], "30%", "30% by\none\nin 1 to 4 segments"),
        ("one", [4, 1], "", "one\nin 1 to 4 segments"),
    ],
)
def test_only_existing_parts_of_a_program_are_described(
    program: str, segments: list[int], share: str, lines: str
) -> None:
    assert stripe_lines([stripe(program, segments, share)]) == lines


def ranking(system: System, payload: int, **how: Any) -> RankingReply:
    axes = (Axis("data", system.devices),)
    request = Request(axes, ("data",), payload, 2, Language(3), **how)
    return RankingReply.of(answers(system, request), explain=False)


def test_an_algorithm_is_named_where_it_is_the_difference() -> None:
    """NCCL's model takes a ring: a tree is told by its name, and how often it is as fast."""
    first, *_ = rows(ranking(precise("p2-a100:4", 0.15), 2**20, stripes=False))
    assert (first.stripes[0].steps, first.by) == (("all-reduce root inside",), "by tree, LL128")
    assert float(first.speedup[0].rstrip("x")) > 1.25
    plain = rows(ranking(load("dgx-h100:1"), 2**30, stripes=False))[0]
    assert (plain.by, plain.speedup) == ("", ("tie",))


def test_over_a_range_both_ends_have_their_interval() -> None:
    system = apply_typical(load("dgx-h100:2"))
    request = Request((Axis("data", 16),), ("data",), 2**20, 1, Language(1), stripes=False)
    reply = SweepReply.of(sweep(system, request, 2**20, 2**24))
    for row, stretch in zip(rows(reply), reply.stretches, strict=True):
        ends = [stretch.first, stretch.last]
        found = [one.default if stretch.keeps_default else one for one in ends]
        assert row.intervals == tuple(
            tuple(map(format_duration, one.interval_seconds or ())) for one in found
        )
        shown = Console(width=200, no_color=True)
        with shown.capture() as drawn:
            shown.print(ranked_table([row], "time"))
        said = "(%s to %s) to %s (%s to %s)"
        figures = (*row.intervals[0], row.time[-1], *row.intervals[1])
        assert said % figures in " ".join(drawn.get().split())


def test_neighbouring_rows_of_a_range_differ() -> None:
    """Where no program gains, as far as prices tell, there is one row, and it is the default's."""
    system = precise("dgx-h100:4")
    request = Request((Axis("data", 32),), ("data",), 2**20, 1, Language(3), stripes=False)
    reply = SweepReply.of(sweep(system, request, 2**20, 2**32))
    found = rows(reply)
    assert len(found) > 2
    for one, other in pairwise(found):
        assert (one.stripes, one.by, one.speedup) != (other.stripes, other.by, other.speedup)
    kept = [(row, one) for row, one in zip(found, reply.stretches, strict=True) if row.proof == ""]
    assert kept
    for row, one in kept:
        assert (row.speedup, row.by) == (("tie",), "keep the default")
        ends = (one.first.baseline_seconds, one.last.baseline_seconds)
        assert row.time == tuple(map(format_duration, ends))
        inside = [at for at in reply.sizes if one.from_bytes <= at.bytes <= one.until_bytes]
        assert not any(at.worth_measuring for at in inside)


def test_deciding_runs_use_a_size_of_their_row() -> None:
    system = apply_typical(load("dgx-h100:4"))
    axes = (Axis("data", 8), Axis("tensor", 4))
    matrix = ((4, 2), (1, 4))
    request = Request(axes, ("data",), 2**20, 1, Language(1), placement=matrix, stripes=False)
    reply = SweepReply.of(sweep(system, request, 2**14, 2**20))
    found, runs = rows(reply), find_deciding_runs(reply)
    assert runs
    for index, one in enumerate(answers_of(reply)):
        shown = [run.worth for run in runs if run.row == index]
        assert [one.worth_measuring] == (shown or [None]) or not is_wide(reply, index)
    for run in runs:
        title, _, size = run.name.partition(", at ")
        assert title == " to ".join(found[run.row].title)
        assert size in {format_bytes(each.bytes) for each in reply.sizes}
        assert found[run.row].speedup[0].endswith("x?")


def test_the_default_is_reported_by_size_and_where_it_changes() -> None:
    """Beside what is asked of each size by itself."""
    system = apply_typical(load("dgx-h100:2"))
    request = Request((Axis("data", 16),), ("data",), 2**20, 1, Language(1), stripes=False)
    reply = SweepReply.of(sweep(system, request, 2**12, 2**26))
    alone = {
        size: answers(system, replace(request, payload_bytes=size)).answers[0].defaults
        for size in (one.bytes for one in reply.sizes)
    }
    told = {one.bytes: (one.default_name, one.default_protocol) for one in reply.sizes}
    assert told == {size: (one.chosen, one.protocol) for size, one in alone.items()}
    changes = default_by_size(reply)
    pairs = list(pairwise(told.values()))
    assert len(changes) == 1 + sum(before != after for before, after in pairs) > 1
    assert changes[0].endswith("from 4 KiB")


def test_the_default_comes_first_if_it_is_advised_and_in_no_row() -> None:
    torus = ranking(load("tpu-v5e-slice"), 2**30)
    [row] = default_rows(torus)
    assert row.by == "by xla: keep the default"
    assert row.time == (format_duration(torus.answers[0].baseline_seconds),)
    assert default_rows(ranking(load("dgx-h100:1"), 2**30, stripes=False)) == []
    assert default_rows(ranking(precise("p2-a100:4"), 2**30, stripes=False)) == []


@pytest.mark.parametrize("name", ["dgx1-v100", "aws-p4d:2"])
def test_the_default_is_one_row_also_where_others_come_before_it(name: str) -> None:
    """The plain collective by the runtime's own way is the default: its row says so."""
    reply = ranking(apply_typical(load(name)), 2**28)
    plain = [
        row for row in rows(reply) if row.time == (format_duration(reply.best_default_seconds),)
    ]
    [by] = [row.by for row in plain]
    assert by in ("", "by ring: the default", "by tree: the default")
    assert default_rows(reply) == []


def test_programs_no_runtime_offers_have_no_speedup() -> None:
    first, *_ = rows(ranking(load("dgx-h100:16"), 2**16, stripes=False, choice=Choice.ANY))
    assert first.speedup == ("none",)


def test_rows_without_a_variable_show_the_time_of_the_runtime() -> None:
    """All-reduces inside nodes by rings, between them by a tree: one process knows one way."""
    system, axes = apply_typical(load("dgx-h100:4")), (Axis("data", 8), Axis("model", 4))
    asked = Request(axes, ("data",), 2**16, 3, Language(3), stripes=False)
    reply = RankingReply.of(rank_with_advice(system, asked), explain=False)
    told = [
        (one, row)
        for one, row in zip(reply.answers, rows(reply), strict=True)
        if one.calls and not one.calls.environment and one.calls.own_seconds > 1.05 * one.seconds
    ]
    assert told
    for one, row in told:
        assert one.calls
        assert one.runtime_seconds == pytest.approx(one.calls.own_seconds)
        assert one.speedup == pytest.approx(one.baseline_seconds / one.runtime_seconds)
        worth = one.worth_measuring
        assert row.speedup[0] in ("tie", "none", f"{one.speedup:.2f}x", f"{one.speedup:.2f}x?")
        assert worth is None or worth.speedup == pytest.approx(one.speedup)
        assert row.as_run == (format_duration(one.runtime_seconds),)
        assert one.against_default is not DefaultComparison.FASTER or one.speedup > 1 + FINEST
    assert {row.as_run for row in rows(reply) if row not in [row for _, row in told]} == {()}


@pytest.mark.parametrize("name", ["dgx-h100:4", "p2-v100:2"])
def test_speed_ups_of_several_placements_are_over_the_best_default_of_them_all(name: str) -> None:
    """Each placement asked for by itself has its own default; the fastest is what all are told by.

    So of two rows with a speed-up that with the larger one is the faster, wherever it lies.
    """
    system, axes = load(name), (Axis("data", load(name).devices // 4), Axis("model", 4))
    request = Request(axes, ("data",), 2**30, 2, Language(3), stripes=False, per_placement=True)
    reply = RankingReply.of(answers(system, request), explain=False)
    alone = [
        answers(system, replace(request, placement=one.matrix, per_placement=False, k=1))
        for one in placements(system.hierarchy, axes)
    ]
    best = min(one.answers[0].baseline_seconds for one in alone)
    told = [
        (float(row.speedup[0].rstrip("x")), one.runtime_seconds)
        for row, one in zip(rows(reply), reply.answers, strict=True)
        if row.speedup[0].endswith("x")
    ]
    assert len({str(one.placement) for one in reply.answers}) == len(alone) > 1
    assert any(row.slower for row in rows(reply))
    for speedup, seconds in told:
        assert speedup == pytest.approx(best / seconds, abs=0.006)
    assert [row.time[0] for row in default_rows(reply)] in ([], [format_duration(best)])


@given(st.floats(1e-9, 1e5))
def test_times_have_three_digits_and_no_exponent(seconds: float) -> None:
    number, unit = format_duration(seconds).split()
    value = float(number) * {"s": 1.0, "ms": 1e-3, "us": 1e-6}[unit]
    assert value == pytest.approx(seconds, rel=0.00501)
    assert len(number.lstrip("0.").replace(".", "")) <= 3 or seconds >= 999.5
    assert float(number) < 1000 or unit == "s"
    assert "e" not in number or seconds < 1e-10
