"""Diagnoses as people read them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from hierarchies.units import duration, volume
from synth.tables.style import Json, table


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
    columns = ("size", "time", "in place", "predicted", "bound")
    rates = ("busbw", "in-place busbw", "predicted busbw", "share")
    drawn = table(*columns, *rates, "predicted by", right=",".join((*columns, *rates)))
    for out, inside in _side_by_side(run["rows"]):
        row = out or inside or {}
        drawn.add_row(
            volume(row["bytes"]),
            duration(out["seconds"]) if out else "-",
            duration(inside["seconds"]) if inside else "-",
            duration(row["predicted_seconds"]),
            duration(row["bound_seconds"]),
            _rate(out),
            _rate(inside),
            _rate(row, "predicted_busbw_GB_per_s"),
            f"{row['predicted_seconds'] / row['seconds']:.0%}",
            f"{row['predicted_algorithm']} {row['predicted_protocol']}",
        )
    yield drawn


def _side_by_side(rows: Sequence[Json]) -> Iterator[tuple[Json | None, Json | None]]:
    """Each size's time out of place and in place, where both follow each other."""
    held: Json | None = None
    for row in rows:
        if row["in_place"]:
            same = held is not None and held["bytes"] == row["bytes"]
            if held is not None and not same:
                yield held, None
            yield held if same else None, row
            held = None
            continue
        if held is not None:
            yield held, None
        held = row
    if held is not None:
        yield held, None


def _rate(row: Json | None, key: str = "busbw_GB_per_s") -> str:
    return "-" if row is None or row[key] is None else f"{row[key]:.4g}"
