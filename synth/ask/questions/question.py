"""The common parts of all questions, which are checked before any work is done."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from grammar import Goal
from hierarchies import (
    MOST_EXCEPTIONS,
    Axis,
    Fault,
    InputError,
    Placement,
    Reduction,
    System,
    count_placements,
    error_context,
    find_first_refused,
    parse_fault,
    placements,
)
from synth.ask.questions import notations
from synth.ask.questions.fields import Flag
from synth.ask.questions.flags import (
    Axes,
    Collapse,
    Machine,
    Matrix,
    Measure,
    Nccl,
    OnePlacement,
    OptionalAxes,
    OptionalMachine,
    OptionalReducedAxes,
    Prices,
    ProgramText,
    ReducedAxes,
    RequestedGoal,
)
from synth.ask.questions.named_texts import LONGEST_NAME, system_of
from synth.ask.questions.plain import check_plain, input_error_of, shorten_value
from synth.collective.algorithms.nccl_versions import check_version, version_of
from synth.collective.price.segments import SEGMENTS
from synth.measure.calibration.typical import apply_typical

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

S = TypeVar("S", bound="DataclassInstance")


class Question(BaseModel):
    """What all questions have in common: nothing is guessed, unknown keys are refused."""

    model_config = ConfigDict(
        extra="forbid", strict=True, allow_inf_nan=False, str_max_length=LONGEST_NAME
    )

    def check_early(self) -> None:
        """Raises InputError for what the verb would refuse before it begins to search.

        A service says it at once, before the question waits for its turn.
        """

    def fill(self, settings: type[S], **others: Any) -> S:
        """Settings whose fields are the question's of the same names, and ``others``."""
        given = {name: getattr(self, name) for name in type(self).model_fields}
        names = {field.name for field in fields(settings)} & given.keys()
        return settings(**{name: given[name] for name in names} | others)


class FaultyQuestion(Question):
    """What of a machine is missing or slower than its description says."""

    without: Annotated[
        list[str],
        Flag(
            "Missing units: node3, node3/gpu5, node3/nic2",
            ". Repeatable",
            "--without...",
            notations.SEVERAL_NAMES,
        ),
    ] = Field(default_factory=list, max_length=MOST_EXCEPTIONS)
    slow: Annotated[
        dict[str, Measure],
        Flag(
            "Units with a share of their bandwidth",
            ", as in node3/nic2=0.5. Repeatable",
            "--slow...",
            notations.SHARES,
        ),
    ] = Field(default_factory=dict, max_length=MOST_EXCEPTIONS)

    def changed(self, system: System) -> System:
        """Returns the system with those faults.

        Raises InputError, naming the flag, for impossible ones.
        """
        found: list[Fault] = []
        given = [(name, 0.0, "--without") for name in self.without]
        given += [(name, share, "--slow") for name, share in self.slow.items()]
        for name, share, where in given:
            with error_context(where):
                if where == "--slow" and not 0 < share <= 1:
                    raise InputError(f"{name} = {share:g}", hint="above 0 and at most 1")
                found.append(parse_fault(name, system.hierarchy, share))
        try:
            return system.with_faults(found) if found else system
        except InputError:
            count = find_first_refused(len(found), lambda n: system.with_faults(found[:n]))
        with error_context(given[count - 1][2]):
            return system.with_faults(found[:count])


class PricedQuestion(Question):
    """Which prices an uncalibrated machine has, and which version of NCCL."""

    prices: Prices = "typical"
    nccl: Nccl = None

    def priced(self, system: System) -> System:
        """The system, priced by what its links' media reach unless data sheets are asked for.

        Its version of NCCL is the question's, if that states one. Raises InputError for a version
        that is not known, and for one of NCCL on a machine that has another library.
        """
        if self.nccl is not None:
            with error_context("--nccl"):
                system = replace(system, nccl=check_version(self.nccl, system))
        with error_context("calibration, nccl"):
            version_of(system)
        return apply_typical(system) if self.prices == "typical" else system


class MachineQuestion(FaultyQuestion, PricedQuestion):
    """A machine, and what of it is missing or slower."""

    system: Machine

    def machine(self) -> System:
        """Returns the system with its faults. Raises InputError for impossible ones."""
        return self.priced(self.changed(system_of(self.system)))


def axes_of(axes: dict[str, int]) -> tuple[Axis, ...]:
    """Axes by name and size, in their order. Raises InputError for names and sizes of no use."""
    return tuple(Axis(name, size) for name, size in axes.items())


def matrix_of(matrix: Matrix) -> tuple[tuple[int, ...], ...]:
    """Returns a parallelism matrix as it came in JSON, frozen."""
    return tuple(tuple(row) for row in matrix)


def segment_counts(segments: int | str) -> tuple[int, ...]:
    """Returns the numbers of segments to choose from.

    One is always among them: it may be the best.
    """
    return SEGMENTS if segments == "auto" else tuple(sorted({1, int(segments)}))


class PlacedQuestion(Question):
    """A program on one placement of the axes of a system."""

    program: ProgramText
    system: Machine
    axes: Axes
    reduce: ReducedAxes
    placement: OnePlacement = None
    collapse: Collapse = True
    request: RequestedGoal = Goal.ALL_REDUCE

    def reduction(self, system: System) -> Reduction:
        """Returns the reduction the program is for.

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


class ProgramQuestion(Question):
    """A program and where it runs, as far as that is given."""

    program: ProgramText | None = None
    system: OptionalMachine = None
    axes: OptionalAxes = None
    reduce: OptionalReducedAxes = None
    placement: OnePlacement = None
    collapse: Collapse = True

    def place(self, program: str) -> tuple[System, Reduction]:
        """Returns the system, and the reduction a program is for.

        Raises InputError for what is missing.
        """
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
_MOST_ERRORS = 1000


def parse_question(model: type[Q], given: object) -> Q:
    """Returns a question from JSON-like data.

    Raises InputError, naming the key that cannot be used.
    """
    check_plain(given)
    try:
        return model.model_validate(given)
    except ValidationError as error:
        if error.error_count() <= _MOST_ERRORS:
            raise input_error_of(error, given) from None
        count = error.error_count()
    try:  # pydantic takes longer to report the first of very many errors than all of a few
        model.model_validate(shorten_value(given))
    except ValidationError as error:
        raise input_error_of(error, given) from None
    raise InputError(f"{count} mistakes in it", hint="the schema says what it may hold")
