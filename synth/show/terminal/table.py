"""The answers as people read them: rich tables made from the same JSON that machines get."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from math import gcd, prod
from typing import Any

from rich.console import RenderableType

from grammar import Goal
from grammar.tensors.sharding import ReductionKind
from hierarchies import Domain
from hierarchies.units import format_bytes, format_duration
from synth.ask.answers import judge
from synth.ask.answers.machine_parts import (
    CalibrationPart,
    LevelInFull,
    MachineInBrief,
    MachineInFull,
)
from synth.ask.answers.machines import (
    CatalogueReply,
    CountReply,
    PlacementInWords,
    PlaceReply,
    SystemReply,
)
from synth.ask.answers.outputs import ResultCheck, RunReply
from synth.ask.answers.parts import Json, StepPricePart
from synth.ask.answers.planning import PlanReply
from synth.ask.answers.programs import CheckReply, LowerReply, TimeReply
from synth.ask.answers.training.planned import StepPlanReply
from synth.show.terminal.comparing import render_diff
from synth.show.terminal.degraded import render_cost
from synth.show.terminal.drafts import render_draft
from synth.show.terminal.graphs import render_graph
from synth.show.terminal.measured import render_calibration, render_doctor
from synth.show.terminal.placements import legend, order_table, render_placements
from synth.show.terminal.rankings import render_plan, render_systems, render_top
from synth.show.terminal.rows import bus_bandwidth
from synth.show.terminal.style import (
    MARKS,
    Columns,
    algorithm_text,
    axes_text,
    faults_text,
    interval_text,
    paragraphs,
    pluralize,
    port_loads,
    price_basis,
    shape,
    stopped_warning,
    table,
    table_of,
)
from synth.show.terminal.training.bucketed import render_buckets
from synth.show.terminal.training.orders import render_schedule
from synth.show.terminal.training.planned import render_plans
from synth.show.terminal.training.profiles import render_profile
from synth.show.terminal.training.shards import render_shard
from synth.show.terminal.training.simulated import render_simulation
from synth.show.terminal.training.traces import render_trace
from synth.show.terminal.training.trained import render_train


def _render_plan(answer: PlanReply | StepPlanReply) -> RenderableType:
    return render_plans(answer) if isinstance(answer, StepPlanReply) else render_plan(answer)


def _render_systems(answer: CatalogueReply | SystemReply) -> RenderableType:
    if isinstance(answer, SystemReply):
        return _render_system(answer.system)
    return table_of(answer.systems, _CATALOGUE, wraps="description")


_CATALOGUE: Columns[MachineInBrief] = {
    "name": lambda system: system.name,
    "default": lambda system: shape(system.levels),
    "description": lambda system: system.title,
}


def _render_system(system: MachineInFull) -> RenderableType:
    device = system.device
    doubt = " (unconfirmed)" if device.unconfirmed else ""
    levels = {source for level in system.levels for source in level.sources.values()}
    lacks = faults_text(system.exceptions)
    return paragraphs(
        f"{system.name}: {system.title}",
        f"{system.devices} devices, {shape(system.levels)}\n",
        table_of(system.levels, {**_LEVELS, "ports": _ports_column(system.levels)}, wraps="note"),
        "",
        f"exceptions: {lacks}" if lacks else None,
        f"device memory: {device.memory_GB_per_s:g} GB/s{doubt}",
        "sources:",
        *(f"  {source}" for source in sorted(levels | {device.source}) if source),
        *_calibration_lines(system.calibration),
    )


_LEVELS: Columns[LevelInFull] = {
    "level": lambda level: level.name,
    "count": lambda level: str(level.count),
    "domain": lambda level: ",\n".join(_domain(level)),
    "GB/s a port": lambda level: f"{level.bandwidth_GB_per_s:g}",
    "ports": lambda level: str(level.ports),
    "latency": lambda level: "\n".join(_latencies(level)),
    "through": lambda level: ",\n".join(level.through) or "-",
    "note": lambda level: (
        f"unconfirmed: {', '.join(level.unconfirmed)}" if level.unconfirmed else ""
    ),
}


def _ports_column(levels: list[LevelInFull]) -> Callable[[LevelInFull], str]:
    """How many ports a child has, and where they do not divide how many devices share how many."""

    def said(level: LevelInFull) -> str:
        inside = prod(one.count for one in levels[levels.index(level) + 1 :])
        together = gcd(inside, level.ports)
        shared, ports = inside // together, level.ports // together
        uneven = level.domain is Domain.SWITCH and shared > 1 and ports > 1
        return f"{level.ports},\n{ports} for every {shared}" if uneven else str(level.ports)

    return said


def _domain(level: LevelInFull) -> Iterator[str]:
    yield level.domain.value
    if level.reduces:
        yield "reduces"
    if not level.wraps:
        yield "ends open"


def _calibration_lines(calibration: CalibrationPart | None) -> Iterator[str]:
    """What a calibration rests on, and what it leaves open."""
    if calibration is None:
        return
    rows = sum(fit.rows for fit in calibration.fit)
    yield f"calibrated by {pluralize(rows, 'measured row')}; prices follow them:"
    yield from (f"  {line}" for line in calibration.sources)
    yield from (f"  undetermined: {line}" for line in calibration.undetermined)
    yield from (f"  dropped: {line}" for line in calibration.dropped)


def _latencies(level: LevelInFull) -> Iterator[str]:
    """A level's latency of a message, by protocol: ``5 us`` for Simple, then ``ll 2 us``."""
    yield f"{level.latency_us:g} us"
    if level.ll_latency_us is not None:
        yield f"ll {level.ll_latency_us:g} us"
    if level.ll128_latency_us is not None:
        yield f"ll128 {level.ll128_latency_us:g} us"


