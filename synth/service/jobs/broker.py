"""The broker: takes questions from the API and the page, and brings back answers or jobs.

A known answer comes from memory or from the store. Any other question becomes a job in the store
before anything else, so that nothing accepted can be lost. A quick job is just one whose answer
comes while the request still waits.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from hashlib import sha256
from http import HTTPStatus
from typing import Any, TypeVar

from synth.ask.partition import NOTHING_YET
from synth.ask.refusals import check
from synth.ask.reply import Outcome
from synth.ask.table import VERBS
from synth.service.auth.identity import Caller
from synth.service.auth.quotas import Quotas
from synth.service.errors import RefusalError, not_found, unavailable
from synth.service.jobs.dispatcher import Dispatcher
from synth.service.jobs.known import DeliveredAnswer, KnownAnswers
from synth.service.jobs.names import name_of
from synth.service.jobs.notifications import Notifications, wait_for_notification
from synth.service.jobs.questions import (
    PreparedQuestion,
    own_names,
    prepare,
    question_in,
    replace_own_names,
)
from synth.service.jobs.systems import TeamSystems
from synth.service.metrics import Metrics
from synth.service.recent import LruCache
from synth.service.settings import Settings
from synth.service.store import (
    ALL_JOBS,
    JobFilter,
    JobOrder,
    NewJob,
    Status,
    Store,
    StoredAnswer,
    StoredJob,
)
from synth.service.strict_json import json_of
from synth.service.threads import Readers, Threads

T = TypeVar("T")
POLL_SECONDS = 1.0
CANCELLING_POLL_SECONDS = 0.25
"""How often another server's job is looked at, and one that is cancelled."""
_CHECKED_SECONDS = 1.0
_LARGE_BYTES = 32 * 1024
_ENTRY_BYTES = 200
_MEMO_BYTES = 2**24


@dataclass(frozen=True)
class Preferences:
    """What the caller asks for beside the question, as how long to wait; None: the default.

    ``part``: the answer is for a part of a page, and its job is left out of lists.
    """

    wait_seconds: float | None = None
    budget_seconds: float | None = None
    idempotency_key: str | None = None
    part: bool = False


@dataclass(frozen=True)
class PendingJob:
    """A job that has not ended yet."""

    job: StoredJob


@dataclass(frozen=True)
class JobEvent:
    """What happened to a job: ``progress``, ``best`` or ``end``, and the job as it then stood.

    One revision of a job may bring several events; ``last`` marks the last of them.
    """

    kind: str
    job: StoredJob
    last: bool = True


