"""Traced training steps as tables."""

from __future__ import annotations

from rich.console import RenderableType

from hierarchies.units import format_bytes
from synth.ask.training.traces import LoopPart, TraceReply, WorkOfPrimitive
from synth.show.terminal.style import Columns, paragraphs, pluralize, table, table_of

LEAST_SHARE = 0.0005
"""Primitives with less than this share of all operations are put together."""


def render_trace(answer: TraceReply) -> RenderableType:
    """Return the sizes, memory, operations and loops of a step."""
    sizes = ", ".join(f"{name} {size}" for name, size in answer.sizes.items())
    most = [work for work in answer.work if work.flops > LEAST_SHARE * answer.flops]
    rest = [work for work in answer.work if work not in most]
    left = sum(work.flops for work in rest)
    return paragraphs(
        f"{answer.name}: {sizes}" if sizes else answer.name,
        f"{answer.parameters:,} parameters in {pluralize(answer.arrays, 'array')}; "
        f"{pluralize(answer.operations, 'operation')}, loops counted once\n",
        _bytes(answer),
        f"\n{operations(answer.flops)} a step:\n",
        table_of(most, _WORK, right="share"),
        f"{pluralize(len(rest), 'other primitive')}: {operations(left)}" if rest else None,
        "\n" + "\n".join(map(_loop, answer.loops)) if answer.loops else None,
        "\n-o FILE writes the text of the step.",
    )


def operations(flops: int) -> str:
    """``5.98 TFLOP``"""
    for unit, size in _UNITS.items():
        if flops >= size:
            return f"{flops / size:.4g} {unit}"
    return f"{flops} FLOP"


def _bytes(answer: TraceReply) -> RenderableType:
    held = answer.bytes
    lines = table("memory", "bytes", "")
    lines.add_row("parameters", format_bytes(held.parameter), "")
    lines.add_row("moments", format_bytes(held.moment), "")
    if held.state:
        lines.add_row("state", format_bytes(held.state), "")
    lines.add_row("batch", format_bytes(held.batch), "")
    lines.add_row("values", format_bytes(held.values), "peak without fusion, on one device")
    return lines


def _loop(loop: LoopPart) -> str:
    where = f" ({loop.line})" if loop.line else ""
    return f"loop: {loop.count} iterations of {pluralize(loop.operations, 'operation')}{where}"


_UNITS = {"EFLOP": 1e18, "PFLOP": 1e15, "TFLOP": 1e12, "GFLOP": 1e9, "MFLOP": 1e6, "kFLOP": 1e3}
_WORK: Columns[WorkOfPrimitive] = {
    "primitive": lambda work: work.primitive,
    "kind": lambda work: work.kind,
    "times": lambda work: f"{work.times:,}",
    "operations": lambda work: operations(work.flops),
}
