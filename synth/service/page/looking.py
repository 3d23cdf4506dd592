"""The routes of what is looked at: jobs, answers, and parts of answers that come when asked."""

from __future__ import annotations

import asyncio
import base64
import json
from dataclasses import dataclass
from functools import cached_property
from http import HTTPStatus
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Query, Request
from jinja2 import UndefinedError
from markupsafe import Markup
from starlette.responses import HTMLResponse, RedirectResponse, Response

from synth.service.auth.identity import Caller
from synth.service.errors import not_there, unavailable
from synth.service.http.state import state_of
from synth.service.jobs.bodies import outcome_word
from synth.service.jobs.broker import Accepted, Preferences
from synth.service.jobs.known import Answered
from synth.service.page.curves import Curves, curves
from synth.service.page.door import PageRoute, WhoLooks, page, wants_part
from synth.service.page.figures import Ranking, leading
from synth.service.page.rendering import render, static
from synth.service.page.results import (
    TABS,
    Result,
    handed,
    over_sizes,
    ranking_of,
    result,
    tabs,
    title,
)
from synth.service.store import Job, Status
from synth.tables.style import printed
from synth.tables.table import TABLES
from synth.verbs.answers import judge
from synth.verbs.answers.outputs import EmittedGroupsReply, EmittedReply
from synth.verbs.answers.parts import BinaryFile, TextFile
from synth.verbs.answers.ranked import SweepReply
from synth.verbs.identity.edition import edition
from synth.verbs.reply import Outcome

router = APIRouter(route_class=PageRoute, include_in_schema=False)
_JOBS_A_PAGE = 50
_PATIENCE_SECONDS = 20.0
_HANDED = (*TABS, "trace", "svg")
Kind = Literal["answers", "jobs"]
Name = Annotated[str, Path(pattern="^([0-9a-f]{64}|[0-9a-f]{32})$")]
Key = Annotated[str, Path(pattern="^[0-9a-f]{64}$")]
JobId = Annotated[str, Path(pattern="^[0-9a-f]{32}$")]
Index = Annotated[int, Query(alias="answer", ge=0, le=100_000)]


@dataclass(frozen=True)
class Seen:
    """An answer that is looked at: ``base`` is the address its parts are below.

    ``elsewhere``: other code than this gave it, and it may not be as this draws answers.
    """

    base: str
    verb: str
    question: dict[str, Any]
    body: Any
    key: str | None = None
    outcome: str = "ok"
    partial: bool = False
    elsewhere: bool = False

    @cached_property
    def ranking(self) -> Ranking | None:
        """The answer, read, if it has a ranking. Takes time where it is large."""
        return ranking_of(self.verb, self.body)


async def seen(request: Request, who: Caller, kind: Kind, name: str) -> Seen:
    """A complete answer, or what a job found so far. Raises RefusalError if there is neither."""
    broker = state_of(request).broker
    if kind == "answers":
        found = await broker.answer(who, name)
        asked = json.loads(found.question)["question"]
        body = await asyncio.to_thread(json.loads, found.body)
        told = outcome_word(found.outcome)
        partial = found.outcome == Outcome.PARTIAL
        elsewhere = found.edition != edition()
        return Seen(f"/answers/{name}", found.verb, asked, body, name, told, partial, elsewhere)
    job = await broker.job(who, name)
    if job.best is None:
        raise not_there("answer")
    asked = json.loads(job.question)["question"]
    body = await asyncio.to_thread(json.loads, job.best)
    return Seen(f"/jobs/{name}", job.verb, asked, body, partial=True)


async def shown(
    request: Request,
    body: Any,
    *,
    verb: str,
    found: Seen | None = None,
    index: int = 0,
    partial: bool = False,
) -> Response:
    """An answer as a page; without ``found`` its parts have no address, and are left out."""
    try:
        return await asyncio.to_thread(_answer, request, body, verb, found, index, partial)
    except (AttributeError, LookupError, TypeError, ValueError, UndefinedError):
        if found is None or not found.elsewhere:
            raise
    link = f"/v1{found.base}"
    return page(request, "elsewhere.html", title=f"The answer of {verb}", json=link, body=body)


