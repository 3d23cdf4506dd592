"""The routes of parts of answers, such as a row's timeline: each is computed on request."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from http import HTTPStatus
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Depends, Path, Query, Request
from markupsafe import Markup
from starlette.responses import HTMLResponse, Response

from hierarchies import InputError
from synth.ask.answers.degraded import UnevenReply
from synth.ask.answers.parts import BinaryFile, TextFile
from synth.ask.answers.ranked import PlacedAnswer, SweepReply
from synth.ask.table import judge
from synth.collective.emit.nccl_tuner import BUILD
from synth.collective.emit.source import MOST_CHANNELS
from synth.collective.emit.targets import TARGETS
from synth.service.auth.identity import Caller
from synth.service.errors import RefusalError, not_found, unavailable
from synth.service.http.state import state_of
from synth.service.jobs.broker import PendingJob, Preferences
from synth.service.jobs.known import DeliveredAnswer
from synth.service.page.answer_routes import Index, Rank, ViewedAnswer, view_answer
from synth.service.page.rendering import render
from synth.service.page.responses import PageCaller, PageRoute, page, see_other, wants_part
from synth.service.page.results import TABS, read_best_so_far, result
from synth.service.page.views import files_question, folders, zip_folder
from synth.show.report.curves import draw_curves
from synth.show.report.details import answer_at, emit_question, no_code_text, title
from synth.show.terminal.rows import Ranking
from synth.show.terminal.verdict import verdict

router = APIRouter(route_class=PageRoute, include_in_schema=False)
_PATIENCE_SECONDS = 20.0
Channels = Annotated[int | None, Query(ge=1, le=MOST_CHANNELS)]
Size = Annotated[int | None, Query(alias="bytes", ge=1)]
_TARGETS = (*TABS, "trace", "svg")


@dataclass(frozen=True)
class PartRequest:
    """A request for a part: its caller, the answer with a ranking, and the row."""

    request: Request
    caller: Caller
    viewed: ViewedAnswer
    ranking: Ranking
    index: int

    @property
    def split(self) -> bool:
        """Whether the row consists of several concurrent programs."""
        answer = answer_at(self.ranking, self.index)
        return isinstance(answer, PlacedAnswer) and len(answer.stripes) > 1

    async def ask(
        self, verb: str, question: dict[str, Any], *, listed: bool = False
    ) -> DeliveredAnswer | PendingJob:
        """Ask the question whose answer the part shows; return its job if it takes long.

        ``listed``: the job appears in lists of jobs and of answers to compare.
        """
        patience = Preferences(wait_seconds=_PATIENCE_SECONDS, part=not listed)
        outcome = await state_of(self.request).broker.ask(self.caller, verb, question, patience)
        return require_answer(outcome)

    async def emit(
        self, target: str, channels: int | None = None, size_bytes: int | None = None
    ) -> DeliveredAnswer | PendingJob:
        """Emit the row's program for a runtime or tool; ``channels`` is for NCCL's tuner.

        ``size_bytes`` selects one of a range of sizes; ``emit_question`` chooses the default.
        """
        if target not in _TARGETS:
            raise not_found("part")
        question = await asyncio.to_thread(
            emit_question, self.ranking, self.index, target, size_bytes
        )
        if channels is not None:
            question["channels"] = channels
        return await self.ask("emit", question)

    def response(self, template: str, heading: str, **context: Any) -> Response:
        """Render the part alone for a script, else as a separate page."""
        shown = {"base": self.viewed.base, "index": self.index, **context}
        if wants_part(self.request):
            return HTMLResponse(render(template, **shown))
        shown |= {"title": f"{heading}: {title(self.ranking)}", "part": template}
        return page(self.request, "part.html", **shown)

    async def render_row(self, template: str, rank: str) -> Response:
        """Render a view of the row, for a script; ``rank``: of the device to highlight."""
        view = await asyncio.to_thread(result, self.ranking, self.index, rank)
        context = {"view": view, "base": self.viewed.base, "index": self.index}
        return HTMLResponse(await asyncio.to_thread(render, template, **context))

    def waiting_response(self, outcome: PendingJob, what: str, path: str = "") -> Response:
        """Render a notice that the part is being computed; it reloads ``path`` or the job."""
        job = outcome.job.id
        address = f"{self.viewed.base}/{path}" if path else f"/jobs/{job}"
        return self.response("waiting.html", "Not yet", job=job, what=what, again=address)


async def find_part(
    request: Request,
    caller: PageCaller,
    viewed: Annotated[ViewedAnswer, Depends(view_answer)],
    index: Index = 0,
) -> PartRequest:
    """Return the part in the URL. Raises RefusalError if the answer has no ranking."""
    ranking = await asyncio.to_thread(lambda: viewed.ranking)
    if ranking is None:
        raise not_found("part")
    return PartRequest(request, caller, viewed, ranking, index)


RequestedPart = Annotated[PartRequest, Depends(find_part)]


@router.get("/{kind}/{name}/chosen")
async def show_row(part: RequestedPart, rank: Rank = "") -> Response:
    """Return the details of one row of a ranking, as a part."""
    return await part.render_row("chosen.html", rank)


@router.get("/{kind}/{name}/machine")
async def show_machine(part: RequestedPart, rank: Rank = "") -> Response:
    """Return the machine with a row on it, drawn around the device of a rank."""
    return await part.render_row("machine.html", rank)


@router.post("/{kind}/{name}/sizes")
async def ask_sizes(part: RequestedPart) -> Response:
    """Ask the question over a range of sizes: return curves, or the job that computes them."""
    question = part.viewed.over_sizes
    if question is None:
        raise not_found("part")
    sweep_question = question.model_dump(mode="json", by_alias=True)
    outcome = await part.ask("top", sweep_question, listed=True)
    if isinstance(outcome, PendingJob):
        return part.waiting_response(outcome, "This")
    sweep = SweepReply.model_validate_json(outcome.body)
    link = f"/answers/{outcome.key}" if outcome.key else None
    view = {"curves": draw_curves(sweep), "told": verdict(sweep), "link": link}
    return part.response("sizes.html", "By message size", **view)


@router.get("/{kind}/{name}/timeline")
async def show_timeline(part: RequestedPart) -> Response:
    """Return the simulated timeline of a row's program."""
    outcome = await part.emit("svg")
    if isinstance(outcome, PendingJob):
        return part.waiting_response(outcome, "The timeline", f"timeline?answer={part.index}")
    drawing, figures = (file.content.decode() for file in _files(outcome))
    context = {"drawing": Markup(drawing), **json.loads(figures)}
    return part.response("timeline.html", "Timeline", **context)


