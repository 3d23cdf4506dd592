"""The runner: carries out one claimed job on the workers and writes its outcome to the store."""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from typing import Any, TypeAlias
from uuid import uuid4

from hierarchies import InputError
from synth.ask.partition import NOTHING_YET
from synth.ask.reply import Reply
from synth.ask.table import VERBS
from synth.service.errors import clip_text
from synth.service.jobs.questions import PreparedQuestion, prepare, question_in
from synth.service.limits import Limits
from synth.service.store import JobClaim, Store, StoredAnswer, StoreError
from synth.service.workers import (
    InternalError,
    KilledError,
    NoWorkersError,
    OutOfMemoryError,
    OverTimeError,
    Progress,
    QuestionRun,
    WorkerLostError,
    WorkError,
    Workers,
)
from synth.show.terminal.headlines import headline

_LONGEST_PAUSE_SECONDS = 5.0
CANCEL_SECONDS = 1.0
"""How long cancelled work may continue before it is killed."""
log = logging.getLogger("collsynth.service")
End: TypeAlias = StoredAnswer | bytes | dict[str, Any] | None
"""A complete answer, the body of a partial answer, or a problem; None stands for the last ``best``.
"""


@dataclass
class Runner:
    """Carries out a claimed job; the dispatcher calls ``run`` in a thread of its own.

    The dispatcher reads ``new_progress`` and may call ``cancel``, ``abandon`` (requeue the job),
    ``give_way`` (requeue it as tried, which also happens after ``trial_seconds``) or ``lose``
    (another server has claimed the job). Finally ``ended`` is called with the job's status, or with
    None if no end was written. ``by_bug``: the job failed because of an internal error.
    ``no_workers``: there were no workers. In that case the dispatcher requeues the job itself, so
    that it does not claim another job before.
    """

    claim: JobClaim
    store: Store
    workers: Workers
    limits: Limits
    ended: Callable[[Runner, str | None], None]
    trial_seconds: float | None = None
    begun: float = field(default_factory=time.monotonic)
    tried: bool = False
    cancelled: bool = False
    abandoned: bool = False
    lost: bool = False
    no_workers: bool = False
    by_bug: bool = False
    _question_run: QuestionRun | None = None
    _latest: Progress | None = None
    _best: bytes | None = field(init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self._best = self.claim.job.best  # of an attempt before

    @property
    def verb(self) -> str:
        """The verb of the job's question."""
        return self.claim.job.verb

    @property
    def pieces(self) -> int:
        """How many pieces of the question have been computed."""
        return self._question_run.pieces if self._question_run else 0

    def new_progress(self) -> Progress | None:
        """Return progress that was not returned before, or None."""
        with self._lock:
            latest, self._latest = self._latest, None
        return latest

    def cancel(self) -> None:
        """End with the best answer so far. After ``CANCEL_SECONDS`` the work is killed."""
        with self._lock:
            self.cancelled = True
            question_run = self._question_run
        if question_run:
            question_run.stop()
            end = threading.Timer(CANCEL_SECONDS, question_run.kill)
            end.daemon = True
            end.start()

    def abandon(self) -> None:
        """Stop at once and requeue the job."""
        with self._lock:
            self.abandoned = True
        self._kill()

    def give_way(self) -> None:
        """Stop at once and requeue the job as tried: another job needs its slot."""
        with self._lock:
            self.tried = True
        self._kill()

    def lose(self) -> None:
        """Stop at once and write nothing."""
        with self._lock:
            self.lost = True
        self._kill()

    def run(self) -> None:
        """Carry out the job. Raises no exceptions."""
        status: str | None = None
        try:
            status = self._carry_out()
        except StoreError as error:
            log.error("a job's end could not be written: %s", error, extra=self._log_fields())
        except Exception:
            status = self._fail_by_bug()
        finally:
            self.ended(self, status)
            self._question_run = None  # breaks a reference cycle: it reports to this runner

    def _fail_by_bug(self) -> str | None:
        """Fail the job after an internal error, with an id for the traceback in the log."""
        error = InternalError(uuid4().hex[:12])
        log.exception("internal error %s", error.id, extra=self._log_fields())
        with suppress(StoreError):
            return self._fail(problem(error))
        return None

    def _fail(self, why: dict[str, Any]) -> str | None:
        self.by_bug = why["status"] == HTTPStatus.INTERNAL_SERVER_ERROR
        return "failed" if self._write_end(self.store.claims.fail, why) else None

    def _kill(self) -> None:
        question_run = self._question_run
        if question_run:
            question_run.kill()

    def _carry_out(self) -> str | None:
        """Carry out the job and write its end; return its status, or None if none was written."""
        try:
            end = self._end()
        except WorkerLostError as error:
            log.warning("a job lost its worker: %s", error, extra=self._log_fields())
            self._write_end(self.store.claims.lose)
            return None
        except (KilledError, NoWorkersError) as error:
            if self.cancelled and not self.abandoned:
                return "cancelled" if self._finish(None) else None
            self.no_workers = isinstance(error, NoWorkersError)
            if not self.lost and not self.no_workers:
                self._write_end(self.store.claims.give_back, self.tried)
            return None
        if isinstance(end, dict):
            return self._fail(end)
        if self.abandoned and not isinstance(end, StoredAnswer):
            self._write_end(self.store.claims.give_back)
            return None
        if not self._finish(end):
            return None
        if isinstance(end, StoredAnswer):
            return "done"
        return "cancelled" if self.cancelled else "partial"

    def _end(self) -> End:
        """Compute the question and return its end. Raises a WorkError if the job may be retried."""
        begun = time.monotonic()
        try:
            prepared = prepare(self.verb, question_in(self.claim.job.question))
            stored = self.store.answers.one(prepared.key) if VERBS[self.verb].repeatable else None
            if stored is not None:
                return stored
            reply = self._compute(prepared)
        except StoreError:
            raise
        except OverTimeError:  # the budget is spent, and the best answer so far remains
            return None
        except OutOfMemoryError as error:
            return None if self.cancelled else problem(error)
        except (InputError, InternalError) as error:
            return problem(error)
        answer = prepared.answered(reply, time.monotonic() - begun)
        return answer.body if VERBS[self.verb].cut_short(reply) else answer

    def _compute(self, prepared: PreparedQuestion) -> Reply:
        question_run = QuestionRun(
            self.workers,
            prepared.verb,
            prepared.question,
            budget_seconds=self._budget_seconds(),
            memory_bytes=self.limits.job_memory_bytes,
            on_progress=self._keep_progress,
        )
        with self._lock:
            self._question_run = question_run
            cancelled, stopped = self.cancelled, self.abandoned or self.lost or self.tried
        if cancelled or stopped:
            question_run.kill()
        if self.trial_seconds is None:
            return question_run.run()
        end = threading.Timer(self.trial_seconds, self.give_way)
        end.start()
        try:
            return question_run.run()
        finally:
            end.cancel()

    def _budget_seconds(self) -> float:
        requested = self.claim.job.budget_seconds
        return min(self.limits.job_seconds, requested or self.limits.job_seconds)

    def _keep_progress(self, progress: Progress) -> None:
        """Keep the latest progress. Without a best answer, it keeps that of an unread report."""
        with self._lock:
            self._best = progress.best or self._best
            if progress.best is None and self._latest is not None:
                progress = replace(progress, best=self._latest.best)
            self._latest = progress

    def _finish(self, end: StoredAnswer | bytes | None) -> bool:
        """Write an end; None stands for the best answer so far, which the store may lack."""
        end = self._best if end is None else end
        return self._write_end(self.store.claims.finish, end, self._headline(end))

    def _headline(self, end: StoredAnswer | bytes | None) -> str:
        """Return the headline of an answer; empty if another version's worker formatted it."""
        body = end.body if isinstance(end, StoredAnswer) else end or NOTHING_YET
        with suppress(ValueError, LookupError, TypeError, AttributeError):
            return headline(self.verb, json.loads(body))
        return ""

    def _write_end(self, write: Callable[..., bool], *end: object) -> bool:
        """Write an end to the store; retry while the store fails, until the job is abandoned.

        Giving up would lose the work: no other server claims a job whose lease is renewed.
        """
        pause = 0.1
        while True:
            try:
                return write(self.claim, *end)
            except StoreError:
                if self.abandoned:
                    raise
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)

    def _log_fields(self) -> dict[str, Any]:
        return {"logged": {"job": self.claim.job.id, "verb": self.verb}}


def problem(error: InputError | WorkError) -> dict[str, Any]:
    """Return the reason why a job failed, as JSON to store with the job."""
    by_bug = isinstance(error, InternalError)
    status = HTTPStatus.INTERNAL_SERVER_ERROR if by_bug else HTTPStatus.UNPROCESSABLE_ENTITY
    texts = {"problem": error.problem, "where": error.where, "hint": error.hint}
    return {"status": int(status), **{key: clip_text(text) for key, text in texts.items()}}
