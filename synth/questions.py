"""What may be asked, as JSON or by flags: one model per verb, checked before any work is done."""

from __future__ import annotations

import re
from dataclasses import fields, replace
from fractions import Fraction
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from grammar import Goal
from hierarchies import (
    Axis,
    InputError,
    Placement,
    Reduction,
    System,
    Tree,
    count_placements,
    load,
    placements,
)
from synth.algorithms import Choice
from synth.amount import UNITS
from synth.emit import RankOrder
from synth.job import Job
from synth.job_files import sizes_of
from synth.jobplan import How
from synth.models import transformer_job
from synth.pipelines import SEGMENTS
from synth.programs import Language
from synth.remembered import Remembered, remembered
from synth.request import Request
from synth.shapes import Shape, Sharding, Training

_SIZE = re.compile(r"(?P<number>[0-9]{1,18}(\.[0-9]{1,18})?) *(?P<unit>[A-Za-z]*)")
_UNITS = {"": 1, **UNITS}


def size_in_bytes(text: str | int) -> int:
    """``1GiB``, ``64M``, ``1.5MB``, ``4096``: a size in bytes.

    KiB, MiB, GiB, TiB and the bare letters K, M, G, T (as in nccl-tests) are powers of 1024; KB,
    MB, GB, TB powers of 1000. Raises InputError for anything else, and for less than a byte.
    """
    match = _SIZE.fullmatch(str(text).strip())
    if not match or match["unit"] not in _UNITS:
        hint = "a number of at least 1 and a unit, as in 4096, 64MiB or 1GB"
        raise InputError(f"the size {str(text)!r} cannot be read", hint=hint)
    size = Fraction(match["number"]) * _UNITS[match["unit"]]
    if size < 1 or size.denominator != 1:
        told = f"the size {str(text)!r} is {float(size):g} bytes"
        raise InputError(told, hint="a whole number above 0")
    return int(size)


def _size(value: object) -> object:
    return size_in_bytes(value) if isinstance(value, (str, int)) else value


def _sizes(value: object) -> object:
    """``1KiB..4GiB`` as the sizes at both ends; anything else as one size."""
    if isinstance(value, str) and ".." in value:
        value = value.split("..", 1)
    if isinstance(value, (list, tuple)):
        return tuple(_size(end) for end in value)
    return _size(value)


Bytes = Annotated[int, BeforeValidator(_size)]
OneOrMoreBytes = Annotated[int | tuple[int, int], BeforeValidator(_sizes)]
Matrix = list[list[int]]
Segments = Annotated[int, Field(ge=1, le=4096)] | Literal["auto"]


class Question(BaseModel):
    """What all questions have in common: nothing is guessed, unknown keys are refused."""

    model_config = ConfigDict(extra="forbid", strict=True)


class SystemsQuestion(Question):
    """The catalogue, or one system (a name, ``name:N``, or the path of a TOML file) in full."""

    system: str | None = None


class PlaceQuestion(Question):
    """All placements of the axes on a system."""

    system: str
    axes: dict[str, int]


class CountQuestion(Question):
    """How many valid programs a tree of so many digits has."""

    digits: int = Field(ge=0)
    max_steps: int = 5
    across: bool = False
    request: Goal = Field(default=Goal.ALL_REDUCE, strict=False)


class TopQuestion(Question):
    """The best placements and programs for a collective over some axes."""

    system: str
    axes: dict[str, int]
    reduce: list[str]
    bytes: OneOrMoreBytes = 2**30
    k: int = 10
    max_steps: int = 5
    algorithm: Choice = Field(default=Choice.AUTO, strict=False)
    placement: Matrix | None = None
    per_placement: bool = False
    across: bool = False
    collapse: bool = True
    segments: Segments = "auto"
    stripes: bool = True
    request: Goal = Field(default=Goal.ALL_REDUCE, strict=False)
    explain: bool = False

    def asked(self) -> Request:
        """The question as the planner's request; of a range of sizes, at its largest.

        Raises InputError for what makes no sense.
        """
        if isinstance(self.bytes, tuple) and self.per_placement:
            raise InputError(
                "a range of sizes is asked for every placement",
                where="--per-placement",
                hint="give one size, or one --placement",
            )
        return Request(
            axes=axes_of(self.axes),
            over=tuple(self.reduce),
            payload_bytes=self.bytes if isinstance(self.bytes, int) else max(self.bytes),
            k=self.k,
            language=Language(self.max_steps, self.across, self.request),
            choice=self.algorithm,
            collapse=self.collapse,
            placement=_matrix(self.placement) if self.placement is not None else None,
            per_placement=self.per_placement,
            segments=segment_counts(self.segments),
            stripes=self.stripes,
        )


