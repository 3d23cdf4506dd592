"""The routes of forms: show one, check it while the user types, and ask its question."""

from __future__ import annotations

from dataclasses import replace
from http import HTTPStatus
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from starlette.responses import JSONResponse, Response

from hierarchies import InputError, catalogue, load
from synth.ask.measured import LogsQuestion
from synth.ask.questions.question import MachineQuestion, parse_question
from synth.service.auth.identity import Caller
from synth.service.http.reading import body_of, check_type
from synth.service.http.state import state_of
from synth.service.page.answer_routes import (
    ViewedAnswer,
    ask_on_page,
    question_like,
    view_answer,
)
from synth.service.page.forms.checks import check
from synth.service.page.forms.fields import Fields, FormFindings, parse_fields
from synth.service.page.forms.form import QuestionForm
from synth.service.page.forms.table import FORMS
from synth.service.page.forms.values import (
    FormValues,
    example,
    question,
    reduce_over_all,
    values_of_fields,
    values_of_question,
)
from synth.service.page.responses import PageCaller, PageRoute, page
from synth.service.page.views import boxes, keys_for_next

router = APIRouter(route_class=PageRoute, include_in_schema=False)
OnMachine = Annotated[str | None, Query(pattern="^[0-9a-f]{64}$")]
"""The key of the answer whose machine the new question is about."""
_FORM = "application/x-www-form-urlencoded"


def _add_routes(form: QuestionForm) -> None:
    async def show(
        request: Request, caller: PageCaller, like: str | None = None, on: OnMachine = None
    ) -> Response:
        """Show the form with an example, a question asked before, or the machine of an answer."""
        stored = await question_like(request, caller, like, form.verb)
        values = example(form)
        if stored:
            values = values_of_question(form, parse_question(form.model, stored))
        if on is not None:
            values = _values_on(form, await view_answer(request, caller, "answers", on))
        return await _page(form, request, caller, values, FormFindings())

    async def report(request: Request, caller: PageCaller) -> Response:
        """Return problems and facts of the form so far, by field."""
        _, findings = await _check(form, request, caller, await _fields(request))
        return JSONResponse(
            {"wrong": findings.wrong, "facts": findings.facts, "suits": findings.suits}
        )

    async def ask(request: Request, caller: PageCaller) -> Response:
        """Ask the question; redirect to its answer or job, or show the form with problems."""
        fields = await _fields(request)
        asked, findings = await _check(form, request, caller, fields)
        if not findings.wrong:
            try:
                return await ask_on_page(request, caller, form.verb, asked)
            except InputError as error:
                findings.note("form", error)
        return await _page(form, request, caller, values_of_fields(form, fields), findings)

    router.add_api_route(form.address, show, methods=["GET"])
    router.add_api_route(form.check_address, report, methods=["POST"])
    router.add_api_route(form.address, ask, methods=["POST"])


for _form in FORMS.values():
    _add_routes(_form)


def _values_on(form: QuestionForm, answer: ViewedAnswer) -> FormValues:
    """Return the values for a question about an answer's machine, with its other form keys."""
    carried = keys_for_next(answer.verb, answer.question, answer.body)
    if issubclass(form.model, LogsQuestion):
        own = {key: value for key, value in carried.items() if key in form.model.model_fields}
        return values_of_question(form, parse_question(form.model, own))
    filled: dict[str, Any] = boxes(carried["system"])
    values = replace(example(form), **filled)
    machine = parse_question(MachineQuestion, {"system": carried["system"]}).machine()
    return reduce_over_all(values, machine.devices)


async def _check(
    form: QuestionForm, request: Request, caller: Caller, fields: Fields
) -> tuple[dict[str, Any], FormFindings]:
    broker = state_of(request).broker
    asked, findings = question(form, fields)
    whole: Any = asked
    with findings.noting(form.needs[0]):
        whole, _ = await broker.whole(caller, form.verb, asked)
    limit = broker.settings.limits.check
    await broker.run_in_turn(caller.team, check, form, whole, findings, limit)
    return asked, findings


async def _page(
    form: QuestionForm, request: Request, caller: Caller, values: FormValues, findings: FormFindings
) -> Response:
    return page(
        request,
        form.template,
        status=HTTPStatus.UNPROCESSABLE_ENTITY if findings.wrong else HTTPStatus.OK,
        here=form.menu or form.name,
        form=form,
        fields=values,
        wrong=findings.wrong,
        facts=findings.facts,
        hints=form.hints,
        usual=form.usual,
        own_systems=await state_of(request).broker.systems.all(caller),
        catalogue=[load(name) for name in catalogue()],
        **form.shown,
    )


async def read_sent_form(request: Request, most_bytes: int) -> Fields:
    """Read the fields of a form from a request. Raises InputError if they are malformed."""
    check_type(request, _FORM)
    seconds = state_of(request).settings.limits.body_seconds
    return parse_fields(await body_of(request, most_bytes, seconds))


async def _fields(request: Request) -> Fields:
    return await read_sent_form(request, 4 * state_of(request).settings.limits.description_bytes)
