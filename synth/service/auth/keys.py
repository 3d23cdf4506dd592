"""API keys and sessions. Each belongs to a team, is checked in constant time and rate-limited."""

from __future__ import annotations

import logging
import math
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from http import HTTPStatus
from typing import TypeAlias

from synth.service.auth.addresses import network_of
from synth.service.auth.identity import Caller
from synth.service.errors import RefusalError, too_many
from synth.service.limits import Limits
from synth.service.recent import LruCache
from synth.service.store import Key, Person, Scope, Store, digest_of
from synth.service.threads import Threads

_SHAPE = re.compile(r"cs_(?P<id>[0-9a-f]{16})_[0-9a-f]{64}")
_BEGINNING = re.compile(r"cs_(?P<id>[0-9a-f]{16})_")
_NO_ID = "0" * 16
_FRESH_SECONDS = 3.0
_REMEMBERED_BYTES = 2**24
_ENTRY_BYTES = 400
_MINUTE_SECONDS = 60.0
KEY_SESSION_SECONDS = 7 * 24 * 3600
"""Lifetime of a page session that began with a key."""
PERSON_SESSION_SECONDS = 12 * 3600
"""Lifetime of a session that began at a proxy. A new session reads the person's groups again."""
_STRANGER = Key(_NO_ID, "", "", "0" * 64, None, None, datetime.fromtimestamp(0, UTC), revoked=True)
Principal: TypeAlias = Key | Person
log = logging.getLogger("collsynth.service")


@dataclass
class _Bucket:
    """The number of requests allowed at the time ``at``."""

    tokens: float
    at: float


class RateLimiter:
    """Token buckets by key: a rate in requests per second, with bursts of ``burst_seconds``."""

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, burst_seconds: float = 2.0
    ) -> None:
        self._clock = clock
        self._burst_seconds = burst_seconds
        self._buckets: LruCache[str, _Bucket] = LruCache(_REMEMBERED_BYTES)

    def take(self, name: str, per_second: float, problem: str = "") -> None:
        """Count a request. Raises RefusalError with the seconds to wait if the rate is exceeded."""
        now = self._clock()
        capacity = max(1.0, self._burst_seconds * per_second)
        bucket = self._buckets.get(name)
        if bucket is None:
            bucket = _Bucket(capacity, now)
            self._buckets.put(name, bucket, _ENTRY_BYTES)
        bucket.tokens = min(capacity, bucket.tokens + (now - bucket.at) * per_second)
        bucket.at = now
        if bucket.tokens < 1:
            wait_seconds = math.ceil((1 - bucket.tokens) / per_second)
            problem = problem or f"this key may send {per_second:g} requests a second"
            raise too_many(problem, wait_seconds, f"try again in {wait_seconds} s")
        bucket.tokens -= 1


