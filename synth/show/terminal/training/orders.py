"""A pipeline schedule as text: a line for each rank, time to the right."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

from rich.console import RenderableType

from hierarchies.units import format_duration
from synth.ask.training.orders import OrderReply, RankOfOrder, TransferProtocol
from synth.show.terminal.style import Columns, paragraphs, pluralize, table_of

_MOST_LINES = 64
_WIDTH = 80


def render_schedule(answer: OrderReply) -> RenderableType:
    """Return the timeline of each rank, its bubble and its activations."""
    ranks = len(answer.ranks)
    stages = "" if answer.stages == ranks else f"{pluralize(answer.stages, 'stage')}, "
    halves = any(rank.waiting for rank in answer.ranks)
    rows = {**_RANKS, **(_WAITING_CELLS if halves else {})}
    return paragraphs(
        f"{answer.schedule or 'an order'}: {pluralize(ranks, 'rank')}, {stages}"
        f"{pluralize(answer.microbatches, 'microbatch')}",
        f"{format_duration(answer.seconds)}, {answer.idle_share:.1%} of it bubble; "
        f"{_durations(answer)}\n",
        _grid(answer),
        "",
        table_of(enumerate(answer.ranks), rows, right=",".join(rows)),
        f"\n-o FILE writes it as CSV for PyTorch's _PipelineScheduleRuntime{_form(answer)}.",
    )


def _form(answer: OrderReply) -> str:
    """Return the argument that names the format, where it is not PyTorch's default."""
    return ', format="compute_comms"' if answer.communication else ""


def _durations(answer: OrderReply) -> str:
    """Return the assumed durations: ``forward 1 s, backward 2 s, eager transfers of 400 ms``."""
    forward, backward = (
        format_duration(answer.forward_seconds),
        format_duration(answer.backward_seconds),
    )
    found = f"forward {forward}, backward {backward}"
    if any(rank.waiting for rank in answer.ranks):
        found += f" ({format_duration(answer.weight_seconds)} of it in W)"
    if not answer.transfer_seconds:
        return f"{found}, transfers {'explicit and ' * answer.communication}free"
    of = format_duration(answer.transfer_seconds)
    if answer.protocol is TransferProtocol.RENDEZVOUS:
        return f"{found}, transfers of {of} by rendezvous"
    return f"{found}, {answer.protocol.value} transfers of {of}"


_Row = tuple[int, RankOfOrder]
_RANKS: Columns[_Row] = {
    "rank": lambda row: str(row[0]),
    "stages": lambda row: ", ".join(map(str, row[1].stages)),
    "bubble": lambda row: f"{row[1].idle_share:.1%}",
    "activations held": lambda row: str(row[1].held),
}
_WAITING_CELLS: Columns[_Row] = {"pending W": lambda row: str(row[1].waiting)}


def _grid(answer: OrderReply) -> str:
    """Return the timeline in characters: each pass begins with its name, dots are bubble.

    With one stage per rank, names omit the stage; with several, names are separated. A timeline
    wider than a narrow screen continues below; a timeline of many screens is not drawn.
    """
    plain = answer.stages == len(answer.ranks)
    rows = [_passes(rank, plain) for rank in answer.ranks]
    scale = _characters_per_second(rows, int(not plain))
    if not scale:
        return "a pass that takes no time cannot be drawn: --json lists all times"
    head = len(f"rank {len(rows) - 1}  ")
    columns = ceil(answer.seconds * scale)
    blocks = ceil(columns / (_WIDTH - head))
    if blocks * len(rows) > _MOST_LINES:
        return "too long to draw here: --json lists all times"
    each = ceil(columns / blocks)
    lines = [_line(row, scale, int(not plain)).ljust(columns, ".") for row in rows]
    found = []
    for first in range(0, columns, each):
        found += [f"\nfrom {format_duration(first / scale)}:"] if first else []
        for rank, line in enumerate(lines):
            found.append((f"rank {rank}".ljust(head) + line[first : first + each]).rstrip())
    return "\n".join(found)


_Pass = tuple[str, float, float]
"""The name of a pass, and the seconds at which it begins and ends."""


def _passes(rank: RankOfOrder, plain: bool) -> list[_Pass]:
    return [
        (
            action.action.lstrip("0123456789") if plain else action.action,
            action.begin_seconds,
            action.end_seconds,
        )
        for action in rank.actions
    ]


def _characters_per_second(rows: Sequence[Sequence[_Pass]], apart: int) -> float:
    """Return the scale at which the name of the shortest pass fits; 0 if a pass takes no time."""
    passes = [pass_ for row in rows for pass_ in row]
    if any(end <= begin for _, begin, end in passes):
        return 0.0
    return max((len(name) + apart) / (end - begin) for name, begin, end in passes)


def _line(row: Sequence[_Pass], scale: float, apart: int) -> str:
    found = ""
    for name, begin, end in row:
        width = round(end * scale) - round(begin * scale)
        found = found.ljust(round(begin * scale), ".")
        found += name.ljust(width - apart, "-")[:width] + " " * apart
    return found
