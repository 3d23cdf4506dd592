"""The broker: takes questions from the API and the page, and returns answers or jobs.

A known answer comes from memory or the store. Any other question is first written to the store as
a job, so that no accepted question can be lost. If the job ends while the request still waits, the
response contains the answer, else the job.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from hashlib import sha256
from http import HTTPStatus
from typing import Any, TypeVar

from synth.ask.partition import NOTHING_YET
from synth.ask.reply import Outcome
from synth.ask.table import VERBS
from synth.service.auth.identity import Caller
from synth.service.auth.quotas import Quotas
from synth.service.errors import RefusalError, not_found, unavailable
from synth.service.jobs.baselines import TeamBaselines
from synth.service.jobs.dispatcher import Dispatcher
from synth.service.jobs.known import DeliveredAnswer, KnownAnswers
from synth.service.jobs.names import name_of
from synth.service.jobs.notifications import Notifications, wait_for_notification
from synth.service.jobs.questions import (
    PreparedQuestion,
    named_baselines,
    own_names,
    prepare,
    question_in,
    replace_baselines,
    replace_own_names,
    texts_of_systems,
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
"""Polling intervals for a job of another server, and for a job that is being cancelled."""
_CHECKED_SECONDS = 1.0
_LARGE_BYTES = 32 * 1024
_ENTRY_BYTES = 200
_MEMO_BYTES = 2**24


@dataclass(frozen=True)
class Preferences:
    """The caller's options for a question; None stands for the default.

    ``part``: the answer is for a part of a page, so lists omit its job.
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
    """An event of a job (``progress``, ``best`` or ``end``) with the job at that time.

    One revision of a job may cause several events; ``last`` marks the last of them.
    """

    kind: str
    job: StoredJob
    last: bool = True


