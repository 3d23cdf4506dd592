"""What questions have in common: sizes, axes, placed programs; checked before any work is done."""

from __future__ import annotations

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
from synth.collectives.algorithms import Choice
from synth.price.segments import SEGMENTS
from synth.verbs import notations
from synth.verbs.fields import File, Flag, Harmless, Limited
from synth.verbs.named_texts import LONGEST_NAME, Given, system_of
from synth.verbs.notations import size_in_bytes
from synth.verbs.plain import check_plain, refused


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


_ONE_SIZE = Flag("The whole tensor on each device", ", e.g. 64MiB", notation=notations.SIZES)

Figure = Annotated[int, _RECKONED]
Measure = Annotated[float, _RECKONED]
Size = Annotated[Figure, BeforeValidator(_size, json_schema_input_type=int | str)]
Bytes = Annotated[Size, _ONE_SIZE]
OneOrMoreBytes = Annotated[
    Figure | tuple[Figure, Figure],
    BeforeValidator(_sizes, json_schema_input_type=int | str | tuple[int | str, int | str]),
    _ONE_SIZE,
    Flag("The whole tensor on each device", ", e.g. 64MiB; or a range: 1KiB..4GiB"),
]
PerhapsBytes = Annotated[Size | None, _ONE_SIZE]

_AXES = Flag("Names and sizes", ", as in data=8,model=4", notation=notations.AXES)
_REDUCE = Flag("Axes the request is over", ", separated by commas", notation=notations.NAMES)
Axes = Annotated[dict[str, Annotated[int, _FACTOR]], Field(max_length=MOST_AXES), _AXES]
PerhapsAxes = Annotated[Axes | None, _AXES]
Names = Annotated[list[str], Field(max_length=MOST_AXES)]
Over = Annotated[Names, _REDUCE]
PerhapsOver = Annotated[Names | None, _REDUCE]
Numbers = Annotated[list[Annotated[int, _FACTOR]], Field(max_length=MOST_AXES)]
Matrix = Annotated[list[Numbers], Field(max_length=MOST_AXES)]
OnePlacement = Annotated[
    Matrix | None,
    Flag("One placement", ", as in '[[1, 8], [4, 1]]'", notation=notations.MATRIX),
]
Collapse = Annotated[bool, Flag("One tree digit for each axis on a level", spelled="--no-collapse")]
Requested = Annotated[
    Goal,
    Field(strict=False),
    Flag(f"What is asked for: {', '.join(goal.value for goal in Goal)}"),
]
ProgramText = Annotated[
    str,
    Field(max_length=2**16),
    Flag("A program", ", a file with one, or - for stdin", "PROGRAM", file=File.PROGRAM),
]
_SYSTEM = Flag("A catalogue name, name:N, or a TOML file", spelled="SYSTEM", file=File.SYSTEM)
Machine = Annotated[Given, Limited.SYSTEM, _SYSTEM]
PerhapsMachine = Annotated[Given | None, Limited.SYSTEM, _SYSTEM]
MaxSteps = Annotated[int, Limited.MAX_STEPS, Flag("The longest programs to look at")]
Across = Annotated[bool, Flag("Also groups over any set of digits")]
Algorithm = Annotated[
    Choice,
    Field(strict=False),
    Flag("ring, tree, or auto: the fastest that the links have, for each step"),
]
Segments = Annotated[
    Annotated[int, Field(ge=1, le=4096)] | Literal["auto"],
    Flag(
        "N: in one or in N segments, whose steps overlap; auto: the best of several",
        notation=notations.SEGMENTS,
    ),
]
Stripes = Annotated[
    bool, Flag("One program for the whole payload, none side by side", spelled="--no-stripes")
]


class Question(BaseModel):
    """What all questions have in common: nothing is guessed, unknown keys are refused."""

    model_config = ConfigDict(
        extra="forbid", strict=True, allow_inf_nan=False, str_max_length=LONGEST_NAME
    )


class FaultyQuestion(Question):
    """What of a machine is missing or slower than its description says."""

    without: Annotated[
        list[str],
        Flag(
            "What is missing: node3, node3/gpu5, node3/nic2",
            ". Repeatable",
            "--without...",
            notations.SEVERAL_NAMES,
        ),
    ] = Field(default_factory=list, max_length=MOST_EXCEPTIONS)
    slow: Annotated[
        dict[str, Measure],
        Flag(
            "What has less bandwidth",
            ", as in node3/nic2=0.5. Repeatable",
            "--slow...",
            notations.SHARES,
        ),
    ] = Field(default_factory=dict, max_length=MOST_EXCEPTIONS)

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
    reduce: Over
    placement: OnePlacement = None
    collapse: Collapse = True
    request: Requested = Goal.ALL_REDUCE

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
    """A program and where it runs, as far as that is told."""

    program: ProgramText | None = None
    system: PerhapsMachine = None
    axes: PerhapsAxes = None
    reduce: PerhapsOver = None
    placement: OnePlacement = None
    collapse: Collapse = True

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
