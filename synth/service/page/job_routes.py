"""The routes of jobs: list jobs, show or cancel a job, ask its question again."""

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
    Choice,
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
    """A job as a page shows it."""

    job: StoredJob

    @cached_property
    def question(self) -> Any:
        """The question as JSON."""
        return question_of(self.job)

    @property
    def form(self) -> str:
        """The address of the form for such a question; empty if there is none."""
        return form_of(self.job.verb, self.question)

    @property
    def seconds(self) -> float:
        """Seconds of work so far, or of waiting if it has not begun."""
        job = self.job
        begun = job.created if job.status is Status.QUEUED else job.started
        if begun is None or job.status.ended:
            return job.work_seconds
        before = 0.0 if job.status is Status.QUEUED else job.work_seconds
        return before + max(0.0, (datetime.now(UTC) - begun).total_seconds())

    @property
    def took(self) -> str:
        """``seconds`` in words; empty if it ended before it began."""
        return format_duration(self.seconds) if self.seconds else ""

    @property
    def far(self) -> str:
        """The progress: the stage, and how much of it is done."""
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
    """List the team's jobs in pages, sorted and filtered by the query."""
    broker = state_of(request).broker
    job_filter = JobFilter(status or None, verb or None, day or None, text)
    jobs = await broker.jobs(caller, _JOBS_A_PAGE, after, job_filter, order)
    by = None if order is JobOrder.NEWEST else order
    chosen = {"text": text.strip(), "status": status, "verb": verb, "day": day, "order": by}
    query = {name: str(value) for name, value in chosen.items() if value}
    older = None
    if len(jobs) == _JOBS_A_PAGE:
        older = urlencode({"after": jobs[-1].id, **query})
    shown: dict[str, Any] = {
        "jobs": [ViewedJob(job) for job in jobs],
        "older": older,
        "first": f"/jobs?{urlencode(query)}" if after else None,
        "kept": query,
        "days": _days(query),
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
    choice: Choice,
) -> Response:
    """Show a job's progress or its result."""
    job = await state_of(request).broker.job(caller, job_id, whole=True)
    if job.status is Status.DONE:
        return see_other(f"/answers/{job.answer_key}")
    if job.status.ended and job.best is not None:
        part = await view_answer(request, caller, "jobs", job_id)
        if read_best_so_far(part.body) is None:
            return await answer_page(request, part, choice)
    view = ViewedJob(job)
    return page(request, "job.html", here="jobs", job=job, view=view, best=_best_answers(job))


@router.get("/jobs/{job_id}/best")
async def show_best(request: Request, caller: PageCaller, job_id: JobId) -> Response:
    """Return the best answers so far, as a part of a page."""
    job = await state_of(request).broker.job(caller, job_id)
    leading = await state_of(request).broker.run_in_turn(caller.team, _best_answers, job)
    return HTMLResponse(render("best.html", best=leading, job=job))


@router.post("/jobs/{job_id}/cancel")
async def cancel_job(request: Request, caller: PageCaller, job_id: JobId) -> Response:
    """Cancel a job."""
    await state_of(request).broker.cancel(caller, job_id)
    return see_other(f"/jobs/{job_id}")


@router.post("/jobs/{job_id}/again")
async def ask_again(request: Request, caller: PageCaller, job_id: JobId) -> Response:
    """Ask the question of a job again; redirect to its answer or new job."""
    job = await state_of(request).broker.job(caller, job_id, whole=True)
    at_once = Preferences(wait_seconds=0)
    return await ask_on_page(request, caller, job.verb, question_of(job), at_once)


def _days(query: dict[str, str]) -> list[tuple[str, str, bool]]:
    """Links to the jobs of today and yesterday within the query: name, URL, whether chosen."""
    today = datetime.now(UTC).date()
    days = (("Today", today), ("Yesterday", today - timedelta(days=1)))
    return [
        (name, f"/jobs?{urlencode({**query, 'day': str(day)})}", query.get("day") == str(day))
        for name, day in days
    ]


def _best_answers(job: StoredJob) -> list[LeadingAnswer] | None:
    return read_best_so_far(json.loads(job.best)) if job.best else None
