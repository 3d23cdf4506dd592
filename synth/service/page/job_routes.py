"""The routes of jobs: all of a team, one with the best so far, and its end before its time."""

from __future__ import annotations

import asyncio
import json
from typing import Annotated

from fastapi import APIRouter, Path, Request
from starlette.responses import HTMLResponse, Response

from synth.service.http.state import state_of
from synth.service.page.answer_routes import Index, answer_page, question_of, viewed
from synth.service.page.rendering import render
from synth.service.page.responses import PageCaller, PageRoute, page, see_other
from synth.service.page.results import best_so_far
from synth.service.store import Job, Status
from synth.verbs.answers.ranked import Leading

router = APIRouter(route_class=PageRoute, include_in_schema=False)
_JOBS_A_PAGE = 50
JobId = Annotated[str, Path(pattern="^[0-9a-f]{32}$")]


@router.get("/jobs")
async def jobs(request: Request, caller: PageCaller, after: str | None = None) -> Response:
    """The team's jobs, newest first, in pages."""
    found = await state_of(request).broker.jobs(caller, _JOBS_A_PAGE, after)
    older = found[-1].id if len(found) == _JOBS_A_PAGE else None
    return page(request, "jobs.html", here="jobs", jobs=found, older=older, paged=bool(after))


@router.get("/jobs/{job_id}")
async def job(request: Request, caller: PageCaller, job_id: JobId, index: Index = 0) -> Response:
    """A job: how far it is; or what came of it."""
    found = await state_of(request).broker.job(caller, job_id)
    if found.status is Status.DONE:
        return see_other(f"/answers/{found.answer_key}")
    if found.status.ended and found.best is not None:
        part = await viewed(request, caller, "jobs", job_id)
        if best_so_far(part.body) is None:
            return await answer_page(request, part, index)
    question, best = question_of(found), _best(found)
    return page(request, "job.html", here="jobs", job=found, question=question, best=best)


@router.get("/jobs/{job_id}/best")
async def best(request: Request, caller: PageCaller, job_id: JobId) -> Response:
    """The best answers so far, as a part."""
    found = await state_of(request).broker.job(caller, job_id)
    leading = await asyncio.to_thread(_best, found)
    return HTMLResponse(render("best.html", best=leading))


@router.post("/jobs/{job_id}/cancel")
async def cancel(request: Request, caller: PageCaller, job_id: JobId) -> Response:
    """End a job before its time."""
    await state_of(request).broker.cancel(caller, job_id)
    return see_other(f"/jobs/{job_id}")


def _best(found: Job) -> list[Leading] | None:
    return best_so_far(json.loads(found.best)) if found.best else None
