"""Known answers: an in-memory LRU cache in front of the store."""

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
    """An answer as it is sent: ``body`` is its JSON, ``outcome`` the outcome of the question.

    ``key`` is the key of its permalink and ``made`` the time of its computation. Both are None for
    a partial answer, which is stored only with its ``job``. ``hit``: the answer was known before.
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
        """Convert an answer from the store."""
        return DeliveredAnswer(
            stored.verb, stored.body, stored.outcome, stored.key, stored.created, hit
        )


class KnownAnswers:
    """Finds answers by key and caches recent ones. Not thread-safe: for the event loop only."""

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
        """Return the answer of a key, or None. From now on the team may open its permalink.

        Also None if the team has a job with that idempotency key, because that job is the reply.
        """
        remembered = self._remembered(key)
        without_job = idempotency_key is None
        if remembered is not None and without_job and self._seen.get((team, key, remembered.made)):
            self._metrics.questions.labels(remembered.verb, "memory").inc()
            return remembered
        look = self._store.answers.look
        if self._store.quick:
            stored_answer = self._threads.at_once(look, team, key, idempotency_key)
        else:
            stored_answer = await self._threads.do(look, team, key, idempotency_key)
        if stored_answer is None:
            return None
        if not stored_answer.before:
            await self._threads.do(self._store.answers.saw, team, key)
        stored = stored_answer.answer
        self._seen.put((team, key, stored.created), True, _ENTRY_BYTES)
        self._metrics.questions.labels(stored.verb, "memory" if remembered else "store").inc()
        return remembered or self.remember(stored)

    def remember(self, stored: StoredAnswer) -> DeliveredAnswer:
        """Cache an answer and return it as a hit."""
        answer = DeliveredAnswer.of(stored, hit=True)
        self._answers.put(stored.key, answer, len(stored.body) + _ENTRY_BYTES)
        return answer

    def _remembered(self, key: str) -> DeliveredAnswer | None:
        """Return a cached answer, unless it is so old that the store may have deleted it."""
        answer = self._answers.get(key)
        if answer is None or answer.made is None or self._keep_seconds is None:
            return answer
        age = datetime.now(UTC) - answer.made
        return answer if age < timedelta(seconds=self._keep_seconds) else None
