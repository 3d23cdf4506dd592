"""The routes of these forms: show one, check it as one types, and put its question."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from fastapi import APIRouter, Request
from starlette.responses import Response

from synth.collective.workload.files import shipped_jobs
from synth.service.errors import not_there
from synth.service.page.asking.checks import check
from synth.service.page.asking.rows import FORMS, VerbForm
from synth.service.page.asking.values import example, of_fields, of_question, question
from synth.service.page.one_form import Form, On
from synth.service.page.responses import PageCaller, PageRoute

router = APIRouter(route_class=PageRoute, include_in_schema=False)


def _form(row: VerbForm) -> Form:
    return Form(
        verb=row.verb,
        model=row.model,
        template="verb_form.html",
        here={"plan": "place", "tests": "calibrate"}.get(row.name, row.name),
        example=example(row),
        of_fields=partial(of_fields, row),
        of_question=partial(of_question, row),
        question=partial(question, row),
        check=partial(check, row),
        shown={
            "form": row,
            "usual": row.boxes.usual,
            "hints": row.boxes.hints,
            "jobs": shipped_jobs(),
        },
    )


_FORMS: Mapping[str, Form] = {name: _form(row) for name, row in FORMS.items()}


def _of(name: str) -> Form:
    """The form of that name. Raises RefusalError where there is none."""
    if name not in _FORMS:
        raise not_there("form")
    return _FORMS[name]


@router.get("/ask/{name}")
async def form(
    request: Request, caller: PageCaller, name: str, like: str | None = None, on: On = None
) -> Response:
    """A form, with an example, the question of an answer or of a job, or on its machine."""
    return await _of(name).show(request, caller, like, on)


@router.post("/ask/{name}/check")
async def checked(request: Request, caller: PageCaller, name: str) -> Response:
    """What is wrong with a form so far, by field, and what it comes to."""
    return await _of(name).checked(request, caller)


@router.post("/ask/{name}")
async def put(request: Request, caller: PageCaller, name: str) -> Response:
    """Put the question of a form: on to its answer or its job, or back with what is wrong."""
    return await _of(name).put(request, caller)
