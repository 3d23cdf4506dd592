"""Authentication of requests, by the key in a header or in the page's cookie."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request, Security
from fastapi.security import APIKeyHeader, HTTPAuthorizationCredentials, HTTPBearer

from synth.service.auth.identity import Caller
from synth.service.http.state import state_of

COOKIE = "collsynth_key"
_BEARER = HTTPBearer(auto_error=False, description="A key, as 'collsynth keys create' prints it.")
_HEADER = APIKeyHeader(
    name="X-API-Key", auto_error=False, description="The same in another header."
)


async def authenticate(
    request: Request,
    bearer: Annotated[HTTPAuthorizationCredentials | None, Security(_BEARER)],
    header: Annotated[str | None, Security(_HEADER)],
) -> Caller:
    """The caller of a request. Raises RefusalError where a key is needed and none is admitted."""
    keys = state_of(request).keys
    if keys is None:
        return Caller()
    found = await keys.admit(
        bearer.credentials if bearer else header or request.cookies.get(COOKIE)
    )
    request.state.logged = {"team": found.team, "key": found.key_id}
    return found


Authenticated = Annotated[Caller, Depends(authenticate)]
