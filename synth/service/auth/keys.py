"""API keys and sessions: checked in constant time, limited in rate; each stands for a team."""

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
"""How long who has signed in to the page with a key stays so."""
PERSON_SESSION_SECONDS = 12 * 3600
"""How long who has signed in at a proxy stays so: until groups are looked at again."""
_STRANGER = Key(_NO_ID, "", "", "0" * 64, None, None, datetime.fromtimestamp(0, UTC), revoked=True)
Principal: TypeAlias = Key | Person
log = logging.getLogger("collsynth.service")


@dataclass
class _Bucket:
    """How many requests may come at once, as of a moment."""

    tokens: float
    at: float


class RateLimiter:
    """A token bucket for each key: a rate in requests a second, in bursts of seconds' worth."""

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, burst_seconds: float = 2.0
    ) -> None:
        self._clock = clock
        self._burst_seconds = burst_seconds
        self._buckets: LruCache[str, _Bucket] = LruCache(_REMEMBERED_BYTES)

    def take(self, name: str, per_second: float, problem: str = "") -> None:
        """Count a request. Raises RefusalError, which says when to come again, if too many came."""
        now = self._clock()
        most = max(1.0, self._burst_seconds * per_second)
        bucket = self._buckets.get(name)
        if bucket is None:
            bucket = _Bucket(most, now)
            self._buckets.put(name, bucket, _ENTRY_BYTES)
        bucket.tokens = min(most, bucket.tokens + (now - bucket.at) * per_second)
        bucket.at = now
        if bucket.tokens < 1:
            wait_seconds = math.ceil((1 - bucket.tokens) / per_second)
            problem = problem or f"this key may ask {per_second:g} times a second"
            raise too_many(problem, wait_seconds, f"ask again in {wait_seconds} s")
        bucket.tokens -= 1


class Authenticator:
    """Admits requests by their keys, or by sessions that began with a key or at a proxy.

    A key that is revoked is admitted for some seconds still; a session is looked up each time, so
    that it is over as soon as anybody has ended it.
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
        """The caller that a key stands for; ``address``: where the request comes from.

        Raises RefusalError without a key (401), for a wrong, revoked or expired one (403), and for
        one that is used too often, or where too many wrong ones came from an address (429).
        Whatever is wrong with a key, exactly one digest is compared, so that the time taken says
        nothing about it.
        """
        if secret is None:
            raise RefusalError(
                HTTPStatus.UNAUTHORIZED,
                "a key is needed",
                hint="send it as 'Authorization: Bearer cs_...' or as 'X-API-Key: cs_...'",
                headers={"WWW-Authenticate": "Bearer"},
            )
        return await self._caller(await self._admitted(secret, address))

    async def sign_in(self, secret: str, address: str) -> str:
        """Begin a session with a key: its token, for a cookie. Raises as ``admit``."""
        key = await self._admitted(secret, address)
        await self._caller(key)
        return await self._threads.do(self._store.keys.begin_session, key, KEY_SESSION_SECONDS)

    async def sign_in_person(self, person: Person) -> str:
        """Begin a session of somebody whom a proxy has signed in: its token, for a cookie.

        Raises RefusalError where they ask for one too often.
        """
        await self._caller(person)
        begin = self._store.keys.begin_session
        return await self._threads.do(begin, person, PERSON_SESSION_SECONDS)

    async def admit_session(self, token: str, address: str) -> Caller:
        """The caller that a session stands for. Raises as ``admit``."""
        session = digest_of(token)
        found = await self._threads.do(self._of_session, session)
        if isinstance(found, RefusalError):
            raise self._counted(found, session, address)
        return await self._caller(found, session)

    async def sign_out(self, token: str) -> None:
        """End a session."""
        await self._threads.do(self._store.keys.end_session, digest_of(token))

    async def _caller(self, who: Principal, session: str | None = None) -> Caller:
        """The caller; counts one of their requests."""
        scopes = frozenset(Scope(scope) for scope in who.scopes.split())
        often = self._limits.requests_per_second
        if isinstance(who, Person):
            problem = f"you may ask {often:g} times a second"
            self._rates.take(f"person {who.name}", often, problem)
            return Caller(who.team, name=who.name, scopes=scopes, session=session)
        self._rates.take(who.id, often if who.rate_per_second is None else who.rate_per_second)
        if time.monotonic() - (self._noted.get(who.id) or -_MINUTE_SECONDS) >= _MINUTE_SECONDS:
            self._noted.put(who.id, time.monotonic(), _ENTRY_BYTES)
            await self._threads.do(self._store.keys.used, who.id)
        return Caller(who.team, who.id, who.name or None, who.jobs_per_day, scopes, session)

    def _counted(self, refusal: RefusalError, given: str, address: str) -> RefusalError:
        """A refusal to admit somebody, counted and logged.

        Raises another where too many came from their network, or for one key from anywhere.
        """
        most = self._limits.failed_sign_ins_per_minute / _MINUTE_SECONDS
        network, key = network_of(address), _BEGINNING.match(given)
        self._failed.take(network, most, f"too many that are not admitted ask from {network}")
        if key:
            self._failed.take(
                key[0], most, f"too many ask with wrong keys that begin with {key[0]}"
            )
        logged = {"address": address, "key": key["id"] if key else None, "why": refusal.problem}
        log.warning("not admitted", extra={"logged": logged})
        return refusal

    async def still_admits(self, caller: Caller) -> bool:
        """Whether the key or session that a caller came with has not ended since."""
        if caller.session is not None:
            who = await self._threads.do(self._of_session, caller.session)
            return not isinstance(who, RefusalError)
        key = await self._threads.do(self._store.keys.one, caller.key_id)
        return key is not None and key.valid

    async def _admitted(self, secret: str, address: str) -> Key:
        """The key of a secret, remembered or found in the store.

        Only what is admitted is remembered; anything else is looked up each time, so that the time
        taken does not reveal which ids exist.
        """
        name = digest_of(secret)
        known = self._known.get(name)
        if known is not None and known[1] > time.monotonic():
            return known[0]
        found = await self._threads.do(self._of_secret, secret)
        if isinstance(found, RefusalError):
            raise self._counted(found, secret, address)
        self._known.put(name, (found, time.monotonic() + _FRESH_SECONDS), _ENTRY_BYTES)
        return found

    def _of_secret(self, secret: str) -> Key | RefusalError:
        match = _SHAPE.fullmatch(secret)
        key = self._store.keys.one(match["id"] if match else _NO_ID) or _STRANGER
        if not key.belongs_to(secret):
            return _refusal("this key is not admitted", "check that all of it was copied")
        return key if key.valid else _refuse_ended_key(key)

    def _of_session(self, session: str) -> Principal | RefusalError:
        who = self._store.keys.of_session(session)
        if who is None:
            return _refusal("this session is over", "sign in again")
        return _refuse_ended_key(who) if isinstance(who, Key) and not who.valid else who


def _refuse_ended_key(key: Key) -> RefusalError:
    """What is said of a key that was right once: only to who has the whole of it."""
    hint = "ask who runs this service for another: 'collsynth keys create' makes one"
    if key.revoked or key.expires is None:
        return _refusal("this key has been revoked", hint)
    return _refusal(f"this key expired on {key.expires:%Y-%m-%d, %H:%M} UTC", hint)


def _refusal(problem: str, hint: str) -> RefusalError:
    return RefusalError(HTTPStatus.FORBIDDEN, problem, hint=hint)
