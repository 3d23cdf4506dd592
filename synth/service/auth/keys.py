"""API keys: checked in constant time, limited in rate; each stands for a team."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from http import HTTPStatus

from synth.service.auth.identity import Caller
from synth.service.errors import RefusalError, too_many
from synth.service.limits import Limits
from synth.service.recent import Recent
from synth.service.store import Key, Scope, Store, digest_of
from synth.service.threads import Threads

_SHAPE = re.compile(r"cs_(?P<id>[0-9a-f]{16})_[0-9a-f]{64}")
_NO_ID = "0" * 16
_FRESH_SECONDS = 3.0
_BUCKETS_BYTES = 2**20
_MINUTE_SECONDS = 60.0
SESSION_SECONDS = 7 * 24 * 3600
"""How long who has signed in to the page stays so."""
_STRANGER = Key(_NO_ID, "", "", "0" * 64, None, None, datetime.fromtimestamp(0, UTC), revoked=True)


@dataclass
class _Bucket:
    """How many requests may come at once, as of a moment."""

    tokens: float
    at: float


class Rates:
    """A token bucket for each key: a rate in requests a second, in bursts of seconds' worth."""

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, burst_seconds: float = 2.0
    ) -> None:
        self._clock = clock
        self._burst_seconds = burst_seconds
        self._buckets: Recent[str, _Bucket] = Recent(_BUCKETS_BYTES)

    def take(self, name: str, per_second: float, whose: str = "this key may ask") -> None:
        """Count a request. Raises RefusalError, which says when to come again, if too many came."""
        now = self._clock()
        most = max(1.0, self._burst_seconds * per_second)
        bucket = self._buckets.get(name)
        if bucket is None:
            bucket = _Bucket(most, now)
            self._buckets.put(name, bucket, 1)
        bucket.tokens = min(most, bucket.tokens + (now - bucket.at) * per_second)
        bucket.at = now
        if bucket.tokens < 1:
            wait_seconds = math.ceil((1 - bucket.tokens) / per_second)
            problem = f"{whose} {per_second:g} times a second"
            raise too_many(problem, wait_seconds, f"ask again in {wait_seconds} s")
        bucket.tokens -= 1


class Keys:
    """Admits requests by their keys. A key that is revoked is still admitted for some seconds."""

    def __init__(self, store: Store, threads: Threads, limits: Limits) -> None:
        self._store = store
        self._threads = threads
        self._limits = limits
        self._rates = Rates()
        self._failed = Rates(burst_seconds=_MINUTE_SECONDS)
        self._noted: Recent[str, float] = Recent(_BUCKETS_BYTES)
        self._known: Recent[str, tuple[Key, float]] = Recent(_BUCKETS_BYTES)

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
        return await self._threads.do(self._store.keys.begin_session, key, SESSION_SECONDS)

    async def admit_session(self, token: str, address: str) -> Caller:
        """The caller that a session stands for. Raises as ``admit``."""
        return await self._caller(
            await self._key(_session_name(token), self._of_session, token, address)
        )

    async def sign_out(self, token: str) -> None:
        """End a session."""
        self._known.drop(_session_name(token))
        await self._threads.do(self._store.keys.end_session, token)

    async def _caller(self, key: Key) -> Caller:
        rate = key.rate_per_second
        self._rates.take(key.id, self._limits.requests_per_second if rate is None else rate)
        if time.monotonic() - (self._noted.get(key.id) or -_MINUTE_SECONDS) >= _MINUTE_SECONDS:
            self._noted.put(key.id, time.monotonic(), 1)
            await self._threads.do(self._store.keys.used, key.id)
        scopes = frozenset(Scope(scope) for scope in key.scopes.split())
        return Caller(key.team, key.id, key.name or None, key.jobs_per_day, scopes)

    def _counted(self, refusal: RefusalError, address: str) -> RefusalError:
        """A refusal to admit somebody. Raises another where too many came from an address."""
        most = self._limits.failed_sign_ins_per_minute / _MINUTE_SECONDS
        self._failed.take(address, most, "wrong keys may come from here")
        return refusal

    async def still_admits(self, caller: Caller) -> bool:
        """Whether the key that a caller came with has not been revoked since."""
        key = await self._threads.do(self._store.keys.one, caller.key_id)
        return key is not None and key.valid

    async def _admitted(self, secret: str, address: str) -> Key:
        return await self._key(digest_of(secret), self._of_secret, secret, address)

    async def _key(
        self, name: str, find: Callable[[str], Key | RefusalError], given: str, address: str
    ) -> Key:
        """The key that is remembered under a name, or that is found for what is given.

        Only what is admitted is remembered; anything else is looked up each time, so that the time
        taken does not reveal which ids exist.
        """
        known = self._known.get(name)
        if known is not None and known[1] > time.monotonic():
            return known[0]
        key = await self._threads.do(find, given)
        if isinstance(key, RefusalError):
            raise self._counted(key, address)
        self._known.put(name, (key, time.monotonic() + _FRESH_SECONDS), 1)
        return key

    def _of_secret(self, secret: str) -> Key | RefusalError:
        match = _SHAPE.fullmatch(secret)
        key = self._store.keys.one(match["id"] if match else _NO_ID) or _STRANGER
        if not key.belongs_to(secret):
            return _refusal("this key is not admitted", "check that all of it was copied")
        return key if key.valid else _over(key)

    def _of_session(self, token: str) -> Key | RefusalError:
        key = self._store.keys.of_session(token)
        if key is None:
            return _refusal("this session is over", "sign in again")
        return key if key.valid else _over(key)


def _over(key: Key) -> RefusalError:
    """What is said of a key that was right once: only to who has the whole of it."""
    hint = "ask who runs this service for another: 'collsynth keys create' makes one"
    if key.revoked or key.expires is None:
        return _refusal("this key has been revoked", hint)
    return _refusal(f"this key expired on {key.expires:%Y-%m-%d, %H:%M} UTC", hint)


def _refusal(problem: str, hint: str) -> RefusalError:
    return RefusalError(HTTPStatus.FORBIDDEN, problem, hint=hint)


def _session_name(token: str) -> str:
    """Under what a session is remembered: no secret of a key has this digest."""
    return f"session {digest_of(token)}"