def _render_place(answer: PlaceReply) -> RenderableType:
    levels, lies = answer.system.levels, "placement (ranks of each axis's first group)"
    placements = pluralize(answer.count, "placement")
    one = len(answer.described) == 1
    head = f"{axes_text(answer.axes)} on {shape(levels)}"
    made = table(lies, "matrix", *["default of"] * (not one), wraps=lies)
    for described, matrix in zip(answer.described, answer.placements, strict=True):
        default = [order.framework for order in described.orders if order.default]
        where = ";\n".join(described.lies) or "everything on one device"
        made.add_row(where, str(matrix), *[",\n".join(default) or "-"] * (not one))
    return paragraphs(
        f"{'one of ' if one and answer.count > 1 else ''}{placements} of {head}\n",
        made,
        f"\nmatrix: {legend(levels, answer.axes)}",
        *_orders(answer.described),
    )


def _orders(described: list[PlacementInWords]) -> Iterator[RenderableType]:
    """What each framework is told, where there is but one placement."""
    if len(described) == 1:
        yield "\nrank order:"
        yield from order_table(described[0].orders)
    else:
        yield "default of: whose own rank order it is; --placement shows what others need"


def _render_count(answer: CountReply) -> RenderableType:
    counted = table("steps", "programs", right="steps,programs")
    for steps, programs in enumerate(answer.by_length, start=1):
        counted.add_row(str(steps), str(programs))
    total = pluralize(sum(answer.by_length), "valid program")
    instructions = pluralize(answer.instructions, "instruction")
    return paragraphs(counted, f"{total}, {instructions}", stopped_warning(answer.complete))


def _render_check(answer: CheckReply) -> RenderableType:
    lines = [f"program: {answer.program}"]
    if answer.given != answer.program:
        lines.append(f"  (the same groups as {answer.given})")
    steps = answer.program.split("; ") if answer.program else []
    for step, held in zip(["start", *steps], answer.states, strict=False):
        lines += [f"  {step}", *(f"      {holding}" for holding in held)]
    if refused := answer.refused:
        at = "at the end" if refused.step is None else f"step {refused.step + 1}"
        lines.append(f"rules: {refused.kind.value}, {at}: {refused.reason}")
    else:
        lines.append("rules: valid")
    scope = " for every size of this tree" if answer.proof == "proved" else ""
    lines.append(f"z3: {MARKS[answer.proof]}{scope}")
    if answer.counterexample:
        lines += ["  a smallest counterexample:", f"  {answer.counterexample.reason}"]
    if answer.proof_reason:
        lines.append(f"  {answer.proof_reason}")
    if replay := answer.replay:
        same = f"equal to the plain {answer.request.value}"
        outcome = same if replay.equal else f"WRONG: {replay.reason}"
        where = f"{replay.elements} elements on {replay.devices} devices"
        lines.append(f"replay of {where}: {outcome}")
    return paragraphs(*lines)


def _render_lower(answer: LowerReply) -> RenderableType:
    columns = ("step", "collective", "groups", "members", "bytes", "first group")
    made = table(*columns, wraps="first group")
    for number, step in enumerate(answer.steps, start=1):
        groups, members, first = "-", "-", ""
        if step.groups:
            devices = step.groups[0]
            groups, members = str(len(step.groups)), str(len(devices))
            first = str(devices[:8])[:-1] + (", ...]" if len(devices) > 8 else "]")
        made.add_row(str(number), step.collective, groups, members, format_bytes(step.bytes), first)
    return paragraphs(f"{answer.devices} devices; --json lists every group", made)


def _render_time(answer: TimeReply) -> RenderableType:
    speedup = answer.baseline_seconds / answer.seconds if answer.seconds else 1.0
    default = answer.default
    return paragraphs(
        f"{answer.program or '(nothing to do)'}  on {answer.system}",
        faults_text(answer.exceptions) or None,
        *render_placements(answer.levels, answer.axes, [answer.placement]),
        "",
        table_of(
            answer.steps, _STEPS, right="bytes,time,busbw,latency", wraps="busiest port carries"
        ),
        "",
        f"{_overlap_line(answer)}total {format_duration(answer.seconds)}{_measured_text(answer)}, "
        f"{bus_bandwidth(answer.request.value, answer.bytes, answer.seconds, _members(answer))} "
        "of bus bandwidth; "
        f"bound {format_duration(answer.bound_seconds)} ({answer.bound_by or 'nothing to do'})",
        f"default ({default.name}, {default.protocol.value}): "
        f"{format_duration(answer.baseline_seconds)} "
        f"({speedup:.2f}x); "
        + ", ".join(
            f"by {name} {format_duration(seconds)}" for name, seconds in answer.defaults.items()
        ),
        price_basis(answer.prices),
    )


