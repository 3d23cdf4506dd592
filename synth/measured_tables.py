"""Diagnoses as people read them."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.text import Text

from synth.drawing import Json, table
from synth.units import duration, volume


def doctor(body: Json) -> RenderableType:
    """Every run as a table, then what all say together."""
    parts: list[RenderableType] = []
    for run in body["runs"]:
        parts += [*_run(run), Text("")]
    parts.append(Text("findings:"))
    for finding in body["findings"]:
        parts.append(Text(f"  {finding['text']}", overflow="fold"))
        if finding["tests"]:
            names = " and ".join(finding["tests"])
            parts.append(Text(f"    {names} of 'calibrate --plan' would tell", overflow="fold"))
    return Group(*parts)


def _run(run: Json) -> Iterator[RenderableType]:
    members = " x ".join(str(count) for count in run["members"])
    ways = [way for way in (run["algorithm"], run["protocol"]) if way]
    forced = f", forced to {' '.join(ways)}" if ways else ""
    yield Text(f"{run['source']}: {run['collective']} of {members}{forced}")
    for warning in run["warnings"]:
        yield Text(f"  {warning}", overflow="fold")
    columns = ("size", "place", "time", "predicted", "bound", "busbw", "predicted busbw", "share")
    drawn = table(*columns, "predicted by", right=",".join(columns))
    for row in run["rows"]:
        drawn.add_row(
            volume(row["bytes"]),
            "in" if row["in_place"] else "out",
            duration(row["seconds"]),
            duration(row["predicted_seconds"]),
            duration(row["bound_seconds"]),
            _rate(row["busbw_GB_per_s"]),
            _rate(row["predicted_busbw_GB_per_s"]),
            f"{row['predicted_seconds'] / row['seconds']:.0%}",
            f"{row['predicted_algorithm']} {row['predicted_protocol']}",
        )
    yield drawn


def _rate(rate: float | None) -> str:
    return "-" if rate is None else f"{rate:.4g}"