class Broker:
    """Answers questions or makes jobs of them, and gives access to jobs, answers and systems.

    Everything runs on one event loop. The dispatcher of this process is woken when a job was
    queued, and looks at one that was cancelled.
    """

    def __init__(
        self,
        store: Store,
        settings: Settings,
        metrics: Metrics,
        notifications: Notifications,
        dispatcher: Dispatcher,
    ) -> None:
        self.settings = settings
        self._store = store
        self._metrics = metrics
        self._notifications = notifications
        self._dispatcher = dispatcher
        self._threads = Threads(metrics, "questions")
        self._readers = Readers(metrics)
        self._quotas = Quotas(store, self._threads, settings.limits)
        self.systems = TeamSystems(store, self._threads, self._readers, settings.limits)
        self._known = KnownAnswers(store, self._threads, settings, metrics)
        self._memo: LruCache[bytes, str] = LruCache(_MEMO_BYTES)
        self.draining = False
        self._store_checked_until = 0.0

    async def ask_json(
        self, caller: Caller, verb: str, raw: bytes, preferences: Preferences
    ) -> DeliveredAnswer | PendingJob:
        """Answer a question that came as JSON, as ``ask`` does.

        A body that was sent before is recognised by its hash, and not even parsed. Raises
        RefusalError for what is no JSON, too.
        """
        memo = sha256(verb.encode() + b"\n" + raw).digest()
        key = self._memo.get(memo)
        if key is not None:
            known = await self._known.find(caller.team, key, preferences.idempotency_key)
            if known is not None:
                return known
        given = await self._beside(caller, len(raw), json_of, raw)
        return await self.ask(caller, verb, given, preferences, size_bytes=len(raw), memo=memo)

    async def ask(
        self,
        caller: Caller,
        verb: str,
        given: object,
        preferences: Preferences,
        *,
        size_bytes: int = 0,
        memo: bytes | None = None,
    ) -> DeliveredAnswer | PendingJob:
        """Answer a question if the answer is known or comes in time; else return its job.

        Raises InputError for what is wrong in the question, and RefusalError for what goes beyond
        the limits of the caller, for a job that failed or was cancelled, and without a store.
        """
        texts = await self.systems.texts(caller, own_names(given))
        whole = replace_own_names(given, texts)
        prepared = await self._beside(caller, size_bytes, prepare, verb, whole)
        if VERBS[verb].repeatable:
            if memo is not None and not texts:
                self._memo.put(memo, prepared.key, _ENTRY_BYTES)
            key, again = prepared.key, preferences.idempotency_key
            known = await self._known.find(caller.team, key, again)
            if known is not None:
                return known
        name = await self._readers.do(caller.team, self._checked, prepared)
        job = await self._submitted(caller, prepared, name, preferences)
        wait_seconds = self._wait_seconds(preferences)
        if not job.status.ended and wait_seconds > 0:
            job = await self._waited(job, wait_seconds)
        return await self._outcome(job)

    async def job(self, caller: Caller, job_id: str, *, whole: bool = False) -> StoredJob:
        """A job of the caller's team, without its question unless the ``whole`` is needed.

        Raises RefusalError where the team has no such job.
        """
        look = self._store.jobs.one if whole else self._store.jobs.seen
        job = await self._threads.do(look, job_id)
        if job is None or (job.team != caller.team and not caller.admin):
            raise not_found("job")
        return job

    async def jobs(
        self,
        caller: Caller,
        limit: int,
        after: str | None = None,
        wanted: JobFilter = ALL_JOBS,
        order: JobOrder = JobOrder.NEWEST,
    ) -> list[StoredJob]:
        """A page of the team's jobs, without their ``best`` and without the parts of pages.

        ``after`` is the id of the last job of the page before. Raises InputError where the team has
        no such job.
        """
        listed = self._store.jobs.listed
        return await self._threads.do(listed, caller.team, limit, after, wanted, order)

    async def cancel(self, caller: Caller, job_id: str) -> StoredJob:
        """Cancel a job, and return it as it stands then; one that has ended stays as it is."""
        await self.job(caller, job_id)
        job = await self._threads.do(self._store.jobs.cancel, job_id)
        if job is None:
            raise not_found("job")
        self._dispatcher.look(job_id)
        self._notifications.notify(job_id, job.status.ended)
        return job

    async def answer(self, caller: Caller, key: str) -> StoredAnswer:
        """An answer that the team has asked for. Raises RefusalError for any other."""
        found = await self._threads.do(self._store.answers.one, key, caller.team)
        if found is None:
            raise not_found("answer")
        return found

    async def events(self, caller: Caller, job_id: str, after: int = -1) -> AsyncIterator[JobEvent]:
        """The events of a job after a revision, until the job ends or the service is stopped.

        Several changes in quick succession may come as one event. Changes made by this server are
        seen at once; those of another server of the same store within a second, by polling.
        """
        with self._notifications.subscribed(job_id, for_the_end=False) as notified:
            job = await self.job(caller, job_id)
            best: bytes | None = None
            while True:
                if job.revision > after and not job.status.ended:
                    better = job.best is not None and job.best != best
                    yield JobEvent("progress", job, last=not better)
                    if better:
                        yield JobEvent("best", job)
                    after, best = job.revision, job.best
                if job.status.ended:
                    yield JobEvent("end", job)
                    return
                if self.draining:
                    return
                await wait_for_notification(notified, _pause_seconds(job))
                if await self._threads.do(self._store.jobs.revision, job_id) != job.revision:
                    job = await self.job(caller, job_id)

    async def check_store(self) -> None:
        """Raises RefusalError where the store does not answer, or cannot be written.

        What was found holds for a second, so that nobody can keep the disk busy by asking.
        """
        if self._store_checked_until < time.monotonic():
            await self._threads.do(self._store.check_writing, self.settings.name)
            self._store_checked_until = time.monotonic() + _CHECKED_SECONDS
        self._threads.check_lately()

    async def beside(self, team: str, call: Callable[..., T], *given: object) -> T:
        """Call what takes long in a thread, so that the event loop goes on, when it is the team's
        turn: it has one such call at a time.
        """
        return await self._readers.do(team, call, *given)

    def drain(self) -> None:
        """Begin to stop: accept no more jobs, and end all streams of events."""
        self.draining = True
        self._notifications.notify_all()

    def close(self) -> None:
        """Wait for the threads, and end them."""
        self._threads.close()
        self._readers.close()

    def _checked(self, prepared: PreparedQuestion) -> str:
        """The name of a question's job.

        Raises InputError for a question that asks for too much, or that has no answer.
        """
        self.settings.limits.check(prepared.question)
        check(prepared.question)
        return name_of(prepared.verb, question_in(prepared.text))

    async def _submitted(
        self, caller: Caller, prepared: PreparedQuestion, name: str, preferences: Preferences
    ) -> StoredJob:
        if self.draining:
            raise unavailable("the service is being stopped")
        key = preferences.idempotency_key
        again = key is not None and await self._threads.do(
            self._store.jobs.came_with, caller.team, key
        )
        if not again:  # a job that was accepted before is found again whatever the quota is now
            await self._quotas.take(caller, len(prepared.text))
        new = NewJob(
            caller.team,
            caller.key_id,
            prepared.verb,
            prepared.text,
            prepared.key,
            key,
            preferences.budget_seconds,
            caller.name,
            preferences.part,
            tried=not VERBS[prepared.verb].repeatable,  # what measures is not broken off to go on
            name=name,
        )
        created = False
        try:
            submitted = await self._threads.do(self._store.jobs.submit, new)
            created = submitted.created
        finally:
            if not (created or again):
                self._quotas.give_back(caller, len(prepared.text))
        self._metrics.asked(prepared.verb, "not")
        if created:
            self._dispatcher.wake()
        return submitted.job

    async def _waited(self, job: StoredJob, wait_seconds: float) -> StoredJob:
        """Wait for a job to end; the job as it stands then, or when the time is over."""
        end = time.monotonic() + wait_seconds
        with self._notifications.subscribed(job.id, for_the_end=True) as notified:
            while True:
                found = await self._threads.do(self._store.jobs.seen, job.id)
                left = end - time.monotonic()
                if found is None or found.status.ended or left <= 0 or self.draining:
                    return found or job
                await wait_for_notification(notified, min(left, _pause_seconds(found)))

    async def _outcome(self, job: StoredJob) -> DeliveredAnswer | PendingJob:
        match job.status:
            case Status.DONE:
                stored = await self._threads.do(self._store.answers.one, job.answer_key)
                if stored is None:  # answers outlive their jobs: the job was just deleted
                    raise unavailable("the job was forgotten at this very moment")
                if VERBS[job.verb].repeatable:
                    self._known.remember(stored)
                return DeliveredAnswer.of(stored, hit=False)
            case Status.PARTIAL:
                best = job.best or NOTHING_YET
                return DeliveredAnswer(job.verb, best, Outcome.PARTIAL, None, job=job.id)
            case Status.FAILED:
                raise refusal_of(job.problem or {})
            case Status.CANCELLED:
                hint = f"what was found until then is at /v1/jobs/{job.id}"
                raise RefusalError(HTTPStatus.CONFLICT, "the job was cancelled", hint=hint)
        return PendingJob(job)

    def _wait_seconds(self, preferences: Preferences) -> float:
        wished = preferences.wait_seconds
        most = self.settings.limits.wait_seconds
        return min(self.settings.wait_seconds if wished is None else wished, most)

    async def _beside(
        self, caller: Caller, size_bytes: int, call: Callable[..., T], *given: object
    ) -> T:
        """Do large work in a thread and small work at once: a thread would cost more than that."""
        if size_bytes > _LARGE_BYTES:
            return await self._readers.do(caller.team, call, *given)
        return call(*given)


def _pause_seconds(job: StoredJob) -> float:
    return CANCELLING_POLL_SECONDS if job.status is Status.CANCELLING else POLL_SECONDS


def refusal_of(problem: dict[str, Any]) -> RefusalError:
    """The refusal for a question whose job failed, from the problem that the job kept."""
    return RefusalError(
        HTTPStatus(problem.get("status", HTTPStatus.INTERNAL_SERVER_ERROR)),
        str(problem.get("problem", "the job failed")),
        where=str(problem.get("where", "")),
        hint=str(problem.get("hint", "")),
    )