_STEPS: Columns[StepPricePart] = {
    "step": lambda step: step.collective,
    "algorithm": lambda step: algorithm_text(step).replace("-d", "-\nd"),
    "bytes": lambda step: format_bytes(step.bytes),
    "time": lambda step: format_duration(step.seconds),
    "busbw": lambda step: _busbw(step.collective, step.bytes, step.seconds, step.members),
    "latency": lambda step: format_duration(step.latency_seconds),
    "limited by": lambda step: step.limited_by,
    "busiest port carries": lambda step: "\n".join(port_loads(step)),
}


def _busbw(collective: str, size_bytes: float, seconds: float, members: int) -> str:
    """A step's bus bandwidth in GB/s; none for what is local."""
    if members < 2:
        return "-"
    return bus_bandwidth(collective, size_bytes, seconds, members).removesuffix(" GB/s")


def _members(answer: TimeReply) -> int:
    """How many devices a group of the request has."""
    return prod(answer.axes[name] for name in answer.reduce)


def _measured_text(answer: TimeReply) -> str:
    interval = answer.interval_seconds
    where = "others" if answer.prices == "typical" else "measurements"
    return f" ({where} took {interval_text(interval)})" if interval else ""


def _render_run(answer: RunReply) -> RenderableType:
    made = table("", "measured here", f"predicted for {answer.system}", right="measured here")
    measured, predicted = answer.measured_seconds, answer.predicted_seconds
    made.add_row("program", format_duration(measured), format_duration(predicted))
    measured, predicted = answer.measured_plain_seconds, answer.predicted_plain_seconds
    made.add_row(
        f"plain {_requested_text(answer)}", format_duration(measured), format_duration(predicted)
    )
    padding = answer.padded_bytes - answer.bytes
    size = format_bytes(answer.bytes) + (f" (padded by {padding} B)" if padding else "")
    cut = f", in {answer.segments} segments" if answer.segments > 1 else ""
    if len(answer.stripes) > 1:
        cut = f", in {len(answer.stripes)} stripes"
    how = f"on {answer.devices} devices by {answer.backend}"
    return paragraphs(
        answer.program or "(nothing to do)",
        f"{how}: {size} of {answer.dtype}{cut}\n",
        made,
        f"\n{_check_line(answer.check, answer)}" if answer.check else None,
    )


def _requested_text(answer: RunReply) -> str:
    """``all-reduce``, ``all-reduce (max)``"""
    return answer.request.value + (
        "" if answer.op is ReductionKind.SUM else f" ({answer.op.value})"
    )


def _check_line(check: ResultCheck, answer: RunReply) -> str:
    same = f"equal to the plain {_requested_text(answer)}" if check.equal else "WRONG"
    goal, sums = answer.request, answer.request.reduces and answer.op is ReductionKind.SUM
    if sums and answer.dtype.startswith(("float", "bfloat")):
        error = "not a number" if check.error is None else f"{check.error:.2g}"
        same += f" (largest error {error} of what rounding allows)"
    bits = "the same bits" if check.bitwise_equal else "DIFFERENT bits"
    where = "as there, of sums that need no rounding" if sums else "as there"
    where = "on all devices of a group" if goal is Goal.ALL_REDUCE else where
    return f"check: {same}; {bits} {where}"


def _overlap_line(answer: TimeReply) -> str:
    """A line on overlapping segments: the steps listed are of one, and do not sum to the total."""
    if answer.segments == 1:
        return ""
    barrier = format_duration(answer.barrier_seconds)
    return f"{answer.segments} segments that overlap (the steps are of one); in one: {barrier}\n"


_RENDERERS: Mapping[str, Callable[[Any], RenderableType]] = {
    "systems": _render_systems,
    "import": render_draft,
    "graph": render_graph,
    "place": _render_place,
    "count": _render_count,
    "top": render_top,
    "sweep": render_systems,
    "cost": render_cost,
    "plan": _render_plan,
    "order": render_schedule,
    "diff": render_diff,
    "check": _render_check,
    "lower": _render_lower,
    "time": _render_time,
    "run": _render_run,
    "calibrate": render_calibration,
    "doctor": render_doctor,
    "trace": render_trace,
    "shard": render_shard,
    "simulate": render_simulation,
    "buckets": render_buckets,
    "train": render_train,
    "profile": render_profile,
}


def _json_renderer(verb: str) -> Callable[[Json], RenderableType]:
    """A function that draws the JSON of a verb's answer: it reads the model, then draws that."""
    return lambda body: _RENDERERS[verb](judge(verb).validate_python(body))


TABLES: Mapping[str, Callable[[Json], RenderableType]] = {
    verb: _json_renderer(verb) for verb in _RENDERERS
}
