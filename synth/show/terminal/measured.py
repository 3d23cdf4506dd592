"""Measurements as tables: fits, tests still to run, diagnoses."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence

from rich.console import RenderableType

from hierarchies.units import describe_total, format_bytes, format_duration
from synth.ask.answers.measured import (
    CalibratedReply,
    ClassResidual,
    DiagnosedRun,
    DoctorReply,
    ExperimentPart,
    FindingPart,
    RunRow,
    TestsReply,
)
from synth.show.terminal.headlines import headline_of, shortfall_headline
from synth.show.terminal.style import (
    Columns,
    paragraphs,
    pluralize,
    price_basis,
    shape,
    table_of,
    test_advice,
)


def render_doctor(answer: DoctorReply) -> RenderableType:
    """Return every run as a table, then the findings, the most important first."""
    runs = [part for run in answer.runs for part in (*_run(run), "")]
    head = headline_of(answer)
    shown = [
        finding
        for finding in answer.findings
        if finding.kind != "below-bound" or finding.text not in head
    ]
    findings = [line for finding in shown for line in _finding(finding)]
    onward = [*tests_to_run(answer.findings), *fault_lines(answer.findings)]
    said = (price_basis(answer.prices), head, *answer.left_out)
    return paragraphs(*runs, *said, *findings, *onward)


def render_calibration(answer: CalibratedReply | TestsReply) -> RenderableType:
    """Return the errors of a fit and what its rows leave open; or the tests to run."""
    if isinstance(answer, TestsReply):
        return _tests(answer)
    wider = [
        residual for residual in answer.residuals if not (residual.collective or residual.algorithm)
    ]
    return paragraphs(
        f"{answer.system.name}, {shape(answer.system.levels)}: {headline_of(answer)}",
        *fault_lines(answer.short),
        *ambiguity_lines(answer),
        *carried_share_lines(answer),
        *unexpected_size_lines(answer),
        *(f"  {source}" for source in answer.sources),
        "",
        table_of(
            [residual for residual in wider if not residual.protocol],
            _RESIDUALS,
            right="sizes from,rows",
        ),
        "",
        *_list_lines("left out", answer.warnings),
        *_list_lines("not followed by the fit", answer.dropped),
        *_list_lines("undetermined, priced like similar links", answer.undetermined),
        "-o FILE writes the calibrated description.",
    )


def tests_to_run(findings: Sequence[FindingPart]) -> Iterator[str]:
    """Yield the tests that find the cause in levels that fall short, surely or likely."""
    steps = dict.fromkeys(
        (finding.level, step) for finding in findings for step in finding.next_commands
    )
    for level, step in steps:
        yield f"next, for level {level!r}: {step}" if level else f"next: {step}"


def fault_lines(findings: Sequence[FindingPart]) -> Iterator[str]:
    """Yield a warning if logs are from a slow machine, because prices fitted to them are slow."""
    if machine := shortfall_headline(findings):
        yield (
            f"these logs are from {machine}: prices calibrated with them include that fault; "
            "repair it and measure again, or use them only to see its cost"
        )


def ambiguity_lines(answer: CalibratedReply) -> Iterator[str]:
    """Yield the levels that rows do not distinguish, and the test that does."""
    for ambiguity in answer.ambiguities:
        yield ambiguity.text
        if ambiguity.deciding_test:
            yield test_advice(ambiguity.deciding_test)


def carried_share_lines(answer: CalibratedReply) -> Iterator[str]:
    """Yield the share of the stated bandwidth that the links of each level reached."""
    ambiguous = {level for ambiguity in answer.ambiguities for level in ambiguity.levels}
    for part in answer.levels:
        least = "at least " if part.least else ""
        shares = sorted(part.shares.items(), key=lambda way: -way[1])
        if part.determined:
            text = f"{least}{shares[-1][1]:.0%} of its {part.GB_per_s:g} GB/s per port"
        else:
            ways = ", ".join(f"{share:.0%} if {way} ran" for way, share in shares)
            text = f"{least}{ways} of its {part.GB_per_s:g} GB/s per port, which logs do not tell"
        tells = "".join(
            f"; {test} determines it" for test in part.tests if part.level not in ambiguous
        )
        yield f"level {part.level!r} reached {text} ({part.source}{tells})"


def unexpected_size_lines(answer: CalibratedReply) -> Iterator[str]:
    """Yield the sizes whose times are beyond prediction error, and the range at other sizes."""
    for size in answer.unexpected[:_MOST_UNEXPECTED]:
        members = " x ".join(map(str, size.members))
        yield (
            f"{size.source}: {size.collective} of {members} took {size.times:.2g} times its price"
            f" at {format_bytes(size.bytes)}, and {size.low:.2f} to {size.high:.2f} times at other"
            " sizes: measure it again, or expect such an error near this size"
        )
    if (more := len(answer.unexpected) - _MOST_UNEXPECTED) > 0:
        yield f"and {pluralize(more, 'other size')} beyond prediction error"


_MOST_UNEXPECTED = 3
"""The number of sizes beyond prediction error that are listed one by one."""


_RESIDUALS: Columns[ClassResidual] = {
    "sizes from": lambda residual: format_bytes(residual.smallest_bytes),
    "rows": lambda residual: str(residual.rows),
    "90 % took": lambda residual: f"{residual.low:.2f} to {residual.high:.2f} times the price",
}
"""Errors of rows that were held out of the fit, by class of sizes."""


def _list_lines(head: str, lines: Sequence[str]) -> Iterator[str]:
    if lines:
        yield f"{head}:"
        yield from (f"  {line}" for line in lines)


def _tests(answer: TestsReply) -> RenderableType:
    seconds = describe_total(test.seconds for test in answer.experiments)
    return paragraphs(
        f"{pluralize(len(answer.experiments), 'test')} of {answer.system.name}, "
        f"{shape(answer.system.levels)}: {seconds}",
        "",
        table_of(answer.experiments, _TESTS, right="time", wraps="determines"),
        "\n-o FILE writes the script that runs them.",
    )


_TESTS: Columns[ExperimentPart] = {
    "test": lambda test: test.name,
    "groups": lambda test: test.groups,
    "time": lambda test: format_duration(test.seconds),
    "determines": lambda test: "; ".join(test.determines),
}


def _finding(finding: FindingPart) -> Iterator[str]:
    yield f"  {finding.text}"
    if finding.tests:
        yield f"    {' and '.join(finding.tests)} of 'calibrate --plan' would show which"


def _run(run: DiagnosedRun) -> Iterator[RenderableType]:
    members = " x ".join(str(count) for count in run.members)
    ways = [way for way in (run.algorithm, run.protocol) if way]
    forced = f", forced to {' '.join(ways)}" if ways else ""
    yield f"{run.source}: {run.collective} of {members}{forced}"
    yield from (f"  {warning}" for warning in run.warnings)
    columns = {**_TIMES, **(_PAST if run.past else _RATES), **_REST}
    yield table_of(_pair_rows(run.rows), columns, right=",".join(list(columns)[:-1]))


_Pair = tuple[RunRow, RunRow | None, RunRow | None]
"""Of a size: its first row, then its rows out of place and in place, None where there is none."""


def _pair_rows(rows: Sequence[RunRow]) -> Iterator[_Pair]:
    rest = deque(rows)
    while rest:
        row = rest.popleft()
        if row.in_place:
            yield row, None, row
        elif rest and rest[0].in_place and rest[0].bytes == row.bytes:
            yield row, row, rest.popleft()
        else:
            yield row, row, None


def _rate(row: RunRow | None) -> str:
    rate = row.busbw_GB_per_s if row else None
    return "-" if rate is None else f"{rate:.4g}"


def _time(seconds: float | None) -> str:
    return "-" if seconds is None else format_duration(seconds)


def _times(row: RunRow) -> str:
    return "-" if row.before_seconds is None else f"{row.seconds / row.before_seconds:.2f}x"


def _predicted_rate(row: RunRow) -> str:
    rate = row.predicted_busbw_GB_per_s
    return "-" if rate is None else f"{rate:.4g}"


_TIMES: Columns[_Pair] = {
    "size": lambda pair: format_bytes(pair[0].bytes),
    "time": lambda pair: _time(pair[1].seconds if pair[1] else None),
    "in place": lambda pair: _time(pair[2].seconds if pair[2] else None),
}
_PAST: Columns[_Pair] = {
    "before": lambda pair: _time(pair[0].before_seconds),
    "times": lambda pair: _times(pair[0]),
    "predicted": lambda pair: format_duration(pair[0].predicted_seconds),
    "bound": lambda pair: format_duration(pair[0].bound_seconds),
    "busbw": lambda pair: _rate(pair[1]),
}
_RATES: Columns[_Pair] = {
    "predicted": _PAST["predicted"],
    "bound": _PAST["bound"],
    "busbw": _PAST["busbw"],
    "in-place busbw": lambda pair: _rate(pair[2]),
    "predicted busbw": lambda pair: _predicted_rate(pair[0]),
}
_REST: Columns[_Pair] = {
    "share": lambda pair: f"{pair[0].predicted_seconds / pair[0].seconds:.0%}",
    "predicted by": lambda pair: (
        f"{pair[0].predicted_algorithm} {pair[0].predicted_protocol.value}"
    ),
}
"""Columns of a run: all, those beside an earlier log, those without one, and all again."""
