"""Keys: who has one is admitted as its team, as often as it may ask; told in constant time."""

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
from synth.service.store import Key, Store, digest_of
from synth.service.threads import Threads

_SHAPE = re.compile(r"cs_(?P<id>[0-9a-f]{16})_[0-9a-f]{64}")
_NO_ID = "0" * 16
_FRESH_SECONDS = 3.0
_BUCKETS_BYTES = 2**20
_STRANGER = Key(_NO_ID, "", "", "0" * 64, None, None, datetime.fromtimestamp(0, UTC), revoked=True)


@dataclass
class _Bucket:
    """Requests that may still come at once, as of a moment."""

    tokens: float
    at: float


class Rates:
    """A token bucket for each key: so many requests a second, and two seconds' worth at once."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._buckets: Recent[str, _Bucket] = Recent(_BUCKETS_BYTES)

    def take(self, name: str, per_second: float) -> None:
        """One request more. Raises RefusalError, which says when to come again, if too many."""
        now = self._clock()
        most = max(1.0, 2 * per_second)
        bucket = self._buckets.get(name)
        if bucket is None:
            bucket = _Bucket(most, now)
            self._buckets.put(name, bucket, 1)
        bucket.tokens = min(most, bucket.tokens + (now - bucket.at) * per_second)
        bucket.at = now
        if bucket.tokens < 1:
            wait_seconds = math.ceil((1 - bucket.tokens) / per_second)
            told = f"this key may ask {per_second:g} times a second"
            raise too_many(told, wait_seconds, f"ask again in {wait_seconds} s")
        bucket.tokens -= 1


class Keys:
    """Admits whoever has a key. A key that was revoked is still admitted for some seconds."""

    def __init__(self, store: Store, threads: Threads, limits: Limits) -> None:
        self._store = store
        self._threads = threads
        self._limits = limits
        self._rates = Rates()
        self._known: Recent[str, tuple[Key, float]] = Recent(_BUCKETS_BYTES)

    async def admit(self, secret: str | None) -> Caller:
        """The team of a key.

        Raises RefusalError without a key (401), for a wrong or revoked one (403), and for one that
        asks too often (429). Whichever is wrong with a key, one digest is compared to say so.
        """
        if secret is None:
            raise RefusalError(
                HTTPStatus.UNAUTHORIZED,
                "a key is needed",
                hint="send it as 'Authorization: Bearer cs_...' or as 'X-API-Key: cs_...'",
                headers={"WWW-Authenticate": "Bearer"},
            )
        key = await self._admitted(secret)
        rate = key.rate_per_second
        self._rates.take(key.id, self._limits.requests_per_second if rate is None else rate)
        return Caller(key.team, key.id, key.jobs_per_day)

    async def still_admits(self, caller: Caller) -> bool:
        """If the key that an caller came with has not been revoked since."""
        key = await self._threads.do(self._store.key, caller.key_id)
        return key is not None and not key.revoked

    async def _admitted(self, secret: str) -> Key:
        """The key of a secret. Only secrets that were admitted are known: any other is looked up
        each time, so that nobody is told by the time it takes which ids there are.
        """
        digest = digest_of(secret)
        known = self._known.get(digest)
        if known is not None and known[1] > time.monotonic():
            return known[0]
        match = _SHAPE.fullmatch(secret)
        key_id = match["id"] if match else _NO_ID
        key = await self._threads.do(self._store.key, key_id) or _STRANGER
        if not key.admits(secret):
            raise RefusalError(HTTPStatus.FORBIDDEN, "this key is not admitted")
        self._known.put(digest, (key, time.monotonic() + _FRESH_SECONDS), 1)
        return key
