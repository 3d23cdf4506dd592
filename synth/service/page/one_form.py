"""The common part of all form routes: show a form, check it while typing, ask its question."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Annotated, Any

from fastapi import Query, Request
from starlette.responses import JSONResponse, Response

from hierarchies import InputError, catalogue, load
from synth.ask.measured import LogsQuestion
from synth.ask.questions.question import MachineQuestion, Question, parse_question
from synth.service.auth.identity import Caller
from synth.service.http.reading import body_of, check_type
from synth.service.http.state import state_of
from synth.service.jobs.questions import own_names, replace_own_names
from synth.service.page.answer_routes import (
    ViewedAnswer,
    ask_on_page,
    question_like,
    view_answer,
)
from synth.service.page.forms import Fields, FormFindings, read
from synth.service.page.responses import page
from synth.service.page.views import boxes, keys_for_next

OnMachine = Annotated[str | None, Query(pattern="^[0-9a-f]{64}$")]
"""The key of the answer whose machine the new question is about."""
_FORM = "application/x-www-form-urlencoded"


@dataclass(frozen=True)
class QuestionForm:
    """The form of a verb's question: how it is read, checked and filled in again.

    ``here`` is its menu entry; ``shown`` is the template's context besides the fields; ``over``
    fills its axes, if it has any, for a number of devices.
    """

    verb: str
    model: type[Question]
    template: str
    here: str
    example: Any
    of_fields: Callable[[Fields], Any]
    of_question: Callable[[Any], Any]
    question: Callable[[Fields], tuple[dict[str, Any], FormFindings]]
    check: Callable[..., FormFindings]
    shown: Mapping[str, Any]
    over: Callable[[Any, int], Any] = lambda values, devices: values

    async def show(
        self,
        request: Request,
        caller: Caller,
        like: str | None,
        on: str | None = None,
    ) -> Response:
        """Show the form with an example, or with the question of an answer or job ``like``.

        ``on``: an answer whose machine, and other keys of this form, are filled in.
        """
        stored = await question_like(request, caller, like, self.verb)
        values = self.of_question(parse_question(self.model, stored)) if stored else self.example
        if on is not None:
            values = self._values_on(await view_answer(request, caller, "answers", on))
        return await self._page(request, caller, values, FormFindings())

    def _values_on(self, answer: ViewedAnswer) -> Any:
        carried = keys_for_next(answer.verb, answer.question, answer.body)
        if not issubclass(self.model, LogsQuestion):
            values = replace(self.example, **boxes(carried["system"]))
            machine = parse_question(MachineQuestion, {"system": carried["system"]}).machine()
            return self.over(values, machine.devices)
        own = {key: value for key, value in carried.items() if key in self.model.model_fields}
        return self.of_question(parse_question(self.model, own))

    async def report(self, request: Request, caller: Caller) -> Response:
        """Return problems and facts so far, by field."""
        _, findings = await self._check(request, caller, await _fields(request))
        return JSONResponse(
            {"wrong": findings.wrong, "told": findings.told, "suits": findings.suits}
        )

    async def ask(self, request: Request, caller: Caller) -> Response:
        """Ask the question; redirect to its answer or job, or show the form with problems."""
        fields = await _fields(request)
        question, findings = await self._check(request, caller, fields)
        if not findings.wrong:
            try:
                return await ask_on_page(request, caller, self.verb, question)
            except InputError as error:
                findings.note("form", error)
        return await self._page(request, caller, self.of_fields(fields), findings)

    async def _check(
        self, request: Request, caller: Caller, fields: Fields
    ) -> tuple[dict[str, Any], FormFindings]:
        question, findings = self.question(fields)
        texts = await state_of(request).broker.systems.texts(caller, own_names(question))
        whole: Any = replace_own_names(question, texts)
        limit = state_of(request).settings.limits.check
        await state_of(request).broker.run_in_turn(caller.team, self.check, whole, findings, limit)
        return question, findings

    async def _page(
        self, request: Request, caller: Caller, values: Any, findings: FormFindings
    ) -> Response:
        return page(
            request,
            self.template,
            status=HTTPStatus.UNPROCESSABLE_ENTITY if findings.wrong else HTTPStatus.OK,
            here=self.here,
            fields=values,
            wrong=findings.wrong,
            told=findings.told,
            own_systems=await state_of(request).broker.systems.all(caller),
            catalogue=[load(name) for name in catalogue()],
            **self.shown,
        )


async def read_sent_form(request: Request, most_bytes: int) -> Fields:
    """Read the fields of a form from a request. Raises InputError if they are malformed."""
    check_type(request, _FORM)
    seconds = state_of(request).settings.limits.body_seconds
    return read(await body_of(request, most_bytes, seconds))


async def _fields(request: Request) -> Fields:
    return await read_sent_form(request, 4 * state_of(request).settings.limits.description_bytes)
