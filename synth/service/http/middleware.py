"""Middleware that assigns an id to each request, logs and counts it, and handles crashes."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from synth.service.errors import RefusalError
from synth.service.http.logs import SERVICE
from synth.service.http.problems import Respond, refuse_unforeseen
from synth.service.http.state import visit_of
from synth.service.metrics import Metrics

_SANE_ID = re.compile(r"[A-Za-z0-9._:-]{1,64}")
UNMATCHED = "unmatched"
log = logging.getLogger(SERVICE)


@dataclass
class _ResponseRecord:
    """Status and size of a response, recorded while it is sent."""

    status: int = 0
    sent_bytes: int = 0


@dataclass(frozen=True)
class RequestMiddleware:
    """ASGI middleware around the whole app.

    The id of a request is its ``X-Request-ID`` if that is valid, else a new id; the response has it
    in the same header. Requests that ``refused`` refuses do not reach the app. An unhandled error
    becomes a refusal with the request's id, under which the log contains the traceback.
    """

    app: ASGIApp
    metrics: Metrics
    refused: Callable[[Request], RefusalError | None]
    respond: Respond

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        begun = time.perf_counter()
        request = Request(scope)
        request.state.request_id = _id_of(request)
        record = _ResponseRecord()

        async def watched(message: Message) -> None:
            match message:
                case {"type": "http.response.start", "status": status}:
                    record.status = status
                    headers = MutableHeaders(scope=message)
                    headers.append("x-request-id", request.state.request_id)
                    headers.append("x-content-type-options", "nosniff")
                case {"type": "http.response.body", "body": body}:
                    record.sent_bytes += len(body)
            await send(message)

        try:
            refusal = self.refused(request)
            answer = self.respond(request, refusal) if refusal else self.app
            await answer(scope, receive, watched)
        except Exception:
            log.exception("unforeseen", extra={"logged": {"request_id": request.state.request_id}})
            if not record.status:  # once a response has begun, no other can be sent
                response = self.respond(request, refuse_unforeseen(request))
                await response(scope, receive, watched)
        finally:
            if (visit := visit_of(request)) is not None:
                visit.leave()
            self._note(request, record, time.perf_counter() - begun)

    def _note(self, request: Request, record: _ResponseRecord, seconds: float) -> None:
        route = template(request.scope)
        self.metrics.answered(request.method, route, record.status, seconds)
        logged: dict[str, Any] = {
            "request_id": request.state.request_id,
            "method": request.method[:16],
            "route": route,
            "status": record.status,
            "seconds": round(seconds, 6),
            "sent_bytes": record.sent_bytes,
            **getattr(request.state, "logged", {}),
            **({"path": request.scope.get("path", "")[:200]} if route == UNMATCHED else {}),
        }
        log.info("request", extra={"logged": logged})


def template(scope: Scope) -> str:
    """Return the path template of the route that served a request."""
    path = getattr(scope.get("route"), "path", None)
    return path if isinstance(path, str) else UNMATCHED


def _id_of(request: Request) -> str:
    request_id = request.headers.get("x-request-id", "")
    return request_id if _SANE_ID.fullmatch(request_id) else uuid4().hex
