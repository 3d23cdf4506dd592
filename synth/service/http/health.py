"""Routes for operators: liveness, readiness and metrics."""

from __future__ import annotations

import asyncio
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse

from synth.ask.identity.edition import edition
from synth.service.errors import RefusalError
from synth.service.http.authentication import AdminCaller
from synth.service.http.documents import Health, problems
from synth.service.http.state import state_of
from synth.service.store import StoreError

router = APIRouter(tags=["operations"])
_STORE_SECONDS = 2.0
_NOT_READY: dict[int | str, dict[str, Any]] = {
    503: {"description": "It is not ready, and why.", "model": Health}
}


@router.get("/healthz", operation_id="health")
async def healthz() -> Health:
    """The process is live and responds."""
    return Health(status="ok", edition=edition(), problems=[])


@router.get("/readyz", operation_id="ready", response_model=Health, responses=_NOT_READY)
async def readyz(request: Request) -> JSONResponse:
    """Jobs are accepted and computed: the store responds, there are workers, and no stop began."""
    problems = await reasons(request)
    status = "not ready" if problems else "ok"
    body = Health(status=status, edition=edition(), problems=problems)
    return JSONResponse(body.model_dump(), 503 if problems else 200, {"Cache-Control": "no-store"})


@router.get(
    "/metrics",
    operation_id="metrics",
    response_class=Response,
    responses={
        200: {"content": {"text/plain": {"schema": {"type": "string"}}}},
        **problems(),
    },
)
async def metrics(request: Request, caller: AdminCaller) -> Response:
    """The metrics of this server, for Prometheus."""
    state_of(request).metrics.ready.set(not await reasons(request))
    text = await state_of(request).broker.run_in_turn("", state_of(request).metrics.text)
    return Response(text, media_type="text/plain; version=0.0.4; charset=utf-8")


async def reasons(request: Request) -> list[str]:
    """Return the reasons why the server is not ready; empty if it is ready."""
    broker = state_of(request).broker
    problems = ["the service is stopping"] if broker.draining else []
    unready = state_of(request).dispatcher.unready()
    if unready and not broker.draining:
        problems.append(unready)
    try:
        async with asyncio.timeout(_STORE_SECONDS):
            await broker.check_store()
    except TimeoutError:
        problems.append(StoreError.public_message)
    except RefusalError as refusal:
        error = refusal.__cause__
        problems.append(
            error.public_message if isinstance(error, StoreError) else StoreError.public_message
        )
    return list(dict.fromkeys(problems))
