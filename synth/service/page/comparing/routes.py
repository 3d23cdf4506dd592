"""The route that compares two answers and offers answers to choose from."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from synth.service.http.state import state_of
from synth.service.jobs.names import machine_in
from synth.service.page.answer_routes import Key, ViewedAnswer, question_of, view_answer
from synth.service.page.comparing.sides import comparison
from synth.service.page.responses import PageCaller, PageRoute, page
from synth.service.store import JobFilter, Status, StoredJob

router = APIRouter(route_class=PageRoute, include_in_schema=False)
_MOST_OFFERED, _MOST_LOOKED_AT = 100, 10


@router.get("/compare")
async def show_comparison(
    request: Request,
    caller: PageCaller,
    of: Annotated[list[Key], Query(max_length=_MOST_OFFERED)] = [],  # noqa: B006 - only read
) -> Response:
    """Show two answers side by side; with fewer than two, answers to choose from."""
    chosen = [await view_answer(request, caller, "answers", key) for key in of[:2]]
    verb = chosen[0].verb if chosen else None
    done = JobFilter(Status.DONE, verb)
    jobs = await state_of(request).broker.jobs(caller, _MOST_OFFERED, None, done)
    both = await asyncio.to_thread(comparison, *chosen) if len(chosen) == 2 else None
    others = [job for job in jobs if job.answer_key and job.answer_key not in of]
    likely = await _likely_other(request, caller, chosen[0], others) if len(chosen) == 1 else None
    return page(
        request,
        "compare.html",
        here="compare",
        both=both,
        chosen=[viewed.key for viewed in chosen],
        offered=_offer_names(chosen, likely, jobs),
    )


async def _likely_other(
    request: Request, caller: PageCaller, viewed: ViewedAnswer, others: Sequence[StoredJob]
) -> str | None:
    """Return the key of the answer that is most likely to be compared with ``viewed``.

    It is the latest on the same machine with the same kind of lines: one size, a range, or a job.
    """
    on_it = re.compile(rf"(^| ){re.escape(machine_in(viewed.question))}(,|$)")
    near = [job for job in others if on_it.search(job.name)]
    for job in near[:_MOST_LOOKED_AT]:
        whole = await state_of(request).broker.job(caller, job.id, whole=True)
        if _kind(question_of(whole)) == _kind(viewed.question):
            return job.answer_key
    return next((job.answer_key for job in (*near, *others)), None)


def _kind(question: Mapping[str, Any]) -> tuple[bool, ...]:
    """Return the properties of a question that decide which lines its answer has."""
    collectives, model = bool(question.get("collectives")), bool(question.get("model"))
    return collectives, model, isinstance(question.get("bytes"), list)


def _offer_names(
    chosen: Sequence[ViewedAnswer], likely: str | None, jobs: Sequence[StoredJob]
) -> dict[str, str]:
    """Return the names of answers by key: first the chosen ones and the likely one.

    Equal names, of questions that differ only in a text, are followed by their time.
    """
    names = {viewed.key: viewed.name for viewed in chosen if viewed.key}
    created = dict[str, str]()
    for job in sorted(jobs, key=lambda job: job.answer_key != likely):
        if job.answer_key:
            names.setdefault(job.answer_key, job.name)
            created.setdefault(job.answer_key, f", {job.created:%Y-%m-%d %H:%M:%S.%f}"[:-3])
    alike = Counter(names.values())
    return {
        key: name + (created.get(key, "") if alike[name] > 1 else "") for key, name in names.items()
    }
