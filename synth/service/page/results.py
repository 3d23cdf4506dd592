"""What the page shows of an answer: its ranking, and all that is said of the row that is chosen."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from hierarchies import InputError
from hierarchies.units import duration, volume
from synth.service.page.colours import paints
from synth.service.page.curves import Curves, curves
from synth.service.page.figures import Ranked, matrix, ranked
from synth.service.page.placing import placed
from synth.service.page.topology import Topology, topology
from synth.tables.style import axes_told, exceptions, levels, many

Json = Mapping[str, Any]
TABS = {
    "torch": "PyTorch",
    "jax": "JAX",
    "jax-flat": "JAX, explicit groups",
    "mpi": "mpi4py",
    "mscclpp": "MSCCL++",
    "nccl-tuner": "NCCL tuner",
    "json": "JSON",
    "torchrun": "torchrun",
    "slurm": "Slurm",
    "rankfile": "Open MPI rankfile",
    "kubernetes": "Kubernetes",
}
SMALLEST_BYTES, LARGEST_BYTES = 2**10, 2**32
RANKED = ("answers", "stretches", "entries")


@dataclass(frozen=True)
class Step:
    """A step of a program as a row of a table."""

    number: str
    collective: str
    algorithm: str
    size_bytes: float
    seconds: float
    latency_seconds: float
    limited_by: str
    carried: tuple[str, ...]


@dataclass(frozen=True)
class Device:
    """A device that is drawn, with its coordinates in words; none where it is missing."""

    number: int
    name: str
    coordinates: tuple[int, ...]


@dataclass(frozen=True)
class Chosen:
    """All that is said of one row of a ranking."""

    row: Ranked
    answer: Json
    reasons: tuple[str, ...]
    axes: tuple[tuple[str, int], ...]
    placement: tuple[tuple[str, tuple[int, ...]], ...]
    steps: tuple[Step, ...]
    picture: Json
    topology: Topology
    devices: tuple[Device, ...]


@dataclass(frozen=True)
class Result:
    """An answer with a ranking, and the row that is looked at."""

    title: str
    facts: tuple[str, ...]
    rows: tuple[Ranked, ...]
    chosen: Chosen | None
    curves: Curves | None
    complete: bool
    calibrated: bool
    others: tuple[Json, ...]


def has_ranking(body: object) -> bool:
    """Whether an answer is of ``top`` or ``plan``: of any other the page shows the JSON."""
    return isinstance(body, dict) and any(name in body for name in RANKED) and "system" in body


def result(body: Json, index: int) -> Result:
    """The page's view of an answer with a ranking. Raises InputError for a row that it lacks."""
    rows = ranked(body)
    return Result(
        title(body),
        tuple(_facts(body)),
        rows,
        chosen(body, rows, index) if rows else None,
        curves(body) if "stretches" in body and body["sizes"] else None,
        body["complete"],
        bool(body["system"]["calibration"]),
        tuple(body.get("ranking", ())[1:]),
    )


def title(body: Json) -> str:
    """What was asked, in a line."""
    machine = body["system"]["name"]
    if "entries" in body:
        return f"{body['title'] or body['job']} on {machine}"
    size = body["bytes"]
    told = " to ".join(volume(end) for end in (size if isinstance(size, list) else [size]))
    return f"{body['request']} of {told} over {', '.join(body['reduce'])} on {machine}"


def _facts(body: Json) -> Iterator[str]:
    system = body["system"]
    axes = _answers(body)[0]["axes"] if _answers(body) else {}
    yield f"{levels(system)}: {system['devices']} devices"
    if axes:
        yield axes_told(axes)
    if told := exceptions(system):
        yield told
    if "uneven" in body:
        yield f"left: {body['uneven']['left']}"
    if "entries" in body and body["ranking"]:
        exposed = duration(body["ranking"][0]["exposed_seconds"])
        plain = duration(body["default_exposed_seconds"])
        yield f"a step waits {exposed} for communication; by the runtime's own choice {plain}"
    for one in body.get("unpriced", ()):
        yield f"not priced: {one['name']}: {one['why']}"
    considered = body.get("considered", {})
    if "of_placements" in considered:
        done, of = considered["placements"], considered["of_placements"]
        yield f"{done} of {of} placements" if done != of else many(of, "placement")
    if "programs" in considered:
        yield f"{many(considered['programs'], 'program')} ranked"
    if "sizes" in body:
        yield f"{len(body['sizes'])} sizes asked; changes are told to 1%"