class Authenticator:
    """Authenticates requests by key, or by a session that began with a key or at a proxy.

    Keys are cached, so a revoked key stays valid for up to ``_FRESH_SECONDS``. Sessions are read
    from the store for each request, so ending one takes effect immediately.
    """

    def __init__(self, store: Store, threads: Threads, limits: Limits) -> None:
        self._store = store
        self._threads = threads
        self._limits = limits
        self._rates = RateLimiter()
        self._failed = RateLimiter(burst_seconds=_MINUTE_SECONDS)
        self._noted: LruCache[str, float] = LruCache(_REMEMBERED_BYTES)
        self._known: LruCache[str, tuple[Key, float]] = LruCache(_REMEMBERED_BYTES)

    async def admit(self, secret: str | None, address: str = "") -> Caller:
        """Return the caller of a key; ``address`` is the source of the request.

        Raises RefusalError without a key (401), for a wrong, revoked or expired key (403), and if
        the key exceeds its rate or the address has sent too many wrong keys (429). For every
        invalid key exactly one digest is compared, so that the response time reveals nothing.
        """
        if secret is None:
            raise RefusalError(
                HTTPStatus.UNAUTHORIZED,
                "a key is needed",
                hint="send it as 'Authorization: Bearer cs_...' or as 'X-API-Key: cs_...'",
                headers={"WWW-Authenticate": "Bearer"},
            )
        return await self._admit(await self._find_key(secret, address))

    async def sign_in(self, secret: str, address: str) -> str:
        """Begin a session with a key; return its token, for a cookie. Raises as ``admit``."""
        key = await self._find_key(secret, address)
        await self._admit(key)
        return await self._threads.do(self._store.keys.begin_session, key, KEY_SESSION_SECONDS)

    async def sign_in_person(self, person: Person) -> str:
        """Begin a session of a person signed in by a proxy; return its token, for a cookie.

        Raises RefusalError if the person exceeds the request rate.
        """
        await self._admit(person)
        begin = self._store.keys.begin_session
        return await self._threads.do(begin, person, PERSON_SESSION_SECONDS)

    async def admit_session(self, token: str, address: str) -> Caller:
        """Return the caller of a session. Raises as ``admit``."""
        session = digest_of(token)
        principal = await self._threads.do(self._read_principal, session)
        if isinstance(principal, RefusalError):
            raise self._count_failure(principal, session, address)
        return await self._admit(principal, session)

    async def sign_out(self, token: str) -> None:
        """End a session."""
        await self._threads.do(self._store.keys.end_session, digest_of(token))

    async def _admit(self, principal: Principal, session: str | None = None) -> Caller:
        """Count a request of a principal, and return it as a caller."""
        scopes = frozenset(Scope(scope) for scope in principal.scopes.split())
        per_second = self._limits.requests_per_second
        if isinstance(principal, Person):
            problem = f"you may send {per_second:g} requests a second"
            self._rates.take(f"person {principal.name}", per_second, problem)
            return Caller(principal.team, name=principal.name, scopes=scopes, session=session)
        self._rates.take(
            principal.id,
            per_second if principal.rate_per_second is None else principal.rate_per_second,
        )
        if (
            time.monotonic() - (self._noted.get(principal.id) or -_MINUTE_SECONDS)
            >= _MINUTE_SECONDS
        ):
            self._noted.put(principal.id, time.monotonic(), _ENTRY_BYTES)
            await self._threads.do(self._store.keys.used, principal.id)
        return Caller(
            principal.team,
            principal.id,
            principal.name or None,
            principal.jobs_per_day,
            scopes,
            session,
        )

    def _count_failure(self, refusal: RefusalError, credential: str, address: str) -> RefusalError:
        """Count and log a refused sign-in, and return the refusal.

        Raises another refusal if too many came from the network, or for one key from anywhere.
        """
        per_second = self._limits.failed_sign_ins_per_minute / _MINUTE_SECONDS
        network, key = network_of(address), _BEGINNING.match(credential)
        self._failed.take(network, per_second, f"too many failed sign-ins from {network}")
        if key:
            self._failed.take(key[0], per_second, f"too many wrong keys that begin with {key[0]}")
        logged = {"address": address, "key": key["id"] if key else None, "why": refusal.problem}
        log.warning("not admitted", extra={"logged": logged})
        return refusal

    async def still_admits(self, caller: Caller) -> bool:
        """Whether the caller's key or session is still valid."""
        if caller.session is not None:
            principal = await self._threads.do(self._read_principal, caller.session)
            return not isinstance(principal, RefusalError)
        key = await self._threads.do(self._store.keys.one, caller.key_id)
        return key is not None and key.valid

    async def _find_key(self, secret: str, address: str) -> Key:
        """Return the key of a secret, from the cache or the store.

        Only valid keys are cached. Others are read from the store each time, so that the response
        time does not reveal which ids exist.
        """
        name = digest_of(secret)
        remembered = self._known.get(name)
        if remembered is not None and remembered[1] > time.monotonic():
            return remembered[0]
        key = await self._threads.do(self._read_key, secret)
        if isinstance(key, RefusalError):
            raise self._count_failure(key, secret, address)
        self._known.put(name, (key, time.monotonic() + _FRESH_SECONDS), _ENTRY_BYTES)
        return key

    def _read_key(self, secret: str) -> Key | RefusalError:
        match = _SHAPE.fullmatch(secret)
        key = self._store.keys.one(match["id"] if match else _NO_ID) or _STRANGER
        if not key.belongs_to(secret):
            return _refusal("this key is not valid", "check that it was copied in full")
        return key if key.valid else _refuse_ended_key(key)

    def _read_principal(self, session: str) -> Principal | RefusalError:
        principal = self._store.keys.of_session(session)
        if principal is None:
            return _refusal("this session has ended", "sign in again")
        return (
            _refuse_ended_key(principal)
            if isinstance(principal, Key) and not principal.valid
            else principal
        )


def _refuse_ended_key(key: Key) -> RefusalError:
    """Return the refusal of a formerly valid key; only its owner, who has the secret, sees it."""
    hint = "ask the operator for another one ('collsynth keys create')"
    if key.revoked or key.expires is None:
        return _refusal("this key has been revoked", hint)
    return _refusal(f"this key expired on {key.expires:%Y-%m-%d, %H:%M} UTC", hint)


def _refusal(problem: str, hint: str) -> RefusalError:
    return RefusalError(HTTPStatus.FORBIDDEN, problem, hint=hint)
