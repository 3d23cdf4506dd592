"""The answers as people read them: rich tables made from the same JSON that machines get."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from hierarchies.units import duration, volume
from synth.collectives.protocols import Protocol
from synth.tables.degraded import cost
from synth.tables.drafts import draft
from synth.tables.measured import doctor
from synth.tables.rankings import plan, several, top
from synth.tables.style import (
    MARKS,
    axes_told,
    between,
    lacking,
    many,
    shape,
    stopped,
    table,
)
from synth.verbs.answers import judge
from synth.verbs.answers.machine_parts import Calibration, LevelInFull, MachineInFull
from synth.verbs.answers.machines import CatalogueReply, CountReply, PlaceReply, SystemReply
from synth.verbs.answers.outputs import RunReply
from synth.verbs.answers.parts import Json, StepPrice
from synth.verbs.answers.programs import CheckReply, LowerReply, TimeReply


def _systems(answer: CatalogueReply | SystemReply) -> RenderableType:
    if isinstance(answer, SystemReply):
        return _system(answer.system)
    drawn = table("name", "default", "description", wraps="description")
    for system in answer.systems:
        drawn.add_row(system.name, shape(system.levels), system.title)
    return drawn


def _system(system: MachineInFull) -> RenderableType:
    drawn = table(
        *("level", "count", "domain", "GB/s a port", "ports", "latency", "through", "note"),
        wraps="note",
    )
    for level in system.levels:
        drawn.add_row(
            level.name,
            str(level.count),
            level.domain.value + (",\nreduces" if level.reduces else ""),
            f"{level.bandwidth_GB_per_s:g}",
            str(level.ports),
            "\n".join(_latencies(level)),
            ",\n".join(level.through) or "-",
            f"unconfirmed: {', '.join(level.unconfirmed)}" if level.unconfirmed else "",
        )
    device = system.device
    doubt = " (unconfirmed)" if device.unconfirmed else ""
    told = {source for level in system.levels for source in level.sources.values()}
    sources = sorted(told | {device.source})
    lacks = lacking(system.exceptions)
    return Group(
        Text(f"{system.name}: {system.title}"),
        Text(f"{system.devices} devices, {shape(system.levels)}"),
        Text(""),
        drawn,
        Text(""),
        *([Text(f"exceptions: {lacks}", overflow="fold")] if lacks else []),
        Text(f"device memory: {device.memory_GB_per_s:g} GB/s{doubt}"),
        Text("sources:"),
        *(Text(f"  {source}", overflow="fold") for source in sources if source),
        *_calibrated(system.calibration),
    )


def _calibrated(calibration: Calibration | None) -> Iterator[RenderableType]:
    """What a calibration rests on, and what it leaves open."""
    if calibration is None:
        return
    rows = sum(fit.rows for fit in calibration.fit)
    yield Text(f"calibrated by {many(rows, 'measured row')}; prices follow them:")
    for line in calibration.sources:
        yield Text(f"  {line}", overflow="fold")
    for line in calibration.undetermined:
        yield Text(f"  undetermined: {line}", overflow="fold")
    for line in calibration.dropped:
        yield Text(f"  dropped: {line}", overflow="fold")


def _latencies(level: LevelInFull) -> Iterator[str]:
    """Of a message, by each protocol that is known; Simple has no name beside it."""
    yield f"{level.latency_us:g} us"
    if level.ll_latency_us is not None:
        yield f"ll {level.ll_latency_us:g} us"
    if level.ll128_latency_us is not None:
        yield f"ll128 {level.ll128_latency_us:g} us"


def _place(answer: PlaceReply) -> RenderableType:
    levels = answer.system.levels
    placements = many(answer.count, "placement")
    head = f"{placements} of {axes_told(answer.axes)} on {shape(levels)}"
    names = ", ".join(level.name for level in levels)
    lines = [f"rows: {', '.join(answer.axes)}; columns: {names}"]
    return Text("\n".join([head, *lines, *(str(m) for m in answer.placements)]))


def _count(answer: CountReply) -> RenderableType:
    drawn = table("steps", "programs", right="steps,programs")
    for steps, programs in enumerate(answer.by_length, start=1):
        drawn.add_row(str(steps), str(programs))
    total = many(sum(answer.by_length), "valid program")
    instructions = many(answer.instructions, "instruction")
    return Group(drawn, Text(f"{total}, {instructions}"), *stopped(answer.complete))


def _check(answer: CheckReply) -> RenderableType:
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
        said = same if replay.equal else f"WRONG: {replay.reason}"
        where = f"{replay.elements} elements on {replay.devices} devices"
        lines.append(f"replay of {where}: {said}")
    return Text("\n".join(lines))


def _lower(answer: LowerReply) -> RenderableType:
    drawn = table(
        *("step", "collective", "groups", "members", "bytes", "first group"), wraps="first group"
    )
    for number, step in enumerate(answer.steps, start=1):
        groups = step.groups
        first = (
            str(groups[0][:8])[:-1] + (", ...]" if len(groups[0]) > 8 else "]") if groups else ""
        )
        drawn.add_row(
            str(number),
            step.collective,
            str(len(groups)) if groups else "-",
            str(len(groups[0])) if groups else "-",
            volume(step.bytes),
            first,
        )
    return Group(Text(f"{answer.devices} devices; --json lists every group"), drawn)


def _time(answer: TimeReply) -> RenderableType:
    columns = (
        "step",
        "algorithm",
        "bytes",
        "time",
        "latency",
        "limited by",
        "busiest port carries",
    )
    drawn = table(*columns, right="bytes,time,latency", wraps="busiest port carries")
    for step in answer.steps:
        carried = (f"{volume(size)} on {name}" for name, size in step.bytes_per_port.items())
        drawn.add_row(
            step.collective,
            _way(step),
            volume(step.bytes),
            duration(step.seconds),
            duration(step.latency_seconds),
            step.limited_by,
            "\n".join(carried),
        )
    defaults = ", ".join(f"by {name} {duration(s)}" for name, s in answer.defaults.items())
    speedup = answer.baseline_seconds / answer.seconds if answer.seconds else 1.0
    lacks = lacking(answer.exceptions)
    default = answer.default
    return Group(
        Text(f"{answer.program or '(nothing to do)'}  on {answer.system}"),
        *([Text(lacks, overflow="fold")] if lacks else []),
        Text(""),
        drawn,
        Text(""),
        Text(
            f"{_together(answer)}total {duration(answer.seconds)}{_measured(answer)}; "
            f"bound {duration(answer.bound_seconds)} ({answer.bound_by or 'nothing to do'})\n"
            f"default ({default.name}, {default.protocol.value}): "
            f"{duration(answer.baseline_seconds)} "
            f"({speedup:.2f}x); {defaults}"
        ),
    )


def _measured(answer: TimeReply) -> str:
    interval = answer.interval_seconds
    return f" (measurements say {between(interval)})" if interval else ""


def _way(step: StepPrice) -> str:
    """The algorithm a step runs by, and its protocol where that is not NCCL's plain one."""
    way = step.algorithm.value.replace("-d", "-\nd") if step.algorithm else "-"
    if step.protocol in (None, Protocol.SIMPLE):
        return way
    return f"{way}, {step.protocol.value.upper()}"


