"""Protection against cross-site requests and DNS rebinding.

A server without keys trusts every request from its own machine, but any site open in a browser
there can send requests. Therefore unsafe requests from another origin are refused. A server with
keys refuses them, too, because the browser sends the page's cookie with them; a request with that
cookie must state its origin. A server without keys answers only to host names of its own machine.
This prevents DNS rebinding, where a site resolves its own name to this address in order to appear
as the same origin.
"""

from __future__ import annotations

from dataclasses import dataclass
from http import HTTPStatus
from urllib.parse import SplitResult, urlsplit

from starlette.datastructures import Headers
from starlette.requests import Request

from synth.service.errors import RefusalError
from synth.service.http.authentication import COOKIE
from synth.service.settings import is_loopback

_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})


@dataclass(frozen=True)
class CrossSiteGuard:
    """Refuses requests of other sites.

    ``own_names`` are the allowed hosts in addition to loopback names; None allows any host.
    """

    own_names: frozenset[str] | None

    def __call__(self, request: Request) -> RefusalError | None:
        """Return the refusal of a request, or None if it is admitted."""
        return self._foreign_host(request.headers) or _foreign_origin(request)

    def _foreign_host(self, headers: Headers) -> RefusalError | None:
        if self.own_names is None:
            return None
        name = host_of(headers)
        if is_loopback(name) or name in self.own_names:
            return None
        hint = "use localhost, or start the server with --keys: then it answers to every name"
        problem = f"this server does not answer to the name {name[:80]!r}"
        return RefusalError(HTTPStatus.FORBIDDEN, problem, where="Host", hint=hint)


def _foreign_origin(request: Request) -> RefusalError | None:
    if request.method in _SAFE:
        return None
    origin = request.headers.get("origin")
    host = request.headers.get("host", "").lower()
    site = request.headers.get("sec-fetch-site")
    if origin is None and site is None and COOKIE in request.cookies:
        hint = "browsers send it; a request with a key needs none"
        problem = "the page's cookie was sent without an Origin header"
        return RefusalError(HTTPStatus.FORBIDDEN, problem, where="Origin", hint=hint)
    same = origin is None or _parts(origin).netloc.lower() == host
    if same and site in (None, "none", "same-origin"):
        return None
    return RefusalError(
        HTTPStatus.FORBIDDEN, "requests from pages of other sites are refused", where="Origin"
    )


def host_of(headers: Headers) -> str:
    """Return the name in the Host header; empty if there is no valid one."""
    return _parts(f"//{headers.get('host', '')}").hostname or ""


def _parts(address: str) -> SplitResult:
    """Split a URL; the parts are empty if it is invalid."""
    try:
        return urlsplit(address)
    except ValueError:
        return urlsplit("")
