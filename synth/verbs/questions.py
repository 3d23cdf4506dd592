"""What questions have in common: sizes, axes, placed programs; checked before any work is done."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Annotated, Literal, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from grammar import Goal
from hierarchies import (
    MOST_AXES,
    MOST_EXCEPTIONS,
    Axis,
    Fault,
    InputError,
    Placement,
    Reduction,
    System,
    count_placements,
    fault_of,
    first_refused,
    placements,
)
from synth.price.segments import SEGMENTS
from synth.verbs.limited import Harmless, Limited
from synth.verbs.named_texts import LONGEST_NAME, Given, system_of
from synth.verbs.plain import LARGEST, check_plain, refused, shown
from synth.workload.quantities import UNITS

_SIZE = re.compile(r"(?P<number>[0-9]{1,19}(\.[0-9]{1,18})?) *(?P<unit>[A-Za-z]*)")


_UNITS = {"": 1, **UNITS}


def size_in_bytes(text: str | int) -> int:
    """``1GiB``, ``64M``, ``1.5MB``, ``4096``: a size in bytes.

    KiB, MiB, GiB, TiB and the bare letters K, M, G, T (as in nccl-tests) are powers of 1024; KB,
    MB, GB, TB powers of 1000. Raises InputError for anything else, for less than a byte, and for
    more bytes than a question may name as a number.
    """
    match = _SIZE.fullmatch(str(text).strip())
    if not match or match["unit"] not in _UNITS:
        hint = "a number of at least 1 and a unit, as in 4096, 64MiB or 1GB"
        raise InputError(f"the size {shown(str(text))} cannot be read", hint=hint)
    size = Fraction(match["number"]) * _UNITS[match["unit"]]
    told = f"the size {str(text)!r} is {float(size):g} bytes"
    if size < 1 or size.denominator != 1:
        raise InputError(told, hint="a whole number above 0")
    if size > LARGEST:
        raise InputError(told, hint=f"at most {LARGEST:.0e}")
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


_RECKONED = Harmless("it is reckoned with: a larger one takes no longer")
_FACTOR = Harmless("the product must be that of the system's devices")


Figure = Annotated[int, _RECKONED]


Measure = Annotated[float, _RECKONED]


Bytes = Annotated[Figure, BeforeValidator(_size, json_schema_input_type=int | str)]


OneOrMoreBytes = Annotated[
    Figure | tuple[Figure, Figure],
    BeforeValidator(_sizes, json_schema_input_type=int | str | tuple[int | str, int | str]),
]


Axes = Annotated[dict[str, Annotated[int, _FACTOR]], Field(max_length=MOST_AXES)]


Names = Annotated[list[str], Field(max_length=MOST_AXES)]


Numbers = Annotated[list[Annotated[int, _FACTOR]], Field(max_length=MOST_AXES)]


Matrix = Annotated[list[Numbers], Field(max_length=MOST_AXES)]


ProgramText = Annotated[str, Field(max_length=2**16)]


Machine = Annotated[Given, Limited.SYSTEM]


PerhapsMachine = Annotated[Given | None, Limited.SYSTEM]


MaxSteps = Annotated[int, Limited.MAX_STEPS]


Segments = Annotated[int, Field(ge=1, le=4096)] | Literal["auto"]


class Question(BaseModel):
    """What all questions have in common: nothing is guessed, unknown keys are refused."""

    model_config = ConfigDict(
        extra="forbid", strict=True, allow_inf_nan=False, str_max_length=LONGEST_NAME
    )


class FaultyQuestion(Question):
    """What of a machine is missing or slower than its description says."""

    without: list[str] = Field(default_factory=list, max_length=MOST_EXCEPTIONS)
    slow: dict[str, Measure] = Field(default_factory=dict, max_length=MOST_EXCEPTIONS)

    def changed(self, system: System) -> System:
        """The system with that. Raises InputError, naming the flag, for what cannot be so."""
        found: list[Fault] = []
        given = [(name, 0.0, "--without") for name in self.without]
        given += [(name, share, "--slow") for name, share in self.slow.items()]
        for name, share, where in given:
            if where == "--slow" and not 0 < share <= 1:
                told = f"{name} = {share:g}"
                raise InputError(told, where=where, hint="above 0 and at most 1")
            try:
                found.append(fault_of(name, system.hierarchy, share))
            except InputError as error:
                raise error.at(where) from None
        try:
            return system.with_faults(found) if found else system
        except InputError:
            count = first_refused(len(found), lambda n: system.with_faults(found[:n]))
        try:
            return system.with_faults(found[:count])
        except InputError as error:
            raise error.at(given[count - 1][2]) from None


class MachineQuestion(FaultyQuestion):
    """A machine, and what of it is missing or slower."""

    system: Machine

    def machine(self) -> System:
        """The system with all that. Raises InputError for what cannot be so."""
        return self.changed(system_of(self.system))


def axes_of(axes: dict[str, int]) -> tuple[Axis, ...]:
    """Axes by name and size, in their order. Raises InputError for names and sizes of no use."""
    return tuple(Axis(name, size) for name, size in axes.items())


def matrix_of(matrix: Matrix) -> tuple[tuple[int, ...], ...]:
    """A parallelism matrix as it came in JSON, frozen."""
    return tuple(tuple(row) for row in matrix)


def segment_counts(segments: int | str) -> tuple[int, ...]:
    """The numbers of segments to choose from. One is always among them: it may be the best."""
    return SEGMENTS if segments == "auto" else tuple(sorted({1, int(segments)}))


class PlacedQuestion(Question):
    """A program on one placement of the axes of a system."""

    program: ProgramText
    system: Machine
    axes: Axes
    reduce: Names
    placement: Matrix | None = None
    collapse: bool = True
    request: Goal = Field(default=Goal.ALL_REDUCE, strict=False)

    def reduction(self, system: System) -> Reduction:
        """The reduction the program is for.

        Raises InputError where the placement is left out and there are several.
        """
        axes = axes_of(self.axes)
        system.check_even()
        if self.placement is not None:
            placement = Placement(system.hierarchy, axes, matrix_of(self.placement))
        else:
            count = count_placements(system.hierarchy, axes)
            if count > 1:
                raise InputError(
                    f"the axes have {count} placements on {system.hierarchy}",
                    hint="choose one with --placement; 'collsynth place' lists them",
                )
            placement = next(placements(system.hierarchy, axes))
        return Reduction(placement, tuple(self.reduce), self.collapse)


class PerhapsPlacedQuestion(Question):
    """Where a program runs, if that is told."""

    system: PerhapsMachine = None
    axes: Axes | None = None
    reduce: Names | None = None
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
        system = system_of(question.system)
        return system, question.reduction(system)


Q = TypeVar("Q", bound=Question)


def asked(model: type[Q], given: object) -> Q:
    """A question from JSON-like data. Raises InputError, naming the key that cannot be used."""
    check_plain(given)
    try:
        return model.model_validate(given)
    except ValidationError as error:
        raise refused(error) from None
