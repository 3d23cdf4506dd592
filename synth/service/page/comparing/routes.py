"""The route that shows two answers side by side, and offers those that can be chosen."""

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
    """Two answers side by side; with fewer than two, those to choose from."""
    found = [await view_answer(request, caller, "answers", key) for key in of[:2]]
    verb = found[0].verb if found else None
    done = JobFilter(Status.DONE, verb)
    jobs = await state_of(request).broker.jobs(caller, _MOST_OFFERED, None, done)
    both = await asyncio.to_thread(comparison, *found) if len(found) == 2 else None
    others = [one for one in jobs if one.answer_key and one.answer_key not in of]
    like = await _likely_other(request, caller, found[0], others) if len(found) == 1 else None
    return page(
        request,
        "compare.html",
        here="compare",
        both=both,
        chosen=[one.key for one in found],
        offered=_offer_names(found, like, jobs),
    )


async def _likely_other(
    request: Request, caller: PageCaller, viewed: ViewedAnswer, others: Sequence[StoredJob]
) -> str | None:
    """The key of the answer that is most likely to be put beside one, of the latest first.

    On the same machine, and with the same lines: of one size, of a range or of a job.
    """
    on_it = re.compile(rf"(^| ){re.escape(machine_in(viewed.question))}(,|$)")
    near = [one for one in others if on_it.search(one.name)]
    for job in near[:_MOST_LOOKED_AT]:
        whole = await state_of(request).broker.job(caller, job.id, whole=True)
        if _kind(question_of(whole)) == _kind(viewed.question):
            return job.answer_key
    return next((one.answer_key for one in (*near, *others)), None)


def _kind(question: Mapping[str, Any]) -> tuple[bool, ...]:
    """What decides which lines an answer has."""
    several, model = bool(question.get("collectives")), bool(question.get("model"))
    return several, model, isinstance(question.get("bytes"), list)


def _offer_names(
    found: Sequence[ViewedAnswer], like: str | None, jobs: Sequence[StoredJob]
) -> dict[str, str]:
    """The names of answers that may be chosen, by their keys: first those that are, and the likely.

    Questions that are called alike, as only a text tells them apart, have behind it when they came.
    """
    names = {one.key: one.name for one in found if one.key}
    came = dict[str, str]()
    for job in sorted(jobs, key=lambda one: one.answer_key != like):
        if job.answer_key:
            names.setdefault(job.answer_key, job.name)
            came.setdefault(job.answer_key, f", {job.created:%Y-%m-%d %H:%M:%S.%f}"[:-3])
    alike = Counter(names.values())
    return {
        key: name + (came.get(key, "") if alike[name] > 1 else "") for key, name in names.items()
    }
