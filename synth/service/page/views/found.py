"""Summaries of the answers of ``sweep``, ``cost``, ``doctor``, ``calibrate``, swept ``plan``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from markupsafe import Markup

from hierarchies.units import format_duration
from synth.ask.answers.degraded import CostReply
from synth.ask.answers.measured import (
    FIT_HEADING,
    LOOK_HEADING,
    CalibratedReply,
    DiagnosedRun,
    DoctorReply,
    TestsReply,
)
from synth.ask.answers.planning import SystemsRankedReply
from synth.ask.answers.ranked import SweepReply
from synth.ask.answers.training.swept import PlanSweepReply
from synth.ask.table import judge
from synth.show.report.charts import StackedBar, draw_bars
from synth.show.report.curves import Lines, draw_bandwidths, draw_speedups
from synth.show.report.summaries import AnswerView, view_sweep
from synth.show.terminal.headlines import bandwidths_by_size, headline_of, ranges_of, seconds_of
from synth.show.terminal.measured import (
    ambiguity_lines,
    carried_share_lines,
    fault_lines,
    tests_to_run,
    unexpected_size_lines,
)
from synth.show.terminal.style import faults_text

_MOST_RUNS = 12
"""How many runs are drawn."""
_CALIBRATE = "/ask/calibrate"
_TESTS = "Print the tests that distinguish them", "/ask/tests"
_RUN_TESTS_LINKS = ((LOOK_HEADING, "/ask/doctor"), (FIT_HEADING, _CALIBRATE))
_CALIBRATED_LINKS = (
    ("Ask for a collective on this machine", "/"),
    ("Plan a step on it", "/plan"),
    ("Check other logs of it", "/ask/doctor"),
)


def view_of_answer(verb: str, body: Any) -> AnswerView | None:
    """Return the summary of an answer; None for other verbs."""
    if verb not in ("sweep", "cost", "doctor", "calibrate", "plan"):
        return None
    if verb == "plan" and "swept" not in body:
        return None
    match judge(verb).validate_python(body):
        case PlanSweepReply() as swept:
            return view_sweep(swept)
        case SystemsRankedReply() as ranked:
            return _systems(ranked)
        case CostReply() as cost:
            return _cost(cost)
        case DoctorReply() as doctor:
            return _doctor(doctor)
        case CalibratedReply() as calibrated:
            return _calibration_view(calibrated)
        case TestsReply() as tests:
            return AnswerView(headline_of(tests), (), (), _RUN_TESTS_LINKS)
    return None


def _systems(ranked: SystemsRankedReply) -> AnswerView:
    """Return the fastest system, then the best answer of each over the sizes or at the one size."""
    if ranges := ranges_of(ranked):
        lines = "the best answer of each system by size"
        return AnswerView(headline_of(ranked), (lines,), draw_over_sizes(ranges))
    times = [StackedBar(name, {"time": seconds}) for name, seconds in seconds_of(ranked).items()]
    drawn = draw_bars("Time of the best answer", ["time"], times, format_duration)
    drawings = [("Machine against machine", drawn)] if times else []
    return AnswerView(headline_of(ranked), (), drawings)


def draw_over_sizes(ranges: Mapping[str, SweepReply]) -> Sequence[tuple[str, Markup]]:
    """Draw bus bandwidth and speed-up of several answers over sizes, one line for each."""
    rate, gain = "Bus bandwidth against message size", "Speed-up against message size"
    rates: Lines = {name: list(bandwidths_by_size(sweep)) for name, sweep in ranges.items()}
    gains: Lines = {
        name: [
            (float(size.bytes), size.baseline_seconds / size.seconds)
            for size in sorted(sweep.sizes, key=lambda size: size.bytes)
            if size.seconds
        ]
        for name, sweep in ranges.items()
    }
    return [
        (rate, draw_bandwidths(rate, rates)),
        (gain, draw_speedups(f"{gain}, over its default", gains)),
    ]


def _cost(cost: CostReply) -> AnswerView:
    healthy, same, now = cost.healthy.seconds, cost.same_program_seconds, cost.best.seconds
    faults = faults_text(cost.system.exceptions) or "the smaller machine"
    times = {"healthy": healthy, "same program now": same, "best now": now}
    drawn = draw_bars(
        "Time of a call",
        ["time"],
        [
            StackedBar(name, {"time": seconds})
            for name, seconds in times.items()
            if seconds is not None
        ],
        format_duration,
    )
    lines = [f"{faults}: a call takes {format_duration(now)} instead of {format_duration(healthy)}"]
    if same is not None and now < same:
        lines.append(f"with the same program it would take {format_duration(same)}")
    return AnswerView(headline_of(cost), lines, [("Healthy and now", drawn)])


def _doctor(doctor: DoctorReply) -> AnswerView:
    lines = [
        finding.text + (f" ({' and '.join(finding.tests)} would decide)" if finding.tests else "")
        for finding in doctor.findings
    ]
    lines += [*doctor.left_out, *tests_to_run(doctor.findings), *fault_lines(doctor.findings)]
    tests = [_TESTS] if any(finding.tests for finding in doctor.findings) else []
    return AnswerView(
        headline_of(doctor),
        lines,
        [(run.source, drawn) for run in doctor.runs[:_MOST_RUNS] if (drawn := _run(run))],
        [*tests, ("Calibrate with these logs", _CALIBRATE)],
    )


def _run(run: DiagnosedRun) -> Markup:
    """Draw bus bandwidth: measured, before if known, predicted, and its upper bound."""
    rows = [row for row in run.rows if not row.in_place] or run.rows
    before: list[tuple[int, float | None]] = [
        (row.bytes, row.busbw_GB_per_s * row.seconds / row.before_seconds)
        for row in rows
        if row.before_seconds and row.busbw_GB_per_s
    ]
    rates: dict[str, list[tuple[int, float | None]]] = {
        "measured": [(row.bytes, row.busbw_GB_per_s) for row in rows],
        **({"before": before} if before else {}),
        "predicted": [(row.bytes, row.predicted_busbw_GB_per_s) for row in rows],
        "bound": [(row.bytes, row.bound_busbw_GB_per_s) for row in rows],
    }
    lines: Lines = {
        name: [(float(size), rate) for size, rate in sorted(line) if rate]
        for name, line in rates.items()
    }
    members = " x ".join(map(str, run.members))
    return draw_bandwidths(f"{run.collective} of {members}: bus bandwidth against size", lines)


def _calibration_view(answer: CalibratedReply) -> AnswerView:
    since = "to see the cost of that" if answer.short else "from now on"
    lines = [
        *fault_lines(answer.short),
        *ambiguity_lines(answer),
        *carried_share_lines(answer),
        *unexpected_size_lines(answer),
        f"ask with {answer.files[0].name} {since}: the description with its calibration",
        *_count_lines(
            answer.undetermined,
            "is not determined by these rows, so it is priced like similar links",
            "are not determined by these rows, so they are priced like similar links",
        ),
        *_count_lines(
            answer.dropped, "was not followed by the fit", "were not followed by the fit"
        ),
        *_count_lines(answer.warnings, "was left out of the logs", "were left out of the logs"),
    ]
    return AnswerView(headline_of(answer), lines, (), _CALIBRATED_LINKS)


def _count_lines(lines: Sequence[str], singular: str, plural: str) -> Iterator[str]:
    """Yield a line with the number of lines listed below; nothing if there are none."""
    if lines:
        yield f"{len(lines)} {singular if len(lines) == 1 else plural}: see below"