def _run(answer: RunReply) -> RenderableType:
    drawn = table("", "measured here", f"predicted for {answer.system}", right="measured here")
    drawn.add_row("program", duration(answer.measured_seconds), duration(answer.predicted_seconds))
    drawn.add_row(
        "plain all-reduce",
        duration(answer.measured_plain_seconds),
        duration(answer.predicted_plain_seconds),
    )
    padding = answer.padded_bytes - answer.bytes
    size = volume(answer.bytes) + (f" (padded by {padding} B)" if padding else "")
    cut = f", in {answer.segments} segments" if answer.segments > 1 else ""
    if len(answer.stripes) > 1:
        cut = f", in {len(answer.stripes)} stripes"
    how = f"on {answer.devices} devices by {answer.backend}"
    lines: list[RenderableType] = [
        Text(answer.program or "(nothing to do)"),
        Text(f"{how}: {size} of {answer.dtype}{cut}"),
        Text(""),
        drawn,
    ]
    if check := answer.check:
        same = "equal to the plain all-reduce" if check.equal else "WRONG"
        if answer.dtype.startswith(("float", "bfloat")):
            error = "not a number" if check.error is None else f"{check.error:.2g}"
            same += f" (largest error {error} of what rounding allows)"
        bits = "the same bits" if check.bitwise_equal else "DIFFERENT bits"
        lines += [Text(""), Text(f"check: {same}; {bits} on all devices of a group")]
    return Group(*lines)


def _together(answer: TimeReply) -> str:
    """How the steps of one segment, as listed, make the total."""
    if answer.segments == 1:
        return ""
    barrier = duration(answer.barrier_seconds)
    return f"{answer.segments} segments that overlap (the steps are of one); in one: {barrier}\n"


_DRAWN: Mapping[str, Callable[[Any], RenderableType]] = {
    "systems": _systems,
    "import": draft,
    "place": _place,
    "count": _count,
    "top": top,
    "sweep": several,
    "cost": cost,
    "plan": plan,
    "check": _check,
    "lower": _lower,
    "time": _time,
    "run": _run,
    "doctor": doctor,
}


def _of_json(verb: str) -> Callable[[Json], RenderableType]:
    """What draws the JSON of a verb's answer, by what draws its model."""
    return lambda body: _DRAWN[verb](judge(verb).validate_python(body))


TABLES: Mapping[str, Callable[[Json], RenderableType]] = {verb: _of_json(verb) for verb in _DRAWN}
