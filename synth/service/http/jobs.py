"""Routes of jobs (list, read, follow events, cancel) and of their answers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import date
from typing import Annotated

from fastapi import APIRouter, Depends, Header, Path, Query, Request, Response
from fastapi.sse import EventSourceResponse, ServerSentEvent

from synth.service.errors import RefusalError
from synth.service.http.authentication import AskCaller, FollowCaller
from synth.service.http.documents import problems
from synth.service.http.reading import JSON
from synth.service.http.state import state_of
from synth.service.jobs.bodies import AnswerBody, JobBody, JobList, answer_json
from synth.service.jobs.broker import JobEvent
from synth.service.store import JobFilter, JobOrder, Status, StoredJob

router = APIRouter(tags=["jobs"])
answers = APIRouter(tags=["answers"])
JobId = Annotated[str, Path(pattern="^[0-9a-f]{32}$", description="The id of a job.")]
_PROGRESS = {"status", "progress", "revision"}
_ID = "^[0-9a-f]{32}$"


async def own_job(request: Request, caller: FollowCaller, job_id: JobId) -> StoredJob:
    """Return the job in the URL. Raises RefusalError if the caller's team has no such job."""
    return await state_of(request).broker.job(caller, job_id)


OwnJob = Annotated[StoredJob, Depends(own_job)]


@router.get("/v1/jobs", operation_id="list-jobs", responses=problems())
async def list_jobs(
    request: Request,
    caller: FollowCaller,
    limit: Annotated[
        int, Query(ge=1, le=200, description="Maximal number of jobs of a page.")
    ] = 50,
    after: Annotated[
        str | None, Query(pattern=_ID, description="The last job of the previous page.")
    ] = None,
    status: Status | None = None,
    verb: Annotated[str | None, Query(pattern="^[a-z-]{1,40}$")] = None,
    day: Annotated[date | None, Query(description="Day of submission, in UTC.")] = None,
    text: Annotated[
        str, Query(max_length=200, description="Up to 8 words of the question or of the result.")
    ] = "",
    order: JobOrder = JobOrder.NEWEST,
) -> JobList:
    """Your team's jobs, without partial answers and without jobs for parts of pages."""
    job_filter = JobFilter(status, verb, day, text)
    listed = await state_of(request).broker.jobs(caller, limit, after, job_filter, order)
    following = listed[-1].id if len(listed) == limit else None
    return JobList(jobs=[JobBody.of(job) for job in listed], next=following)


@router.get("/v1/jobs/{job_id}", operation_id="look-at-job", responses=problems(404))
async def get_job(job: OwnJob) -> JobBody:
    """A job: its progress, the best answers so far and, when it is done, the URL of its answer."""
    return JobBody.of(job)


@router.post(
    "/v1/jobs/{job_id}/cancel",
    operation_id="cancel-job",
    responses=problems(404),
)
async def cancel_job(request: Request, caller: FollowCaller, job: OwnJob) -> JobBody:
    """Cancel a job, which keeps its best answers so far. A job that has ended is unchanged."""
    return JobBody.of(await state_of(request).broker.cancel(caller, job.id))


@router.get(
    "/v1/jobs/{job_id}/events",
    operation_id="follow-job",
    response_class=EventSourceResponse,
    responses=problems(404),
)
async def follow_events(
    request: Request,
    caller: FollowCaller,
    job: OwnJob,
    last_event_id: Annotated[str | None, Header(description="The last revision seen.")] = None,
) -> AsyncIterator[ServerSentEvent]:
    """Server-sent events: ``progress``, ``best`` (a partial answer) and ``end`` (the whole job).

    The id of an event is the job's revision. A client that reconnects with ``Last-Event-ID``
    receives the events since then. Close the connection at ``end``.
    """
    broker, keys = state_of(request).broker, state_of(request).keys
    ended = False
    try:
        async for event in broker.events(caller, job.id, _revision(last_event_id)):
            if keys is not None and not await keys.still_admits(caller):
                yield ServerSentEvent(comment="this key is no longer valid")
                return
            ended = event.kind == "end"
            yield _sse_of(event)
    except RefusalError as refusal:
        yield ServerSentEvent(comment=str(refusal))
        return
    if not ended:
        yield ServerSentEvent(comment="the service is stopping; connect again")


@answers.get(
    "/v1/answers/{key}",
    operation_id="look-at-answer",
    response_class=Response,
    responses={200: {"model": AnswerBody}, **problems(404)},
)
async def get_answer(
    request: Request,
    caller: AskCaller,
    key: Annotated[str, Path(pattern="^[0-9a-f]{64}$", description="The key of an answer.")],
) -> Response:
    """A complete answer with its question, for as long as it is kept."""
    broker = state_of(request).broker
    answer = await broker.answer(caller, key)
    return Response(await broker.run_in_turn(caller.team, answer_json, answer), media_type=JSON)


def _sse_of(event: JobEvent) -> ServerSentEvent:
    """Convert an event; only the last event of a revision has the revision as its id.

    A client that reconnects after the first of two events therefore receives both again.
    """
    mark = str(event.job.revision) if event.last else None
    match event.kind:
        case "best":
            data = (event.job.best or b"null").decode()
        case "progress":
            data = JobBody.of(event.job).text(include=_PROGRESS)
        case _:
            data = JobBody.of(event.job).text()
    return ServerSentEvent(raw_data=data, event=event.kind, id=mark)


def _revision(header: str | None) -> int:
    """Return the revision in ``Last-Event-ID``, or -1 for anything else."""
    return int(header) if header is not None and header.isdecimal() and len(header) < 19 else -1
