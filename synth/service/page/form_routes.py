"""The routes of the form for one collective: show it, check it, and ask its question."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import Response

from grammar import Goal
from synth.ask.planning import TopQuestion
from synth.ask.questions.notations import A_RANGE
from synth.collective.algorithms.algorithms import Choice
from synth.service.page.collective_rows import CollectiveRow
from synth.service.page.form_values import (
    DEFAULT_TEXTS,
    EXAMPLE,
    HINTS,
    SWITCHES,
    reduce_over_all,
    values_of_fields,
    values_of_question,
)
from synth.service.page.forms import check, question
from synth.service.page.one_form import OnMachine, QuestionForm
from synth.service.page.responses import PageCaller, PageRoute

router = APIRouter(route_class=PageRoute, include_in_schema=False)
_FORM = QuestionForm(
    verb="top",
    model=TopQuestion,
    template="form.html",
    here="form",
    example=EXAMPLE,
    of_fields=values_of_fields,
    of_question=values_of_question,
    question=question,
    check=check,
    shown={
        "goals": Goal,
        "a_range": A_RANGE,
        "algorithms": Choice,
        "a_row": CollectiveRow(),
        "switches": SWITCHES,
        "usual": DEFAULT_TEXTS,
        "hints": HINTS,
    },
    over=reduce_over_all,
)


@router.get("/")
async def show_form(
    request: Request, caller: PageCaller, like: str | None = None, on: OnMachine = None
) -> Response:
    """The form, with an example, the question of an answer or of a job, or on its machine."""
    return await _FORM.show(request, caller, like, on)


@router.post("/page/check")
async def check_form(request: Request, caller: PageCaller) -> Response:
    """What is wrong with the form so far, by field, and what the machine and the axes come to."""
    return await _FORM.checked(request, caller)


@router.post("/")
async def put_form(request: Request, caller: PageCaller) -> Response:
    """Put the question of the form: on to its answer or its job, or back with what is wrong."""
    return await _FORM.put(request, caller)
