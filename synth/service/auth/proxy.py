"""A proxy in front: what its headers say of where a request comes from, and who has signed in.

Anybody could send such headers. So they count only where the request comes from an address that the
server was told of and, if a secret is shared with the proxy, where that comes along. Who has signed
in, as by OpenID Connect, counts only beside a secret: a proxy that was not set up for it passes on
what its clients send.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from ipaddress import IPv4Network, IPv6Network
from secrets import compare_digest
from typing import TypeAlias

from starlette.datastructures import Headers

from synth.service.auth.addresses import address_in
from synth.service.errors import RefusalError
from synth.service.store import Person, Scope

Network: TypeAlias = IPv4Network | IPv6Network
SECRET_HEADER = "x-collsynth-proxy"
_NAME, _GROUPS, _ADDRESSES = "x-forwarded-email", "x-forwarded-groups", "x-forwarded-for"


@dataclass(frozen=True)
class Proxy:
    """The proxies that are trusted, by their networks; with a secret they sign people in.

    ``teams``: the team of people of a group; of several the first here counts. Without any, the
    first of a person's groups is the team, and who has none is a team alone. ``admins``: groups
    whose people have the scope ``admin``.
    """

    networks: tuple[Network, ...]
    secret: str | None = field(default=None, repr=False)
    teams: Mapping[str, str] = field(default_factory=dict)
    admins: frozenset[str] = frozenset()

    def address(self, peer: str, headers: Headers) -> str:
        """Where a request comes from: the last address that is not a trusted proxy's."""
        if not self._sent(peer, headers):
            return peer
        told = ",".join(headers.getlist(_ADDRESSES)).split(",")
        for one in reversed(told):
            if not self._trusts(one.strip()):
                return peer if address_in(one.strip()) is None else one.strip()
        return peer

    def person(self, peer: str, headers: Headers) -> Person | None:
        """Who has signed in; None where the proxy does not say so.

        Raises RefusalError (403) where none of their groups has a team.
        """
        name = self.name(peer, headers)
        if name is None:
            return None
        groups = [one.strip() for one in _single_header(headers, _GROUPS).split(",") if one.strip()]
        scopes = [Scope.ASK, Scope.KEEP, *([Scope.ADMIN] if self.admins & {*groups} else [])]
        return Person(name, self._team(name, groups), " ".join(scopes))

    def name(self, peer: str, headers: Headers) -> str | None:
        """The name of who has signed in; None where the proxy does not say so, or in no letters."""
        if self.secret is None or not self._sent(peer, headers):
            return None
        name = _single_header(headers, _NAME)
        return name if name.isprintable() and name else None

    def _team(self, name: str, groups: list[str]) -> str:
        if not self.teams:
            return groups[0] if groups else name
        for group, team in self.teams.items():
            if group in groups:
                return team
        hint = "who runs this service gives groups their teams: 'collsynth serve --teams'"
        problem = f"none of the groups of {name[:80]} has a team here"
        raise RefusalError(HTTPStatus.FORBIDDEN, problem, hint=hint)

    def _sent(self, peer: str, headers: Headers) -> bool:
        """Whether a request comes from a trusted proxy."""
        given = _single_header(headers, SECRET_HEADER).encode()
        knows = self.secret is None or compare_digest(given, self.secret.encode())
        return knows and self._trusts(peer)

    def _trusts(self, address: str) -> bool:
        found = address_in(address)
        return found is not None and any(found in network for network in self.networks)


def _single_header(headers: Headers, name: str) -> str:
    """The text of a header that came once; "" for one that came twice, as a client's own might.

    And for one that is not UTF-8: texts that differ must not become one.
    """
    values = headers.getlist(name)
    if len(values) != 1:
        return ""
    try:
        return values[0].strip().encode("latin-1").decode()
    except UnicodeDecodeError:
        return ""
