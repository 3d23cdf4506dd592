"""The routes of these forms: show one, check it while the user types, and ask its question."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from fastapi import APIRouter, Request
from starlette.responses import Response

from synth.collective.workload.files import shipped_jobs
from synth.service.errors import not_found
from synth.service.page.asking.checks import check
from synth.service.page.asking.rows import FORMS, VerbForm
from synth.service.page.asking.values import example, question, values_of_fields, values_of_question
from synth.service.page.one_form import OnMachine, QuestionForm
from synth.service.page.responses import PageCaller, PageRoute

router = APIRouter(route_class=PageRoute, include_in_schema=False)


def _form(row: VerbForm) -> QuestionForm:
    return QuestionForm(
        verb=row.verb,
        model=row.model,
        template="verb_form.html",
        here={"plan": "place", "tests": "calibrate"}.get(row.name, row.name),
        example=example(row),
        of_fields=partial(values_of_fields, row),
        of_question=partial(values_of_question, row),
        question=partial(question, row),
        check=partial(check, row),
        shown={
            "form": row,
            "usual": row.boxes.usual,
            "hints": row.boxes.hints,
            "jobs": shipped_jobs(),
        },
    )


_FORMS: Mapping[str, QuestionForm] = {name: _form(row) for name, row in FORMS.items()}


def _form_of(name: str) -> QuestionForm:
    """Return the form of that name. Raises RefusalError if there is none."""
    if name not in _FORMS:
        raise not_found("form")
    return _FORMS[name]


@router.get("/ask/{name}")
async def show_form(
    request: Request, caller: PageCaller, name: str, like: str | None = None, on: OnMachine = None
) -> Response:
    """Show a form with an example, a question asked before, or the machine of an answer."""
    return await _form_of(name).show(request, caller, like, on)


@router.post("/ask/{name}/check")
async def check_form(request: Request, caller: PageCaller, name: str) -> Response:
    """Return problems and facts of a form so far, by field."""
    return await _form_of(name).report(request, caller)


@router.post("/ask/{name}")
async def put_form(request: Request, caller: PageCaller, name: str) -> Response:
    """Ask the question of a form; redirect to its answer or job, or show the problems."""
    return await _form_of(name).ask(request, caller)