class PlanQuestion(Question):
    """The best placement for a whole job: a job file, or the name of a job that is shipped."""

    system: str
    job: str
    k: int = 5
    max_steps: int = 5
    algorithm: Choice = Field(default=Choice.AUTO, strict=False)
    across: bool = False
    collapse: bool = True
    segments: Segments = "auto"
    stripes: bool = True

    def how(self) -> How:
        """How programs are looked for. Raises InputError for what makes no sense."""
        return How(
            self.k,
            Language(self.max_steps, self.across),
            self.algorithm,
            self.collapse,
            segment_counts(self.segments),
            self.stripes,
        )


class JobQuestion(Question):
    """The collectives of a training step, from the shape of a transformer and how it is trained."""

    axes: dict[str, str | int]
    name: str = "transformer"
    layers: int
    hidden: int
    heads: int
    vocabulary: int
    kv_heads: int = 0
    feed_forward: int = 0
    gated: bool = False
    classic: bool = True
    experts: int = 0
    experts_per_token: int = 2
    sequence: int
    micro_batch: int = 1
    batch: int | None = None
    micro_batches: int | None = None
    sharding: Sharding = Field(default=Sharding.NONE, strict=False)
    sequence_parallel: bool = True
    recompute: bool = False
    memory_GB: float | None = Field(default=None, strict=False)  # noqa: N815 - the unit
    most_bubble: float | None = Field(default=None, strict=False)

    def job(self) -> Job:
        """The job. Raises InputError for numbers that make no transformer."""
        given = {name: getattr(self, name) for name in type(self).model_fields}
        shape = {one.name: given[one.name] for one in fields(Shape) if one.name in given}
        training = {one.name: given[one.name] for one in fields(Training) if one.name in given}
        sizes = {name: sizes_of(_whole(size)) for name, size in self.axes.items()}
        return transformer_job(Shape(**shape), Training(**training), sizes, name=self.name)


def _whole(size: str | int) -> str | int:
    return int(size) if isinstance(size, str) and size.isdecimal() else size


def segment_counts(segments: int | str) -> tuple[int, ...]:
    """The numbers of segments to choose from. One is always among them: it may be the best."""
    return SEGMENTS if segments == "auto" else tuple(sorted({1, int(segments)}))


class PlacedQuestion(Question):
    """A program on one placement of the axes of a system."""

    program: str
    system: str
    axes: dict[str, int]
    reduce: list[str]
    placement: Matrix | None = None
    collapse: bool = True
    request: Goal = Field(default=Goal.ALL_REDUCE, strict=False)

    def reduction(self, system: System) -> Reduction:
        """The reduction the program is for.

        Raises InputError where the placement is left out and there are several.
        """
        axes = axes_of(self.axes)
        if self.placement is not None:
            placement = Placement(system.hierarchy, axes, _matrix(self.placement))
        else:
            count = count_placements(system.hierarchy, axes)
            if count > 1:
                raise InputError(
                    f"the axes have {count} placements on {system.hierarchy}",
                    hint="choose one with --placement; 'collsynth place' lists them",
                )
            placement = next(placements(system.hierarchy, axes))
        return Reduction(placement, tuple(self.reduce), self.collapse)


class LowerQuestion(PlacedQuestion):
    """The schedule of a program for the real devices."""

    bytes: Bytes = 2**30


class TimeQuestion(LowerQuestion):
    """The price of a program, phase by phase."""

    algorithm: Choice = Field(default=Choice.AUTO, strict=False)
    segments: Segments = "auto"


class PerhapsPlacedQuestion(Question):
    """Where a program runs, if that is told."""

    system: str | None = None
    axes: dict[str, int] | None = None
    reduce: list[str] | None = None
    placement: Matrix | None = None
    collapse: bool = True

    def place(self, program: str) -> tuple[System, Reduction]:
        """The system, and the reduction a program is for. Raises InputError for what is missing."""
        question = PlacedQuestion(
            program=program,
            system=self.system or "",
            axes=self.axes or {},
            reduce=self.reduce or [],
            placement=self.placement,
            collapse=self.collapse,
        )
        system = load(question.system)
        return system, question.reduction(system)


