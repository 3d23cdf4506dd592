"""The route that shows two answers side by side, and offers those that can be chosen."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Sequence
from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from synth.service.http.state import state_of
from synth.service.jobs.bodies import name_of_job
from synth.service.jobs.names import machine_in
from synth.service.page.answer_routes import Key, ViewedAnswer, viewed
from synth.service.page.comparing.sides import comparison
from synth.service.page.responses import PageCaller, PageRoute, page
from synth.service.store import Job, Status, Wanted

router = APIRouter(route_class=PageRoute, include_in_schema=False)
_MOST_OFFERED = 100


@router.get("/compare")
async def compare(
    request: Request,
    caller: PageCaller,
    of: Annotated[list[Key], Query(max_length=_MOST_OFFERED)] = [],  # noqa: B006 - only read
) -> Response:
    """Two answers side by side; with fewer than two, those to choose from."""
    found = [await viewed(request, caller, "answers", key) for key in of[:2]]
    verb = found[0].verb if found else None
    done = Wanted(Status.DONE, verb)
    jobs = await state_of(request).broker.jobs(caller, _MOST_OFFERED, None, done)
    both = await asyncio.to_thread(comparison, *found) if len(found) == 2 else None
    return page(
        request,
        "compare.html",
        here="compare",
        both=both,
        chosen=[one.key for one in found],
        offered=_offered(found, jobs),
    )


def _offered(found: Sequence[ViewedAnswer], jobs: Sequence[Job]) -> dict[str, str]:
    """The names of answers that may be chosen, by their keys: first those that are.

    Then the latest on the machine of the first, which are the most likely to be meant. Questions
    that are called alike, as only a text tells them apart, have behind it when they came.
    """
    names = {one.key: one.name for one in found if one.key}
    chosen, came = len(names), dict[str, str]()
    for job in jobs:
        if job.answer_key:
            names.setdefault(job.answer_key, name_of_job(job))
            came.setdefault(job.answer_key, f", {job.created:%Y-%m-%d %H:%M:%S.%f}"[:-3])
    alike = Counter(names.values())
    machine = re.escape(machine_in(found[0].question)) if found else ""
    on_it = re.compile(rf"(^| ){machine}(,|$)")
    others = sorted([*names][chosen:], key=lambda key: not on_it.search(names[key]))
    return {
        key: names[key] + (came.get(key, "") if alike[names[key]] > 1 else "")
        for key in [*[*names][:chosen], *others]
    }
