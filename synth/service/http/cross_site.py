"""Keeps other sites' pages from asking through the browser of somebody who may ask.

A server without keys trusts whoever reaches it from its own machine, and every page that a browser
there shows can try. So it answers only by names of this machine (a page whose own name was made to
point here is told apart by that, which is called DNS rebinding), and neither it nor one with keys,
which the page keeps in a cookie, lets pages of another origin change anything.
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
    """An ASGI layer that refuses what comes from other sites.

    ``own_names``: what it is asked for by, beside names of this machine; None: by any name.
    """

    def __init__(self, app: ASGIApp, own_names: frozenset[str] | None, respond: Respond) -> None:
        self._app = app
        self._respond = respond
        self._own_names = own_names

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, or refuse it."""
        if scope["type"] == "http":
            headers = Headers(scope=scope)
            refusal = self._stranger(headers) or self._other_site(scope["method"], headers)
            if refusal is not None:
                response = self._respond(Request(scope), refusal)
                await response(scope, receive, send)
                return
        await self._app(scope, receive, send)

    def _stranger(self, headers: Headers) -> RefusalError | None:
        if self._own_names is None:
            return None
        name = host_name(headers.get("host", ""))
        if is_loopback(name) or name in self._own_names:
            return None
        hint = "ask for localhost; or start it with --keys, then it answers by every name"
        told = f"this server does not answer by the name {name[:80]!r}"
        return RefusalError(HTTPStatus.FORBIDDEN, told, where="Host", hint=hint)

    def _other_site(self, method: str, headers: Headers) -> RefusalError | None:
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