class HandOutQuestion(PerhapsPlacedQuestion):
    """A program on one placement, or an answer that ``top`` gave before (the key ``from``).

    ``rank`` chooses among the answers, and ``placement`` too where several have that rank.
    """

    model_config = ConfigDict(extra="forbid", strict=True, populate_by_name=True)

    program: str | None = None
    answer: dict[str, Any] | None = Field(default=None, alias="from")
    rank: int = 1
    bytes: Bytes | None = None
    request: Goal | None = Field(default=None, strict=False)
    algorithm: Choice | None = Field(default=None, strict=False)
    segments: int | None = Field(default=None, ge=1, le=4096)

    def chosen(self) -> Remembered:
        """What is to be handed out.

        Raises InputError if neither or both are given, and for what does not fit together.
        """
        parts = (self.program, self.system, self.axes, self.reduce)
        if self.answer is None and self.rank != 1:
            raise InputError(f"rank {self.rank} of no answers", hint="it chooses among --from's")
        if self.answer is not None:
            if not self.collapse:
                raise InputError("an answer remembers its digits", hint="leave out --no-collapse")
            if any(part is not None for part in parts):
                raise InputError(
                    "a program and an answer are given",
                    hint="either PROGRAM SYSTEM --axes --reduce, or --from",
                )
            found = remembered(self.answer, self.rank, self.placement)
        elif self.program is None or self.system is None:
            raise InputError(
                "nothing to hand out is given",
                hint="either PROGRAM SYSTEM --axes --reduce, or --from with an answer of 'top'",
            )
        else:
            system, reduction = self.place(self.program)
            found = Remembered(system, reduction, self.program, 2**30, Choice.AUTO)
        return replace(
            found,
            payload_bytes=self.bytes or found.payload_bytes,
            goal=self.request or found.goal,
            algorithm=self.algorithm or found.algorithm,
            segments=self.segments or found.segments,
            beside=tuple(
                replace(one, segments=self.segments or one.segments) for one in found.beside
            ),
        )


class EmitQuestion(HandOutQuestion):
    """A program in the words of a runtime or tool."""

    target: str
    rank_order: RankOrder = Field(default=RankOrder.MACHINE, strict=False)
    hosts: list[str] | None = None
    host_level: str | None = None
    channels: int | None = Field(default=None, ge=1)


class RunQuestion(HandOutQuestion):
    """A program executed by processes of this machine."""

    bytes: Bytes | None = 2**20
    backend: str = "numpy"
    dtype: str = "float32"
    repeat: int = Field(default=5, ge=1, le=1000)
    check: bool = False
    timeout_seconds: float = Field(default=120.0, gt=0, strict=False)


class CheckQuestion(PerhapsPlacedQuestion):
    """Whether a program does what is requested, on a tree of sizes or on a placed reduction."""

    program: str
    tree: list[int] | None = None
    request: Goal = Field(default=Goal.ALL_REDUCE, strict=False)
    replay: bool = False

    def reduction(self) -> Reduction | Tree:
        """The tree, or the reduction whose tree the program is over.

        Raises InputError if neither or both are given.
        """
        placed = [part is not None for part in (self.system, self.axes, self.reduce)]
        clash = any(placed) or self.placement is not None
        if clash if self.tree is not None else not all(placed):
            raise InputError(
                "give the tree the program is over, or where it runs",
                hint="either --tree 2,8 or a SYSTEM with --axes and --reduce",
            )
        if self.tree is not None:
            return Tree.of(*self.tree)
        return self.place(self.program)[1]


def axes_of(axes: dict[str, int]) -> tuple[Axis, ...]:
    """Axes by name and size, in their order. Raises InputError for names and sizes of no use."""
    return tuple(Axis(name, size) for name, size in axes.items())


def _matrix(matrix: Matrix) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(row) for row in matrix)


Q = TypeVar("Q", bound=Question)


def asked(model: type[Q], given: object) -> Q:
    """A question from JSON-like data. Raises InputError, naming the key that cannot be used."""
    try:
        return model.model_validate(given)
    except ValidationError as error:
        found = error.errors()[0]
        place = ".".join(str(part) for part in found["loc"])
        own = found.get("ctx", {}).get("error")
        if isinstance(own, InputError):
            raise own.at(place) from None
        said = found["msg"][0].lower() + found["msg"][1:]
        raise InputError(f"{found['input']!r} cannot be used", where=place, hint=said) from None