def _answer(
    request: Request, body: Any, verb: str, found: Seen | None, index: int, partial: bool
) -> Response:
    ranking = found.ranking if found else ranking_of(verb, body)
    view = result(ranking, index) if ranking else None
    base = found.base if found else None
    link = f"/v1{base}" if base else None
    sizes = over_sizes(found.question, ranking) if found and ranking and verb == "top" else None
    return page(
        request,
        "answer.html",
        title=view.title if view else f"The answer of {verb}",
        view=view,
        base=base,
        key=found.key if found else None,
        json=link,
        again=f"/?like={found.key}" if found and found.key and verb == "top" else None,
        partial=partial or (view is not None and not view.complete),
        outcome=found.outcome if found else "ok",
        index=index,
        sizes=f"{base}/sizes" if sizes else None,
        curves=Markup(_curves(view.curves, None)) if view and view.curves else "",
        chosen=Markup(_chosen(ranking, view, base)) if ranking and view and view.chosen else "",
        text=printed(TABLES[verb](body)) if not view and verb in TABLES else "",
        body=body,
    )


def _chosen(ranking: Ranking, view: Result, base: str | None) -> str:
    levels = ranking.system.levels
    return render("chosen.html", one=view.chosen, levels=levels, base=base, tabs=tabs(ranking))


def _curves(drawn: Curves, link: str | None) -> str:
    return render("sizes.html", curves=drawn, link=link, open=False)


@router.get("/answers/{key}")
async def answer(
    request: Request,
    who: WhoLooks,
    key: Key,
    index: Index = 0,
) -> Response:
    """An answer under its permalink."""
    found = await seen(request, who, "answers", key)
    return await shown(
        request, found.body, verb=found.verb, found=found, index=index, partial=found.partial
    )


@router.get("/jobs")
async def jobs(request: Request, who: WhoLooks, after: str | None = None) -> Response:
    """The team's jobs, newest first, in pages."""
    found = await state_of(request).broker.jobs(who, _JOBS_A_PAGE, after)
    older = found[-1].id if len(found) == _JOBS_A_PAGE else None
    return page(request, "jobs.html", here="jobs", jobs=found, older=older, paged=bool(after))


@router.get("/jobs/{job_id}")
async def job(
    request: Request,
    who: WhoLooks,
    job_id: JobId,
    index: Index = 0,
) -> Response:
    """A job: how far it is; or what came of it."""
    found = await state_of(request).broker.job(who, job_id)
    if found.status is Status.DONE:
        return RedirectResponse(f"/answers/{found.answer_key}", HTTPStatus.SEE_OTHER)
    if found.status.ended and found.best is not None:
        part = await seen(request, who, "jobs", job_id)
        if leading(part.body) is None:
            return await shown(
                request, part.body, verb=part.verb, found=part, index=index, partial=True
            )
    return page(
        request,
        "job.html",
        here="jobs",
        job=found,
        ended=found.status.ended,
        problem=found.problem,
        question=json.loads(found.question)["question"],
        progress=Markup(_progress(found)),
        best=Markup(_best(found)),
    )


@router.get("/jobs/{job_id}/best")
async def best(request: Request, who: WhoLooks, job_id: JobId) -> Response:
    """The best answers so far, as a part."""
    found = await state_of(request).broker.job(who, job_id)
    return HTMLResponse(await asyncio.to_thread(_best, found))


@router.post("/jobs/{job_id}/cancel")
async def cancel(request: Request, who: WhoLooks, job_id: JobId) -> Response:
    """End a job before its time."""
    await state_of(request).broker.cancel(who, job_id)
    return RedirectResponse(f"/jobs/{job_id}", HTTPStatus.SEE_OTHER)


def _progress(found: Job) -> str:
    progress = found.progress or {}
    done, of = progress.get("done"), progress.get("of")
    stage = (
        f"{found.status.value}: {progress['stage']}"
        if progress.get("stage")
        else found.status.value
    )
    stage += f", {done} of {of}" if of else ""
    return render("progress.html", stage=stage, done=done, of=of, ended=found.status.ended)


def _best(found: Job) -> str:
    leaders = leading(json.loads(found.best)) if found.best else None
    return render("best.html", leaders=leaders)


@router.get("/{kind}/{name}/chosen")
async def chosen(
    request: Request, who: WhoLooks, kind: Kind, name: Name, index: Index = 0
) -> Response:
    """All that is said of one row of a ranking, as a part."""
    found = await seen(request, who, kind, name)
    ranking = await asyncio.to_thread(lambda: found.ranking)
    if ranking is None:
        raise not_there("part")
    view = await asyncio.to_thread(result, ranking, index)
    part = await asyncio.to_thread(_chosen, ranking, view, found.base)
    return HTMLResponse(part)


