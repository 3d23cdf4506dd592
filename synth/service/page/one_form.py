"""What the routes of every form do: show it, check it as one types, and ask its question."""

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
"""The answer whose machine is asked about."""
_FORM = "application/x-www-form-urlencoded"


@dataclass(frozen=True)
class QuestionForm:
    """The form of a verb's question: how it is read, checked and filled in again.

    ``here`` names it in the menu; ``shown`` is what its template needs beside the fields;
    ``over`` fills its axes for so many devices, where it has any.
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
        """With an example, or with the question of an answer or of a job.

        ``on``: an answer of which the machine is asked about, and what else of it this form takes.
        """
        found = await question_like(request, caller, like, self.verb)
        values = self.of_question(parse_question(self.model, found)) if found else self.example
        if on is not None:
            values = self._on(await view_answer(request, caller, "answers", on))
        return await self._page(request, caller, values, FormFindings())

    def _on(self, answer: ViewedAnswer) -> Any:
        given = keys_for_next(answer.verb, answer.question, answer.body)
        if not issubclass(self.model, LogsQuestion):
            values = replace(self.example, **boxes(given["system"]))
            machine = parse_question(MachineQuestion, {"system": given["system"]}).machine()
            return self.over(values, machine.devices)
        known = {key: value for key, value in given.items() if key in self.model.model_fields}
        return self.of_question(parse_question(self.model, known))

    async def checked(self, request: Request, caller: Caller) -> Response:
        """What is wrong so far, by field, and what it comes to."""
        _, found = await self._checked(request, caller, await _fields(request))
        return JSONResponse({"wrong": found.wrong, "told": found.told, "suits": found.suits})

    async def put(self, request: Request, caller: Caller) -> Response:
        """Put its question: on to its answer or its job, or back with what is wrong."""
        fields = await _fields(request)
        given, found = await self._checked(request, caller, fields)
        if not found.wrong:
            try:
                return await ask_on_page(request, caller, self.verb, given)
            except InputError as error:
                found.note("form", error)
        return await self._page(request, caller, self.of_fields(fields), found)

    async def _checked(
        self, request: Request, caller: Caller, fields: Fields
    ) -> tuple[dict[str, Any], FormFindings]:
        given, found = self.question(fields)
        texts = await state_of(request).broker.systems.texts(caller, own_names(given))
        whole: Any = replace_own_names(given, texts)
        limit = state_of(request).settings.limits.check
        await state_of(request).broker.run_in_turn(caller.team, self.check, whole, found, limit)
        return given, found

    async def _page(
        self, request: Request, caller: Caller, values: Any, found: FormFindings
    ) -> Response:
        return page(
            request,
            self.template,
            status=HTTPStatus.UNPROCESSABLE_ENTITY if found.wrong else HTTPStatus.OK,
            here=self.here,
            fields=values,
            wrong=found.wrong,
            told=found.told,
            own_systems=await state_of(request).broker.systems.all(caller),
            catalogue=[load(name) for name in catalogue()],
            **self.shown,
        )


async def read_sent_form(request: Request, most_bytes: int) -> Fields:
    """The fields of a form that a browser sends. Raises InputError for what no browser sends."""
    check_type(request, _FORM)
    seconds = state_of(request).settings.limits.body_seconds
    return read(await body_of(request, most_bytes, seconds))


async def _fields(request: Request) -> Fields:
    return await read_sent_form(request, 4 * state_of(request).settings.limits.description_bytes)
