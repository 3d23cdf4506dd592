"""What all tables are drawn with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from io import StringIO

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from hierarchies.units import duration
from synth.verbs.answers.machine_parts import LevelInBrief, MachineException

_PIPE_WIDTH = 200
MARKS = {"proved": "proved", "refuted": "REFUTED", "unknown": "unknown"}


def console() -> Console:
    """Standard output; wide where it is not a terminal, so that nothing is cut."""
    out = Console(highlight=False, markup=False)
    return out if out.is_terminal else Console(width=_PIPE_WIDTH, highlight=False, markup=False)


def printed(what: RenderableType) -> str:
    """What would be printed, as plain text."""
    out = StringIO()
    plain = Console(
        file=out, width=_PIPE_WIDTH, color_system=None, force_terminal=False, highlight=False
    )
    plain.print(what, markup=False)
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines())


def many(count: int, what: str) -> str:
    """``1 placement``, ``3 placements``."""
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def table(*columns: str, right: str = "", wraps: str = "") -> Table:
    """A table whose column ``wraps`` gives way on a narrow screen, and no other."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(
            column,
            justify="right" if column in right.split(",") else "left",
            overflow="fold",
            no_wrap=column != wraps,
        )
    return table


def between(interval: Sequence[float]) -> str:
    """Where a time lies: ``3 ms to 4 ms``."""
    return " to ".join(duration(end) for end in interval)


def axes_told(axes: Mapping[str, int]) -> str:
    """``data=8, model=4``."""
    return ", ".join(f"{name}={size}" for name, size in axes.items())


def shape(levels: Sequence[LevelInBrief]) -> str:
    """``4 node x 8 gpu``."""
    return " x ".join(f"{level.count} {level.name}" for level in levels)


def lacking(exceptions: Sequence[MachineException]) -> str:
    """``without node3/gpu5, node3/port2 at 50%``; nothing where all is as described."""
    told = (
        f"without {one.unit}" if one.missing else f"{one.unit} at {one.bandwidth_share:.0%}"
        for one in exceptions
    )
    return ", ".join(told)


def stopped(complete: bool) -> Iterator[RenderableType]:
    """A line that warns, where the work was stopped."""
    if not complete:
        yield Text("PARTIAL: stopped before all was searched; something better may be missing")
