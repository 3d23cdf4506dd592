"""The answers as people read them: rich tables made from the same JSON that machines get."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from rich.console import Group, RenderableType
from rich.text import Text

from hierarchies.units import duration, volume
from synth.tables.degraded import cost
from synth.tables.drafts import draft
from synth.tables.measured import doctor
from synth.tables.rankings import plan, several, top
from synth.tables.style import (
    MARKS,
    Json,
    axes_told,
    between,
    exceptions,
    levels,
    many,
    partial,
    table,
)


def _systems(body: Json) -> RenderableType:
    if "system" in body:
        return _system(body["system"])
    drawn = table("name", "default", "description", wraps="description")
    for system in body["systems"]:
        drawn.add_row(system["name"], levels(system), system["title"])
    return drawn


def _system(system: Json) -> RenderableType:
    drawn = table(
        *("level", "count", "domain", "GB/s a port", "ports", "latency", "through", "note"),
        wraps="note",
    )
    for level in system["levels"]:
        drawn.add_row(
            level["name"],
            str(level["count"]),
            level["domain"] + (",\nreduces" if level["reduces"] else ""),
            f"{level['bandwidth_GB_per_s']:g}",
            str(level["ports"]),
            "\n".join(_latencies(level)),
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
        Text(f"{system['devices']} devices, {levels(system)}"),
        Text(""),
        drawn,
        Text(""),
        *(
            [Text(f"exceptions: {exceptions(system)}", overflow="fold")]
            if system["exceptions"]
            else []
        ),
        Text(f"device memory: {device['memory_GB_per_s']:g} GB/s{doubt}"),
        Text("sources:"),
        *(Text(f"  {source}", overflow="fold") for source in sources if source),
        *_calibrated(system["calibration"]),
    )


def _excepted(system: Json) -> Iterator[RenderableType]:
    """A line that says what is missing or slower."""
    if told := exceptions(system):
        yield Text(told, overflow="fold")


def _calibrated(calibration: Json | None) -> Iterator[RenderableType]:
    """What a calibration rests on, and what it leaves open."""
    if not calibration:
        return
    rows = sum(fit.get("rows", 0) for fit in calibration["fit"])
    yield Text(f"calibrated by {many(rows, 'measured row')}; prices follow them:")
    for line in calibration["sources"]:
        yield Text(f"  {line}", overflow="fold")
    for title in ("undetermined", "dropped"):
        for line in calibration[title]:
            yield Text(f"  {title}: {line}", overflow="fold")


def _latencies(level: Json) -> Iterator[str]:
    """Of a message, by each protocol that is known; Simple has no name beside it."""
    for name, key in (("", "latency_us"), ("ll ", "ll_latency_us"), ("ll128 ", "ll128_latency_us")):
        if level[key] is not None:
            yield f"{name}{level[key]:g} us"


def _place(body: Json) -> RenderableType:
    system = body["system"]
    head = f"{many(body['count'], 'placement')} of {axes_told(body['axes'])} on {levels(system)}"
    names = ", ".join(level["name"] for level in system["levels"])
    lines = [f"rows: {', '.join(body['axes'])}; columns: {names}"]
    return Text("\n".join([head, *lines, *(str(m) for m in body["placements"])]))


def _count(body: Json) -> RenderableType:
    drawn = table("steps", "programs", right="steps,programs")
    for steps, programs in enumerate(body["by_length"], start=1):
        drawn.add_row(str(steps), str(programs))
    programs = many(sum(body["by_length"]), "valid program")
    total = f"{programs}, {many(body['instructions'], 'instruction')}"
    return Group(drawn, Text(total), *partial(body))


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
    lines.append(f"z3: {MARKS[body['proof']]}{scope}")
    if body["counterexample"]:
        lines += ["  a smallest counterexample:", f"  {body['counterexample']['reason']}"]
    if body.get("proof_reason"):
        lines.append(f"  {body['proof_reason']}")
    if body["replay"]:
        replay = body["replay"]
        said = (
            f"equal to the plain {body['request']}"
            if replay["equal"]
            else f"WRONG: {replay['reason']}"
        )
        where = f"{replay['elements']} elements on {replay['devices']} devices"
        lines.append(f"replay of {where}: {said}")
    return Text("\n".join(lines))


def _lower(body: Json) -> RenderableType:
    drawn = table(
        *("step", "collective", "groups", "members", "bytes", "first group"), wraps="first group"
    )
    for number, step in enumerate(body["steps"], start=1):
        groups = step["groups"]
        first = (
            str(groups[0][:8])[:-1] + (", ...]" if len(groups[0]) > 8 else "]") if groups else ""
        )
        drawn.add_row(
            str(number),
            step["collective"],
            str(len(groups)) if groups else "-",
            str(len(groups[0])) if groups else "-",
            volume(step["bytes"]),
            first,
        )
    return Group(Text(f"{body['devices']} devices; --json lists every group"), drawn)


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
    drawn = table(*columns, right="bytes,time,latency", wraps="busiest port carries")
    for step in body["steps"]:
        carried = (f"{volume(size)} on {name}" for name, size in step["bytes_per_port"].items())
        drawn.add_row(
            step["collective"],
            _way(step),
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
        *_excepted(body),
        Text(""),
        drawn,
        Text(""),
        Text(
            f"{_together(body)}total {duration(body['seconds'])}{_measured(body)}; "
            f"bound {duration(body['bound_seconds'])} ({body['bound_by'] or 'nothing to do'})\n"
            f"default ({', '.join(body['default'].values())}): "
            f"{duration(body['baseline_seconds'])} "
            f"({speedup:.2f}x); {defaults}"
        ),
    )


def _measured(body: Json) -> str:
    interval = body["interval_seconds"]
    return f" (measurements say {between(interval)})" if interval else ""


def _way(step: Json) -> str:
    """The algorithm a step runs by, and its protocol where that is not NCCL's plain one."""
    way: str = (step["algorithm"] or "-").replace("-d", "-\nd")
    return way if step["protocol"] in (None, "simple") else f"{way}, {step['protocol'].upper()}"


def _run(body: Json) -> RenderableType:
    drawn = table("", "measured here", f"predicted for {body['system']}", right="measured here")
    for name, key in (("program", "seconds"), ("plain all-reduce", "plain_seconds")):
        measured, predicted = body[f"measured_{key}"], body[f"predicted_{key}"]
        drawn.add_row(name, duration(measured), duration(predicted))
    padding = body["padded_bytes"] - body["bytes"]
    size = volume(body["bytes"]) + (f" (padded by {padding} B)" if padding else "")
    cut = f", in {body['segments']} segments" if body["segments"] > 1 else ""
    if len(body["stripes"]) > 1:
        cut = f", in {len(body['stripes'])} stripes"
    lines: list[RenderableType] = [
        Text(body["program"] or "(nothing to do)"),
        Text(f"on {body['devices']} devices by {body['backend']}: {size} of {body['dtype']}{cut}"),
        Text(""),
        drawn,
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
