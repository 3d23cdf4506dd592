"""The answers as people read them: rich tables made from the same JSON that machines get."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from synth.units import duration, volume

Json = dict[str, Any]
_PIPE_WIDTH = 200
_MARKS = {"proved": "proved", "refuted": "REFUTED", "unknown": "unknown"}


def console() -> Console:
    """Standard output; wide where it is not a terminal, so that nothing is cut."""
    out = Console(highlight=False, markup=False)
    return out if out.is_terminal else Console(width=_PIPE_WIDTH, highlight=False, markup=False)


def many(count: int, what: str) -> str:
    """``1 placement``, ``3 placements``."""
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def _table(*columns: str, right: str = "", wraps: str = "") -> Table:
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


def _levels(system: Json) -> str:
    return " x ".join(f"{level['count']} {level['name']}" for level in system["levels"])


def _systems(body: Json) -> RenderableType:
    if "system" in body:
        return _system(body["system"])
    table = _table("name", "default", "description", wraps="description")
    for system in body["systems"]:
        table.add_row(system["name"], _levels(system), system["title"])
    return table


def _system(system: Json) -> RenderableType:
    table = _table(
        *("level", "count", "domain", "GB/s a port", "ports", "latency", "through", "note"),
        wraps="note",
    )
    for level in system["levels"]:
        table.add_row(
            level["name"],
            str(level["count"]),
            level["domain"],
            f"{level['bandwidth_GB_per_s']:g}",
            str(level["ports"]),
            f"{level['latency_us']:g} us",
            ",\n".join(level["through"]) or "-",
            f"unconfirmed: {', '.join(level['unconfirmed'])}" if level["unconfirmed"] else "",
        )
    device = system["device"]
    doubt = " (unconfirmed)" if device["unconfirmed"] else ""
    sources = sorted(
        {source for level in system["levels"] for source in level["sources"].values()}
        | {device["source"]}
    )
    return Group(
        Text(f"{system['name']}: {system['title']}"),
        Text(f"{system['devices']} devices, {_levels(system)}"),
        Text(""),
        table,
        Text(""),
        Text(f"device memory: {device['memory_GB_per_s']:g} GB/s{doubt}"),
        Text("sources:"),
        *(Text(f"  {source}", overflow="fold") for source in sources if source),
    )


def _place(body: Json) -> RenderableType:
    system = body["system"]
    head = f"{many(body['count'], 'placement')} of {_axes(body['axes'])} on {_levels(system)}"
    names = ", ".join(level["name"] for level in system["levels"])
    lines = [f"rows: {', '.join(body['axes'])}; columns: {names}"]
    return Text("\n".join([head, *lines, *(str(m) for m in body["placements"])]))


def _axes(axes: Mapping[str, int]) -> str:
    return ", ".join(f"{name}={size}" for name, size in axes.items())


def _count(body: Json) -> RenderableType:
    table = _table("steps", "programs", right="steps,programs")
    for steps, programs in enumerate(body["by_length"], start=1):
        table.add_row(str(steps), str(programs))
    programs = many(sum(body["by_length"]), "valid program")
    total = f"{programs}, {many(body['instructions'], 'instruction')}"
    return Group(table, Text(total), *_partial(body))


def _top(body: Json) -> RenderableType:
    columns = ("#", "placement", "program", "time", "speed-up", "bound", "limited by", "proof")
    table = _table(*columns, right="#,time,speed-up,bound", wraps="program")
    for answer in body["answers"]:
        share = answer["bound_seconds"] / answer["seconds"] if answer["seconds"] else 1.0
        table.add_row(
            str(answer["rank"]),
            str(answer["placement"]).replace("], ", "],\n "),
            _in_stripes(answer),
            duration(answer["seconds"]),
            f"{answer['speedup']:.2f}x",
            f"{share:.0%}",
            answer["limited_by"] or "-",
            _MARKS[answer["proof"]],
        )
    considered = body["considered"]
    names = list(body["answers"][0]["axes"]) if body["answers"] else []
    others = [name for name in names if name not in body["reduce"]]
    levels = ", ".join(level["name"] for level in body["system"]["levels"])
    first = f"all-reduce of {volume(body['bytes'])} over {', '.join(body['reduce'])}"
    axes = _axes(body["answers"][0]["axes"]) if body["answers"] else ""
    return Group(
        Text(f"{first}, {axes} on {body['system']['name']}, {_levels(body['system'])}"),
        Text(f"placement: rows {', '.join(names)}; columns {levels}"),
        Text(""),
        table,
        *_reasons(body),
        Text(""),
        Text(
            f"{_of(considered)}, {many(considered['programs'], 'program')} ranked; "
            f"best one-step all-reduce: {duration(body['best_default_seconds'])}"
        ),
        Text(
            "speed-up: over the one-step all-reduce on the same placement\n"
            "bound: share of the time that no schedule can avoid"
        ),
        *([Text(f"not priced: what the axis {' or '.join(others)} sends")] if others else []),
        *_partial(body),
    )


def _reasons(body: Json) -> Iterator[RenderableType]:
    """Why the first answer is the first; of each answer, if that was asked."""
    for answer in body["answers"] if body["explain"] else body["answers"][:1]:
        yield Text(f"\n{answer['rank']}: " + ";\n   ".join(answer["why"]), overflow="fold")


def _in_stripes(answer: Json) -> str:
    """A program; or several, each with its share of the payload."""
    told = [
        _in_segments(stripe["program"].replace("; ", ";\n"), stripe["segments"])
        for stripe in answer["stripes"]
    ]
    if len(told) == 1:
        return told[0]
    shares = [f"{stripe['share']:.0%} by" for stripe in answer["stripes"]]
    return "\n".join(f"{share}\n{one}" for share, one in zip(shares, told, strict=True))


def _in_segments(program: str, segments: int) -> str:
    """A program, and into how many segments its payload is cut if they overlap."""
    told = program or "(nothing to do)"
    return told if segments == 1 else f"{told}\nin {segments} segments"


def _of(considered: Json) -> str:
    done, there_are = considered["placements"], considered["of_placements"]
    return many(done, "placement") if done == there_are else f"{done} of {there_are} placements"


def _partial(body: Json) -> Iterator[RenderableType]:
    if not body["complete"]:
        yield Text("PARTIAL: the budget ended the search; something better may be missing")


def _check(body: Json) -> RenderableType:
    lines = [f"program: {body['program']}"]
    if body["given"] != body["program"]:
        lines.append(f"  (the same groups as {body['given']})")
    steps = body["program"].split("; ") if body["program"] else []
    for step, held in zip(["start", *steps], body["states"], strict=False):
        lines += [f"  {step}", *(f"      {holding}" for holding in held)]
    refused = body["refused"]
    if refused:
        at = "at the end" if refused["step"] is None else f"step {refused['step'] + 1}"
        lines.append(f"rules: {refused['kind']}, {at}: {refused['reason']}")
    else:
        lines.append("rules: valid")
    scope = " for every size of this tree" if body["proof"] == "proved" else ""
    lines.append(f"z3: {_MARKS[body['proof']]}{scope}")
    if body["counterexample"]:
        lines += ["  a smallest counterexample:", f"  {body['counterexample']['reason']}"]
    if body.get("proof_reason"):
        lines.append(f"  {body['proof_reason']}")
    if body["replay"]:
        replay = body["replay"]
        said = "equal to the plain sum" if replay["equal"] else f"WRONG: {replay['reason']}"
        where = f"{replay['elements']} elements on {replay['devices']} devices"
        lines.append(f"replay of {where}: {said}")
    return Text("\n".join(lines))


def _lower(body: Json) -> RenderableType:
    table = _table(
        *("step", "collective", "groups", "members", "bytes", "first group"), wraps="first group"
    )
    for number, step in enumerate(body["steps"], start=1):
        groups = step["groups"]
        first = (
            str(groups[0][:8])[:-1] + (", ...]" if len(groups[0]) > 8 else "]") if groups else ""
        )
        table.add_row(
            str(number),
            step["collective"],
            str(len(groups)) if groups else "-",
            str(len(groups[0])) if groups else "-",
            volume(step["bytes"]),
            first,
        )
    return Group(Text(f"{body['devices']} devices; --json lists every group"), table)


def _time(body: Json) -> RenderableType:
    columns = (
        "step",
        "algorithm",
        "bytes",
        "time",
        "latency",
        "limited by",
        "busiest port carries",
    )
    table = _table(*columns, right="bytes,time,latency")
    for step in body["steps"]:
        carried = (f"{volume(size)} on {name}" for name, size in step["bytes_per_port"].items())
        table.add_row(
            step["collective"],
            (step["algorithm"] or "-").replace("-d", "-\nd"),
            volume(step["bytes"]),
            duration(step["seconds"]),
            duration(step["latency_seconds"]),
            step["limited_by"],
            "\n".join(carried),
        )
    defaults = ", ".join(f"by {name} {duration(s)}" for name, s in body["defaults"].items())
    speedup = body["baseline_seconds"] / body["seconds"] if body["seconds"] else 1.0
    return Group(
        Text(f"{body['program'] or '(nothing to do)'}  on {body['system']}"),
        Text(""),
        table,
        Text(""),
        Text(
            f"{_together(body)}total {duration(body['seconds'])}; "
            f"bound {duration(body['bound_seconds'])} ({body['bound_by'] or 'nothing to do'})\n"
            f"one-step all-reduce: {duration(body['baseline_seconds'])} "
            f"({speedup:.2f}x); {defaults}"
        ),
    )


def _run(body: Json) -> RenderableType:
    table = _table("", "measured here", f"predicted for {body['system']}", right="measured here")
    for name, key in (("program", "seconds"), ("plain all-reduce", "plain_seconds")):
        measured, predicted = body[f"measured_{key}"], body[f"predicted_{key}"]
        table.add_row(name, duration(measured), duration(predicted))
    padding = body["padded_bytes"] - body["bytes"]
    size = volume(body["bytes"]) + (f" (padded by {padding} B)" if padding else "")
    cut = f", in {body['segments']} segments" if body["segments"] > 1 else ""
    if len(body["stripes"]) > 1:
        cut = f", in {len(body['stripes'])} stripes"
    lines: list[RenderableType] = [
        Text(body["program"] or "(nothing to do)"),
        Text(f"on {body['devices']} devices by {body['backend']}: {size} of {body['dtype']}{cut}"),
        Text(""),
        table,
    ]
    if check := body["check"]:
        same = "equal to the plain all-reduce" if check["equal"] else "WRONG"
        if body["dtype"].startswith(("float", "bfloat")):
            error = "not a number" if check["error"] is None else f"{check['error']:.2g}"
            same += f" (largest error {error} of what rounding allows)"
        bits = "the same bits" if check["bitwise_equal"] else "DIFFERENT bits"
        lines += [Text(""), Text(f"check: {same}; {bits} on all devices of a group")]
    return Group(*lines)


def _together(body: Json) -> str:
    """How the steps of one segment, as listed, make the total."""
    if body["segments"] == 1:
        return ""
    barrier = duration(body["barrier_seconds"])
    return f"{body['segments']} segments that overlap (the steps are of one); in one: {barrier}\n"


TABLES: Mapping[str, Callable[[Json], RenderableType]] = {
    "systems": _systems,
    "place": _place,
    "count": _count,
    "top": _top,
    "check": _check,
    "lower": _lower,
    "time": _time,
    "run": _run,
}
