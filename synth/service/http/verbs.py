"""Routes of the verbs, one for each row of the table of verbs."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import Annotated

from fastapi import APIRouter, Header, Query, Request
from starlette.responses import Response

from synth.ask.table import VERBS
from synth.service.http.authentication import AskCaller
from synth.service.http.documents import question_body, question_responses
from synth.service.http.reading import JSON, json_body
from synth.service.http.state import state_of
from synth.service.jobs.bodies import JobBody, outcome_word
from synth.service.jobs.broker import PendingJob, Preferences
from synth.service.jobs.known import DeliveredAnswer

_WAIT = re.compile(r"\s*wait\s*=\s*\"?(?P<seconds>[0-9]{1,6})\"?\s*", re.IGNORECASE)
_SANE_KEY = r"^[\x21-\x7e]{1,200}$"
Prefer = Annotated[
    str | None,
    Header(description="wait=N: answer within N seconds or with a job; respond-async: at once."),
]
IdempotencyKey = Annotated[
    str | None,
    Header(
        pattern=_SANE_KEY,
        description="A repeated key with the same question gives the same job.",
    ),
]
Budget = Annotated[
    float | None,
    Query(gt=0, le=86400, description="Seconds of work after which a partial answer is given."),
]


def wait_seconds(prefer: str | None) -> float | None:
    """Return the seconds to wait in ``Prefer`` (RFC 7240), or None; ignores other preferences."""
    preferences = [wish.strip().lower() for wish in (prefer or "").split(",")]
    for wish in preferences:
        if match := _WAIT.fullmatch(wish):
            return float(match["seconds"])
    return 0.0 if "respond-async" in preferences else None


def router() -> APIRouter:
    """Create the routes of all verbs."""
    verb_routes = APIRouter(tags=["verbs"])
    for verb in VERBS:
        verb_routes.add_api_route(
            f"/v1/{verb}",
            _route(verb),
            methods=["POST"],
            operation_id=verb,
            response_class=Response,
            responses=question_responses(verb),
            openapi_extra=question_body(verb),
        )
    return verb_routes


def _route(verb: str) -> Callable[..., Awaitable[Response]]:
    async def ask(
        request: Request,
        caller: AskCaller,
        prefer: Prefer = None,
        idempotency_key: IdempotencyKey = None,
        budget: Budget = None,
    ) -> Response:
        broker = state_of(request).broker
        raw = await json_body(request, VERBS[verb].question, broker.settings.limits)
        preferences = Preferences(wait_seconds(prefer), budget, idempotency_key)
        reply = await broker.ask_json(caller, verb, raw, preferences)
        return answer_response(reply) if isinstance(reply, DeliveredAnswer) else job_response(reply)

    ask.__name__ = verb
    ask.__doc__ = VERBS[verb].question.__doc__
    return ask


def answer_response(answer: DeliveredAnswer) -> Response:
    """Return the response with an answer, byte for byte as it is stored."""
    headers = {
        "Collsynth-Outcome": outcome_word(answer.outcome),
        "Collsynth-Cache": "hit" if answer.hit else "miss",
    }
    if answer.key is not None:
        headers["Content-Location"] = f"/v1/answers/{answer.key}"
    return Response(answer.body, 200, headers, JSON)


def job_response(pending: PendingJob) -> Response:
    """Return the response with a job to poll."""
    body = JobBody.of(pending.job)
    headers = {"Location": body.url, "Retry-After": "1"}
    return Response(body.text(), 202, headers, JSON)
