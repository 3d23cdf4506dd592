"""The flags that several verbs share: their meaning, notation and limits.

``--bytes``, ``--segments`` and ``--no-stripes`` mean the same in every verb. Therefore each is
defined here once, as the type of its field. A flag of a single verb is defined in its question.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from grammar import Goal
from hierarchies import MOST_AXES
from synth.ask.questions import notations
from synth.ask.questions.fields import CostLimit, File, Flag, LimitExemption
from synth.ask.questions.named_texts import NameOrText
from synth.ask.questions.notations import size_in_bytes
from synth.collective.algorithms.algorithms import Choice
from synth.collective.algorithms.nccl_versions import DEFAULT


def _parse_size(value: object) -> object:
    return _read(value)


def _read(value: object, otherwise: str = "") -> object:
    return size_in_bytes(value, otherwise) if isinstance(value, (str, int)) else value


_A_RANGE = f"; or a range of sizes, as in {notations.A_RANGE}"


def _parse_sizes(value: object) -> object:
    """``1KiB..4GiB`` as the sizes at both ends; anything else as one size."""
    if isinstance(value, str) and ".." in value:
        value = value.split("..", 1)
    if isinstance(value, (list, tuple)):
        return tuple(_read(end, _A_RANGE) for end in value)
    return _read(value, _A_RANGE)


_NO_LIMIT = LimitExemption("it is reckoned with: a larger one takes no longer")
_FACTOR = LimitExemption("the product must be that of the system's devices")


_ONE_SIZE = Flag(
    "Size of the whole tensor on each device", ", e.g. 64MiB", notation=notations.SIZES
)

Figure = Annotated[int, _NO_LIMIT]
Measure = Annotated[float, _NO_LIMIT]
Size = Annotated[Figure, BeforeValidator(_parse_size, json_schema_input_type=int | str)]
Bytes = Annotated[Size, _ONE_SIZE]
OneOrMoreBytes = Annotated[
    Figure | tuple[Figure, Figure],
    BeforeValidator(_parse_sizes, json_schema_input_type=int | str | tuple[int | str, int | str]),
    _ONE_SIZE,
    Flag(
        "Size of the whole tensor on each device", f", e.g. 64MiB; or a range: {notations.A_RANGE}"
    ),
]
OptionalBytes = Annotated[Size | None, _ONE_SIZE]

_AXES = Flag("Names and sizes of axes", ", as in data=8,model=4", notation=notations.AXES)
_REDUCE = Flag("Axes of the request", ", separated by commas", notation=notations.NAMES)
Axes = Annotated[dict[str, Annotated[int, _FACTOR]], Field(max_length=MOST_AXES), _AXES]
OptionalAxes = Annotated[Axes | None, _AXES]
Names = Annotated[list[str], Field(max_length=MOST_AXES)]
ReducedAxes = Annotated[Names, _REDUCE]
OptionalReducedAxes = Annotated[Names | None, _REDUCE]
Numbers = Annotated[list[Annotated[int, _FACTOR]], Field(max_length=MOST_AXES)]
Matrix = Annotated[list[Numbers], Field(max_length=MOST_AXES)]
OnePlacement = Annotated[
    Matrix | None,
    Flag("One placement", ", as in '[[1, 8], [4, 1]]'", notation=notations.MATRIX),
]
Collapse = Annotated[
    bool, Flag("Use one tree digit for each axis on a level", spelled="--no-collapse")
]
RequestedGoal = Annotated[
    Goal,
    Field(strict=False),
    Flag(f"What is asked for: {', '.join(goal.value for goal in Goal)}"),
]
ProgramText = Annotated[
    str,
    Field(max_length=2**16),
    Flag("Program", ", a file with one, or - for stdin", "PROGRAM", file=File.PROGRAM),
]
_SYSTEM = Flag(
    "A catalogue name, name:N or name:AxB, or a TOML file", spelled="SYSTEM", file=File.SYSTEM
)
Machine = Annotated[NameOrText, CostLimit.SYSTEM, _SYSTEM]
OptionalMachine = Annotated[NameOrText | None, CostLimit.SYSTEM, _SYSTEM]
MaxSteps = Annotated[int, CostLimit.MAX_STEPS, Flag("Maximal number of steps of a program")]
AcrossGroups = Annotated[bool, Flag("Also search groups over any set of digits")]
Algorithm = Annotated[
    Choice,
    Field(strict=False),
    Flag(
        "auto: the fastest that the runtime has for each step; any: the fastest on the links; or "
        + ", ".join(choice.value for choice in Choice if choice.one)
    ),
]
Segments = Annotated[
    Annotated[int, Field(ge=1, le=4096)] | Literal["auto"],
    Flag(
        "Segments the payload is pipelined in: N for one or N, or auto for the best",
        notation=notations.SEGMENTS,
    ),
]
Prices = Annotated[
    Literal["typical", "stated"],
    Flag("Prices without a calibration: typical of such links, or stated by data sheets"),
]
Nccl = Annotated[
    str | None,
    Flag(
        "Version of NCCL or RCCL",
        f", e.g. 2.29.7, unless the calibration's or {DEFAULT}",
    ),
]
Stripes = Annotated[
    bool, Flag("Use one program for the whole payload, without stripes", spelled="--no-stripes")
]
