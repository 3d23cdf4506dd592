"""Middleware around all requests: gives each an id, logs it, counts it, and handles our bugs."""

from __future__ import annotations

import logging
import re
import time
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from synth.service.http.logs import SERVICE
from synth.service.http.problems import Respond, unforeseen
from synth.service.metrics import Metrics

_SANE_ID = re.compile(rb"[A-Za-z0-9._:-]{1,64}")
UNMATCHED = "unmatched"
log = logging.getLogger(SERVICE)


@dataclass
class _Seen:
    """What was observed of a response while it was sent."""

    status: int = 0
    sent_bytes: int = 0


class RequestMiddleware:
    """ASGI middleware around the whole app.

    The id of a request is its ``X-Request-ID`` if that is sane, else a new one; the response has
    it, too. An error that nobody handled becomes a refusal with this id, and the log has the
    traceback under it.
    """

    def __init__(self, app: ASGIApp, metrics: Metrics, respond: Respond) -> None:
        self._app = app
        self._respond = respond
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begun = time.perf_counter()
        request_id = _id_of(scope)
        scope.setdefault("state", {})["request_id"] = request_id
        seen = _Seen()

        async def watched(message: Message) -> None:
            if message["type"] == "http.response.start":
                seen.status = message["status"]
                message["headers"] = [
                    *message.get("headers", ()),
                    (b"x-request-id", request_id.encode()),
                    (b"x-content-type-options", b"nosniff"),
                ]
            elif message["type"] == "http.response.body":
                seen.sent_bytes += len(message.get("body", b""))
            await send(message)

        try:
            await self._app(scope, receive, watched)
        except Exception:
            log.exception("unforeseen", extra={"logged": {"request_id": request_id}})
            if not seen.status:
                request = Request(scope)
                response = self._respond(request, unforeseen(request))
                await response(scope, receive, watched)
        finally:
            self._note(scope, seen, request_id, time.perf_counter() - begun)

    def _note(self, scope: Scope, seen: _Seen, request_id: str, seconds: float) -> None:
        route = template(scope)
        self._metrics.answered(scope["method"], route, seen.status, seconds)
        logged: dict[str, Any] = {
            "request_id": request_id,
            "method": scope["method"][:16],
            "route": route,
            "status": seen.status,
            "seconds": round(seconds, 6),
            "sent_bytes": seen.sent_bytes,
            **scope["state"].get("logged", {}),
        }
        if route == UNMATCHED:
            logged["path"] = scope["path"][:200]
        log.info("request", extra={"logged": logged})


def template(scope: Scope) -> str:
    """The path of the route that served a request, with the names of its parameters in it."""
    path = getattr(scope.get("route"), "path", None)
    return path if isinstance(path, str) else UNMATCHED


def _id_of(scope: Scope) -> str:
    given = next((value for name, value in scope["headers"] if name == b"x-request-id"), b"")
    return given.decode() if _SANE_ID.fullmatch(given) else uuid4().hex