@router.get("/{kind}/{name}/code/{target}")
async def show_code(part: RequestedPart, target: str, channels: Channels = None) -> Response:
    """Return a row's program for a runtime; for NCCL's tuner, first ask for the channels."""
    heading = TABS.get(target, target)
    if target == "nccl-tuner" and channels is None and not part.split:
        return part.response("channels.html", heading, most=MOST_CHANNELS, build=BUILD)
    try:
        outcome = await part.emit(target, channels)
    except (InputError, RefusalError) as error:
        if isinstance(error, RefusalError) and error.status is not HTTPStatus.UNPROCESSABLE_ENTITY:
            raise
        response = part.response(
            "unfit.html", heading, label=heading, why=_refusal_reason(error, target)
        )
        response.status_code = 200 if wants_part(part.request) else HTTPStatus.UNPROCESSABLE_ENTITY
        return response
    query = f"answer={part.index}" + (f"&channels={channels}" if channels else "")
    if isinstance(outcome, PendingJob):
        return part.waiting_response(outcome, "The code", f"code/{target}?{query}")
    summary = "" if isinstance(part.ranking, UnevenReply) else TARGETS[target].summary
    context = {"files": _files(outcome), "target": target, "more": query, "summary": summary}
    if summary and not TARGETS[target].places:
        context["instead"] = await asyncio.to_thread(no_code_text, part.ranking, part.index)
    return part.response("code.html", heading, **context)


