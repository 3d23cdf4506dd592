"""The tables of programs: counted, checked, lowered, priced and run."""

from __future__ import annotations

from math import prod

from rich.console import RenderableType

from grammar import Goal
from grammar.tensors.sharding import ReductionKind
from hierarchies.units import format_bytes, format_duration
from synth.ask.answers.outputs import ResultCheck, RunReply
from synth.ask.machines import CountReply
from synth.ask.programs import CheckReply, LowerReply, TimeReply
from synth.show.terminal.placements import render_placements
from synth.show.terminal.rows import STEP_FIGURES, STEPS, bus_bandwidth
from synth.show.terminal.style import (
    MARKS,
    faults_text,
    interval_text,
    paragraphs,
    pluralize,
    price_basis,
    stopped_warning,
    table,
    table_of,
)


def render_count(answer: CountReply) -> RenderableType:
    """Numbers of valid programs by their steps."""
    counted = table("steps", "programs", right="steps,programs")
    for steps, programs in enumerate(answer.by_length, start=1):
        counted.add_row(str(steps), str(programs))
    total = pluralize(sum(answer.by_length), "valid program")
    instructions = pluralize(answer.instructions, "instruction")
    return paragraphs(counted, f"{total}, {instructions}", stopped_warning(answer.complete))


def render_check(answer: CheckReply) -> RenderableType:
    """What each step of a program holds, and the verdicts of the judges."""
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
        lines += ["  smallest counterexample:", f"  {answer.counterexample.reason}"]
    if answer.proof_reason:
        lines.append(f"  {answer.proof_reason}")
    if replay := answer.replay:
        same = f"equal to the plain {answer.request.value}"
        outcome = same if replay.equal else f"WRONG: {replay.reason}"
        where = f"{replay.elements} elements on {replay.devices} devices"
        lines.append(f"replay of {where}: {outcome}")
    return paragraphs(*lines)


def render_lower(answer: LowerReply) -> RenderableType:
    """The groups of devices of each step."""
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


def render_time(answer: TimeReply) -> RenderableType:
    """The price of a program, step by step, beside the default."""
    speedup = answer.baseline_seconds / answer.seconds if answer.seconds else 1.0
    default = answer.default
    version = f"; version {answer.nccl.version}" if answer.nccl else ""
    return paragraphs(
        f"{answer.program or '(nothing to do)'}  on {answer.system}",
        faults_text(answer.exceptions) or None,
        *render_placements(answer.levels, answer.axes, [answer.placement]),
        "",
        table_of(answer.steps, STEPS, right=STEP_FIGURES, wraps="busiest port carries"),
        "",
        f"{_overlap_line(answer)}total {format_duration(answer.seconds)}{_measured_text(answer)}, "
        f"{bus_bandwidth(answer.request.value, answer.bytes, answer.seconds, _members(answer))} "
        "of bus bandwidth; "
        f"bound {format_duration(answer.bound_seconds)} ({answer.bound_by or 'nothing to do'})",
        f"default ({default.name}, {default.protocol.value}{version}): "
        f"{format_duration(answer.baseline_seconds)} "
        f"({speedup:.2f}x); "
        + ", ".join(
            f"by {name} {format_duration(seconds)}" for name, seconds in answer.defaults.items()
        ),
        price_basis(answer.prices),
        (answer.nccl and answer.nccl.tuner) or None,
    )


def _members(answer: TimeReply) -> int:
    return prod(answer.axes[name] for name in answer.reduce)


def _measured_text(answer: TimeReply) -> str:
    interval = answer.interval_seconds
    which = "on such machines" if answer.prices == "typical" else "by measurements"
    return f" (9 of 10 {which}: {interval_text(interval)})" if interval else ""


def render_run(answer: RunReply) -> RenderableType:
    """What was measured here, beside the prediction."""
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
    bits = "bit-identical" if check.bitwise_equal else "NOT bit-identical"
    where = "to it for sums that need no rounding" if sums else "to it"
    where = "on all devices of a group" if goal is Goal.ALL_REDUCE else where
    return f"check: {same}; {bits} {where}"


def _overlap_line(answer: TimeReply) -> str:
    """A line on overlapping segments: the steps are of one segment, and do not sum to the total."""
    if answer.segments == 1:
        return ""
    barrier = format_duration(answer.barrier_seconds)
    segments = f"{answer.segments} overlapping segments (the steps are of one)"
    return f"{segments}; without segments: {barrier}\n"
