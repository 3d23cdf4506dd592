"""Tables of machines with missing or slower parts."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import RenderableType

from hierarchies.units import format_bytes, format_duration
from synth.ask.answers.degraded import CostReply, EvenMachine, FollowedProgram, UnevenReply
from synth.show.terminal.deciding import mark_lines
from synth.show.terminal.placements import LAYOUT_TEXT, describe_placement, placement_of
from synth.show.terminal.rows import ranked_table, rows, stripe, stripe_lines
from synth.show.terminal.style import (
    Columns,
    axes_text,
    faults_text,
    paragraphs,
    pluralize,
    request_text,
    shape,
    stopped_warning,
    table,
    table_of,
)


def render_uneven(reply: UnevenReply) -> RenderableType:
    """Return the ranking of a machine that lacks devices, and its even submachines."""
    columns = ("#", "program", "time", "speed-up", "bound", "limited by", "proof at this size")
    axes = axes_text(reply.answers[0].axes)
    size, found = len(reply.uneven.devices), rows(reply)
    return paragraphs(
        f"all-reduce of {format_bytes(reply.bytes)} over {axes} on {reply.system.name}",
        f"{faults_text(reply.system.exceptions)}: {reply.uneven.left}\n",
        ranked_table(found, *columns),
        "",
        *_choices(reply.choices),
        f"{pluralize(reply.considered.programs, 'program')} of explicit groups ranked; "
        f"proofs hold for these {size} devices and groups, not for every size\n"
        f"speed-up: over a single all-reduce, {format_duration(reply.flat_seconds)}\n"
        "bound: share of the time that no schedule can avoid",
        *mark_lines(found),
        stopped_warning(reply.complete),
    )


def _choices(choices: list[EvenMachine]) -> Iterator[RenderableType]:
    """Yield the even submachines, as 4 nodes of 7 GPUs among 31, with the time on each."""
    if choices:
        yield table_of(choices, _CHOICES, right="devices,time", wraps="program")
        yield ""


_CHOICES: Columns[EvenMachine] = {
    "or an even submachine": lambda machine: machine.machine,
    "devices": lambda machine: str(machine.devices),
    "time": lambda machine: format_duration(machine.seconds),
    "program": lambda machine: stripe_lines([stripe(machine.program, [machine.segments])]),
}


def render_cost(reply: CostReply) -> RenderableType:
    """Return a request on the healthy machine and on the given one."""
    before, best, same = reply.healthy, reply.best, reply.same_program_seconds
    made = table("", "time", "x healthy", "bound", "program", right="time,x healthy,bound",
                 wraps="program")  # fmt: skip
    rows = [("healthy", before.seconds, before.bound_seconds, before.program)]
    if same is not None:
        rows.append(("the same program now", same, best.bound_seconds, "as above"))
    axes = "" if best.axes == before.axes else f", {axes_text(best.axes)}"
    rows.append((f"the best now{axes}", best.seconds, best.bound_seconds, best.program))
    for name, seconds, bound, program in rows:
        made.add_row(
            name,
            format_duration(seconds),
            f"{seconds / before.seconds:.2f}" if before.seconds else "-",
            format_duration(bound),
            program.replace(" | ", "\n| ").replace("; ", ";\n") or "(nothing to do)",
        )
    system, lost = reply.system, reply.lost_seconds
    asked = request_text(reply.request, reply.reduce, reply.bytes)
    what = faults_text(system.exceptions) or "the smaller machine"
    return paragraphs(
        f"{asked}, {axes_text(before.axes)} on {system.name}, {shape(system.levels)}",
        *_placement_lines(reply),
        f"{what}: {format_duration(abs(lost))} {'more' if lost >= 0 else 'less'} a call\n",
        made,
        "",
        *_choices(reply.choices),
        *_followed_lines(reply.followed),
        stopped_warning(reply.complete),
    )


def _placement_lines(reply: CostReply) -> Iterator[str]:
    """Yield the placement on the healthy machine, and the present one if it differs."""
    placements = []
    for priced in (reply.healthy, reply.best):
        if priced.placement is not None:
            lies = describe_placement(
                placement_of(reply.system.levels, priced.axes, priced.placement)
            )
            placements.append(f"{lies}, {priced.placement}")
    yield from (f"placement: {each}" for each in placements[:1])
    yield from (f"placement now: {each}" for each in placements[1:] if each != placements[0])
    if reply.laid_out_by:
        yield f"placed {LAYOUT_TEXT}"
    if placements:
        yield ""


def _followed_lines(followed: FollowedProgram | None) -> Iterator[str]:
    if followed is None:
        return
    cut = f" in {followed.segments} segments" if followed.segments > 1 else ""
    yield (
        f"link by link at the stated bandwidth, {followed.program or 'nothing'}{cut}: "
        f"{format_duration(followed.healthy_seconds)} healthy, "
        f"{format_duration(followed.seconds)} now"
    )
    for link in followed.busiest:
        yield f"  {link.link}: busy {link.busy_share:.0%} of the time"
