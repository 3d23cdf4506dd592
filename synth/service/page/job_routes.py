"""The routes of jobs: all of a team, one with the best so far, its end, and it once more."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import cached_property
from typing import Annotated, Any, Literal
from urllib.parse import urlencode

from fastapi import APIRouter, Path, Query, Request
from starlette.responses import HTMLResponse, Response

from hierarchies.units import format_duration
from synth.ask.answers.ranked import LeadingAnswer
from synth.service.http.state import state_of
from synth.service.jobs.broker import Preferences
from synth.service.jobs.names import VERB_PHRASES
from synth.service.page.answer_routes import (
    OtherRowQuery,
    Rank,
    RowQuery,
    answer_page,
    ask_on_page,
    form_of,
    question_of,
    view_answer,
)
from synth.service.page.rendering import render
from synth.service.page.responses import PageCaller, PageRoute, page, see_other
from synth.service.page.results import read_best_so_far
from synth.service.store import JobFilter, JobOrder, Status, StoredJob

router = APIRouter(route_class=PageRoute, include_in_schema=False)
_JOBS_A_PAGE = 50
JobId = Annotated[str, Path(pattern="^[0-9a-f]{32}$")]


@dataclass(frozen=True)
class ViewedJob:
    """A job as a page shows it: what was asked, and for how long it is, or was, worked on."""

    job: StoredJob

    @cached_property
    def question(self) -> Any:
        """What was asked."""
        return question_of(self.job)

    @cached_property
    def name(self) -> str:
        """The same in a line."""
        return self.job.name

    @property
    def form(self) -> str:
        """The address of the form that asks such a question; empty where there is none."""
        return form_of(self.job.verb, self.question)

    @property
    def seconds(self) -> float:
        """How long work on it took, or takes so far; how long it has waited if it has not begun."""
        job = self.job
        begun = job.created if job.status is Status.QUEUED else job.started
        if begun is None or job.status.ended:
            return job.work_seconds
        before = 0.0 if job.status is Status.QUEUED else job.work_seconds
        return before + max(0.0, (datetime.now(UTC) - begun).total_seconds())

    @property
    def took(self) -> str:
        """The same in words; nothing where it ended before it had begun."""
        return format_duration(self.seconds) if self.seconds else ""

    @property
    def far(self) -> str:
        """How far it is: its stage, and how much of it is done."""
        match self.job.progress:
            case {"stage": str(stage), "done": done, "of": int(of)}:
                return f"{stage}, {done} of {of}"
            case {"stage": str(stage)}:
                return stage
        return ""


@router.get("/jobs")
async def show_jobs(
    request: Request,
    caller: PageCaller,
    after: str | None = None,
    status: Status | Literal[""] = "",
    verb: str = "",
    day: date | Literal[""] = "",
    text: Annotated[str, Query(max_length=200)] = "",
    order: JobOrder = JobOrder.NEWEST,
) -> Response:
    """The team's jobs, in pages, sorted and filtered: what is chosen is in the address."""
    broker = state_of(request).broker
    wanted = JobFilter(status or None, verb or None, day or None, text)
    found = await broker.jobs(caller, _JOBS_A_PAGE, after, wanted, order)
    by = None if order is JobOrder.NEWEST else order
    chosen = {"text": text.strip(), "status": status, "verb": verb, "day": day, "order": by}
    kept = {name: str(value) for name, value in chosen.items() if value}
    older = None
    if len(found) == _JOBS_A_PAGE:
        older = urlencode({"after": found[-1].id, **kept})
    shown: dict[str, Any] = {
        "jobs": [ViewedJob(one) for one in found],
        "older": older,
        "first": f"/jobs?{urlencode(kept)}" if after else None,
        "kept": kept,
        "days": _days(kept),
        "statuses": Status,
        "orders": JobOrder,
        "verbs": VERB_PHRASES,
    }
    return page(request, "jobs.html", here="jobs", **shown)


@router.get("/jobs/{job_id}")
async def show_job(
    request: Request,
    caller: PageCaller,
    job_id: JobId,
    index: RowQuery = None,
    against: OtherRowQuery = None,
    rank: Rank = "",
) -> Response:
    """A job: how far it is; or what came of it."""
    found = await state_of(request).broker.job(caller, job_id, whole=True)
    if found.status is Status.DONE:
        return see_other(f"/answers/{found.answer_key}")
    if found.status.ended and found.best is not None:
        part = await view_answer(request, caller, "jobs", job_id)
        if read_best_so_far(part.body) is None:
            return await answer_page(request, part, index, against, rank)
    view = ViewedJob(found)
    return page(request, "job.html", here="jobs", job=found, view=view, best=_best_answers(found))


@router.get("/jobs/{job_id}/best")
async def show_best(request: Request, caller: PageCaller, job_id: JobId) -> Response:
    """The best answers so far, as a part."""
    found = await state_of(request).broker.job(caller, job_id)
    leading = await state_of(request).broker.run_in_turn(caller.team, _best_answers, found)
    return HTMLResponse(render("best.html", best=leading, job=found))


@router.post("/jobs/{job_id}/cancel")
async def cancel_job(request: Request, caller: PageCaller, job_id: JobId) -> Response:
    """End a job before its time."""
    await state_of(request).broker.cancel(caller, job_id)
    return see_other(f"/jobs/{job_id}")


@router.post("/jobs/{job_id}/again")
async def ask_again(request: Request, caller: PageCaller, job_id: JobId) -> Response:
    """Ask the question of a job again: on to its answer, or to its new job."""
    found = await state_of(request).broker.job(caller, job_id, whole=True)
    at_once = Preferences(wait_seconds=0)
    return await ask_on_page(request, caller, found.verb, question_of(found), at_once)


def _days(kept: dict[str, str]) -> list[tuple[str, str, bool]]:
    """The addresses of lists of the last two days, with what else is chosen: the chosen one too."""
    today = datetime.now(UTC).date()
    days = (("Today", today), ("Yesterday", today - timedelta(days=1)))
    return [
        (name, f"/jobs?{urlencode({**kept, 'day': str(day)})}", kept.get("day") == str(day))
        for name, day in days
    ]


def _best_answers(found: StoredJob) -> list[LeadingAnswer] | None:
    return read_best_so_far(json.loads(found.best)) if found.best else None
