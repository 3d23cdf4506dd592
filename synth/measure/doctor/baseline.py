"""Earlier logs of the same tests: which belongs to which run, row by row.

A baseline belongs to a run if both are of one test: the same collective, among the same groups of
ranks, in the same data type. Settings that the test may choose (algorithm, protocol, version of
NCCL) may differ; then the difference is a finding. Of several earlier logs of one test, those with
the same settings are used if there are any, and each row is compared with their median.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median

from hierarchies import InputError
from hierarchies.units import format_bytes
from synth.measure.doctor.changes import Changes, estimate_changes
from synth.measure.doctor.runs import SMALL, MeasuredRun
from synth.measure.logs.matching import MatchedLog

BASELINE = "--baseline"
_MOST_LISTED = 4
_Rows = Mapping[tuple[int, bool], float]
_Test = tuple[str, tuple[int, ...], tuple[int, ...]]


@dataclass(frozen=True)
class PastComparison:
    """A run compared with earlier logs of the same test.

    ``before`` has the earlier seconds by size and whether the row is in place, of rows that both
    have. ``sizes`` are their sizes, ascending, ``times`` the factors on their time, as tables show
    them, and ``changes`` refers to both by number. ``differences`` are settings that differ, in
    words.
    """

    run: MeasuredRun
    sources: tuple[str, ...]
    before: _Rows
    sizes: tuple[int, ...]
    times: tuple[float, ...]
    changes: Changes
    differences: tuple[str, ...]


def match_baselines(
    runs: Sequence[MatchedLog], baselines: Sequence[MatchedLog]
) -> list[list[MatchedLog]]:
    """Returns the baselines of each run's test with which it has a row in common, if any.

    Raises InputError if no run has one.
    """
    found = [_logs_of_test(run, _logs_with_rows(run, baselines)) for run in runs]
    if not any(found):
        for run in runs:
            if logs := _logs_of_test(run, baselines):
                raise _no_common_row(run, logs)
        raise _other_tests(runs, baselines)
    return found


def explain_missing(run: MatchedLog, baselines: Sequence[MatchedLog]) -> str:
    """Returns why a run is compared with none of the baselines, in words."""
    logs = _logs_of_test(run, baselines)
    return _no_common_row(run, logs).problem if logs else "no baseline is of this test"


def compare_with_past(
    runs: Sequence[MeasuredRun], baselines: Sequence[MatchedLog]
) -> list[PastComparison | None]:
    """Returns the comparison of each run, None without a baseline of its test.

    Raises InputError as ``match_baselines``.
    """
    found = match_baselines([run.matched for run in runs], baselines)
    return [_compare(run, logs) if logs else None for run, logs in zip(runs, found, strict=True)]


def _compare(run: MeasuredRun, logs: Sequence[MatchedLog]) -> PastComparison:
    tables = [_rows_of(log) for log in logs]
    before = {
        key: median(past)
        for key in _rows_of(run.matched)
        if (past := [rows[key] for rows in tables if key in rows])
    }
    seconds: dict[int, list[float]] = {}
    ratios: dict[int, list[float]] = {}
    rows = _rows_of(run.matched)
    for key, now in rows.items():
        if key in before:
            seconds.setdefault(key[0], []).append(before[key])
            ratios.setdefault(key[0], []).append(math.log(now / before[key]))
    sizes = tuple(sorted(seconds))
    shares = latency_shares(run, {size: fmean(seconds[size]) for size in sizes})
    changes = estimate_changes([shares[n] for n in sizes], [fmean(ratios[n]) for n in sizes])
    shown = [(size, False) if (size, False) in before else (size, True) for size in sizes]
    return PastComparison(
        run,
        tuple(dict.fromkeys(log.log.source for log in logs)),
        before,
        sizes,
        tuple(rows[key] / before[key] for key in shown),
        changes,
        _differences(run.matched, logs),
    )


def latency_shares(run: MeasuredRun, before: Mapping[int, float]) -> dict[int, float]:
    """Returns by size the share of latency in earlier seconds.

    It is the mean of two shares, because neither is exact: that of the price, and the price's
    latency, scaled to the earlier seconds of sizes that mostly wait, as a part of the earlier
    seconds. Without such sizes the scale is that of all sizes.
    """
    priced = {reading.size_bytes: reading.predicted for reading in run.readings}
    latency = {size: priced[size].price.latency_seconds for size in before}
    share = {size: latency[size] / priced[size].seconds for size in before}
    small = [before[size] / latency[size] for size in before if share[size] >= SMALL]
    scale = median(small or [before[size] / priced[size].seconds for size in before])
    return {n: fmean((share[n], min(1.0, scale * latency[n] / before[n]))) for n in before}


def _rows_of(log: MatchedLog) -> _Rows:
    """Returns the median seconds of each row, as a log may time a size several times."""
    found: dict[tuple[int, bool], list[float]] = {}
    for sample in log.measurement.samples:
        found.setdefault((sample.size_bytes, sample.in_place), []).append(sample.seconds)
    return {key: median(seconds) for key, seconds in found.items()}


def _logs_with_rows(run: MatchedLog, logs: Sequence[MatchedLog]) -> list[MatchedLog]:
    return [log for log in logs if _rows_of(run).keys() & _rows_of(log).keys()]


def _logs_of_test(run: MatchedLog, baselines: Sequence[MatchedLog]) -> list[MatchedLog]:
    """Returns the baselines of a run's test; those with the same settings, if there are any."""
    logs = [log for log in baselines if _test(log) == _test(run) and _same_type(log, run)]
    alike = [log for log in logs if log.measurement.configuration == run.measurement.configuration]
    return alike or logs


