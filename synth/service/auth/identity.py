"""The identity of a caller: a team, and the key or session it used."""

from __future__ import annotations

from dataclasses import dataclass, field
from http import HTTPStatus

from synth.service.errors import RefusalError
from synth.service.store import Scope

LOCAL = "local"
"""The team of every caller where no keys are needed."""


@dataclass(frozen=True)
class Caller:
    """A team; where keys are needed, also the id, name and daily quota of the key it used.

    Whom a proxy has signed in has a name and no key. ``session`` is the digest of the token with
    which the request came.
    """

    team: str = LOCAL
    key_id: str | None = None
    name: str | None = None
    jobs_per_day: int | None = None
    scopes: frozenset[Scope] = frozenset(Scope)
    session: str | None = field(default=None, repr=False)

    @property
    def admin(self) -> bool:
        """Whether it sees to the jobs of all teams. Where no keys are needed there is one team."""
        return Scope.ADMIN in self.scopes

    def check(self, *scopes: Scope) -> None:
        """Raises RefusalError (403) where its key has none of these scopes."""
        if not self.scopes.intersection(scopes):
            whose = "this key" if self.key_id else "this sign-in"
            problem = f"{whose} is not for that: it may {' and '.join(sorted(self.scopes))}"
            hint = f"'collsynth keys create --scope {scopes[0].value}' makes one that is"
            raise RefusalError(HTTPStatus.FORBIDDEN, problem, hint=hint)
