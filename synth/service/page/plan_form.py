"""The form for plans of a model's whole step: what is typed, what is wrong with it, its routes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, get_args

from fastapi import APIRouter, Request
from starlette.responses import Response

from hierarchies import InputError
from hierarchies.devices import devices
from hierarchies.units import volume
from synth.service.page.boxes import Boxes
from synth.service.page.form_values import machine_of
from synth.service.page.forms import Checked, Fields, one_of, system_in, tell_machine, typed_in
from synth.service.page.one_form import Form, On
from synth.service.page.responses import PageCaller, PageRoute
from synth.train.planner.pins import Pins
from synth.train.zoo.sizes import ZOO, sizes_of
from synth.verbs.planning import PlanQuestion
from synth.verbs.questions.question import asked
from synth.verbs.training.machines import accelerator_of, profile_of
from synth.verbs.training.planned import StepPlanQuestion

router = APIRouter(route_class=PageRoute, include_in_schema=False)
BOXES = Boxes.of(PlanQuestion, {*StepPlanQuestion.model_fields, "k"})
MODELS = [*ZOO]
_SEEN = ("model", "batch", "sequence", "dtype", "pin", "explain")
_CHOICES = {
    name: get_args(PlanQuestion.model_fields[name].annotation) for name in ("dtype", "optimizer")
}
_STUBS = {"system": "dgx-h100", "model": "llama3-8b"}
_WHERE = {**BOXES.where, "--device": "device"}


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
        folded = {name: text for name, text in self.texts.items() if name not in _SEEN}
        return bool(self.ticked) or any(
            text not in ("", BOXES.usual[name]) for name, text in folded.items()
        )


EXAMPLE = PlanValues(
    count="2", texts={**BOXES.usual, "model": "llama3-8b", "batch": "64", "sequence": "8192"}
)


def of_fields(fields: Fields) -> PlanValues:
    """The form as it was sent."""
    system, count, own = (one_of(fields, name) for name in ("system", "count", "own"))
    ticked = frozenset(name for name in BOXES.switches if one_of(fields, name))
    texts = {name: one_of(fields, name) for name in BOXES.usual}
    return PlanValues(system, count, own, texts, ticked)


def of_question(asked: PlanQuestion) -> PlanValues:
    """The form that would put a question of ``plan`` for a model again."""
    own, name, count = machine_of(asked)
    given = {box: getattr(asked, one.name) for box, one in BOXES.by_name.items()}
    texts = {
        box: "" if given[box] is None else BOXES.written(box, given[box]) for box in BOXES.usual
    }
    ticked = frozenset(box for box in BOXES.switches if given[box] is BOXES.typed(box, "yes"))
    return PlanValues(name, count, own, texts, ticked)


def question(fields: Fields) -> tuple[dict[str, Any], Checked]:
    """The question as JSON, and what could not be made one."""
    checked = Checked(where=_WHERE)
    given = {"system": system_in(fields), **typed_in(fields, BOXES, checked)}
    if "model" not in given:
        checked.note("model", InputError("no model is given", hint="llama3-8b, for one"))
    return given, checked


def check(
    given: Mapping[str, Any], checked: Checked, limit: Callable[[PlanQuestion], None]
) -> Checked:
    """Everything that is wrong with a question, as far as it can be known at once.

    ``limit`` raises InputError for a question that asks for too much here.
    """
    sound = _sound({**_STUBS, **given}, checked)
    with checked.noting("system"):
        limit(sound)
        machine = sound.machine()
        tell_machine(machine, checked)
        machine.check_even()
        with checked.noting("device"):
            device = accelerator_of(machine, sound.device)
            checked.tell("device", f"{device.name}, {volume(device.memory_bytes)}")
            with checked.noting("profile"):
                profile_of(sound.profile, device, machine.devices)
    for name in ("pin", "explain"):
        with checked.noting(name):
            Pins.parse(getattr(sound, name))
    if "model" not in checked.wrong:
        _check_model(sound, checked)
    return checked


def _check_model(sound: PlanQuestion, checked: Checked) -> None:
    """Note what the model is, and how many tokens a step has."""
    assert sound.model is not None
    cut = {} if sound.sequence is None else {"sequence": sound.sequence}
    with checked.noting("model"):
        sizes = sizes_of(sound.model, {**sound.sizes, **cut})
        layers = getattr(sizes, "layers", 0)
        told = f"{layers} layers" if layers else "blocks that differ"
        checked.tell("model", f"{told}, width {sizes.width:,}")
        if tokens := getattr(sizes, "sequence", 0):
            checked.tell("batch", f"{sound.batch * tokens:,} tokens a step, {tokens:,} a sample")


def _sound(given: dict[str, Any], checked: Checked) -> PlanQuestion:
    """The question without its wrong fields, which are noted; required ones become stand-ins."""
    while True:
        try:
            return asked(PlanQuestion, given)
        except InputError as error:
            name = error.where.partition(".")[0].partition(",")[0]
            box = _WHERE.get(name, name)
            checked.note(box if box in BOXES.by_name else "system", error)
            if given.get(name) != _STUBS.get(name) and name in _STUBS:
                given[name] = _STUBS[name]
            elif name in given and name not in _STUBS:
                del given[name]
            else:
                given["system"] = _STUBS["system"]


_FORM = Form(
    verb="plan",
    model=PlanQuestion,
    template="plan_form.html",
    here="plan",
    example=EXAMPLE,
    of_fields=of_fields,
    of_question=of_question,
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
async def form(
    request: Request, caller: PageCaller, like: str | None = None, on: On = None
) -> Response:
    """The form, with an example, the question of an answer or of a job, or on its machine."""
    return await _FORM.show(request, caller, like, on)


@router.post("/plan/check")
async def checked(request: Request, caller: PageCaller) -> Response:
    """What is wrong with the form so far, by field, and what it comes to."""
    return await _FORM.checked(request, caller)


@router.post("/plan")
async def put(request: Request, caller: PageCaller) -> Response:
    """Put the question of the form: on to its answer or its job, or back with what is wrong."""
    return await _FORM.put(request, caller)