def _test(log: MatchedLog) -> _Test:
    measurement = log.measurement
    return measurement.collective, measurement.members, measurement.busy


def _types(log: MatchedLog) -> frozenset[str]:
    return frozenset(row.kind for row in log.log.rows if row.kind)


def _same_type(one: MatchedLog, other: MatchedLog) -> bool:
    """Whether both logs are of one data type, as far as they tell."""
    first, second = _types(one), _types(other)
    return not first or not second or first == second


def _differences(run: MatchedLog, logs: Sequence[MatchedLog]) -> tuple[str, ...]:
    """Returns the settings that differ between a run and its baselines, in words."""
    return tuple(
        f"{what} was {' or '.join(past)} in {_list_sources(logs)} and is {now}"
        for what, now, past in _settings(run, logs)
        if now not in past
    )


def _settings(run: MatchedLog, logs: Sequence[MatchedLog]) -> Iterator[tuple[str, str, list[str]]]:
    """Yields what may differ: its name, its value now, and its values before."""
    every = (run, *logs)
    forced = [log.measurement.algorithm or "the runtime's choice" for log in every]
    protocols = [log.measurement.protocol or "the runtime's choice" for log in every]
    versions = [log.log.table.version for log in every]
    without = [" ".join(log.measurement.without) or "nothing" for log in every]
    yield "the algorithm", forced[0], [*dict.fromkeys(forced[1:])]
    yield "the protocol", protocols[0], [*dict.fromkeys(protocols[1:])]
    yield "what NCCL must not use", without[0], [*dict.fromkeys(without[1:])]
    if versions[0] and (past := [*dict.fromkeys(filter(None, versions[1:]))]):
        yield "NCCL", versions[0], past


def _other_tests(runs: Sequence[MatchedLog], baselines: Sequence[MatchedLog]) -> InputError:
    """Returns the error for baselines of other tests, with both tests."""
    with_types = _types_differ(runs, baselines)
    here, there = (_describe(logs, with_types) for logs in (runs, baselines))
    hint = "give an earlier log of the same collective, groups of ranks and data type"
    return InputError(
        f"the baseline is of another test: {there}; and {here}", where=BASELINE, hint=hint
    )


def _types_differ(now: Sequence[MatchedLog], past: Sequence[MatchedLog]) -> bool:
    """Whether nothing but the data type keeps two logs apart."""
    return any(_test(one) == _test(other) for one in now for other in past)


def _describe(logs: Sequence[MatchedLog], types: bool) -> str:
    tests: dict[str, None] = {}
    for log in logs:
        measurement = log.measurement
        shape = " x ".join(map(str, measurement.members))
        groups = ""
        if measurement.busy != measurement.members:
            groups = f" in groups, among {' x '.join(map(str, measurement.busy))}"
        kinds = f" of type {' and '.join(sorted(_types(log)))}" if types and _types(log) else ""
        tests[f"{log.log.source} has {measurement.collective} of {shape}{groups}{kinds}"] = None
    listed = list(tests)
    more = f" and {len(listed) - _MOST_LISTED} more" if len(listed) > _MOST_LISTED else ""
    return ", ".join(listed[:_MOST_LISTED]) + more


def _no_common_row(run: MatchedLog, logs: Sequence[MatchedLog]) -> InputError:
    here, there = (_describe_rows(some) for some in ([run], logs))
    return InputError(
        f"no row is in both logs: {run.log.source} has {here}, {_list_sources(logs)} {there}",
        where=BASELINE,
        hint="measure the sizes of the baseline: options -b, -e and -f of the tests",
    )


def _describe_rows(logs: Sequence[MatchedLog]) -> str:
    rows = [key for log in logs for key in _rows_of(log)]
    sizes = [size for size, _ in rows]
    places = {in_place for _, in_place in rows}
    only = "" if len(places) > 1 else ", in place" if True in places else ", out of place"
    return f"sizes from {format_bytes(min(sizes))} to {format_bytes(max(sizes))}{only}"


def _list_sources(logs: Sequence[MatchedLog]) -> str:
    return " and ".join(dict.fromkeys(log.log.source for log in logs))
