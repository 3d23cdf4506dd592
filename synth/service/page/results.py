"""What the page shows of an answer: its ranking, and all that is said of the row that is chosen."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from hierarchies import InputError
from hierarchies.units import duration, volume
from synth.collectives.protocols import Protocol
from synth.service.page.colours import paints
from synth.service.page.curves import Curves, curves
from synth.service.page.figures import Ranked, Ranking, ranked
from synth.service.page.placing import Placed, placed
from synth.service.page.placing import ranked as ranked_devices
from synth.service.page.topology import Topology, topology
from synth.tables.style import axes_text, lacking, many, shape
from synth.verbs.answers import judge
from synth.verbs.answers.degraded import UnevenAnswer, UnevenReply
from synth.verbs.answers.parts import StepPrice, as_json
from synth.verbs.answers.planning import PlacementOption, PlanReply
from synth.verbs.answers.ranked import Answer, RankingReply, SweepReply

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
RANKED = ("top", "plan")
"""The verbs whose answers have a ranking: of any other the page shows the JSON."""


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
    answer: Answer | UnevenAnswer
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
    others: tuple[PlacementOption, ...]


def ranking_of(verb: str, body: object) -> Ranking | None:
    """An answer with a ranking, read; None for any other, and for the best so far of a job.

    Raises ValidationError for what is none of this code's answers.
    """
    if verb not in RANKED or not isinstance(body, dict) or "schema_version" not in body:
        return None
    found: Ranking = judge(verb).validate_python(body)
    return found


def result(answer: Ranking, index: int) -> Result:
    """The page's view of an answer with a ranking. Raises InputError for a row that it lacks."""
    rows = ranked(answer)
    return Result(
        title(answer),
        tuple(_facts(answer)),
        rows,
        chosen(answer, rows, index) if rows else None,
        curves(answer) if isinstance(answer, SweepReply) and answer.sizes else None,
        answer.complete,
        answer.system.calibration is not None,
        tuple(answer.ranking[1:]) if isinstance(answer, PlanReply) else (),
    )


def title(answer: Ranking) -> str:
    """What was asked, in a line."""
    machine = answer.system.name
    if isinstance(answer, PlanReply):
        return f"{answer.title or answer.job} on {machine}"
    size = answer.bytes
    told = " to ".join(volume(end) for end in (size if isinstance(size, list) else [size]))
    return f"{answer.request.value} of {told} over {', '.join(answer.reduce)} on {machine}"


def _facts(answer: Ranking) -> Iterator[str]:
    system, answers = answer.system, _answers(answer)
    yield f"{shape(system.levels)}: {system.devices} devices"
    if answers:
        yield axes_text(answers[0].axes)
    if told := lacking(system.exceptions):
        yield told
    match answer:
        case UnevenReply():
            yield f"left: {answer.uneven.left}"
            yield f"{many(answer.considered.programs, 'program')} ranked"
        case SweepReply():
            yield f"{len(answer.sizes)} sizes asked; changes are told to 1%"
        case RankingReply():
            yield _looked(answer.considered.placements, answer.considered.of_placements)
            yield f"{many(answer.considered.programs, 'program')} ranked"
        case PlanReply():
            yield from _planned(answer)


def _planned(answer: PlanReply) -> Iterator[str]:
    if answer.ranking:
        exposed = duration(answer.ranking[0].exposed_seconds)
        plain = duration(answer.default_exposed_seconds)
        yield f"a step waits {exposed} for communication; by the runtime's own choice {plain}"
    for one in answer.unpriced:
        yield f"not priced: {one.name}: {one.why}"
    yield _looked(answer.considered.placements, answer.considered.of_placements)


def _looked(done: int, of: int) -> str:
    return f"{done} of {of} placements" if done != of else many(of, "placement")


def answer_at(answer: Ranking, index: int) -> Answer | UnevenAnswer:
    """The answer of a row. Raises InputError where there is no such row."""
    answers = _answers(answer)
    if not 0 <= index < len(answers):
        raise InputError(f"there is no answer {index}", where="answer", hint="rows count from 0")
    return answers[index]


def _answers(answer: Ranking) -> Sequence[Answer | UnevenAnswer]:
    match answer:
        case SweepReply():
            return [one.first for one in answer.stretches]
        case PlanReply():
            return [one.answer for one in answer.entries]
        case RankingReply() | UnevenReply():
            return answer.answers


