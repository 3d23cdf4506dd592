"""What ``sweep``, ``cost``, ``doctor`` and ``calibrate`` come to, before their tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from markupsafe import Markup

from hierarchies.units import duration
from synth.calibration.logs.tables import busbw_factor
from synth.report.bars import Bar, bars
from synth.report.curves import Lines, bandwidths, speedups
from synth.report.details import answers_of
from synth.tables.style import lacking, many
from synth.verbs.answers import judge
from synth.verbs.answers.degraded import CostReply
from synth.verbs.answers.measured import CalibratedReply, DiagnosedRun, DoctorReply, TestsReply
from synth.verbs.answers.planning import PlanReply, SystemsRankedReply
from synth.verbs.answers.ranked import SweepReply

_MOST_RUNS = 12
"""So many runs are drawn."""


@dataclass(frozen=True)
class Found:
    """A headline, what is said below it, and drawings, each under a heading."""

    headline: str
    said: Sequence[str]
    drawings: Sequence[tuple[str, Markup]]


def found(verb: str, body: Any) -> Found | None:
    """What an answer comes to; None for an answer of any other verb."""
    if verb not in ("sweep", "cost", "doctor", "calibrate"):
        return None
    match judge(verb).validate_python(body):
        case SystemsRankedReply() as several:
            return _systems(several)
        case CostReply() as cost:
            return _cost(cost)
        case DoctorReply() as doctor:
            return _doctor(doctor)
        case CalibratedReply() as calibrated:
            return _calibrated(calibrated)
        case TestsReply() as tests:
            seconds = duration(sum(one.seconds for one in tests.experiments))
            return Found(f"{many(len(tests.experiments), 'test')}, about {seconds} in all", (), ())
    return None


def _systems(several: SystemsRankedReply) -> Found:
    """The fastest; then every system's best over the sizes, or at the one size."""
    names = _names([one.system.name for one in several.systems])
    ranges = {
        name: one
        for name, one in zip(names, several.systems, strict=True)
        if isinstance(one, SweepReply)
    }
    if ranges:
        most = {
            name: max((rate for _, rate in over_sizes(one)), default=0.0)
            for name, one in ranges.items()
        }
        best = max(most, key=lambda name: most[name])
        said = "the best answer of each system, size by size"
        return Found(f"{best} has the most bus bandwidth", (said,), over_sizes_drawn(ranges))
    seconds = {
        name: one.ranking[0].exposed_seconds
        if isinstance(one, PlanReply)
        else answers_of(one)[0].seconds
        for name, one in zip(names, several.systems, strict=True)
        if isinstance(one, PlanReply) or answers_of(one)
    }
    if not seconds:
        return Found("Nothing was found", (), ())
    best = min(seconds, key=lambda name: seconds[name])
    times = [Bar(name, {"time": took}) for name, took in seconds.items()]
    drawn = bars("Time of the best answer", ["time"], times, duration)
    return Found(
        f"{best} is the fastest: {duration(seconds[best])}",
        (),
        [("Machine against machine", drawn)],
    )


def over_sizes_drawn(ranges: Mapping[str, SweepReply]) -> Sequence[tuple[str, Markup]]:
    """Bus bandwidth and speed-up of several answers over sizes, a line for each by its name."""
    rate, gain = "Bus bandwidth against message size", "Speed-up against message size"
    rates: Lines = {name: list(over_sizes(one)) for name, one in ranges.items()}
    gains: Lines = {
        name: [
            (float(size.bytes), size.baseline_seconds / size.seconds)
            for size in sorted(one.sizes, key=lambda size: size.bytes)
            if size.seconds
        ]
        for name, one in ranges.items()
    }
    return [(rate, bandwidths(rate, rates)), (gain, speedups(f"{gain}, over its default", gains))]


def _names(names: Sequence[str]) -> Sequence[str]:
    """The names, told apart by a number where several are the same."""
    return [
        f"{name} ({names[: at + 1].count(name)})" if names.count(name) > 1 else name
        for at, name in enumerate(names)
    ]


def over_sizes(reply: SweepReply) -> Iterator[tuple[float, float]]:
    """Bus bandwidth of the best answer at each size."""
    axes: Mapping[str, int] = reply.stretches[0].first.axes if reply.stretches else {}
    factor = busbw_factor(reply.request.value, prod(axes.get(name, 1) for name in reply.reduce))
    for one in sorted(reply.sizes, key=lambda one: one.bytes):
        if one.seconds:
            yield float(one.bytes), factor * one.bytes / one.seconds / 1e9


def _cost(cost: CostReply) -> Found:
    healthy, same, now = cost.healthy.seconds, cost.same_program_seconds, cost.best.seconds
    what = lacking(cost.system.exceptions) or "the smaller machine"
    longer = f"{now / healthy:.2f} times as long" if healthy else "as long"
    times = {"healthy": healthy, "same program now": same, "the best now": now}
    drawn = bars(
        "Time of a call",
        ["time"],
        [Bar(name, {"time": took}) for name, took in times.items() if took is not None],
        duration,
    )
    said = [f"{what}: a call takes {duration(now)}, where it took {duration(healthy)}"]
    if same is not None and now < same:
        said.append(
            f"another program makes it less: with the same one it would be {duration(same)}"
        )
    return Found(f"{longer[0].upper()}{longer[1:]}", said, [("Healthy and now", drawn)])


def _doctor(doctor: DoctorReply) -> Found:
    short = len({one.source for one in doctor.findings if one.kind in ("short", "level-short")})
    runs = many(len(doctor.runs), "run")
    headline = f"{short} of {runs} below what is expected" if short else f"As expected: {runs}"
    said = [
        one.text + (f" ({' and '.join(one.tests)} of the plan would tell)" if one.tests else "")
        for one in doctor.findings
    ]
    return Found(
        headline,
        said,
        [(one.source, drawn) for one in doctor.runs[:_MOST_RUNS] if (drawn := _run(one))],
    )


def _run(run: DiagnosedRun) -> Markup:
    """Bus bandwidth as measured, as predicted, and that nothing can beat."""
    rows = [one for one in run.rows if not one.in_place] or run.rows
    rates = {
        "measured": [(one.bytes, one.busbw_GB_per_s) for one in rows],
        "predicted": [(one.bytes, one.predicted_busbw_GB_per_s) for one in rows],
        "bound": [(one.bytes, one.bound_busbw_GB_per_s) for one in rows],
    }
    lines: Lines = {
        name: [(float(size), rate) for size, rate in sorted(line) if rate]
        for name, line in rates.items()
    }
    members = " x ".join(map(str, run.members))
    return bandwidths(f"{run.collective} of {members}: bus bandwidth against size", lines)


def _calibrated(answer: CalibratedReply) -> Found:
    off = "" if answer.median_error is None else f", {answer.median_error:.1%} off in the median"
    said = [
        f"ask with {answer.files[0].name} from now on: the description with its calibration",
        *_counted(
            answer.undetermined,
            "is not told by these rows, so priced like what is similar",
            "are not told by these rows, so priced like what is similar",
        ),
        *_counted(answer.dropped, "was not followed by the fit", "were not followed by the fit"),
        *_counted(answer.warnings, "was left out of the logs", "were left out of the logs"),
    ]
    return Found(f"{many(answer.rows, 'measured row')} fitted{off}", said, ())


def _counted(lines: Sequence[str], one: str, several: str) -> Iterator[str]:
    """How many there are of what is listed below; nothing if there is none."""
    if lines:
        yield f"{len(lines)} {one if len(lines) == 1 else several}: see below"
