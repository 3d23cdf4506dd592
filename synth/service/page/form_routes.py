"""The routes of the form for one collective: show it, check it, ask its question."""

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
    """Show the form with an example, a question asked before, or the machine of an answer."""
    return await _FORM.show(request, caller, like, on)


@router.post("/page/check")
async def check_form(request: Request, caller: PageCaller) -> Response:
    """Return problems and facts of the form so far, by field."""
    return await _FORM.report(request, caller)


@router.post("/")
async def put_form(request: Request, caller: PageCaller) -> Response:
    """Ask the question of the form; redirect to its answer or job, or show the problems."""
    return await _FORM.ask(request, caller)
