"""Findings run by run: the bandwidth reached, the level blamed, and other deviations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median

from hierarchies import System
from hierarchies.units import format_bytes, format_duration
from synth.measure.calibration.measurements import SEND_RECEIVE
from synth.measure.calibration.slow_level import SHORT
from synth.measure.doctor.baseline import PastComparison, compare_with_past
from synth.measure.doctor.blame import Finding, FindingKind, blame_levels
from synth.measure.doctor.moved import describe_past
from synth.measure.doctor.runs import LARGE, SMALL, MeasuredRun, SizeReading, run_of
from synth.measure.logs.matching import MatchedLog

NOTICED = 1.1
"""A fault of less than this factor needs no mention: repeated runs differ by nearly as much."""
CONTRADICTS = 1.5
"""Rows of one size that differ by more contradict each other. Of 770 repeated runs the latency
differs by 18 % at most (results/doctor), and single rows by more than whole runs.
"""
_SUCH_LINKS = " such links on other machines"
MOSTLY = 0.5
"""From this share of latency in the prediction on, a size mostly waits for messages."""


def is_collective(matched: MatchedLog) -> bool:
    """Whether a run is of a collective, which has a prediction and a bound."""
    return matched.measurement.collective != SEND_RECEIVE


@dataclass(frozen=True)
class Diagnosis:
    """All runs, their findings, and for each run its comparison with earlier logs, or None."""

    system: System
    runs: tuple[MeasuredRun, ...]
    findings: tuple[Finding, ...]
    past: tuple[PastComparison | None, ...]

    @property
    def contradictions(self) -> tuple[Finding, ...]:
        """Rows that beat the bound: the description is wrong, or the log is another machine's."""
        return tuple(finding for finding in self.findings if finding.kind == "below-bound")

    @property
    def healthy(self) -> bool:
        """Whether no run contradicts the description, and none falls short.

        A run with an earlier log of the same test falls short if it is slower than then, any other
        if it is below the prediction, at large sizes or at small ones.
        """
        short = (
            past.changes.slower if past else run.short or run.late
            for run, past in zip(self.runs, self.past, strict=True)
        )
        return not self.contradictions and not any(short)


def diagnose(
    system: System, matched: Sequence[MatchedLog], baselines: Sequence[MatchedLog] = ()
) -> Diagnosis:
    """Compares runs with the prediction, and with earlier logs of the same tests if there are any.

    Sends and receives are left out, because they have no bound. Raises InputError for runs that
    cannot be priced, and for baselines of which none belongs to any run (``compare_with_past``).
    """
    runs = tuple(run_of(system, log) for log in matched if is_collective(log))
    past = compare_with_past(runs, baselines) if baselines else [None] * len(runs)
    return Diagnosis(system, runs, tuple(_findings(system, runs, past)), tuple(past))


def _findings(
    system: System, runs: Sequence[MeasuredRun], past: Sequence[PastComparison | None]
) -> Iterator[Finding]:
    """Yields the findings run by run.

    A run with an earlier log is judged by it: the share of the prediction is still told, but
    machines lie farther apart than two runs of one of them, so causes follow from the comparison.
    """
    why = blame_levels(system, runs)
    for run, blame, before in zip(runs, why, describe_past(system, past), strict=True):
        if run.beating:
            yield _find_below_bound(system, run, run.beating)
        yield from before
        yield from _find_contradicting_rows(run)
        yield from _describe_reached(system, run)
        if before:
            continue
        if run.short:
            yield from blame
            yield from _find_all_sizes_short(run)
        elif run.too_good and not run.beating:
            yield _find_too_fast(run)
        elif not run.beating:
            yield from _find_unnoticed(run)
        yield from _find_small_sizes(system, run)
        yield from _find_middle_sizes(run)


def _find_contradicting_rows(run: MeasuredRun) -> Iterator[Finding]:
    """Yields a finding on rows of one size that differ more than repeated runs do."""
    times: dict[tuple[int, bool], list[float]] = {}
    for reading in run.readings:
        times.setdefault((reading.size_bytes, reading.in_place), []).append(reading.seconds)
    spread = [(max(several) / min(several), size) for (size, _), several in times.items()]
    wide = {size for factor, size in spread if factor > CONTRADICTS}
    if wide:
        factor, worst = max(spread)
        text = (
            f"{_name_run(run)}: rows of one size contradict each other: {format_bytes(worst)} by "
            f"{factor:.1f}x{f', and {len(wide) - 1} more sizes' if len(wide) > 1 else ''}; "
            f"repeated runs differ by less than {CONTRADICTS:g}x: the log may be of two machines "
            "or settings, or other jobs ran beside; give each run as a file of its own"
        )
        yield Finding("contradicting-rows", text, source=run.source, share=1 / factor)


def _describe_reached(system: System, run: MeasuredRun) -> Iterator[Finding]:
    if run.share is None:
        text = "all its sizes wait for messages: it says nothing of bandwidth"
        yield Finding("no-large-sizes", f"{_name_run(run)}: {text}", source=run.source)
        return
    kind: FindingKind = "short" if run.short else "as-predicted"
    text = f"{_name_run(run)}: {run.share:.0%} of the predicted bandwidth (by {run.way})"
    expected = "below" if run.short else ""
    if run.too_good or (run.beating and not run.short):
        kind, expected = "above-prediction", "above"
    if system.prices == "typical":
        text += f": {expected} the range of" if expected else ": as expected of"
        text += " nine in ten machines with such links" if expected else _SUCH_LINKS
    yield Finding(kind, text, source=run.source, share=run.share)


