"""Refusals as application/problem+json (RFC 9457), including those of the framework."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterable, Mapping
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from hierarchies import InputError
from synth.service.errors import RefusalError, bad_input

PROBLEM_JSON = "application/problem+json"
Respond = Callable[[Request, RefusalError], Response]
"""Creates the response to a refused request: JSON for the API, a page for browsers."""


class Problem(BaseModel):
    """A problem as in RFC 9457, with the fields of the command line's error message."""

    type: str = Field(description="The kind of problem, as a URN.")
    title: str = Field(description="The same in words.")
    status: int = Field(ge=400, le=599)
    detail: str = Field(description="The whole message: where, problem and hint in one text.")
    problem: str = Field(description="The input, and what is wrong with it.")
    where: str = Field(description="The key, header, file or line it was found in; or empty.")
    hint: str = Field(description="How to correct it; or empty.")
    request_id: str | None = Field(
        default=None, description="Id of the request, as in the log of the server."
    )

    @staticmethod
    def of(refusal: RefusalError, request_id: str | None) -> Problem:
        """Convert a refusal."""
        derived = {
            "type": f"urn:collsynth:problem:{refusal.status.phrase.lower().replace(' ', '-')}",
            "title": refusal.status.phrase,
            "detail": str(refusal),
            "request_id": request_id,
        }
        return Problem.model_validate(vars(refusal) | derived)


def problem_response(request: Request, refusal: RefusalError) -> Response:
    """Convert a refusal to a JSON response."""
    problem = Problem.of(refusal, request_id_of(request.scope))
    content = json.dumps(problem.model_dump(exclude_none=True))
    headers = {"Cache-Control": "no-store", **refusal.headers}
    return Response(content, int(refusal.status), headers, PROBLEM_JSON)


def install(app: FastAPI, routes: Iterable[BaseRoute], respond: Respond) -> None:
    """Turn every error of an app with these routes into a refusal, sent by ``respond``."""
    app.state.routes = [route for route in routes if isinstance(route, Route)]
    for kind, refusal_of in _REFUSALS.items():
        app.add_exception_handler(kind, _handler(refusal_of, respond))


def request_id_of(scope: Mapping[str, Any]) -> str | None:
    """Return the id that the middleware gave a request."""
    request_id = scope.get("state", {}).get("request_id")
    return request_id if isinstance(request_id, str) else None


def _handler(
    refusal_of: Callable[[Request, Any], RefusalError], respond: Respond
) -> Callable[[Request, Exception], Awaitable[Response]]:
    async def handle(request: Request, error: Exception) -> Response:
        return respond(request, refusal_of(request, error))

    return handle


def _bad_parameter(request: Request, error: RequestValidationError) -> RefusalError:
    """422: a parameter in the URL or a header that the framework rejected."""
    first = error.errors()[0]
    place = ".".join(str(part) for part in first["loc"])
    problem = f"{str(first.get('input'))[:80]!r} cannot be used"
    message = str(first["msg"])
    hint = message[0].lower() + message[1:]
    return RefusalError(HTTPStatus.UNPROCESSABLE_ENTITY, problem, where=place, hint=hint)


def _router_refusal(request: Request, error: HTTPException) -> RefusalError:
    """Return the refusal for a 404 or 405 of the router."""
    status = HTTPStatus(error.status_code)
    problem = {
        HTTPStatus.NOT_FOUND: "there is nothing at this address",
        HTTPStatus.METHOD_NOT_ALLOWED: f"this address does not accept {request.method}",
    }.get(status, str(error.detail))
    hint = (
        "/api lists all addresses, and /openapi.json lists them for tools"
        if status in (404, 405)
        else ""
    )
    headers = error.headers or {}
    if status is HTTPStatus.METHOD_NOT_ALLOWED:
        headers = {**headers, "Allow": ", ".join(sorted(_methods(request)))}
    return RefusalError(status, problem, hint=hint, headers=headers)


def _methods(request: Request) -> set[str]:
    """Return the methods of all routes that match the URL; the framework reports those of one."""
    routes: list[Route] = request.app.state.routes
    fitting = (route for route in routes if route.path_regex.match(request.url.path))
    return {method for route in fitting for method in route.methods or ()}


def refuse_unforeseen(request: Request) -> RefusalError:
    """Return the refusal for an internal error: only the id under which the log contains it."""
    return RefusalError(
        HTTPStatus.INTERNAL_SERVER_ERROR,
        "this is an internal error of the service",
        hint=f"the operator finds the reason in the log under {request_id_of(request.scope)}",
    )


_REFUSALS: Mapping[type[Exception], Callable[[Request, Any], RefusalError]] = {
    RefusalError: lambda request, refusal: refusal,
    InputError: lambda request, error: bad_input(error),
    RequestValidationError: _bad_parameter,
    HTTPException: _router_refusal,
}
