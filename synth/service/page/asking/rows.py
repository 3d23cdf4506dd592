"""The verbs with a form here, their inputs, and the boxes of their flags."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from synth.ask.measured import CalibrateQuestion, DoctorQuestion
from synth.ask.planning import CostQuestion, PlanQuestion, SweepQuestion
from synth.ask.questions.question import Question
from synth.service.page.boxes import Boxes

NeededInput = Literal["system", "systems", "job", "logs"]
"""Inputs with more than a box: a machine, several machines, a job, logs."""
_SEARCH = ("max_steps", "algorithm", "segments", "placement", "no_stripes")


@dataclass(frozen=True)
class VerbForm:
    """A form: its texts, its inputs, and the boxes that are always visible or folded.

    ``name`` is used in its URL; ``fixed`` are keys of every question that it asks.
    """

    name: str
    verb: str
    model: type[Question]
    title: str
    lead: str
    button: str
    needs: Sequence[NeededInput]
    seen: Sequence[str]
    folded: Sequence[str]
    stubs: Mapping[str, Any]
    fixed: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def boxes(self) -> Boxes:
        """The boxes by name."""
        every = Boxes.of(self.model, self.model.model_fields)
        names = {every.by_name[name].name for name in (*self.seen, *self.folded)}
        return Boxes.of(self.model, names)

    @cached_property
    def choices(self) -> Mapping[str, Sequence[str]]:
        """The choices of boxes that are not free text."""
        fields = self.model.model_fields
        choices = {
            name: _choices(fields[entry.name].annotation)
            for name, entry in self.boxes.by_name.items()
        }
        return {name: values for name, values in choices.items() if values}

    @cached_property
    def where(self) -> Mapping[str, str]:
        """The box of each flag and key that an error may name."""
        keys = {entry.name: name for name, entry in self.boxes.by_name.items()}
        needed: dict[str, str] = {name: name for name in self.needs}
        return {**self.boxes.where, **keys, **needed, "SYSTEM": "system", "files": "logs"}


def _choices(annotation: Any) -> Sequence[str]:
    """The values of an enumeration or literal type; empty for other types."""
    if get_origin(annotation) is Annotated:
        return _choices(get_args(annotation)[0])
    if get_origin(annotation) is Literal:
        return [str(value) for value in get_args(annotation)]
    if get_origin(annotation) in (Union, UnionType):
        return ()
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return [str(value.value) for value in annotation]
    return ()


_COLLECTIVE = ("axes", "reduce", "request", "bytes")
_AXES: Mapping[str, Any] = {"axes": {}, "reduce": []}
_ROWS = (
    VerbForm(
        "sweep",
        "sweep",
        SweepQuestion,
        "On which of several machines is a collective fastest?",
        "The same question is put to each of them; their best answers are compared.",
        "Compare the machines",
        ("systems",),
        (*_COLLECTIVE, "k"),
        (*_SEARCH, "without", "slow", "prices"),
        {"systems": ["dgx-h100"], **_AXES},
    ),
    VerbForm(
        "cost",
        "cost",
        CostQuestion,
        "What does it cost that something is missing or slower?",
        "The best on the whole machine beside the best on the one at hand, and what else could "
        "be done.",
        "Tell the cost",
        ("system",),
        ("without", "slow", *_COLLECTIVE),
        (*_SEARCH, "prices"),
        {"system": "dgx-h100", **_AXES},
    ),
    VerbForm(
        "plan",
        "plan",
        PlanQuestion,
        "Where should the axes of this job lie?",
        "A job lists all that a training step sends. The one placement is found, and the sizes of "
        "axes that are left open, with the least exposed communication.",
        "Find the placement",
        ("job", "system"),
        ("k",),
        (*_SEARCH, "without", "slow", "prices"),
        {"system": "dgx-h100", "job": "gpt-18b-3d"},
    ),
    VerbForm(
        "doctor",
        "doctor",
        DoctorQuestion,
        "What should this machine deliver, and why does it not?",
        "Logs of nccl-tests or rccl-tests beside what the machine should deliver and what no "
        "schedule can beat; the level that falls short is named where the numbers tell.",
        "Look at the logs",
        ("system", "logs"),
        (),
        ("collective", "hosts", "members", "prices"),
        {"system": "dgx-h100", "files": []},
    ),
    VerbForm(
        "calibrate",
        "calibrate",
        CalibrateQuestion,
        "What do measurements say of this machine?",
        "Logs of nccl-tests or rccl-tests are fitted: the description with its calibration is "
        "what to ask with from then on.",
        "Calibrate",
        ("system", "logs"),
        (),
        ("collective", "hosts", "members"),
        {"system": "dgx-h100", "files": []},
    ),
    VerbForm(
        "tests",
        "calibrate",
        CalibrateQuestion,
        "Which tests should be run on this machine?",
        "The lines that start nccl-tests or rccl-tests, with what each of them tells, as a script. "
        "Nothing is run here; the logs are then checked, or calibrated with.",
        "Print the tests",
        ("system",),
        ("only", "launcher"),
        (),
        {"system": "dgx-h100"},
        {"plan": True},
    ),
)
FORMS: Mapping[str, VerbForm] = {row.name: row for row in _ROWS}
"""All forms by name."""