def _find_all_sizes_short(run: MeasuredRun) -> Iterator[Finding]:
    """Yields a finding if sizes that mostly wait for messages fall short as much as large sizes."""
    waits = [r for r in run.readings if r.waiting >= MOSTLY]
    if not waits or run.share is None:
        return
    share = median(r.share for r in waits)
    by_rate = median(1 / (r.waiting + (1 - r.waiting) / run.share) for r in waits)
    if abs(share / run.share - 1) <= 1 - SHORT and share < SHORT * by_rate:
        sizes = [r.size_bytes for r in waits]
        text = (
            f"from {format_bytes(min(sizes))} to {format_bytes(max(sizes))}, where it mostly waits "
            f"for messages, {share:.0%} of the prediction as at large sizes; slower links alone "
            f"would leave {by_rate:.0%} there: what each message waits for is likely slow, too"
        )
        yield Finding("latency", text, source=run.source, share=share)


def _find_unnoticed(run: MeasuredRun) -> Iterator[Finding]:
    """Yields how much slower links may be before prices call it a fault."""
    factor = _find_slack(run.large)
    if factor > NOTICED:
        text = (
            f"at large sizes up to {factor:.1f}x the time would pass, too: an earlier log of the "
            "same test (--baseline) notices less"
        )
        yield Finding("unnoticed", text, source=run.source, share=1 / factor)


def _find_slack(rows: Sequence[SizeReading]) -> float:
    """Returns the median of how many times as long rows may take until prices notice; 1 if none."""
    reach = [r.longest_seconds / r.seconds for r in rows if r.longest_seconds is not None]
    return median(reach) if reach else 1.0


def _find_too_fast(run: MeasuredRun) -> Finding:
    return Finding(
        "above-prediction",
        f"faster than predicted: the description gives level {run.limited_by!r} too little, "
        f"or the runtime has a better way than {run.way}",
        run.limited_by,
        run.source,
        run.share,
    )


def _find_below_bound(system: System, run: MeasuredRun, worst: SizeReading) -> Finding:
    """Returns the measured time and the description's bound, with the level of the bound."""
    level = "" if worst.bound.level == "latency" else worst.bound.level
    limit = "one message takes"
    if level:
        link = system.links[system.hierarchy.index(level)]
        ports = f"{link.ports} ports of " if link.ports > 1 else ""
        limit = f"level {level!r} has {ports}{link.bandwidth_bytes_per_second / 1e9:g} GB/s"
    faster = f"{worst.bound.seconds / worst.seconds:.2g} times"
    return Finding(
        "below-bound",
        f"{_name_run(run)} took {format_duration(worst.seconds)} at "
        f"{format_bytes(worst.size_bytes)}, and {system.name} as described allows no less than "
        f"{format_duration(worst.bound.seconds)}, as {limit}: the machine has {faster} as much, or "
        "the log is of another",
        level,
        run.source,
        worst.seconds / worst.bound.seconds,
    )


def _find_small_sizes(system: System, run: MeasuredRun) -> Iterator[Finding]:
    """Yields findings on small sizes, beyond the launch that prices include, or that there are
    none.
    """
    if run.slower is None or run.extra_seconds is None:
        text = "no size mostly waits for messages: it says nothing of latency"
        yield Finding("no-small-sizes", text, source=run.source)
        return
    sizes = [r.size_bytes for r in run.small]
    ends = " to ".join(dict.fromkeys(map(format_bytes, (min(sizes), max(sizes)))))
    text = f"small sizes ({ends}) take {run.slower:.1f}x the prediction"
    typical = system.prices == "typical"
    if run.late:
        text += f", {format_duration(run.extra_seconds)} more"
        text += ": above the range of nine in ten machines with such links" * typical
        yield Finding("latency", text, source=run.source, share=1 / run.slower)
        return
    text += f": as expected of{_SUCH_LINKS}" * typical
    if (factor := _find_slack(run.small)) > NOTICED:
        text += f"; up to {factor:.1f}x the time would pass, too"
    yield Finding("latency-as-predicted", text, source=run.source, share=1 / run.slower)


def _find_middle_sizes(run: MeasuredRun) -> Iterator[Finding]:
    """Yields a finding on the worst middle size, where both latency and bandwidth matter."""
    middle = [r for r in run.readings if LARGE < r.waiting < SMALL]
    if not middle:
        return
    worst = min(middle, key=lambda r: r.share)
    if worst.share < SHORT and not worst.explained:
        sizes = sorted(r.size_bytes for r in middle)
        text = (
            f"from {format_bytes(sizes[0])} to {format_bytes(sizes[-1])} {worst.share:.0%} of the "
            f"prediction at worst, at {format_bytes(worst.size_bytes)}"
        )
        yield Finding("middle", text, source=run.source, share=worst.share)


def _name_run(run: MeasuredRun) -> str:
    measurement = run.matched.measurement
    parts = " x ".join(str(count) for count in measurement.members)
    return f"{run.source}: {measurement.collective} of {parts}"
