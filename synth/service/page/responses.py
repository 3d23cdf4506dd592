"""Routes that respond with pages: the caller's cookie, common headers, refusals as pages."""

from __future__ import annotations

import re
from collections.abc import Callable, Coroutine
from http import HTTPStatus
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import Depends, Request
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.responses import HTMLResponse, RedirectResponse, Response

from hierarchies import InputError
from synth.service.auth.identity import Caller
from synth.service.errors import RefusalError, bad_input, not_found
from synth.service.http.authentication import authenticate
from synth.service.http.problems import problem_response, request_id_of
from synth.service.http.state import state_of
from synth.service.page.rendering import POLICY, render
from synth.service.store import Scope

PART = "X-Part"
_HEADERS = {
    "Content-Security-Policy": POLICY,
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin-allow-popups",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
    "Vary": f"Cookie, {PART}",
}
_SHARE = re.compile(r"\bq=([01](?:\.[0-9]{0,3})?)\s*(?:;|$)")
KEY_REFUSED = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)
Handler = Callable[[Request], Coroutine[Any, Any, Response]]


class _NoKeyError(Exception):
    """The browser has no session, or a session that is no longer valid."""


async def caller_by_cookie(request: Request) -> Caller:
    """Return the caller of a page by the cookie alone, so that no script needs the key."""
    try:
        caller = await authenticate(request, None, None)
    except RefusalError as refusal:
        if refusal.status in KEY_REFUSED:
            raise _NoKeyError from None
        raise
    caller.check(Scope.ASK)
    return caller


PageCaller = Annotated[Caller, Depends(caller_by_cookie)]


class PageRoute(APIRoute):
    """A route whose refusals are pages, or parts of pages if a script asks."""

    def get_route_handler(self) -> Handler:
        """Wrap the handler: refusals become pages, and every response gets the headers."""
        handler = super().get_route_handler()

        async def handle(request: Request) -> Response:
            try:
                response = await handler(request)
            except _NoKeyError:
                response = _redirect_to_login(request)
            except RefusalError as refusal:
                response = refusal_page(request, refusal)
            except InputError as error:
                response = refusal_page(request, bad_input(error))
            except RequestValidationError:
                response = refusal_page(request, not_found("page"))
            return _add_headers(response)

        return handle


def wants_part(request: Request) -> bool:
    """Whether a script sent the request, to insert the response into an open page."""
    return PART in request.headers


def page(request: Request, template: str, *, status: int = 200, **context: Any) -> HTMLResponse:
    """Render a whole page."""
    shared = {"here": "", "keys": state_of(request).keys is not None}
    return HTMLResponse(render(template, **shared | context), status)


def own_address(request: Request) -> str:
    """Return the base URL of this server as in the request."""
    https = "https" in (request.scope["scheme"], request.headers.get("x-forwarded-proto"))
    return f"{'https' if https else 'http'}://{request.headers.get('host', 'localhost')}"


def see_other(address: str) -> Response:
    """Redirect to another page."""
    return RedirectResponse(address, HTTPStatus.SEE_OTHER)


def refusal_page(request: Request, refusal: RefusalError) -> Response:
    """Return a refusal as a page, in the same words as the API's problem.

    A script gets an invalid question (422) with status 200, and inserts it like any other part.
    """
    status = int(refusal.status)
    if wants_part(request):
        soft = refusal.status is HTTPStatus.UNPROCESSABLE_ENTITY
        return HTMLResponse(render("refused.html", refusal=refusal), 200 if soft else status)
    request_id = request_id_of(request.scope)
    response = page(request, "problem.html", status=status, refusal=refusal, request_id=request_id)
    response.headers.update(refusal.headers)
    return response


def refusal_response(request: Request, refusal: RefusalError) -> Response:
    """Respond to a refusal outside page routes: a page for browsers outside the API, else JSON."""
    path = request.url.path
    if path.startswith("/v1/") or not prefers_page(request.headers.get("accept", "")):
        return problem_response(request, refusal)
    return _add_headers(refusal_page(request, refusal))


def prefers_page(accept: str) -> bool:
    """Whether an Accept header prefers HTML to JSON, as those of browsers do."""
    qualities: dict[str, float] = {}
    for offer in accept.lower().split(","):
        kind, _, parameters = offer.partition(";")
        match = _SHARE.search(parameters)
        qualities[kind.strip()] = float(match[1]) if match else 1.0
    fallback = qualities.get("*/*", 0.0)
    data = max(
        (match for kind, match in qualities.items() if kind.endswith("json")), default=fallback
    )
    return qualities.get("text/html", fallback) > data


def _add_headers(response: Response) -> Response:
    """Add the headers of every page to a response."""
    for name, value in _HEADERS.items():
        response.headers.setdefault(name, value)
    return response


def _redirect_to_login(request: Request) -> Response:
    if wants_part(request):
        return refusal_page(request, RefusalError(HTTPStatus.UNAUTHORIZED, "a key is needed"))
    after = request.url.path if request.method == "GET" else "/"
    return see_other(f"/login?next={quote(after, safe='/')}")