class Broker:
    """Answers questions or queues them as jobs; gives access to jobs, answers and systems.

    All methods run on one event loop. The broker wakes the dispatcher of this process when a job is
    queued or cancelled.
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
        self.baselines = TeamBaselines(store, self._threads, self._readers, settings.limits)
        self.systems = TeamSystems(store, self._threads, self._readers, settings.limits)
        self._known = KnownAnswers(store, self._threads, settings, metrics)
        self._memo: LruCache[bytes, str] = LruCache(_MEMO_BYTES)
        self.draining = False
        self._store_checked_until = 0.0

    async def ask_json(
        self, caller: Caller, verb: str, raw: bytes, preferences: Preferences
    ) -> DeliveredAnswer | PendingJob:
        """Answer a question given as JSON, as ``ask`` does.

        A body seen before is recognised by its hash, without parsing. Also raises RefusalError if
        the body is not JSON.
        """
        memo = sha256(verb.encode() + b"\n" + raw).digest()
        key = self._memo.get(memo)
        if key is not None:
            known = await self._known.find(caller.team, key, preferences.idempotency_key)
            if known is not None:
                return known
        given = await self._run_sized(caller, len(raw), json_of, raw)
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
        """Answer a question if the answer is known or arrives in time, else return its job.

        Raises InputError if the question is invalid, and RefusalError if the caller exceeds a
        limit, the job failed or was cancelled, or the store is unavailable.
        """
        whole, size_bytes = await self.whole(caller, verb, given, size_bytes)
        prepared = await self._run_sized(caller, size_bytes, prepare, verb, whole)
        if VERBS[verb].repeatable:
            if memo is not None and whole is given:
                self._memo.put(memo, prepared.key, _ENTRY_BYTES)
            key, idempotency_key = prepared.key, preferences.idempotency_key
            known = await self._known.find(caller.team, key, idempotency_key)
            if known is not None:
                return known
        name = await self._readers.do(caller.team, self._check_question, prepared)
        job = await self._submit(caller, prepared, name, preferences)
        wait_seconds = self._wait_seconds(preferences)
        if not job.status.ended and wait_seconds > 0:
            job = await self._wait_for_end(job, wait_seconds)
        return await self._reply_of(job)

    async def whole(
        self, caller: Caller, verb: str, given: object, size_bytes: int = 0
    ) -> tuple[object, int]:
        """Return a question with the team's systems and baselines that it names, and its bytes.

        Raises InputError if its systems or it with its baselines are too long.
        """
        whole = replace_own_names(given, await self.systems.texts(caller, own_names(given)))
        self.settings.limits.check_description(*texts_of_systems(whole))
        named = named_baselines(verb, given)
        if named is None:
            return whole, size_bytes
        left_bytes = max(0, self.settings.limits.body_bytes - size_bytes)
        texts = await self.baselines.texts(caller, *named, left_bytes)
        return replace_baselines(whole, texts), size_bytes + sum(map(len, texts.values()))

    async def job(self, caller: Caller, job_id: str, *, whole: bool = False) -> StoredJob:
        """Return a job of the caller's team, with its question only if ``whole``.

        Raises RefusalError if the team has no such job.
        """
        read = self._store.jobs.one if whole else self._store.jobs.seen
        job = await self._threads.do(read, job_id)
        if job is None or (job.team != caller.team and not caller.admin):
            raise not_found("job")
        return job

    async def jobs(
        self,
        caller: Caller,
        limit: int,
        after: str | None = None,
        job_filter: JobFilter = ALL_JOBS,
        order: JobOrder = JobOrder.NEWEST,
    ) -> list[StoredJob]:
        """Return a page of the team's jobs, without ``best`` and without jobs for parts of pages.

        ``after`` is the id of the last job of the previous page. Raises InputError if the team has
        no such job.
        """
        listed = self._store.jobs.listed
        return await self._threads.do(listed, caller.team, limit, after, job_filter, order)

    async def cancel(self, caller: Caller, job_id: str) -> StoredJob:
        """Cancel a job unless it has ended, and return its new state."""
        await self.job(caller, job_id)
        job = await self._threads.do(self._store.jobs.cancel, job_id)
        if job is None:
            raise not_found("job")
        self._dispatcher.look(job_id)
        self._notifications.notify(job_id, job.status.ended)
        return job

    async def answer(self, caller: Caller, key: str) -> StoredAnswer:
        """Return an answer that the team has asked for. Raises RefusalError for other answers."""
        answer = await self._threads.do(self._store.answers.one, key, caller.team)
        if answer is None:
            raise not_found("answer")
        return answer

    async def events(self, caller: Caller, job_id: str, after: int = -1) -> AsyncIterator[JobEvent]:
        """Yield the events of a job after a revision, until the job or the service ends.

        Changes in quick succession may be merged into one event. Changes by this server are
        reported immediately; changes by another server of the same store within a second, by
        polling.
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
        """Raise RefusalError if the store does not answer or cannot be written.

        The result is reused for a second, so that frequent requests do not keep the disk busy.
        """
        if self._store_checked_until < time.monotonic():
            await self._threads.do(self._store.check_writing, self.settings.name)
            self._store_checked_until = time.monotonic() + _CHECKED_SECONDS
        self._threads.check_lately()

    async def run_in_turn(self, team: str, call: Callable[..., T], *arguments: object) -> T:
        """Run an expensive call in a thread, off the event loop, one at a time for each team."""
        return await self._readers.do(team, call, *arguments)

    def drain(self) -> None:
        """Begin to shut down: accept no more jobs and end all event streams."""
        self.draining = True
        self._notifications.notify_all()

    def close(self) -> None:
        """Wait for the threads and end them."""
        self._threads.close()
        self._readers.close()

    def _check_question(self, prepared: PreparedQuestion) -> str:
        """Return the name of a question's job.

        Raises InputError if the question exceeds a limit or cannot have an answer.
        """
        self.settings.limits.check(prepared.question)
        prepared.question.check_early()
        return name_of(prepared.verb, question_in(prepared.text))

    async def _submit(
        self, caller: Caller, prepared: PreparedQuestion, name: str, preferences: Preferences
    ) -> StoredJob:
        if self.draining:
            raise unavailable("the service is stopping")
        key = preferences.idempotency_key
        accepted_before = key is not None and await self._threads.do(
            self._store.jobs.came_with, caller.team, key
        )
        if (
            not accepted_before
        ):  # a retry must find its earlier job, even if the quota is now used up
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
            tried=not VERBS[
                prepared.verb
            ].repeatable,  # a measurement cannot be interrupted and resumed
            name=name,
        )
        created = False
        try:
            submitted = await self._threads.do(self._store.jobs.submit, new)
            created = submitted.created
        finally:
            if not (created or accepted_before):
                self._quotas.give_back(caller, len(prepared.text))
        self._metrics.questions.labels(prepared.verb, "not").inc()
        if created:
            self._dispatcher.wake()
        return submitted.job

    async def _wait_for_end(self, job: StoredJob, wait_seconds: float) -> StoredJob:
        """Wait until a job ends or the time is up, and return its state."""
        end = time.monotonic() + wait_seconds
        with self._notifications.subscribed(job.id, for_the_end=True) as notified:
            while True:
                current = await self._threads.do(self._store.jobs.seen, job.id)
                left_seconds = end - time.monotonic()
                if current is None or current.status.ended or left_seconds <= 0 or self.draining:
                    return current or job
                await wait_for_notification(notified, min(left_seconds, _pause_seconds(current)))

    async def _reply_of(self, job: StoredJob) -> DeliveredAnswer | PendingJob:
        match job.status:
            case Status.DONE:
                stored = await self._threads.do(self._store.answers.one, job.answer_key)
                if stored is None:  # answers outlive their jobs, so the job was deleted just now
                    raise unavailable("the job has just been deleted")
                if VERBS[job.verb].repeatable:
                    self._known.remember(stored)
                return DeliveredAnswer.of(stored, hit=False)
            case Status.PARTIAL:
                best = job.best or NOTHING_YET
                return DeliveredAnswer(job.verb, best, Outcome.PARTIAL, None, job=job.id)
            case Status.FAILED:
                raise refusal_of(job.problem or {})
            case Status.CANCELLED:
                hint = f"its partial answer is at /v1/jobs/{job.id}"
                raise RefusalError(HTTPStatus.CONFLICT, "the job was cancelled", hint=hint)
        return PendingJob(job)

    def _wait_seconds(self, preferences: Preferences) -> float:
        requested = preferences.wait_seconds
        longest = self.settings.limits.wait_seconds
        return min(self.settings.wait_seconds if requested is None else requested, longest)

    async def _run_sized(
        self, caller: Caller, size_bytes: int, call: Callable[..., T], *arguments: object
    ) -> T:
        """Run large work in a thread, and small work directly, which costs less than a thread."""
        if size_bytes > _LARGE_BYTES:
            return await self._readers.do(caller.team, call, *arguments)
        return call(*arguments)


def _pause_seconds(job: StoredJob) -> float:
    return CANCELLING_POLL_SECONDS if job.status is Status.CANCELLING else POLL_SECONDS


def refusal_of(problem: dict[str, Any]) -> RefusalError:
    """Return the refusal for a failed job from the problem stored with it."""
    return RefusalError(
        HTTPStatus(problem.get("status", HTTPStatus.INTERNAL_SERVER_ERROR)),
        str(problem.get("problem", "the job failed")),
        where=str(problem.get("where", "")),
        hint=str(problem.get("hint", "")),
    )
