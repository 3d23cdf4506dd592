"""The routes of parts of answers, such as a row's timeline: each is made only when requested."""

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
from synth.ask.answers import judge
from synth.ask.answers.degraded import UnevenReply
from synth.ask.answers.parts import BinaryFile, TextFile
from synth.ask.answers.ranked import PlacedAnswer, SweepReply
from synth.collective.emit import TARGETS
from synth.collective.emit.nccl_tuner import BUILD, MOST_CHANNELS
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
        """Whether the row is several programs side by side."""
        answer = answer_at(self.ranking, self.index)
        return isinstance(answer, PlacedAnswer) and len(answer.stripes) > 1

    async def ask(
        self, verb: str, question: dict[str, Any], *, listed: bool = False
    ) -> DeliveredAnswer | PendingJob:
        """Ask a question whose answer the part shows: that answer, or its job if it takes long.

        ``listed``: among jobs and what may be compared, as an answer of its own.
        """
        patience = Preferences(wait_seconds=_PATIENCE_SECONDS, part=not listed)
        outcome = await state_of(self.request).broker.ask(self.caller, verb, question, patience)
        return require_answer(outcome)

    async def emitted(
        self, target: str, channels: int | None = None, size_bytes: int | None = None
    ) -> DeliveredAnswer | PendingJob:
        """The row's program in the words of a runtime or tool; ``channels`` of NCCL's tuner.

        ``size_bytes``: of a range of sizes, which; as ``emit_question`` has it if that is not said.
        """
        if target not in _TARGETS:
            raise not_found("part")
        question = await asyncio.to_thread(
            emit_question, self.ranking, self.index, target, size_bytes
        )
        if channels is not None:
            question["channels"] = channels
        return await self.ask("emit", question)

    def response(self, template: str, heading: str, **given: Any) -> Response:
        """The part by itself for a script, or as a page of its own."""
        shown = {"base": self.viewed.base, "index": self.index, **given}
        if wants_part(self.request):
            return HTMLResponse(render(template, **shown))
        shown |= {"title": f"{heading}: {title(self.ranking)}", "part": template}
        return page(self.request, "part.html", **shown)

    async def looked_at(self, template: str, rank: str) -> Response:
        """What is shown of the row, for a script; ``rank``: of a device that is looked for."""
        view = await asyncio.to_thread(result, self.ranking, self.index, rank)
        given = {"view": view, "base": self.viewed.base, "index": self.index}
        return HTMLResponse(await asyncio.to_thread(render, template, **given))

    def waiting(self, outcome: PendingJob, what: str, path: str = "") -> Response:
        """That the part is still worked out, and where to look again: else at its job."""
        job = outcome.job.id
        again = f"{self.viewed.base}/{path}" if path else f"/jobs/{job}"
        return self.response("waiting.html", "Not yet", job=job, what=what, again=again)


async def find_part(
    request: Request,
    caller: PageCaller,
    viewed: Annotated[ViewedAnswer, Depends(view_answer)],
    index: Index = 0,
) -> PartRequest:
    """The part in the address. Raises RefusalError where the answer has no ranking."""
    ranking = await asyncio.to_thread(lambda: viewed.ranking)
    if ranking is None:
        raise not_found("part")
    return PartRequest(request, caller, viewed, ranking, index)


RequestedPart = Annotated[PartRequest, Depends(find_part)]


@router.get("/{kind}/{name}/chosen")
async def show_row(part: RequestedPart, rank: Rank = "") -> Response:
    """All that is said of one row of a ranking, as a part."""
    return await part.looked_at("chosen.html", rank)


@router.get("/{kind}/{name}/machine")
async def show_machine(part: RequestedPart, rank: Rank = "") -> Response:
    """The machine with a row on it, drawn around the device of a rank."""
    return await part.looked_at("machine.html", rank)


@router.post("/{kind}/{name}/sizes")
async def ask_sizes(part: RequestedPart) -> Response:
    """The question again over a range of sizes: curves, or the job that works them out."""
    question = part.viewed.over_sizes
    if question is None:
        raise not_found("part")
    given = question.model_dump(mode="json", by_alias=True)
    outcome = await part.ask("top", given, listed=True)
    if isinstance(outcome, PendingJob):
        return part.waiting(outcome, "This")
    sweep = SweepReply.model_validate_json(outcome.body)
    link = f"/answers/{outcome.key}" if outcome.key else None
    view = {"curves": draw_curves(sweep), "told": verdict(sweep), "link": link}
    return part.response("sizes.html", "Against message size", **view)


@router.get("/{kind}/{name}/timeline")
async def show_timeline(part: RequestedPart) -> Response:
    """The timeline of a row's program, as it is simulated."""
    outcome = await part.emitted("svg")
    if isinstance(outcome, PendingJob):
        return part.waiting(outcome, "The timeline", f"timeline?answer={part.index}")
    drawing, figures = (one.content.decode() for one in _files(outcome))
    given = {"drawing": Markup(drawing), **json.loads(figures)}
    return part.response("timeline.html", "Timeline", **given)


