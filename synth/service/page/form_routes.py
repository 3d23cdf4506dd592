"""The routes of the form: show it, check it while the user types, and ask its question."""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import JSONResponse, Response

from grammar import Goal
from hierarchies import InputError, catalogue, load
from synth.collectives.algorithms import Choice
from synth.service.auth.identity import Caller
from synth.service.http.reading import body_of, check_type
from synth.service.http.state import state_of
from synth.service.jobs.questions import own_names, with_own
from synth.service.page.answer_routes import asked_on_page, question_like
from synth.service.page.form_values import (
    EXAMPLE,
    HINTS,
    SWITCHES,
    USUAL,
    FormValues,
    of_fields,
    of_question,
)
from synth.service.page.forms import Checked, Fields, check, question, read
from synth.service.page.responses import PageCaller, PageRoute, page
from synth.verbs.planning import TopQuestion
from synth.verbs.questions.question import asked

router = APIRouter(route_class=PageRoute, include_in_schema=False)
_FORM = "application/x-www-form-urlencoded"


@router.get("/")
async def form(request: Request, caller: PageCaller, like: str | None = None) -> Response:
    """The form, with an example or with the question of an answer or of a job."""
    found = await question_like(request, caller, like, "top")
    values = of_question(asked(TopQuestion, found)) if found else EXAMPLE
    return await _form(request, caller, values, Checked())


@router.post("/page/check")
async def checked(request: Request, caller: PageCaller) -> Response:
    """What is wrong with the form so far, by field, and what the machine and the axes come to."""
    _, found = await _checked(request, caller, await _fields(request))
    return JSONResponse({"wrong": found.wrong, "told": found.told})


@router.post("/")
async def put(request: Request, caller: PageCaller) -> Response:
    """Put the question of the form: on to its answer or its job, or back with what is wrong."""
    fields = await _fields(request)
    given, found = await _checked(request, caller, fields)
    if found.wrong:
        return await _form(request, caller, of_fields(fields), found)
    try:
        return await asked_on_page(request, caller, "top", given)
    except InputError as error:
        found.note("form", error)
    return await _form(request, caller, of_fields(fields), found)


async def sent_form(request: Request, most_bytes: int) -> Fields:
    """The fields of a form that a browser sends. Raises InputError for what no browser sends."""
    check_type(request, _FORM)
    seconds = state_of(request).settings.limits.body_seconds
    return read(await body_of(request, most_bytes, seconds))


async def _fields(request: Request) -> Fields:
    return await sent_form(request, 4 * state_of(request).settings.limits.description_bytes)


async def _checked(
    request: Request, caller: Caller, fields: Fields
) -> tuple[dict[str, Any], Checked]:
    given, found = question(fields)
    texts = await state_of(request).broker.systems.texts(caller, own_names(given))
    whole: Any = with_own(given, texts)
    await asyncio.to_thread(check, whole, found, state_of(request).settings.limits.check)
    return given, found


async def _form(request: Request, caller: Caller, values: FormValues, found: Checked) -> Response:
    mine = await state_of(request).broker.systems.all(caller)
    return page(
        request,
        "form.html",
        status=HTTPStatus.UNPROCESSABLE_ENTITY if found.wrong else HTTPStatus.OK,
        here="form",
        fields=values,
        wrong=found.wrong,
        told=found.told,
        own_systems=mine,
        catalogue=[load(name) for name in catalogue()],
        goals=Goal,
        algorithms=Choice,
        switches=SWITCHES,
        usual=USUAL,
        hints=HINTS,
    )
