"""What people read of machines with something missing or slower."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.text import Text

from hierarchies.units import duration, volume
from synth.tables.style import MARKS, axes_told, lacking, many, shape, stopped, table
from synth.verbs.answers.degraded import (
    CostReply,
    EvenInside,
    FollowedProgram,
    UnevenAnswer,
    UnevenReply,
)


def uneven(reply: UnevenReply) -> RenderableType:
    """The ranking of a machine that lacks devices, and what else one could do."""
    drawn = table(
        *("#", "program", "time", "speed-up", "bound", "limited by", "proof at this size"),
        right="#,time,speed-up,bound",
        wraps="program",
    )
    for answer in reply.answers:
        drawn.add_row(
            str(answer.rank),
            _program(answer),
            duration(answer.seconds),
            f"{answer.speedup:.2f}x",
            _of_bound(reply.bound_seconds, answer.seconds),
            answer.limited_by or "-",
            MARKS[answer.proof],
        )
    axes = axes_told(reply.answers[0].axes)
    size = len(reply.uneven.devices)
    return Group(
        Text(f"all-reduce of {volume(reply.bytes)} over {axes} on {reply.system.name}"),
        Text(f"{lacking(reply.system.exceptions)}: {reply.uneven.left}", overflow="fold"),
        Text(""),
        drawn,
        Text(""),
        *_choices(reply.choices),
        Text(
            f"{many(reply.considered.programs, 'program')} of explicit groups ranked; "
            f"proofs hold for these {size} devices and groups, not for every size\n"
            f"speed-up: over the plain all-reduce of one step, {duration(reply.flat_seconds)}\n"
            "bound: share of the time that no schedule can avoid"
        ),
        *stopped(reply.complete),
    )


def _choices(choices: list[EvenInside]) -> Iterator[RenderableType]:
    """The even machines inside, and what they take by themselves."""
    if not choices:
        return
    drawn = table("or an even part", "devices", "time", "program", right="devices,time",
                  wraps="program")  # fmt: skip
    for choice in choices:
        drawn.add_row(
            choice.machine,
            str(choice.devices),
            duration(choice.seconds),
            _program(choice),
        )
    yield drawn
    yield Text("")


def _program(answer: UnevenAnswer | EvenInside) -> str:
    told = answer.program.replace("; ", ";\n") or "(nothing to do)"
    several = answer.segments
    return told + (f"\nin {several} segments" if several > 1 else "")


def _of_bound(bound: float, seconds: float) -> str:
    return f"{bound / seconds:.0%}" if seconds else "100%"


def cost(reply: CostReply) -> RenderableType:
    """A request on the healthy machine and on the one at hand."""
    before, best, same = reply.healthy, reply.best, reply.same_program_seconds
    drawn = table("", "time", "x healthy", "bound", "program", right="time,x healthy,bound",
                  wraps="program")  # fmt: skip
    rows = [("healthy", before.seconds, before.bound_seconds, before.program)]
    if same is not None:
        rows.append(("the same program now", same, best.bound_seconds, "as above"))
    axes = "" if best.axes == before.axes else f", {axes_told(best.axes)}"
    rows.append((f"the best now{axes}", best.seconds, best.bound_seconds, best.program))
    for name, seconds, bound, program in rows:
        drawn.add_row(
            name,
            duration(seconds),
            f"{seconds / before.seconds:.2f}" if before.seconds else "-",
            duration(bound),
            program.replace(" | ", "\n| ").replace("; ", ";\n") or "(nothing to do)",
        )
    system = reply.system
    what = lacking(system.exceptions) or "the smaller machine"
    over = f"{reply.request.value} of {volume(reply.bytes)} over {', '.join(reply.reduce)}"
    return Group(
        Text(f"{over}, {axes_told(before.axes)} on {system.name}, {shape(system.levels)}"),
        Text(f"{what}: {duration(abs(reply.lost_seconds))} "
             f"{'more' if reply.lost_seconds >= 0 else 'less'} a call", overflow="fold"),
        Text(""),
        drawn,
        Text(""),
        *_choices(reply.choices),
        *_followed(reply.followed),
        *stopped(reply.complete),
    )  # fmt: skip


def _followed(followed: FollowedProgram | None) -> Iterator[RenderableType]:
    """What came of one program, followed on every link."""
    if followed is None:
        return
    cut = f" in {followed.segments} segments" if followed.segments > 1 else ""
    yield Text(
        f"link by link, {followed.program or 'nothing'}{cut}: "
        f"{duration(followed.healthy_seconds)} healthy, {duration(followed.seconds)} now"
    )
    for one in followed.busiest:
        yield Text(f"  {one.link} busy for {one.busy_share:.0%} of it")
