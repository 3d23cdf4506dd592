"""What ``sweep``, ``cost``, ``doctor`` and ``calibrate`` come to, before their tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from hierarchies.units import duration
from synth.ask.answers import judge
from synth.ask.answers.degraded import CostReply
from synth.ask.answers.measured import CalibratedReply, DiagnosedRun, DoctorReply, TestsReply
from synth.ask.answers.planning import SystemsRankedReply
from synth.ask.answers.ranked import SweepReply
from synth.measure.calibration.experiments import FIT, LOOK
from synth.show.report.bars import Bar, bars
from synth.show.report.curves import Lines, bandwidths, speedups
from synth.show.terminal.headlines import headline_of, over_sizes, ranges_of, seconds_of
from synth.show.terminal.measured import carried, of_a_fault, to_run, unexpected, untold
from synth.show.terminal.style import lacking

_MOST_RUNS = 12
"""So many runs are drawn."""
_CALIBRATE = "/ask/calibrate"
_TESTS = "Print the tests that tell them apart", "/ask/tests"
_TESTED = ((LOOK, "/ask/doctor"), (FIT, _CALIBRATE))
_MEASURED = (
    ("Ask for a collective on this machine", "/"),
    ("Plan a step on it", "/plan"),
    ("Look at other logs of it", "/ask/doctor"),
)


@dataclass(frozen=True)
class Found:
    """A headline, what is said below it, and drawings, each under a heading.

    ``onward``: what may be asked next on the same machine, and the form that asks it.
    """

    headline: str
    said: Sequence[str]
    drawings: Sequence[tuple[str, Markup]]
    onward: Sequence[tuple[str, str]] = ()


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
            return Found(headline_of(tests), (), (), _TESTED)
    return None


def _systems(several: SystemsRankedReply) -> Found:
    """The fastest; then every system's best over the sizes, or at the one size."""
    if ranges := ranges_of(several):
        said = "the best answer of each system, size by size"
        return Found(headline_of(several), (said,), over_sizes_drawn(ranges))
    times = [Bar(name, {"time": took}) for name, took in seconds_of(several).items()]
    drawn = bars("Time of the best answer", ["time"], times, duration)
    drawings = [("Machine against machine", drawn)] if times else []
    return Found(headline_of(several), (), drawings)


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


def _cost(cost: CostReply) -> Found:
    healthy, same, now = cost.healthy.seconds, cost.same_program_seconds, cost.best.seconds
    what = lacking(cost.system.exceptions) or "the smaller machine"
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
    return Found(headline_of(cost), said, [("Healthy and now", drawn)])


def _doctor(doctor: DoctorReply) -> Found:
    said = [
        one.text + (f" ({' and '.join(one.tests)} would tell)" if one.tests else "")
        for one in doctor.findings
    ]
    said += [*doctor.left_out, *to_run(doctor.findings), *of_a_fault(doctor.findings)]
    tests = [_TESTS] if any(one.tests for one in doctor.findings) else []
    return Found(
        headline_of(doctor),
        said,
        [(one.source, drawn) for one in doctor.runs[:_MOST_RUNS] if (drawn := _run(one))],
        [*tests, ("Calibrate with these logs", _CALIBRATE)],
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
    since = "to see what that costs" if answer.short else "from now on"
    said = [
        *of_a_fault(answer.short),
        *untold(answer),
        *carried(answer),
        *unexpected(answer),
        f"ask with {answer.files[0].name} {since}: the description with its calibration",
        *_counted(
            answer.undetermined,
            "is not told by these rows, so priced like what is similar",
            "are not told by these rows, so priced like what is similar",
        ),
        *_counted(answer.dropped, "was not followed by the fit", "were not followed by the fit"),
        *_counted(answer.warnings, "was left out of the logs", "were left out of the logs"),
    ]
    return Found(headline_of(answer), said, (), _MEASURED)


def _counted(lines: Sequence[str], one: str, several: str) -> Iterator[str]:
    """How many there are of what is listed below; nothing if there is none."""
    if lines:
        yield f"{len(lines)} {one if len(lines) == 1 else several}: see below"