def answer_at(body: Json, index: int) -> Json:
    """The answer of a row. Raises InputError where there is no such row."""
    answers = _answers(body)
    if not 0 <= index < len(answers):
        raise InputError(f"there is no answer {index}", where="answer", hint="rows count from 0")
    found: Json = answers[index]
    return found


def _answers(body: Json) -> list[Any]:
    if "stretches" in body:
        return [one["first"] for one in body["stretches"]]
    if "entries" in body:
        return [one["answer"] for one in body["entries"]]
    return list(body["answers"])


def chosen(body: Json, rows: tuple[Ranked, ...], index: int) -> Chosen:
    """All that is said of a row. Raises InputError where there is no such row."""
    answer = answer_at(body, index)
    drawn = topology(body["system"])
    where = placed(body, answer, drawn.devices)
    names = {n["data"]["device"]: n["data"]["name"] for n in drawn.nodes if "device" in n["data"]}
    devices = tuple(Device(d, names[d], where.coordinates.get(d, ())) for d in drawn.devices)
    given = answer.get("placement") or ()
    picture = {
        "nodes": drawn.nodes,
        "edges": drawn.edges,
        "axes": [
            {"name": name, "size": size, "paints": [asdict(one) for one in paints(size)]}
            for name, size in where.axes
        ],
        "coordinates": {str(device): at for device, at in where.coordinates.items()},
    }
    return Chosen(
        rows[index],
        answer,
        tuple(answer.get("why", ())),
        where.axes,
        tuple((name, tuple(row)) for (name, _), row in zip(where.axes, given, strict=False)),
        tuple(_steps(answer)),
        picture,
        drawn,
        devices,
    )


def _steps(answer: Json) -> Iterator[Step]:
    counts = [one["steps"] for one in answer.get("stripes", ())] or [len(answer["steps"])]
    numbers = [
        f"{stripe + 1}.{step + 1}" if len(counts) > 1 else str(step + 1)
        for stripe, count in enumerate(counts)
        for step in range(count)
    ]
    for number, step in zip(numbers, answer["steps"], strict=True):
        protocol = step["protocol"]
        way = step["algorithm"] or "-"
        if protocol not in (None, "simple"):
            way += f", {protocol.upper()}"
        carried = (f"{volume(size)} on {name}" for name, size in step["bytes_per_port"].items())
        yield Step(
            number,
            step["collective"],
            way,
            step["bytes"],
            step["seconds"],
            step["latency_seconds"],
            step["limited_by"],
            tuple(carried),
        )


def handed(body: Json, index: int) -> dict[str, Any]:
    """What ``emit`` is told to hand out: the answer of a row and no other.

    Raises InputError where there is no such row.
    """
    answer = answer_at(body, index)
    if "uneven" in body:
        return {"from": {**body, "answers": [answer]}, "rank": answer["rank"]}
    kept = {key: body[key] for key in ("system", "algorithm", "collapse")}
    if "entries" in body:
        entry = body["entries"][index]
        kept |= {"reduce": entry["over"], "bytes": entry["bytes"], "request": entry["request"]}
    else:
        kept |= {"reduce": body["reduce"], "request": body["request"]}
        one_size = (
            body if "stretches" not in body else {"bytes": body["stretches"][index]["from_bytes"]}
        )
        kept["bytes"] = one_size["bytes"]
    given = {"from": {**kept, "answers": [answer]}, "rank": answer["rank"]}
    return {**given, "placement": answer["placement"]}


def tabs(body: Json) -> Mapping[str, str]:
    """The targets that can be tried: groups of a machine that lacks devices are told as JSON."""
    return {"json": TABS["json"]} if "uneven" in body else TABS


def over_sizes(question: Json, body: Json) -> dict[str, Any] | None:
    """The question over a range of sizes beside one of a single size; None where none can be put.

    Machines that lack devices are asked about one size at a time.
    """
    size = question["bytes"]
    if not isinstance(size, int) or "uneven" in body:
        return None
    left_out = ("per_placement", "explain", "k")
    asked = {key: value for key, value in question.items() if key not in left_out}
    return {**asked, "k": 1, "bytes": [min(size, SMALLEST_BYTES), max(size, LARGEST_BYTES)]}


__all__ = ["RANKED", "TABS", "Chosen", "Result", "handed", "has_ranking", "matrix", "result"]
