"""What the page shows of an answer: its ranking, and the details of the row that is chosen."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from hierarchies import InputError
from hierarchies.units import duration
from synth.service.page.colours import paints
from synth.service.page.coordinates import coordinates
from synth.service.page.topology import topology, unit_name
from synth.tables.rows import Ranking, Row, rows
from synth.tables.style import axes_text, lacking, many, request_text, searched, shape
from synth.verbs.answers import judge
from synth.verbs.answers.degraded import UnevenAnswer, UnevenReply
from synth.verbs.answers.parts import StepPrice, as_json
from synth.verbs.answers.planning import PlanReply
from synth.verbs.answers.ranked import (
    Answer,
    BestSoFar,
    Leading,
    RankingReply,
    SizeFigures,
    Stretch,
    SweepReply,
)
from synth.verbs.planning import TopQuestion

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
_GROUP_TABS = {"json": "JSON"}
"""Formats for programs of explicit groups, those of a machine that lacks devices."""
SMALLEST_BYTES, LARGEST_BYTES = 2**10, 2**32
RANKED = ("top", "plan")
"""The verbs whose answers have a ranking: of any other the page shows the JSON."""


@dataclass(frozen=True)
class Device:
    """A device that is drawn; where it is missing it has no coordinates."""

    number: int
    name: str
    coordinates: tuple[int, ...]


@dataclass(frozen=True)
class Chosen:
    """The details of one row of a ranking; with several stripes a step has both numbers."""

    row: Row
    answer: Answer | UnevenAnswer
    steps: Sequence[tuple[str, StepPrice]]
    picture: Json
    left_out: str
    devices: Sequence[Device]


@dataclass(frozen=True)
class Curves:
    """Time against size: the figures of every size, and the stretches after the first."""

    sizes: Sequence[SizeFigures]
    crossovers: Sequence[Stretch]

    def as_json(self) -> Json:
        """The columns that the plot is drawn from, such as ``bytes`` and ``best``."""
        return {
            "bytes": [one.bytes for one in self.sizes],
            "best": [one.seconds for one in self.sizes],
            "default": [one.baseline_seconds for one in self.sizes],
            "bound": [one.bound_seconds for one in self.sizes],
            "crossovers": [one.from_bytes for one in self.crossovers],
        }


@dataclass(frozen=True)
class Result:
    """An answer with a ranking, and the row that is looked at."""

    answer: Ranking
    title: str
    facts: tuple[str, ...]
    rows: Sequence[Row]
    chosen: Chosen | None
    curves: Curves | None
    tabs: Mapping[str, str]


def ranking_of(verb: str, body: object) -> Ranking | None:
    """An answer with a ranking, read; None for any other, and for the best so far of a job.

    Raises ValidationError for an answer that does not fit this code's model.
    """
    if verb not in RANKED or not isinstance(body, dict) or "schema_version" not in body:
        return None
    found: Ranking = judge(verb).validate_python(body)
    return found


def best_so_far(body: object) -> list[Leading] | None:
    """The best so far of a job; None for an answer, be it complete or in part.

    The two differ by a key: only an answer has a ``schema_version``.
    """
    if not isinstance(body, dict) or "schema_version" in body or "answers" not in body:
        return None
    return BestSoFar.model_validate(body).answers


def result(answer: Ranking, index: int) -> Result:
    """The page's view of an answer with a ranking. Raises InputError for a row that it lacks."""
    found = rows(answer)
    return Result(
        answer,
        title(answer),
        tuple(_facts(answer)),
        found,
        _chosen(answer, found, index) if found else None,
        curves(answer) if isinstance(answer, SweepReply) and answer.sizes else None,
        _GROUP_TABS if isinstance(answer, UnevenReply) else TABS,
    )


def curves(answer: SweepReply) -> Curves:
    """The curves of an answer over a range of sizes."""
    return Curves(sorted(answer.sizes, key=lambda one: one.bytes), answer.stretches[1:])


