"""Answers that are known: a cache in memory of those given last, in front of the store."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from synth.service.metrics import Metrics
from synth.service.recent import LruCache
from synth.service.settings import Settings
from synth.service.store import Store, StoredAnswer
from synth.service.threads import Threads

_ENTRY_BYTES = 200
_SEEN_BYTES = 2**24


@dataclass(frozen=True)
class DeliveredAnswer:
    """An answer as it is sent: ``body`` is its JSON, ``outcome`` how the question ended.

    ``key`` is that of its permalink and ``made`` when it was worked out; both are None for a
    partial answer, which is not kept and stays with its ``job``. ``hit``: it was known before it
    was asked for.
    """

    verb: str
    body: bytes
    outcome: int
    key: str | None
    made: datetime | None = None
    hit: bool = False
    job: str | None = None

    @staticmethod
    def of(stored: StoredAnswer, *, hit: bool) -> DeliveredAnswer:
        """An answer as the store keeps it."""
        return DeliveredAnswer(
            stored.verb, stored.body, stored.outcome, stored.key, stored.created, hit
        )


class KnownAnswers:
    """Finds answers by their keys, and holds those found last. On the event loop only."""

    def __init__(
        self, store: Store, threads: Threads, settings: Settings, metrics: Metrics
    ) -> None:
        self._store = store
        self._threads = threads
        self._metrics = metrics
        self._keep_seconds = settings.keep_seconds
        self._answers: LruCache[str, DeliveredAnswer] = LruCache(settings.answers_bytes)
        self._seen: LruCache[tuple[str, str, datetime | None], bool] = LruCache(_SEEN_BYTES)

    async def find(
        self, team: str, key: str, idempotency_key: str | None
    ) -> DeliveredAnswer | None:
        """The answer under a key, if there is one; from now on the team may open its permalink.

        None, too, where the team has a job with that idempotency key: then that job is the reply.
        """
        held = self._remembered(key)
        new = idempotency_key is None
        if held is not None and new and self._seen.get((team, key, held.made)):
            self._metrics.asked(held.verb, "memory")
            return held
        look = self._store.answers.look
        if self._store.quick:
            found = self._threads.at_once(look, team, key, idempotency_key)
        else:
            found = await self._threads.do(look, team, key, idempotency_key)
        if found is None:
            return None
        if not found.before:
            await self._threads.do(self._store.answers.saw, team, key)
        stored = found.answer
        self._seen.put((team, key, stored.created), True, _ENTRY_BYTES)
        self._metrics.asked(stored.verb, "memory" if held else "store")
        return held or self.remember(stored)

    def remember(self, stored: StoredAnswer) -> DeliveredAnswer:
        """Hold an answer in memory."""
        known = DeliveredAnswer.of(stored, hit=True)
        self._answers.put(stored.key, known, len(stored.body) + _ENTRY_BYTES)
        return known

    def _remembered(self, key: str) -> DeliveredAnswer | None:
        """An answer in memory, unless it is so old that the store may have deleted it."""
        known = self._answers.get(key)
        if known is None or known.made is None or self._keep_seconds is None:
            return known
        age = datetime.now(UTC) - known.made
        return known if age < timedelta(seconds=self._keep_seconds) else None
