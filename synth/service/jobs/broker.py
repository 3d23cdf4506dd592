"""The desk: where questions are put and looked after, for the API and for the page alike.

An answer that is known is given from memory or from the store. Any other question becomes a job in
the store before anything else, so that nothing accepted can be lost; the quick ones are merely
waited for.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from http import HTTPStatus
from typing import Any, TypeVar

from synth.service.auth.identity import Asker
from synth.service.auth.quotas import Quotas
from synth.service.errors import RefusalError, not_there, unavailable
from synth.service.jobs.notifications import Bell, heard_within
from synth.service.jobs.questions import Put, own_names, put_of, with_own
from synth.service.jobs.systems import Shelf
from synth.service.metrics import Metrics
from synth.service.recent import Recent
from synth.service.settings import Settings
from synth.service.store import Job, NewJob, Status, Store, StoredAnswer
from synth.service.strict_json import json_of
from synth.service.threads import Threads
from synth.verbs.reply import Outcome
from synth.verbs.table import VERBS

T = TypeVar("T")
_POLL_SECONDS = 1.0
_LARGE_BYTES = 32 * 1024
_ENTRY_BYTES = 200
_SEEN_BYTES = 2**24
_MEMO_BYTES = 2**24


@dataclass(frozen=True)
class Wishes:
    """How a question shall be treated; None is as the service is set up."""

    wait_seconds: float | None = None
    budget_seconds: float | None = None
    idempotency_key: str | None = None


@dataclass(frozen=True)
class Answered:
    """An answer: its JSON, how it ended, its permalink's key and when it was made; a partial one
    has neither. ``hit``: it was known before it was asked for.
    """

    verb: str
    body: bytes
    outcome: int
    key: str | None
    made: datetime | None = None
    hit: bool = False


@dataclass(frozen=True)
class Accepted:
    """A job that has not ended yet."""

    job: Job


@dataclass(frozen=True)
class Event:
    """What happened to a job: ``progress``, ``best`` or ``end``, and the job as it then stood.

    ``last``: of those that tell of this revision of the job.
    """

    kind: str
    job: Job
    last: bool = True


class Desk:
    """Puts questions, and looks after jobs and answers; everything on one event loop.

    ``wake`` is called when a job was queued, ``look`` with the id of a job that was cancelled.
    """

    def __init__(
        self,
        store: Store,
        settings: Settings,
        metrics: Metrics,
        bell: Bell,
        wake: Callable[[], None] = lambda: None,
        look: Callable[[str], None] = lambda job_id: None,
    ) -> None:
        self.settings = settings
        self._store = store
        self._metrics = metrics
        self._bell = bell
        self._wake = wake
        self._look = look
        self._threads = Threads(metrics)
        self._quotas = Quotas(store, self._threads, settings.limits)
        self.systems = Shelf(store, self._threads, settings.limits)
        self._answers: Recent[str, Answered] = Recent(settings.answers_bytes)
        self._seen: Recent[tuple[str, str, datetime | None], bool] = Recent(_SEEN_BYTES)
        self._memo: Recent[bytes, str] = Recent(_MEMO_BYTES)
        self.draining = False

    async def put_raw(
        self, asker: Asker, verb: str, raw: bytes, wishes: Wishes
    ) -> Answered | Accepted:
        """Put a question that came as JSON; ``put`` says what happens.

        Raises RefusalError for what is no JSON, too.
        """
        memo = sha256(verb.encode() + b"\n" + raw).digest()
        key = self._memo.get(memo)
        known = await self._known(asker, key, wishes) if key else None
        if known is not None:
            return known
        given = await self._beside(len(raw), json_of, raw)
        return await self.put(asker, verb, given, wishes, size_bytes=len(raw), memo=memo)

    async def put(
        self,
        asker: Asker,
        verb: str,
        given: object,
        wishes: Wishes,
        *,
        size_bytes: int = 0,
        memo: bytes | None = None,
    ) -> Answered | Accepted:
        """Put a question: the answer if it is known or comes in time, else the job.

        Raises InputError for what is wrong in the question, and RefusalError for what goes beyond
        the limits of the asker, for a job that failed or was cancelled, and without a store.
        """
        texts = await self.systems.texts(asker, own_names(given))
        put = await self._beside(size_bytes, put_of, verb, with_own(given, texts))
        if memo is not None and not texts and VERBS[verb].repeatable:
            self._memo.put(memo, put.key, _ENTRY_BYTES)
        known = await self._known(asker, put.key, wishes) if VERBS[verb].repeatable else None
        if known is not None:
            return known
        await self._threads.do(self.settings.limits.check, put.question)
        job = await self._submitted(asker, put, wishes)
        wait_seconds = self._wait_seconds(wishes)
        if not job.status.ended and wait_seconds > 0:
            job = await self._waited(job, wait_seconds)
        return await self._outcome(job)

    async def job(self, asker: Asker, job_id: str) -> Job:
        """A job of the asker's team. Raises RefusalError where that has no such job."""
        job = await self._threads.do(self._store.job, job_id)
        if job is None or job.team != asker.team:
            raise not_there("job")
        return job

    async def jobs(
        self,
        asker: Asker,
        limit: int,
        after: str | None = None,
        status: Status | None = None,
        verb: str | None = None,
    ) -> list[Job]:
        """The team's jobs, newest first, from the one after ``after``, without their ``best``.

        Raises InputError where the team has no job ``after``.
        """
        listed = self._store.jobs
        return await self._threads.do(listed, asker.team, limit, after, status, verb)

    async def cancel(self, asker: Asker, job_id: str) -> Job:
        """Cancel a job, which has an effect unless it has ended; the job as it stands then."""
        await self.job(asker, job_id)
        job = await self._threads.do(self._store.cancel, job_id)
        if job is None:
            raise not_there("job")
        self._look(job_id)
        self._bell.ring(job_id, job.status.ended)
        return job

    async def answer(self, asker: Asker, key: str) -> StoredAnswer:
        """An answer that the team has asked for. Raises RefusalError for any other."""
        found = await self._threads.do(self._store.answer, key, asker.team)
        if found is None:
            raise not_there("answer")
        return found

    async def events(self, asker: Asker, job_id: str, after: int = -1) -> AsyncIterator[Event]:
        """What happens to a job after a revision, up to its end or that of the service.

        What happened between two looks is told as one. Whichever server works on the job, what it
        wrote is seen: here at once, elsewhere within a second.
        """
        with self._bell.listening(job_id, for_the_end=False) as heard:
            job = await self.job(asker, job_id)
            best: bytes | None = None
            while True:
                if job.revision > after and not job.status.ended:
                    better = job.best is not None and job.best != best
                    yield Event("progress", job, last=not better)
                    if better:
                        yield Event("best", job)
                    after, best = job.revision, job.best
                if job.status.ended:
                    yield Event("end", job)
                    return
                if self.draining:
                    return
                await heard_within(heard, _POLL_SECONDS)
                if await self._threads.do(self._store.revision, job_id) != job.revision:
                    job = await self.job(asker, job_id)

    async def check_store(self) -> None:
        """Raises RefusalError where the store does not answer."""
        await self._threads.do(self._store.ping)

    async def beside(self, call: Callable[[], T]) -> T:
        """What blocks, called beside the event loop."""
        return await self._threads.do(call)

    def drain(self) -> None:
        """From now on no job is accepted, and streams of events come to their end."""
        self.draining = True
        self._bell.ring_all()

    def close(self) -> None:
        """Let go of the threads."""
        self._threads.close()

    async def _known(self, asker: Asker, key: str, wishes: Wishes) -> Answered | None:
        """The answer of that key, if there is one; from now on the team may look at it."""
        held = self._remembered(key)
        team, again = asker.team, wishes.idempotency_key
        if held is not None and again is None and self._seen.get((team, key, held.made)):
            self._metrics.asked(held.verb, "memory")
            return held
        look = self._store.look
        if self._store.quick:
            found = self._threads.at_once(look, team, key, again)
        else:
            found = await self._threads.do(look, team, key, again)
        if found is None:
            return None
        if not found.before:
            await self._threads.do(self._store.saw, team, key)
        stored = found.answer
        self._seen.put((team, key, stored.created), True, _ENTRY_BYTES)
        self._metrics.asked(stored.verb, "memory" if held else "store")
        return held or self._remember(stored)

    def _remember(self, stored: StoredAnswer) -> Answered:
        known = _answered(stored, hit=True)
        self._answers.put(stored.key, known, len(stored.body) + _ENTRY_BYTES)
        return known

    def _remembered(self, key: str) -> Answered | None:
        """An answer in memory, unless it is so old that the store may have forgotten it."""
        known = self._answers.get(key)
        keep_seconds = self.settings.keep_seconds
        if known is None or known.made is None or keep_seconds is None:
            return known
        return known if datetime.now(UTC) - known.made < timedelta(seconds=keep_seconds) else None

    async def _submitted(self, asker: Asker, put: Put, wishes: Wishes) -> Job:
        if self.draining:
            raise unavailable("the service is being stopped")
        key = wishes.idempotency_key
        again = key is not None and await self._threads.do(self._store.has_job, asker.team, key)
        if not again:  # what was accepted stays accepted, however much was since
            await self._quotas.take(asker)
        new = NewJob(
            asker.team,
            asker.key_id,
            put.verb,
            put.text,
            put.key,
            key,
            wishes.budget_seconds,
        )
        created = False
        try:
            submitted = await self._threads.do(self._store.submit, new)
            created = submitted.created
        finally:
            if not (created or again):
                self._quotas.give_back(asker)
        self._metrics.asked(put.verb, "not")
        if created:
            self._wake()
        return submitted.job

    async def _waited(self, job: Job, wait_seconds: float) -> Job:
        """The job as soon as it has ended, or as it stands when the time is over."""
        end = time.monotonic() + wait_seconds
        with self._bell.listening(job.id, for_the_end=True) as heard:
            while True:
                found = await self._threads.do(self._store.job, job.id)
                left = end - time.monotonic()
                if found is None or found.status.ended or left <= 0 or self.draining:
                    return found or job
                await heard_within(heard, min(left, _POLL_SECONDS))

    async def _outcome(self, job: Job) -> Answered | Accepted:
        match job.status:
            case Status.DONE:
                stored = await self._threads.do(self._store.answer, job.answer_key)
                if stored is None:  # as long as it is kept a job that is done has its answer
                    raise unavailable("the job was forgotten at this very moment")
                if VERBS[job.verb].repeatable:
                    self._remember(stored)
                return _answered(stored)
            case Status.PARTIAL:
                return Answered(job.verb, job.best or b"null", Outcome.PARTIAL, None)
            case Status.FAILED:
                raise refusal_of(job.problem or {})
            case Status.CANCELLED:
                hint = f"what was found until then is at /v1/jobs/{job.id}"
                raise RefusalError(HTTPStatus.CONFLICT, "the job was cancelled", hint=hint)
        return Accepted(job)

    def _wait_seconds(self, wishes: Wishes) -> float:
        wished = wishes.wait_seconds
        most = self.settings.limits.wait_seconds
        return min(self.settings.wait_seconds if wished is None else wished, most)

    async def _beside(self, size_bytes: int, call: Callable[..., T], *given: object) -> T:
        """Large work beside the loop, small work on it: a thread costs more than that takes."""
        if size_bytes > _LARGE_BYTES:
            return await self._threads.do(call, *given)
        return call(*given)


def _answered(stored: StoredAnswer, hit: bool = False) -> Answered:
    return Answered(stored.verb, stored.body, stored.outcome, stored.key, stored.created, hit)


def refusal_of(problem: dict[str, Any]) -> RefusalError:
    """What a job failed of, as the refusal of its question."""
    status = HTTPStatus(problem.get("status", HTTPStatus.INTERNAL_SERVER_ERROR))
    told = str(problem.get("problem", "the job failed"))
    return RefusalError(
        status, told, where=str(problem.get("where", "")), hint=str(problem.get("hint", ""))
    )
