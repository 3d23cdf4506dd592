"""Headers of a trusted reverse proxy: the client's address and the user signed in.

Any client can send such headers. They are trusted only if the request comes from a configured
address and, if a secret is shared with the proxy, contains that secret. The name of a user, signed
in through OpenID Connect for example, is trusted only with a secret: a proxy that is not configured
for authentication forwards its clients' own headers.
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
    """The networks of trusted proxies. Proxies with a secret may sign people in.

    ``teams`` maps groups to teams; the first entry that matches applies. Without ``teams``, the
    team is the person's first group or, without groups, the person alone. Groups in ``admins`` have
    the scope ``admin``.
    """

    networks: tuple[Network, ...]
    secret: str | None = field(default=None, repr=False)
    teams: Mapping[str, str] = field(default_factory=dict)
    admins: frozenset[str] = frozenset()

    def address(self, peer: str, headers: Headers) -> str:
        """Return the client's address: the last address that is not a trusted proxy's."""
        if not self._is_from_proxy(peer, headers):
            return peer
        addresses = ",".join(headers.getlist(_ADDRESSES)).split(",")
        # From the right: each proxy appends the address it saw; those further left can be forged.
        for address in reversed(addresses):
            if not self._is_trusted(address.strip()):
                return peer if address_in(address.strip()) is None else address.strip()
        return peer

    def person(self, peer: str, headers: Headers) -> Person | None:
        """Return the person signed in, or None if the proxy names none.

        Raises RefusalError (403) if none of their groups has a team.
        """
        name = self.name(peer, headers)
        if name is None:
            return None
        groups = [
            group.strip() for group in _single_header(headers, _GROUPS).split(",") if group.strip()
        ]
        scopes = [Scope.ASK, Scope.KEEP, *([Scope.ADMIN] if self.admins & {*groups} else [])]
        return Person(name, self._team(name, groups), " ".join(scopes))

    def name(self, peer: str, headers: Headers) -> str | None:
        """Return the name of the person signed in, or None if it is missing or not printable."""
        if self.secret is None or not self._is_from_proxy(peer, headers):
            return None
        name = _single_header(headers, _NAME)
        return name if name.isprintable() and name else None

    def _team(self, name: str, groups: list[str]) -> str:
        if not self.teams:
            return groups[0] if groups else name
        for group, team in self.teams.items():
            if group in groups:
                return team
        hint = "the operator assigns groups to teams with 'collsynth serve --teams'"
        problem = f"no group of {name[:80]} belongs to a team here"
        raise RefusalError(HTTPStatus.FORBIDDEN, problem, hint=hint)

    def _is_from_proxy(self, peer: str, headers: Headers) -> bool:
        """Whether a request comes from a trusted proxy."""
        secret = _single_header(headers, SECRET_HEADER).encode()
        knows = self.secret is None or compare_digest(secret, self.secret.encode())
        return knows and self._is_trusted(peer)

    def _is_trusted(self, address: str) -> bool:
        parsed = address_in(address)
        return parsed is not None and any(parsed in network for network in self.networks)


def _single_header(headers: Headers, name: str) -> str:
    """Return the text of a header that occurs once, else "": the second could be a client's own.

    Also "" if the text is not UTF-8: decoding must not make different texts equal.
    """
    values = headers.getlist(name)
    if len(values) != 1:
        return ""
    try:
        return values[0].strip().encode("latin-1").decode()
    except UnicodeDecodeError:
        return ""
