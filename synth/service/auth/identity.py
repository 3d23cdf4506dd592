"""The identity of a caller: a team, and the key or session it used."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from http import HTTPStatus

from synth.service.errors import RefusalError
from synth.service.store import Scope

LOCAL = "local"
"""The team of every caller of a server without keys."""


@dataclass(frozen=True)
class Caller:
    """A team and, if keys are required, the id, name and daily quota of the key in the request.

    A person signed in by a proxy has a name and no key. ``session`` is the digest of the request's
    session token. ``hold`` counts bytes that the request adds to its body as the team's.
    """

    team: str = LOCAL
    key_id: str | None = None
    name: str | None = None
    jobs_per_day: int | None = None
    scopes: frozenset[Scope] = frozenset(Scope)
    session: str | None = field(default=None, repr=False)
    hold: Callable[[int], None] = field(default=lambda more_bytes: None, repr=False, compare=False)

    @property
    def admin(self) -> bool:
        """Whether the caller may manage the jobs of all teams. Without keys there is one team."""
        return Scope.ADMIN in self.scopes

    def check(self, *scopes: Scope) -> None:
        """Raise RefusalError (403) if the caller has none of these scopes."""
        if not self.scopes.intersection(scopes):
            credential = "this key" if self.key_id else "this sign-in"
            own = " and ".join(sorted(self.scopes))
            problem = f"{credential} does not have the scope for this; it has {own}"
            hint = f"'collsynth keys create --scope {scopes[0].value}' creates one that does"
            raise RefusalError(HTTPStatus.FORBIDDEN, problem, hint=hint)
