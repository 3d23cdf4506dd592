"""Protection against cross-site requests: pages of other sites that use a visitor's browser.

A server without keys trusts every request from its own machine, and a page of any site that is open
in a browser there can send some. So requests that change something are refused if they come from
another origin; with keys, too, as the browser sends the page's cookie along. And without keys the
server answers only under names of this machine: that stops DNS rebinding, where a site points its
own name at this address so as to count as the same origin.
"""

from __future__ import annotations

from http import HTTPStatus
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from synth.service.errors import RefusalError
from synth.service.http.problems import Respond
from synth.service.settings import is_loopback

_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})


class CrossSiteGuard:
    """ASGI middleware that refuses requests of other sites.

    ``own_names`` are the hosts it answers to, beside names of this machine; None: to any.
    """

    def __init__(self, app: ASGIApp, own_names: frozenset[str] | None, respond: Respond) -> None:
        self._app = app
        self._respond = respond
        self._own_names = own_names

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] == "http":
            headers = Headers(scope=scope)
            refusal = self._foreign_host(headers) or self._foreign_origin(scope["method"], headers)
            if refusal is not None:
                response = self._respond(Request(scope), refusal)
                await response(scope, receive, send)
                return
        await self._app(scope, receive, send)

    def _foreign_host(self, headers: Headers) -> RefusalError | None:
        if self._own_names is None:
            return None
        name = host_name(headers.get("host", ""))
        if is_loopback(name) or name in self._own_names:
            return None
        hint = "ask for localhost; or start it with --keys, then it answers by every name"
        problem = f"this server does not answer by the name {name[:80]!r}"
        return RefusalError(HTTPStatus.FORBIDDEN, problem, where="Host", hint=hint)

    def _foreign_origin(self, method: str, headers: Headers) -> RefusalError | None:
        if method in _SAFE:
            return None
        origin = headers.get("origin")
        site = headers.get("sec-fetch-site", "none")
        same = origin is None or urlsplit_host(origin) == headers.get("host", "").lower()
        if same and site in ("none", "same-origin"):
            return None
        return RefusalError(
            HTTPStatus.FORBIDDEN, "pages of other sites may not ask", where="Origin"
        )


def host_name(host: str) -> str:
    """The name in a Host header, without its port, in lower case."""
    try:
        return (urlsplit(f"//{host}").hostname or "").lower()
    except ValueError:
        return ""


def urlsplit_host(origin: str) -> str:
    """Name and port of an origin, as a Host header has them; empty for one that has none."""
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return ""
