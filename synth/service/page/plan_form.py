"""The form for plans of a model's whole step: its values, checks and routes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, get_args

from fastapi import APIRouter, Request
from starlette.responses import Response

from hierarchies import InputError
from hierarchies.devices import devices
from hierarchies.units import format_bytes
from synth.ask.planning import PlanQuestion
from synth.ask.questions.question import parse_question
from synth.ask.training.machines import accelerator_of, profile_of
from synth.ask.training.planned import StepPlanQuestion
from synth.service.page.boxes import Boxes
from synth.service.page.form_values import machine_of
from synth.service.page.forms import (
    Fields,
    FormFindings,
    first_value,
    read_boxes,
    system_in,
    tell_machine,
)
from synth.service.page.one_form import OnMachine, QuestionForm
from synth.service.page.responses import PageCaller, PageRoute
from synth.step.search.pins import Pins
from synth.step.zoo.sizes import ZOO, sizes_of

router = APIRouter(route_class=PageRoute, include_in_schema=False)
BOXES = Boxes.of(PlanQuestion, {*StepPlanQuestion.model_fields, "k"})
MODELS = [*ZOO]
_OPEN_FIELDS = ("model", "batch", "sequence", "dtype", "pin", "explain")
_CHOICES = {
    name: get_args(PlanQuestion.model_fields[name].annotation) for name in ("dtype", "optimizer")
}
_STUBS = {"system": "dgx-h100", "model": "llama3-8b"}
_FIELD_BY_KEY = {**BOXES.where, "--device": "device"}


@dataclass(frozen=True)
class PlanValues:
    """All fields of the form as text; ``open``: a folded option differs from its default."""

    system: str = "dgx-h100"
    count: str = ""
    own: str = ""
    texts: Mapping[str, str] = field(default_factory=BOXES.usual.copy)
    ticked: frozenset[str] = frozenset()

    @property
    def open(self) -> bool:
        folded = {name: text for name, text in self.texts.items() if name not in _OPEN_FIELDS}
        return bool(self.ticked) or any(
            text not in ("", BOXES.usual[name]) for name, text in folded.items()
        )


EXAMPLE = PlanValues(
    count="2", texts={**BOXES.usual, "model": "llama3-8b", "batch": "64", "sequence": "8192"}
)


def values_of_fields(fields: Fields) -> PlanValues:
    """Return the values of the form as sent."""
    system, count, own = (first_value(fields, name) for name in ("system", "count", "own"))
    ticked = frozenset(name for name in BOXES.switches if first_value(fields, name))
    texts = {name: first_value(fields, name) for name in BOXES.usual}
    return PlanValues(system, count, own, texts, ticked)


def values_of_question(question: PlanQuestion) -> PlanValues:
    """Return the values with which the form asks a question of ``plan`` again."""
    own, name, count = machine_of(question)
    answers = {box: getattr(question, entry.name) for box, entry in BOXES.by_name.items()}
    texts = {
        box: "" if answers[box] is None else BOXES.written(box, answers[box]) for box in BOXES.usual
    }
    ticked = frozenset(box for box in BOXES.switches if answers[box] is BOXES.typed(box, "yes"))
    return PlanValues(name, count, own, texts, ticked)


def question(fields: Fields) -> tuple[dict[str, Any], FormFindings]:
    """Return the question as JSON, and the problems of converting the form to it."""
    checked = FormFindings(where=_FIELD_BY_KEY)
    parsed = {"system": system_in(fields), **read_boxes(fields, BOXES, checked)}
    if "model" not in parsed:
        checked.note("model", InputError("no model is given", hint="llama3-8b, for one"))
    return parsed, checked


def check(
    parsed: Mapping[str, Any], checked: FormFindings, limit: Callable[[PlanQuestion], None]
) -> FormFindings:
    """Note problems of a question that quick checks can find.

    ``limit`` raises InputError if a question exceeds this server's limits.
    """
    sound = _drop_wrong_fields({**_STUBS, **parsed}, checked)
    with checked.noting("system"):
        limit(sound)
        machine = sound.machine()
        tell_machine(machine, checked)
        machine.check_even()
        with checked.noting("device"):
            device = accelerator_of(machine, sound.device)
            checked.tell("device", f"{device.name}, {format_bytes(device.memory_bytes)}")
            with checked.noting("profile"):
                profile_of(sound.profile, device, machine.devices)
    for name in ("pin", "explain"):
        with checked.noting(name):
            Pins.parse(getattr(sound, name))
    if "model" not in checked.wrong:
        _check_model(sound, checked)
    return checked


def _check_model(sound: PlanQuestion, checked: FormFindings) -> None:
    """Note the model's size and the tokens of a step."""
    assert sound.model is not None
    cut = {} if sound.sequence is None else {"sequence": sound.sequence}
    with checked.noting("model"):
        sizes = sizes_of(sound.model, {**sound.sizes, **cut})
        layers = getattr(sizes, "layers", 0)
        depth = f"{layers} layers" if layers else "blocks that differ"
        checked.tell("model", f"{depth}, width {sizes.width:,}")
        if tokens := getattr(sizes, "sequence", 0):
            checked.tell("batch", f"{sound.batch * tokens:,} tokens a step, {tokens:,} a sample")


def _drop_wrong_fields(parsed: dict[str, Any], checked: FormFindings) -> PlanQuestion:
    """Parse a question without its wrong fields, which are noted; required ones become stubs."""
    while True:
        try:
            return parse_question(PlanQuestion, parsed)
        except InputError as error:
            name = error.where.partition(".")[0].partition(",")[0]
            box = _FIELD_BY_KEY.get(name, name)
            checked.note(box if box in BOXES.by_name else "system", error)
            if parsed.get(name) != _STUBS.get(name) and name in _STUBS:
                parsed[name] = _STUBS[name]
            elif name in parsed and name not in _STUBS:
                del parsed[name]
            else:
                parsed["system"] = _STUBS["system"]


_FORM = QuestionForm(
    verb="plan",
    model=PlanQuestion,
    template="plan_form.html",
    here="plan",
    example=EXAMPLE,
    of_fields=values_of_fields,
    of_question=values_of_question,
    question=question,
    check=check,
    shown={
        "models": MODELS,
        "choices": _CHOICES,
        "devices": devices(),
        "switches": BOXES.switches,
        "usual": BOXES.usual,
        "hints": BOXES.hints,
    },
)


@router.get("/plan")
async def show_form(
    request: Request, caller: PageCaller, like: str | None = None, on: OnMachine = None
) -> Response:
    """Show the form with an example, a question asked before, or the machine of an answer."""
    return await _FORM.show(request, caller, like, on)


@router.post("/plan/check")
async def check_form(request: Request, caller: PageCaller) -> Response:
    """Return problems and facts of the form so far, by field."""
    return await _FORM.report(request, caller)


@router.post("/plan")
async def put_form(request: Request, caller: PageCaller) -> Response:
    """Ask the question of the form; redirect to its answer or job, or show the problems."""
    return await _FORM.ask(request, caller)
