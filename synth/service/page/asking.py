"""The routes of the form: shown, checked as one types, and put; and of keys for a browser."""

from __future__ import annotations

import asyncio
import json
from http import HTTPStatus
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import JSONResponse, RedirectResponse, Response

from grammar import Goal
from hierarchies import InputError, catalogue, load
from synth.collectives.algorithms import Choice
from synth.service.auth.identity import Caller
from synth.service.errors import RefusalError
from synth.service.http.authentication import COOKIE
from synth.service.http.reading import body_of, check_type
from synth.service.http.state import state_of
from synth.service.jobs.broker import Accepted, Preferences
from synth.service.jobs.questions import own_names, with_own
from synth.service.page.door import PageRoute, WhoLooks, page
from synth.service.page.filling import (
    EXAMPLE,
    HINTS,
    SWITCHES,
    USUAL,
    Filling,
    of_fields,
    of_question,
)
from synth.service.page.forms import Checked, Fields, check, question, read
from synth.service.page.looking import shown
from synth.verbs.planning import TopQuestion
from synth.verbs.questions import asked

router = APIRouter(route_class=PageRoute, include_in_schema=False)
_FORM = "application/x-www-form-urlencoded"
_WEEK_SECONDS = 7 * 24 * 3600
_MOST_KEY_BYTES = 4096


@router.get("/")
async def form(request: Request, who: WhoLooks, like: str | None = None) -> Response:
    """The form, with an example or with the question of an answer."""
    filling = EXAMPLE
    if like is not None:
        found = await state_of(request).broker.answer(who, like)
        if found.verb == "top":
            filling = of_question(asked(TopQuestion, json.loads(found.question)["question"]))
    return await _form(request, who, filling, Checked())


@router.post("/page/check")
async def checked(request: Request, who: WhoLooks) -> Response:
    """What is wrong with the form so far, by field, and what the machine and the axes come to."""
    _, found = await _checked(request, who, await _fields(request))
    return JSONResponse({"wrong": found.wrong, "told": found.told})


@router.post("/")
async def put(request: Request, who: WhoLooks) -> Response:
    """Put the question of the form: on to its answer or its job, or back with what is wrong."""
    fields = await _fields(request)
    given, found = await _checked(request, who, fields)
    if found.wrong:
        return await _form(request, who, of_fields(fields), found)
    broker = state_of(request).broker
    try:
        outcome = await broker.ask(who, "top", given, Preferences())
    except InputError as error:
        found.note("form", error)
        return await _form(request, who, of_fields(fields), found)
    if isinstance(outcome, Accepted):
        return _onwards(f"/jobs/{outcome.job.id}")
    if outcome.key is None:
        return await shown(request, json.loads(outcome.body), verb="top", partial=True)
    return _onwards(f"/answers/{outcome.key}")


@router.get("/login")
async def login(request: Request, next: str = "/") -> Response:
    """Where a key is given."""
    if state_of(request).keys is None:
        return _onwards("/")
    return page(request, "login.html", next=_own(next), failed=False, keys=False)


@router.post("/login")
async def log_in(request: Request) -> Response:
    """Keep a key that is admitted in a cookie; to any other it is said that it is not."""
    keys = state_of(request).keys
    if keys is None:
        return _onwards("/")
    check_type(request, _FORM)
    seconds = state_of(request).settings.limits.body_seconds
    fields = read(await body_of(request, _MOST_KEY_BYTES, seconds))
    secret = (fields.get("key") or ("",))[0].strip()
    after = _own((fields.get("next") or ("/",))[0])
    try:
        await keys.admit(secret)
    except RefusalError as refusal:
        if refusal.status not in (HTTPStatus.FORBIDDEN, HTTPStatus.UNAUTHORIZED):
            raise
        return page(request, "login.html", status=403, next=after, failed=True, keys=False)
    response = _onwards(after)
    secure = "https" in (request.url.scheme, request.headers.get("x-forwarded-proto"))
    response.set_cookie(
        COOKIE, secret, max_age=_WEEK_SECONDS, httponly=True, samesite="strict", secure=secure
    )
    return response


@router.post("/logout")
async def log_out(request: Request) -> Response:
    """Forget the key."""
    response = _onwards("/login" if state_of(request).keys else "/")
    response.delete_cookie(COOKIE, httponly=True, samesite="strict")
    return response


def _onwards(address: str) -> Response:
    return RedirectResponse(address, HTTPStatus.SEE_OTHER)


def _own(address: str) -> str:
    """An address of this server; anything else is taken for its first page."""
    own = address.startswith("/") and not address.startswith(("//", "/\\"))
    return address if own and address.isprintable() and "\\" not in address else "/"


async def _fields(request: Request) -> Fields:
    check_type(request, _FORM)
    limits = state_of(request).settings.limits
    return read(await body_of(request, 4 * limits.description_bytes, limits.body_seconds))


async def _checked(request: Request, who: Caller, fields: Fields) -> tuple[dict[str, Any], Checked]:
    given, found = question(fields)
    texts = await state_of(request).broker.systems.texts(who, own_names(given))
    whole: Any = with_own(given, texts)
    await asyncio.to_thread(check, whole, found, state_of(request).settings.limits.check)
    return given, found


async def _form(request: Request, who: Caller, filling: Filling, found: Checked) -> Response:
    mine = await state_of(request).broker.systems.all(who)
    return page(
        request,
        "form.html",
        status=HTTPStatus.UNPROCESSABLE_ENTITY if found.wrong else HTTPStatus.OK,
        here="form",
        fields=filling,
        wrong=found.wrong,
        told=found.told,
        own_systems=[one.name for one in mine],
        catalogue=[{"name": name, "title": load(name).title} for name in catalogue()],
        goals=[goal.value for goal in Goal],
        algorithms=[choice.value for choice in Choice],
        switches=SWITCHES,
        usual=USUAL,
        hints=HINTS,
    )
