"""Authentication of requests by a key in a header, or a session in the page's cookie."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from http import HTTPStatus
from typing import Annotated, Any
from urllib.parse import unquote

from fastapi import Depends, Request, Security
from fastapi.dependencies.models import Dependant
from fastapi.security import APIKeyHeader, HTTPAuthorizationCredentials, HTTPBearer

from synth.service.auth.identity import Caller
from synth.service.errors import RefusalError
from synth.service.http.logs import mask_keys
from synth.service.http.state import state_of, visit_of
from synth.service.store import Scope

COOKIE = "collsynth_session"
_BEARER = HTTPBearer(auto_error=False, description="A key, as 'collsynth keys create' prints it.")
_HEADER = APIKeyHeader(
    name="X-API-Key", auto_error=False, description="The same in another header."
)


async def authenticate(
    request: Request,
    bearer: Annotated[HTTPAuthorizationCredentials | None, Security(_BEARER)],
    header: Annotated[str | None, Security(_HEADER)],
) -> Caller:
    """Return the caller of a request, and count the request as the team's until it ends.

    Raises RefusalError if a key is required and no valid one is given, or if the team has too many
    concurrent requests.
    """
    caller = await _caller(request, bearer, header)
    visit = visit_of(request)
    if visit is None:
        visit = request.state.visit = state_of(request).presence.enter(caller.team)
    return replace(caller, hold=visit.hold)


async def _caller(
    request: Request, bearer: HTTPAuthorizationCredentials | None, header: str | None
) -> Caller:
    state = state_of(request)
    if state.keys is None:
        return Caller()
    address = address_of(request)
    secret = bearer.credentials if bearer else header
    token = request.cookies.get(COOKIE)
    if secret is None and token is not None:
        caller = await state.keys.admit_session(token, address)
        _check_person(request, caller)
    else:
        caller = await state.keys.admit(secret, address)
    identity = {"person": caller.name} if caller.key_id is None else {"key": caller.key_id}
    request.state.logged = {"team": caller.team, **identity}
    return caller


def _check_person(request: Request, caller: Caller) -> None:
    """Raise RefusalError if the session does not belong to the person signed in at the proxy."""
    proxy = state_of(request).proxy
    if caller.key_id is not None:
        return
    if proxy is None or proxy.secret is None:
        problem = "this server no longer signs people in at a proxy"
        raise RefusalError(HTTPStatus.FORBIDDEN, problem, hint="sign in with a key")
    if proxy.name(peer_of(request), request.headers) not in (None, caller.name):
        problem = f"this session belongs to {caller.name}, not to the person signed in now"
        raise RefusalError(HTTPStatus.FORBIDDEN, problem, hint="sign in again")


def refuse_key_in_address(request: Request) -> RefusalError | None:
    """Refuse a request with a key in its URL: browser histories and logs would keep the key.

    Servers that require no key refuse it, too, so that nobody adopts the habit.
    """
    address = f"{request.scope['path']}?{request.scope['query_string'].decode('latin-1')}"
    if mask_keys(unquote(address)) == unquote(address):
        return None
    problem = "the address contains a key, which browser histories and logs would keep"
    hint = "revoke it, and send a new one as 'Authorization: Bearer cs_...'"
    return RefusalError(HTTPStatus.BAD_REQUEST, problem, where="address", hint=hint)


def peer_of(request: Request) -> str:
    """Return the address of the TCP peer, which may be a proxy's."""
    return request.client.host if request.client else ""


def address_of(request: Request) -> str:
    """Return the address of the client, for counting wrong keys."""
    proxy, peer = state_of(request).proxy, peer_of(request)
    return peer if proxy is None else proxy.address(peer, request.headers)


_SCOPES: dict[Callable[..., Any], Sequence[Scope]] = {}
"""The scopes of each dependency. A caller needs one of them."""


def _admit_scopes(*scopes: Scope) -> Callable[..., Awaitable[Caller]]:
    """Return a dependency that raises RefusalError for callers with none of these scopes."""

    async def admitted(caller: Annotated[Caller, Depends(authenticate)]) -> Caller:
        caller.check(*scopes)
        return caller

    _SCOPES[admitted] = scopes
    return admitted


def scopes_of(dependant: Dependant) -> Sequence[Scope]:
    """Return a route's scopes, one of which its caller needs; empty if the route needs no key."""
    own = _SCOPES.get(dependant.call, ()) if dependant.call else ()
    return own or next(filter(None, map(scopes_of, dependant.dependencies)), ())


AskCaller = Annotated[Caller, Depends(_admit_scopes(Scope.ASK))]
KeepCaller = Annotated[Caller, Depends(_admit_scopes(Scope.KEEP))]
AskOrKeepCaller = Annotated[Caller, Depends(_admit_scopes(Scope.ASK, Scope.KEEP))]
FollowCaller = Annotated[Caller, Depends(_admit_scopes(Scope.ASK, Scope.ADMIN))]
AdminCaller = Annotated[Caller, Depends(_admit_scopes(Scope.ADMIN))]
