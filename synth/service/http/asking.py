"""Who asks: by the key in a header, or in the cookie of the page."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request, Security
from fastapi.security import APIKeyHeader, HTTPAuthorizationCredentials, HTTPBearer

from synth.service.auth.identity import Asker
from synth.service.http.hall import hall

COOKIE = "collsynth_key"
_BEARER = HTTPBearer(auto_error=False, description="A key, as 'collsynth keys create' prints it.")
_HEADER = APIKeyHeader(
    name="X-API-Key", auto_error=False, description="The same in another header."
)


async def asker(
    request: Request,
    bearer: Annotated[HTTPAuthorizationCredentials | None, Security(_BEARER)],
    header: Annotated[str | None, Security(_HEADER)],
) -> Asker:
    """The team that asks. Raises RefusalError where a key is needed and none is admitted."""
    keys = hall(request).keys
    if keys is None:
        return Asker()
    found = await keys.admit(
        bearer.credentials if bearer else header or request.cookies.get(COOKIE)
    )
    request.scope["state"]["told"] = {"team": found.team, "key": found.key_id}
    return found


WhoAsks = Annotated[Asker, Depends(asker)]
