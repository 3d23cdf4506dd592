"""What people read of machines with something missing or slower."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.text import Text

from hierarchies.units import duration, volume
from synth.tables.style import MARKS, Json, axes_told, exceptions, levels, many, partial, table


def uneven(body: Json) -> RenderableType:
    """The ranking of a machine that lacks devices, and what else one could do."""
    drawn = table(
        *("#", "program", "time", "speed-up", "bound", "limited by", "proof at this size"),
        right="#,time,speed-up,bound",
        wraps="program",
    )
    for answer in body["answers"]:
        drawn.add_row(
            str(answer["rank"]),
            _program(answer),
            duration(answer["seconds"]),
            f"{answer['speedup']:.2f}x",
            _of_bound(body["bound_seconds"], answer["seconds"]),
            answer["limited_by"] or "-",
            MARKS[answer["proof"]],
        )
    axes = axes_told(body["answers"][0]["axes"])
    size = len(body["uneven"]["devices"])
    return Group(
        Text(f"all-reduce of {volume(body['bytes'])} over {axes} on {body['system']['name']}"),
        Text(f"{exceptions(body['system'])}: {body['uneven']['left']}", overflow="fold"),
        Text(""),
        drawn,
        Text(""),
        *_choices(body),
        Text(
            f"{many(body['considered']['programs'], 'program')} of explicit groups ranked; "
            f"proofs hold for these {size} devices and groups, not for every size\n"
            f"speed-up: over the plain all-reduce of one step, {duration(body['flat_seconds'])}\n"
            "bound: share of the time that no schedule can avoid"
        ),
        *partial(body),
    )


def _choices(body: Json) -> Iterator[RenderableType]:
    """The even machines inside, and what they take by themselves."""
    if not body["choices"]:
        return
    drawn = table("or an even part", "devices", "time", "program", right="devices,time",
                  wraps="program")  # fmt: skip
    for choice in body["choices"]:
        drawn.add_row(
            choice["machine"],
            str(choice["devices"]),
            duration(choice["seconds"]),
            _program(choice),
        )
    yield drawn
    yield Text("")


def _program(answer: Json) -> str:
    told = answer["program"].replace("; ", ";\n") or "(nothing to do)"
    several = answer.get("segments", 1)
    return told + (f"\nin {several} segments" if several > 1 else "")


def _of_bound(bound: float, seconds: float) -> str:
    return f"{bound / seconds:.0%}" if seconds else "100%"


def cost(body: Json) -> RenderableType:
    """A request on the healthy machine and on the one at hand."""
    before, best, same = body["healthy"], body["best"], body["same_program_seconds"]
    drawn = table("", "time", "x healthy", "bound", "program", right="time,x healthy,bound",
                  wraps="program")  # fmt: skip
    rows = [("healthy", before["seconds"], before["bound_seconds"], before["program"])]
    if same is not None:
        rows.append(("the same program now", same, best["bound_seconds"], "as above"))
    axes = "" if best["axes"] == before["axes"] else f", {axes_told(best['axes'])}"
    rows.append((f"the best now{axes}", best["seconds"], best["bound_seconds"], best["program"]))
    for name, seconds, bound, program in rows:
        drawn.add_row(
            name,
            duration(seconds),
            f"{seconds / before['seconds']:.2f}" if before["seconds"] else "-",
            duration(bound),
            program.replace(" | ", "\n| ").replace("; ", ";\n") or "(nothing to do)",
        )
    system = body["system"]
    what = exceptions(system) or "the smaller machine"
    over = f"{body['request']} of {volume(body['bytes'])} over {', '.join(body['reduce'])}"
    return Group(
        Text(f"{over}, {axes_told(before['axes'])} on {system['name']}, {levels(system)}"),
        Text(f"{what}: {duration(abs(body['lost_seconds']))} "
             f"{'more' if body['lost_seconds'] >= 0 else 'less'} a call", overflow="fold"),
        Text(""),
        drawn,
        Text(""),
        *_choices(body),
        *_followed(body),
        *partial(body),
    )  # fmt: skip


def _followed(body: Json) -> Iterator[RenderableType]:
    """What came of one program, followed on every link."""
    followed = body["followed"]
    if followed is None:
        return
    cut = f" in {followed['segments']} segments" if followed["segments"] > 1 else ""
    yield Text(
        f"link by link, {followed['program'] or 'nothing'}{cut}: "
        f"{duration(followed['healthy_seconds'])} healthy, {duration(followed['seconds'])} now"
    )
    for one in followed["busiest"]:
        yield Text(f"  {one['link']} busy for {one['busy_share']:.0%} of it")
