"""Diagnoses as people read them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from hierarchies.units import duration, volume
from synth.tables.style import table
from synth.verbs.answers.measured import DiagnosedRun, DoctorReply, RunRow


def doctor(answer: DoctorReply) -> RenderableType:
    """Every run as a table, then what all say together."""
    parts: list[RenderableType] = []
    for run in answer.runs:
        parts += [*_run(run), Text("")]
    parts.append(Text("findings:"))
    for finding in answer.findings:
        parts.append(Text(f"  {finding.text}", overflow="fold"))
        if finding.tests:
            names = " and ".join(finding.tests)
            parts.append(Text(f"    {names} of 'calibrate --plan' would tell", overflow="fold"))
    return Group(*parts)


def _run(run: DiagnosedRun) -> Iterator[RenderableType]:
    members = " x ".join(str(count) for count in run.members)
    ways = [way for way in (run.algorithm, run.protocol) if way]
    forced = f", forced to {' '.join(ways)}" if ways else ""
    yield Text(f"{run.source}: {run.collective} of {members}{forced}")
    for warning in run.warnings:
        yield Text(f"  {warning}", overflow="fold")
    columns = ("size", "time", "in place", "predicted", "bound")
    rates = ("busbw", "in-place busbw", "predicted busbw", "share")
    drawn = table(*columns, *rates, "predicted by", right=",".join((*columns, *rates)))
    for row, out, inside in _side_by_side(run.rows):
        drawn.add_row(
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
    yield drawn


def _side_by_side(
    rows: Sequence[RunRow],
) -> Iterator[tuple[RunRow, RunRow | None, RunRow | None]]:
    """Each size's row, and those out of place and in place where both follow each other."""
    held: RunRow | None = None
    for row in rows:
        if held is not None and not (row.in_place and held.bytes == row.bytes):
            yield held, held, None
            held = None
        if row.in_place:
            yield held or row, held, row
            held = None
        else:
            held = row
    if held is not None:
        yield held, held, None


def _rate(busbw_GB_per_s: float | None) -> str:  # noqa: N803 - the unit
    return "-" if busbw_GB_per_s is None else f"{busbw_GB_per_s:.4g}"
