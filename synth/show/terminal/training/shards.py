"""Sharded training steps as tables: types, memory, communication and seconds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import RenderableType

from grammar.tensors.operations import PASSES
from hierarchies.units import format_bytes, format_duration
from synth.ask.training.shards import (
    InputOfStep,
    LocalMoves,
    MachineOfStep,
    MovedValue,
    RequestOfStep,
    RequestTotal,
    ShardReply,
    StageTransferPart,
)
from synth.show.terminal.placements import render_placements
from synth.show.terminal.style import (
    Columns,
    axes_text,
    paragraphs,
    pluralize,
    price_basis,
    shape,
    table,
    table_of,
)
from synth.show.terminal.training.traces import operations

MOST_INPUTS = 32
LEAST_SHARE = 0.01
"""Requests with less than this share of all bytes, or seconds, are put together."""
_MOST_LINES = 3


def render_shard(answer: ShardReply) -> RenderableType:
    """Return the shardings of inputs, a device's memory and work, and a step's communication."""
    machine = answer.machine
    return paragraphs(
        f"{answer.name} over {axes_text(answer.axes)}: {pluralize(answer.devices, 'device')}"
        + (f", {answer.microbatches} microbatches" if answer.microbatches > 1 else ""),
        f"plan: {answer.plan}" if answer.plan is not None else None,
        *(() if machine is None else _machine_lines(answer, machine)),
        "",
        _inputs(answer),
        "",
        _memory(answer),
        *(("", _stages(answer)) if answer.stages else ()),
        "",
        *(_requests(answer) if answer.requests else ("no communication",)),
        *(("", _transfers(answer)) if answer.transfers else ()),
        f"\nwithout communication: {', '.join(map(_local_text, answer.local))}"
        if answer.local
        else None,
        *(() if machine is None else _seconds(machine)),
        "\nsends: the least bytes that a device sends or receives; bytes: its largest buffer",
        "-o FILE writes the text of the sharded step.",
    )


def _machine_lines(answer: ShardReply, machine: MachineOfStep) -> Iterator[RenderableType]:
    yield f"on {machine.system}, {shape(machine.levels)}"
    yield from render_placements(machine.levels, answer.axes, [machine.placement])
    if machine.laid_out_by:
        yield "placed in frameworks' default order; 'collsynth place' lists other placements"


def _inputs(answer: ShardReply) -> RenderableType:
    """Parameters with the shardings of their moments, equal ones in one row; then the batch."""
    moments = [value for value in answer.inputs if value.role == "moment"]
    alike: dict[tuple[str, str, str], list[InputOfStep]] = {}
    for value in answer.inputs:
        if value.role in ("parameter", "batch"):
            stage, label = _split_stage(value.label)
            found = (
                m.type
                for m in moments
                if m.label.startswith(stage) and m.label.endswith(f"/{label}")
            )
            own = next(found, "") if value.role == "parameter" else ""
            alike.setdefault((value.role, value.type, own), []).append(value)
    columns = ("input", "type", *(["moments"] if moments else []), "on each device")
    lines = table(*columns, right="on each device", wraps="input")
    for (role, kind, own), several in list(alike.items())[:MOST_INPUTS]:
        name = _labels([value.label for value in several]) + " (batch)" * (role == "batch")
        cells = (name, kind, *([own] if moments else []), format_bytes(several[0].device_bytes))
        lines.add_row(*cells)
    rest = len(alike) - MOST_INPUTS
    if rest > 0:
        lines.add_row(f"and {pluralize(rest, 'more type')}: --json has all")
    return lines


def _split_stage(label: str) -> tuple[str, str]:
    """Return the stage ``1/`` of a label such as ``1/layers/mlp/up``, and the rest."""
    stage, slash, rest = label.partition("/")
    return (stage + slash, rest) if stage.isdecimal() else ("", label)


def _labels(labels: Sequence[str]) -> str:
    """``layers/attention/key, query, layers/mlp/up``: a folder is named once."""
    found, last = [], None
    for label in labels:
        folder, _, name = label.rpartition("/")
        found.append(name if folder == last else label)
        last = folder
    return ", ".join(found)


def _memory(answer: ShardReply) -> RenderableType:
    whole, device = answer.whole, answer.device
    lines = table("memory", "total", "per device", "", right="total,per device")
    for name, before, after in (
        ("parameters", whole.parameter, device.parameter),
        ("gradients", whole.gradient, device.gradient),
        ("moments", whole.moment, device.moment),
        ("batch", whole.batch, device.batch),
        ("values", whole.values, device.values),
    ):
        note = "peak without fusion, including gradients" if name == "values" else ""
        lines.add_row(name, format_bytes(before), format_bytes(after), note)
    note = ""
    if answer.flops:
        note = f"{answer.device_flops * answer.devices / answer.flops:.2f} times an equal share"
    lines.add_row("operations", operations(answer.flops), operations(answer.device_flops), note)
    return lines


def _stages(answer: ShardReply) -> RenderableType:
    columns = ("stage", "parameters", "gradients", "moments", "values", "operations")
    lines = table(*columns, right=",".join(columns[1:]))
    for stage in answer.stages:
        held = (
            stage.device.parameter,
            stage.device.gradient,
            stage.device.moment,
            stage.device.values,
        )
        lines.add_row(str(stage.stage), *map(format_bytes, held), operations(stage.flops))
    return lines


def _transfers(answer: ShardReply) -> RenderableType:
    """Transfers between stages, equal ones in one row."""
    alike: dict[tuple[str, ...], list[StageTransferPart]] = {}
    for transfer in answer.transfers:
        when = (
            f"{transfer.when}, each microbatch"
            if transfer.when in PASSES
            else f"once, {transfer.when}"
        )
        alike.setdefault(
            (f"{transfer.source} to {transfer.target}", transfer.type, when), []
        ).append(transfer)
    lines = table("transfer", "value", "when", "bytes", "times", right="bytes,times")
    for cells, several in alike.items():
        times = sum(transfer.times for transfer in several)
        lines.add_row(*cells, format_bytes(several[0].bytes), str(times))
    return lines


def _requests(answer: ShardReply) -> Iterator[RenderableType]:
    """Yield the largest requests by seconds or bytes; then the totals by kind and axes."""
    shares = list(map(_share, answer.requests))
    shown = [request for request in answer.requests if _share(request) > LEAST_SHARE * sum(shares)]
    rest = [request for request in answer.requests if request not in shown]
    cells = {**_REQUESTS, **(_TIME_CELLS if answer.machine else {}), "of": _subject_text}
    yield table_of(shown, cells, right="bytes,sends,times,per call", wraps="of")
    if rest:
        size = sum(request.least_bytes * request.times for request in rest)
        times = sum(request.times for request in rest)
        others = pluralize(len(rest), "other request")
        yield f"{others}, {times} times: {format_bytes(size)} in total"
    yield ""
    yield table_of(
        answer.sent, {**_TOTAL_CELLS, **_total_time_cells(answer)}, right="sends,times,a step"
    )


def _share(request: RequestOfStep) -> float:
    """Return the weight of a request: seconds on a machine, else bytes."""
    return request.times * (request.least_bytes if request.seconds is None else request.seconds)


def _seconds(machine: MachineOfStep) -> Iterator[str]:
    yield (f"\n{format_duration(machine.seconds)} a step, without overlap; compute is not included")
    yield price_basis(machine.prices)


def _local_text(move: LocalMoves) -> str:
    return pluralize(move.times, move.move.value)


def _subject_text(request: RequestOfStep) -> str:
    """``gradient of embedding``, ``12 gradients``, ``value of gpt2.py:41``."""
    roles = dict.fromkeys(value.role for value in request.values)
    return ", ".join(
        _values_text(role, [value for value in request.values if value.role == role])
        for role in roles
    )


def _values_text(role: str, values: Sequence[MovedValue]) -> str:
    names = list(dict.fromkeys(value.label or value.line for value in values))
    if not all(names) or len(names) > (_MOST_LINES if role == "value" else 1):
        return pluralize(len(values), role)
    which = ", ".join(names)
    return f"{role if len(values) == 1 else f'{role}s'} of {which}"


def _total_time_cells(answer: ShardReply) -> Columns[RequestTotal]:
    return (
        {}
        if answer.machine is None
        else {"a step": lambda total: format_duration(total.seconds or 0.0)}
    )


_REQUESTS: Columns[RequestOfStep] = {
    "request": lambda request: (
        request.request.value
        + (
            f" ({request.reduction.value})"
            if request.reduction and request.reduction.value != "sum"
            else ""
        )
    ),
    "over": lambda request: ", ".join(request.axes),
    "bytes": lambda request: format_bytes(request.bytes),
    "sends": lambda request: format_bytes(request.least_bytes),
    "times": lambda request: str(request.times),
}
_TIME_CELLS: Columns[RequestOfStep] = {
    "per call": lambda request: format_duration(request.seconds or 0.0),
    "program": lambda request: (request.program or "point to point").replace("; ", ";\n"),
}
_TOTAL_CELLS: Columns[RequestTotal] = {
    "total": lambda total: total.request.value,
    "over": lambda total: ", ".join(total.axes),
    "sends": lambda total: format_bytes(total.least_bytes),
    "times": lambda total: str(total.times),
}