def title(answer: Ranking) -> str:
    """What was asked, in a line."""
    machine = answer.system.name
    if isinstance(answer, PlanReply):
        return f"{answer.title or answer.job} on {machine}"
    sizes = answer.bytes if isinstance(answer, SweepReply) else [answer.bytes]
    return f"{request_text(answer.request, answer.reduce, *sizes)} on {machine}"


def _facts(answer: Ranking) -> Iterator[str]:
    system, answers = answer.system, _answers(answer)
    yield f"{shape(system.levels)}: {system.devices} devices"
    if answers:
        yield axes_text(answers[0].axes)
    if lacks := lacking(system.exceptions):
        yield lacks
    match answer:
        case UnevenReply():
            yield f"left: {answer.uneven.left}"
            yield f"{many(answer.considered.programs, 'program')} ranked"
        case SweepReply():
            yield f"{len(answer.sizes)} sizes asked; changes are told to 1%"
        case RankingReply():
            yield searched(answer.considered)
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
    yield searched(answer.considered)


def _answer_at(answer: Ranking, index: int) -> Answer | UnevenAnswer:
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


def _chosen(ranking: Ranking, found: Sequence[Row], index: int) -> Chosen:
    answer = _answer_at(ranking, index)
    drawn = topology(ranking.system)
    placed: Mapping[int, tuple[int, ...]]
    if isinstance(ranking, UnevenReply):
        placed = {device: (rank,) for rank, device in enumerate(ranking.uneven.devices)}
    else:
        assert isinstance(answer, Answer)
        placed = {one: coordinates(at, answer.placement) for one, at in drawn.devices.items()}
    devices = [
        Device(one, unit_name(ranking.system.levels, at), placed.get(one, ()))
        for one, at in drawn.devices.items()
    ]
    axes = [
        {"name": name, "size": size, "paints": [asdict(paint) for paint in paints(size)]}
        for name, size in answer.axes.items()
    ]
    where = {str(one.number): one.coordinates for one in devices if one.coordinates}
    picture = {"nodes": drawn.nodes, "edges": drawn.edges, "axes": axes, "coordinates": where}
    return Chosen(found[index], answer, tuple(_steps(answer)), picture, drawn.left_out, devices)


def _steps(answer: Answer | UnevenAnswer) -> Iterator[tuple[str, StepPrice]]:
    counts = [len(answer.steps)]
    if isinstance(answer, Answer):
        counts = [one.steps for one in answer.stripes]
    numbers = [
        f"{stripe + 1}.{step + 1}" if len(counts) > 1 else str(step + 1)
        for stripe, count in enumerate(counts)
        for step in range(count)
    ]
    return zip(numbers, answer.steps, strict=True)


def emit_question(ranking: Ranking, index: int, target: str) -> dict[str, Any]:
    """The question of ``emit`` for the answer of one row; the other answers are left out of it.

    Raises InputError where there is no such row.
    """
    answer = _answer_at(ranking, index)
    match ranking:
        case PlanReply():
            alone = {"entries": [ranking.entries[index]], "ranking": []}
            given = as_json(ranking.model_copy(update=alone))
        case SweepReply():
            size = ranking.stretches[index].from_bytes
            asked = as_json(ranking.model_copy(update={"stretches": [], "sizes": []}))
            given = {**asked, "bytes": size, "answers": [as_json(answer)]}
        case RankingReply() | UnevenReply():
            given = as_json(ranking.model_copy(update={"answers": [answer]}))
    placed = {"placement": answer.placement} if isinstance(answer, Answer) else {}
    return {"from": given, "rank": answer.rank, "target": target, **placed}


def over_sizes(question: TopQuestion, ranking: Ranking) -> TopQuestion | None:
    """A question about one size, asked over a range of sizes; None where that is impossible.

    Machines that lack devices are asked about one size at a time.
    """
    size = question.bytes
    if not isinstance(size, int) or isinstance(ranking, UnevenReply):
        return None
    ends = (min(size, SMALLEST_BYTES), max(size, LARGEST_BYTES))
    plain = {"k": 1, "per_placement": False, "explain": False}
    return question.model_copy(update={"bytes": ends, **plain})