@router.post("/{kind}/{name}/sizes")
async def sizes(request: Request, who: WhoLooks, kind: Kind, name: Name) -> Response:
    """The question again over a range of sizes: curves, or the job that works them out."""
    found = await seen(request, who, kind, name)
    ranking = await asyncio.to_thread(lambda: found.ranking)
    asked = over_sizes(found.question, ranking) if ranking and found.verb == "top" else None
    if asked is None:
        raise not_there("part")
    outcome = await state_of(request).broker.ask(
        who, "top", asked, Preferences(wait_seconds=_PATIENCE_SECONDS)
    )
    if isinstance(outcome, Accepted):
        return _part(request, found, _waiting(outcome, "This", f"/jobs/{outcome.job.id}"))
    link = f"/answers/{outcome.key}" if outcome.key else None
    drawn = curves(SweepReply.model_validate(json.loads(outcome.body)))
    return _part(request, found, _curves(drawn, link), "Time against message size")


@router.get("/{kind}/{name}/timeline")
async def timeline(
    request: Request, who: WhoLooks, kind: Kind, name: Name, index: Index = 0
) -> Response:
    """The timeline of a row's program, as it is simulated."""
    found = await seen(request, who, kind, name)
    outcome = await _emitted(request, who, found, index, "svg")
    again = f"{found.base}/timeline?answer={index}"
    if isinstance(outcome, Accepted):
        return _part(request, found, _waiting(outcome, "The timeline", again))
    files = {one.name: one.text for one in _files(outcome) if isinstance(one, TextFile)}
    told = json.loads(files["timeline.json"])
    drawing = Markup(files["timeline.svg"])
    part = render("timeline.html", drawing=drawing, base=found.base, index=index, **told)
    return _part(request, found, part, "Timeline")


@router.get("/{kind}/{name}/code/{target}")
async def code(
    request: Request, who: WhoLooks, kind: Kind, name: Name, target: str, index: Index = 0
) -> Response:
    """A row's program in the words of a runtime."""
    found = await seen(request, who, kind, name)
    outcome = await _emitted(request, who, found, index, target)
    if isinstance(outcome, Accepted):
        again = f"{found.base}/code/{target}?answer={index}"
        return _part(request, found, _waiting(outcome, "The code", again))
    part = render("code.html", files=_files(outcome), base=found.base, target=target, index=index)
    return _part(request, found, part, TABS.get(target, target))


@router.get("/{kind}/{name}/files/{target}/{file}")
async def file(
    request: Request,
    who: WhoLooks,
    kind: Kind,
    name: Name,
    target: str,
    file: str,
    index: Index = 0,
) -> Response:
    """One file of those, to keep."""
    found = await seen(request, who, kind, name)
    outcome = await _emitted(request, who, found, index, target)
    if isinstance(outcome, Accepted):
        raise unavailable("the file is being made")
    one = next((one for one in _files(outcome) if one.name == file), None)
    if one is None:
        raise not_there("file")
    content = one.text.encode() if isinstance(one, TextFile) else base64.b64decode(one.base64)
    headers = {"Content-Disposition": f'attachment; filename="{file}"'}
    return Response(content, 200, headers, "application/octet-stream")


async def _emitted(
    request: Request, who: Caller, found: Seen, index: int, target: str
) -> Answered | Accepted:
    ranking = await asyncio.to_thread(lambda: found.ranking)
    if target not in _HANDED or ranking is None:
        raise not_there("part")
    asked = {**handed(ranking, index), "target": target}
    return await state_of(request).broker.ask(
        who, "emit", asked, Preferences(wait_seconds=_PATIENCE_SECONDS)
    )


def _files(outcome: Answered) -> list[TextFile | BinaryFile]:
    """What was emitted."""
    found: EmittedReply | EmittedGroupsReply = judge("emit").validate_python(
        json.loads(outcome.body)
    )
    return [*found.files]


def _waiting(outcome: Accepted, what: str, again: str) -> str:
    return render("waiting.html", job=outcome.job.id, what=what, again=again)


def _part(request: Request, found: Seen, part: str, heading: str = "Not yet") -> Response:
    """A part by itself for a script, or as a page of its own."""
    if wants_part(request):
        return HTMLResponse(part)
    told = f"{heading}: {title(found.ranking)}" if found.ranking else heading
    return page(request, "part.html", title=told, back=found.base, part=Markup(part))


@router.get("/static/{path:path}")
async def files(path: str, request: Request) -> Response:
    """What pages need beside them: the same for everybody, so no key is asked for."""
    found = static().get(path)
    if found is None:
        raise not_there("file")
    kept = "public, max-age=31536000, immutable" if "v" in request.query_params else "no-cache"
    headers = {"ETag": f'"{found.etag}"', "Cache-Control": kept, "Vary": "Accept-Encoding"}
    if request.headers.get("if-none-match") == headers["ETag"]:
        return Response(status_code=304, headers=headers)
    return Response(found.content, 200, headers, found.media_type)