@router.get("/{kind}/{name}/code/{target}")
async def show_code(part: RequestedPart, target: str, channels: Channels = None) -> Response:
    """A row's program in the words of a runtime; NCCL's tuner is to be told of its channels."""
    heading = TABS.get(target, target)
    if target == "nccl-tuner" and channels is None and not part.split:
        return part.response("channels.html", heading, most=MOST_CHANNELS, build=BUILD)
    try:
        outcome = await part.emitted(target, channels)
    except (InputError, RefusalError) as error:
        if isinstance(error, RefusalError) and error.status is not HTTPStatus.UNPROCESSABLE_ENTITY:
            raise
        response = part.response(
            "unfit.html", heading, label=heading, why=_refusal_reason(error, target)
        )
        response.status_code = 200 if wants_part(part.request) else HTTPStatus.UNPROCESSABLE_ENTITY
        return response
    more = f"answer={part.index}" + (f"&channels={channels}" if channels else "")
    if isinstance(outcome, PendingJob):
        return part.waiting(outcome, "The code", f"code/{target}?{more}")
    summary = "" if isinstance(part.ranking, UnevenReply) else TARGETS[target].summary
    given = {"files": _files(outcome), "target": target, "more": more, "summary": summary}
    if summary and not TARGETS[target].places:
        given["instead"] = await asyncio.to_thread(no_code_text, part.ranking, part.index)
    return part.response("code.html", heading, **given)


@router.get("/{kind}/{name}/files/{target}/{file}")
async def download_file(
    part: RequestedPart, target: str, file: str, channels: Channels = None, size: Size = None
) -> Response:
    """One file of those, to keep."""
    outcome = await part.emitted(target, channels, size)
    if isinstance(outcome, PendingJob):
        raise unavailable("the file is being made")
    one = next((one for one in _files(outcome) if one.name == file), None)
    if one is None:
        raise not_found("file")
    return _download(one.content, file)


@router.get("/{kind}/{name}/file/{file:path}")
async def download_kept_file(
    request: Request, viewed: Annotated[ViewedAnswer, Depends(view_answer)], file: str
) -> Response:
    """One of the files that an answer itself has, to keep."""
    files = viewed.body.get("files", ()) if isinstance(viewed.body, dict) else ()
    one = next((one for one in files if one["name"] == file), None)
    if one is None:
        raise not_found("file")
    kept = TextFile(**one) if "text" in one else BinaryFile(**one)
    return _download(kept.content, file.rpartition("/")[2])


@router.get("/{kind}/{name}/folder/{folder}")
async def download_kept_folder(
    viewed: Annotated[ViewedAnswer, Depends(view_answer)], folder: str
) -> Response:
    """All files for one framework of a plan, to keep."""
    files = viewed.body.get("files", ()) if isinstance(viewed.body, dict) else ()
    one = next((one for one in folders(files) if one.name == folder), None)
    if one is None:
        raise not_found("folder")
    return _download(zip_folder(one), f"{folder}.zip")


@router.get("/{kind}/{name}/plans/{index}/{framework}")
async def download_plan_folder(
    request: Request,
    caller: PageCaller,
    viewed: Annotated[ViewedAnswer, Depends(view_answer)],
    index: Annotated[int, Path(ge=0, le=100_000)],
    framework: str,
) -> Response:
    """Any plan of an answer as the files of a framework, to keep: made now, or by a job."""
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
    [folder] = folders([{**one, "name": f"{framework}/{one['name']}"} for one in files])
    return _download(zip_folder(folder), f"plan-{index + 1}-{framework}.zip")


def require_answer(outcome: DeliveredAnswer | PendingJob) -> DeliveredAnswer | PendingJob:
    """The same. Raises RefusalError where time was up before there was any answer, even in part."""
    if isinstance(outcome, PendingJob) or outcome.key is not None:
        return outcome
    if read_best_so_far(json.loads(outcome.body)) is not None:
        hint = "ask who runs this service for more time: --job-seconds"
        problem = "the time for this was up before it was made"
        raise RefusalError(HTTPStatus.SERVICE_UNAVAILABLE, problem, hint=hint)
    return outcome


def _refusal_reason(error: InputError | RefusalError, target: str) -> str:
    """Why a row is no file of a target: where, and what; what to say on a command line is no help.

    A place that is an option of it is left out, too.
    """
    problem = error.problem.removeprefix(f"{target} cannot express ")
    return f"{error.where}: {problem}" if error.where.startswith("step") else problem


def _download(content: bytes, name: str) -> Response:
    """A file as a download. A name that no header can hold is spelled as RFC 5987 says."""
    called = f'filename="{name}"' if name.isascii() else f"filename*=UTF-8''{quote(name)}"
    headers = {"Content-Disposition": f"attachment; {called}"}
    return Response(content, 200, headers, "application/octet-stream")


def _files(outcome: DeliveredAnswer) -> list[TextFile | BinaryFile]:
    """What was emitted."""
    files: list[TextFile | BinaryFile] = judge("emit").validate_json(outcome.body).files
    return files