@router.get("/{kind}/{name}/files/{target}/{file}")
async def download_file(
    part: RequestedPart, target: str, file: str, channels: Channels = None, size: Size = None
) -> Response:
    """Download one file of a row's program."""
    outcome = await part.emit(target, channels, size)
    if isinstance(outcome, PendingJob):
        raise unavailable("the file is being written")
    emitted = next((entry for entry in _files(outcome) if entry.name == file), None)
    if emitted is None:
        raise not_found("file")
    return _download(emitted.content, file)


@router.get("/{kind}/{name}/file/{file:path}")
async def download_kept_file(
    request: Request, viewed: Annotated[ViewedAnswer, Depends(view_answer)], file: str
) -> Response:
    """Download one of the files in an answer."""
    found = next((entry for entry in viewed.files if entry["name"] == file), None)
    if found is None:
        raise not_found("file")
    download = TextFile(**found) if "text" in found else BinaryFile(**found)
    return _download(download.content, file.rpartition("/")[2])


@router.get("/{kind}/{name}/folder/{folder}")
async def download_kept_folder(
    viewed: Annotated[ViewedAnswer, Depends(view_answer)], folder: str
) -> Response:
    """Download all files of a plan for one framework."""
    found = next((entry for entry in folders(viewed.files) if entry.name == folder), None)
    if found is None:
        raise not_found("folder")
    return _download(zip_folder(found), f"{folder}.zip")


@router.get("/{kind}/{name}/plans/{index}/{framework}")
async def download_plan_folder(
    request: Request,
    caller: PageCaller,
    viewed: Annotated[ViewedAnswer, Depends(view_answer)],
    index: Annotated[int, Path(ge=0, le=100_000)],
    framework: str,
) -> Response:
    """Download any plan of an answer as files of a framework, written now or by a job."""
    plans = isinstance(viewed.body, dict) and "plans" in viewed.body
    question = files_question(framework, viewed.question, viewed.body, index) if plans else None
    if question is None:
        raise not_found("folder")
    patience = Preferences(wait_seconds=_PATIENCE_SECONDS, part=True)
    outcome = require_answer(
        await state_of(request).broker.ask(caller, "train", question, patience)
    )
    if isinstance(outcome, PendingJob):
        return see_other(f"/jobs/{outcome.job.id}")
    files = json.loads(outcome.body)["files"]
    [folder] = folders([{**file, "name": f"{framework}/{file['name']}"} for file in files])
    return _download(zip_folder(folder), f"plan-{index + 1}-{framework}.zip")


def require_answer(outcome: DeliveredAnswer | PendingJob) -> DeliveredAnswer | PendingJob:
    """Return the outcome. Raises RefusalError if time ran out without even a partial answer."""
    if isinstance(outcome, PendingJob) or outcome.key is not None:
        return outcome
    if read_best_so_far(json.loads(outcome.body)) is not None:
        hint = "ask the operator for more time (--job-seconds)"
        problem = "the time limit was reached before it was ready"
        raise RefusalError(HTTPStatus.SERVICE_UNAVAILABLE, problem, hint=hint)
    return outcome


def _refusal_reason(error: InputError | RefusalError, target: str) -> str:
    """Return why a target cannot express a row: the problem, after the step that it names, if any.

    Hints and locations that concern options of the command line are omitted.
    """
    problem = error.problem.removeprefix(f"{target} cannot express ")
    return f"{error.where}: {problem}" if error.where.startswith("step") else problem


def _download(content: bytes, name: str) -> Response:
    """Return a file as a download. A name outside ASCII is encoded as in RFC 5987."""
    called = f'filename="{name}"' if name.isascii() else f"filename*=UTF-8''{quote(name)}"
    headers = {"Content-Disposition": f"attachment; {called}"}
    return Response(content, 200, headers, "application/octet-stream")


def _files(outcome: DeliveredAnswer) -> list[TextFile | BinaryFile]:
    """Return the files of an answer of ``emit``."""
    files: list[TextFile | BinaryFile] = judge("emit").validate_json(outcome.body).files
    return files