def chosen(ranking: Ranking, rows: tuple[Ranked, ...], index: int) -> Chosen:
    """All that is said of a row. Raises InputError where there is no such row."""
    answer = answer_at(ranking, index)
    drawn = topology(ranking.system)
    where = _where(ranking, answer, drawn.devices)
    names = {n["data"]["device"]: n["data"]["name"] for n in drawn.nodes if "device" in n["data"]}
    devices = tuple(Device(d, names[d], where.coordinates.get(d, ())) for d in drawn.devices)
    given = answer.placement if isinstance(answer, Answer) else ()
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
        tuple(answer.why) if isinstance(answer, Answer) else (),
        where.axes,
        tuple((name, tuple(row)) for (name, _), row in zip(where.axes, given, strict=False)),
        tuple(_steps(answer)),
        picture,
        drawn,
        devices,
    )


def _where(ranking: Ranking, answer: Answer | UnevenAnswer, devices: tuple[int, ...]) -> Placed:
    """Where an answer puts the axes, for the devices that are drawn."""
    if isinstance(answer, Answer):
        return placed(ranking.system, answer, devices)
    assert isinstance(ranking, UnevenReply)
    return ranked_devices(ranking.uneven, answer, devices)


def _steps(answer: Answer | UnevenAnswer) -> Iterator[Step]:
    counts = [len(answer.steps)]
    if isinstance(answer, Answer):
        counts = [one.steps for one in answer.stripes]
    numbers = [
        f"{stripe + 1}.{step + 1}" if len(counts) > 1 else str(step + 1)
        for stripe, count in enumerate(counts)
        for step in range(count)
    ]
    for number, step in zip(numbers, answer.steps, strict=True):
        carried = (f"{volume(size)} on {name}" for name, size in step.bytes_per_port.items())
        yield Step(
            number,
            step.collective,
            _way(step),
            step.bytes,
            step.seconds,
            step.latency_seconds,
            step.limited_by,
            tuple(carried),
        )


def _way(step: StepPrice) -> str:
    way = step.algorithm.value if step.algorithm else "-"
    if step.protocol in (None, Protocol.SIMPLE):
        return way
    return f"{way}, {step.protocol.value.upper()}"


def handed(ranking: Ranking, index: int) -> dict[str, Any]:
    """What ``emit`` is told to hand out: the answer of a row and no other.

    Raises InputError where there is no such row.
    """
    answer = answer_at(ranking, index)
    rank, answers = answer.rank, [as_json(answer)]
    if isinstance(ranking, UnevenReply):
        return {"from": {**as_json(ranking), "answers": answers}, "rank": rank}
    kept: dict[str, Any] = {
        "system": as_json(ranking.system),
        "algorithm": ranking.algorithm.value,
        "collapse": ranking.collapse,
    }
    match ranking:
        case PlanReply():
            entry = ranking.entries[index]
            kept |= {"reduce": entry.over, "bytes": entry.bytes, "request": entry.request.value}
        case SweepReply():
            kept |= {"reduce": ranking.reduce, "request": ranking.request.value}
            kept["bytes"] = ranking.stretches[index].from_bytes
        case RankingReply():
            kept |= {"reduce": ranking.reduce, "request": ranking.request.value}
            kept["bytes"] = ranking.bytes
    assert isinstance(answer, Answer)
    return {"from": {**kept, "answers": answers}, "rank": rank, "placement": answer.placement}


def tabs(ranking: Ranking) -> Mapping[str, str]:
    """The targets that can be tried: groups of a machine that lacks devices are told as JSON."""
    return {"json": TABS["json"]} if isinstance(ranking, UnevenReply) else TABS


def over_sizes(question: Json, ranking: Ranking) -> dict[str, Any] | None:
    """The question over a range of sizes beside one of a single size; None where none can be put.

    Machines that lack devices are asked about one size at a time.
    """
    size = question["bytes"]
    if not isinstance(size, int) or isinstance(ranking, UnevenReply):
        return None
    left_out = ("per_placement", "explain", "k")
    asked = {key: value for key, value in question.items() if key not in left_out}
    return {**asked, "k": 1, "bytes": [min(size, SMALLEST_BYTES), max(size, LARGEST_BYTES)]}
