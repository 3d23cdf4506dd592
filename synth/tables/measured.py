"""Diagnoses as people read them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence

from rich.console import RenderableType

from hierarchies.units import duration, volume
from synth.tables.style import paragraphs, table
from synth.verbs.answers.measured import DiagnosedRun, DoctorReply, FindingPart, RunRow


def doctor(answer: DoctorReply) -> RenderableType:
    """Every run as a table, then what all say together."""
    runs = [part for run in answer.runs for part in (*_run(run), "")]
    findings = [line for finding in answer.findings for line in _finding(finding)]
    return paragraphs(*runs, "findings:", *findings)


def _finding(finding: FindingPart) -> Iterator[str]:
    yield f"  {finding.text}"
    if finding.tests:
        yield f"    {' and '.join(finding.tests)} of 'calibrate --plan' would tell"


def _run(run: DiagnosedRun) -> Iterator[RenderableType]:
    members = " x ".join(str(count) for count in run.members)
    ways = [way for way in (run.algorithm, run.protocol) if way]
    forced = f", forced to {' '.join(ways)}" if ways else ""
    yield f"{run.source}: {run.collective} of {members}{forced}"
    yield from (f"  {warning}" for warning in run.warnings)
    columns = ("size", "time", "in place", "predicted", "bound")
    rates = ("busbw", "in-place busbw", "predicted busbw", "share")
    made = table(*columns, *rates, "predicted by", right=",".join((*columns, *rates)))
    for row, out, inside in _side_by_side(run.rows):
        made.add_row(
            volume(row.bytes),
            duration(out.seconds) if out else "-",
            duration(inside.seconds) if inside else "-",
            duration(row.predicted_seconds),
            duration(row.bound_seconds),
            _rate(out.busbw_GB_per_s if out else None),
            _rate(inside.busbw_GB_per_s if inside else None),
            _rate(row.predicted_busbw_GB_per_s),
            f"{row.predicted_seconds / row.seconds:.0%}",
            f"{row.predicted_algorithm} {row.predicted_protocol.value}",
        )
    yield made


def _side_by_side(
    rows: Sequence[RunRow],
) -> Iterator[tuple[RunRow, RunRow | None, RunRow | None]]:
    """By size: its first row, then its rows out of place and in place, None where there is none."""
    rest = deque(rows)
    while rest:
        row = rest.popleft()
        if row.in_place:
            yield row, None, row
        elif rest and rest[0].in_place and rest[0].bytes == row.bytes:
            yield row, row, rest.popleft()
        else:
            yield row, row, None


def _rate(busbw_GB_per_s: float | None) -> str:  # noqa: N803 - the unit
    return "-" if busbw_GB_per_s is None else f"{busbw_GB_per_s:.4g}"
