"""People who have signed in at a proxy, as by OpenID Connect: its headers say who they are.

Anybody could send such headers. So they count only beside a secret that the proxy and the server
share; without it they are as if they were not there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from secrets import compare_digest

from synth.service.auth.identity import Caller
from synth.service.store import Scope

SECRET_HEADER = "x-collsynth-proxy"


@dataclass(frozen=True)
class Proxy:
    """A proxy that signs people in: its secret, and the headers with a person and their teams.

    Of several teams, divided by commas, the first counts; without any a person is a team alone.
    """

    secret: str = field(repr=False)
    user_header: str = "x-forwarded-email"
    team_header: str = "x-forwarded-groups"

    def caller(self, headers: Mapping[str, str]) -> Caller | None:
        """Who the proxy says it is; None where the request did not come through it."""
        given = headers.get(SECRET_HEADER, "").encode("latin-1", "replace")
        user = headers.get(self.user_header, "").strip()
        if not compare_digest(given, self.secret.encode()) or not user:
            return None
        team = headers.get(self.team_header, "").partition(",")[0].strip() or user
        return Caller(team, name=user, scopes=frozenset({Scope.ASK, Scope.KEEP}))
