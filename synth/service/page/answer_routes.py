"""The route of answers under their permalinks, and the view of an answer for all pages."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from shlex import quote
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Path, Query, Request
from jinja2 import UndefinedError
from starlette.responses import Response

from hierarchies import InputError
from synth.ask.identity.edition import edition
from synth.ask.questions.question import parse_question
from synth.ask.ranking import TopQuestion
from synth.ask.reply import Outcome
from synth.service.errors import not_found
from synth.service.http.commands import Curl
from synth.service.http.state import state_of
from synth.service.jobs.bodies import outcome_word
from synth.service.jobs.broker import PendingJob, Preferences
from synth.service.jobs.names import name_of
from synth.service.page.responses import PageCaller, PageRoute, own_address, page, see_other
from synth.service.page.results import drawing_of, plans_of, question_over_sizes, ranking_of, result
from synth.service.page.views import folders, view_of_answer
from synth.service.store import StoredAnswer, StoredJob
from synth.show.report.rendering import blocks
from synth.show.terminal.rows import Ranking
from synth.show.terminal.table import TABLES
from synth.step.frameworks import FRAMEWORKS

router = APIRouter(route_class=PageRoute, include_in_schema=False)
Kind = Literal["answers", "jobs"]
Name = Annotated[str, Path(pattern="^([0-9a-f]{64}|[0-9a-f]{32})$")]
Key = Annotated[str, Path(pattern="^[0-9a-f]{64}$")]
Index = Annotated[int, Query(alias="answer", ge=0, le=100_000)]
Rank = Annotated[str, Query(max_length=9)]
_JOB_ID_CHARACTERS = 32


@dataclass(frozen=True)
class ViewedAnswer:
    """An answer on a page. Its parts have addresses below ``base``; if that is "", it has no parts.

    ``other_edition``: another edition of the code computed it, so this edition may be unable to
    draw it.
    """

    base: str
    verb: str
    question: Any
    body: Any
    key: str | None = None
    outcome: str = "ok"
    partial: bool = False
    other_edition: bool = False

    @cached_property
    def ranking(self) -> Ranking | None:
        """The parsed answer if it has a ranking. Slow for a large answer."""
        return ranking_of(self.verb, self.body)

    @property
    def files(self) -> Sequence[Mapping[str, str]]:
        """The files in the answer."""
        found: Sequence[Mapping[str, str]] = ()
        return self.body.get("files", found) if isinstance(self.body, dict) else found

    @property
    def name(self) -> str:
        """The question in a line."""
        return name_of(self.verb, self.question)

    @property
    def form(self) -> str:
        """The address of the form for such a question; empty if there is none."""
        return form_of(self.verb, self.question)

    @property
    def over_sizes(self) -> TopQuestion | None:
        """The same question over a range of sizes; None if that is impossible."""
        if self.verb != "top" or self.ranking is None:
            return None
        try:
            return question_over_sizes(parse_question(TopQuestion, self.question), self.ranking)
        except InputError:
            return None


def form_of(verb: str, question: Any) -> str:
    """Return the address of the form for a question; empty if there is none."""
    match verb:
        case "top":
            return "/"
        case "plan" if question.get("sweep"):
            return ""  # no form has several values of a key
        case "plan" if not question.get("job"):
            return "/plan"
        case "calibrate" if question.get("plan"):
            return "/ask/tests"
        case "plan" | "sweep" | "cost" | "doctor" | "calibrate":
            return f"/ask/{verb}"
    return ""


@dataclass(frozen=True)
class RowChoice:
    """The row of an answer to show, the one to compare it with, and the device to highlight.

    ``rank`` is that of the device on its machine; None and "" stand for the defaults.
    """

    index: Annotated[int | None, Query(alias="answer", ge=0, le=100_000)] = None
    against: Annotated[int | None, Query(ge=0, le=100_000)] = None
    rank: Rank = ""


Choice = Annotated[RowChoice, Depends()]


async def question_like(
    request: Request, caller: PageCaller, name: str | None, verb: str
) -> dict[str, Any] | None:
    """Return the question of an answer or job; None without a name, or for another verb."""
    if name is None:
        return None
    broker = state_of(request).broker
    read = partial(broker.job, whole=True) if len(name) == _JOB_ID_CHARACTERS else broker.answer
    stored: StoredJob | StoredAnswer = await read(caller, name)
    if stored.verb != verb:
        return None
    question: dict[str, Any] = await broker.run_in_turn(caller.team, question_of, stored)
    return question


async def ask_on_page(
    request: Request,
    caller: PageCaller,
    verb: str,
    question: dict[str, Any],
    preferences: Preferences | None = None,
) -> Response:
    """Ask a question and redirect to its answer, or to its job, which also has a partial answer.

    Raises InputError if the question is invalid.
    """
    outcome = await state_of(request).broker.ask(
        caller, verb, question, preferences or Preferences()
    )
    if isinstance(outcome, PendingJob):
        return see_other(f"/jobs/{outcome.job.id}")
    if outcome.key is None:
        return see_other(f"/jobs/{outcome.job}")
    return see_other(f"/answers/{outcome.key}")


def question_of(stored: StoredAnswer | StoredJob) -> Any:
    """Return the question of an answer or job as JSON."""
    return json.loads(stored.question)["question"]


async def view_answer(request: Request, caller: PageCaller, kind: Kind, name: Name) -> ViewedAnswer:
    """Return an answer, or the best of a job so far. Raises RefusalError if there is none."""
    broker = state_of(request).broker
    if kind == "jobs":
        job = await broker.job(caller, name, whole=True)
        if job.best is None:
            raise not_found("answer")
        question = await broker.run_in_turn(caller.team, question_of, job)
        body = await broker.run_in_turn(caller.team, json.loads, job.best)
        return ViewedAnswer(f"/jobs/{name}", job.verb, question, body, partial=True)
    stored = await broker.answer(caller, name)
    return ViewedAnswer(
        f"/answers/{name}",
        stored.verb,
        await broker.run_in_turn(caller.team, question_of, stored),
        await broker.run_in_turn(caller.team, json.loads, stored.body),
        key=name,
        outcome=outcome_word(stored.outcome),
        partial=stored.outcome == Outcome.PARTIAL,
        other_edition=stored.edition != edition(),
    )


async def answer_page(request: Request, viewed: ViewedAnswer, choice: RowChoice) -> Response:
    """Render an answer, or a notice if its edition prevents that; without an address, no parts."""
    try:
        return await asyncio.to_thread(_page, request, viewed, choice)
    except (AttributeError, LookupError, TypeError, ValueError, UndefinedError):
        if not viewed.other_edition:
            raise
    return page(request, "other_edition.html", viewed=viewed)


def _page(request: Request, viewed: ViewedAnswer, choice: RowChoice) -> Response:
    index, against, rank = choice.index, choice.against, choice.rank
    plans = plans_of(viewed.verb, viewed.body, index, against, rank)
    view = result(viewed.ranking, index, rank) if viewed.ranking else None
    drawn = view is not None or plans is not None
    found = view_of_answer(viewed.verb, viewed.body)
    in_tables = not drawn and viewed.verb in TABLES and not (found and found.table)
    curl = Curl(quote(own_address(request)), keys=state_of(request).keys is not None)
    return page(
        request,
        "answer.html",
        viewed=viewed,
        base=viewed.base,
        view=view,
        plans=plans,
        index=view.index if view else index or 0,
        found=found,
        folders=folders(viewed.files) if plans else (),
        frameworks={
            name: framework.title.partition(" (")[0] for name, framework in FRAMEWORKS.items()
        },
        said=list(blocks(TABLES[viewed.verb](viewed.body))) if in_tables else (),
        drawing=drawing_of(viewed.verb, viewed.body),
        command=curl.again(viewed.verb, viewed.question),
    )


@router.get("/answers/{key}")
async def show_answer(request: Request, caller: PageCaller, key: Key, choice: Choice) -> Response:
    """Show an answer under its permalink."""
    return await answer_page(request, await view_answer(request, caller, "answers", key), choice)
