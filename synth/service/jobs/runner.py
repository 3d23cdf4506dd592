"""The runner: carries one claimed job out by the workers, and writes its end into the store."""

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
"""How long work that was cancelled may go on before it is ended."""
log = logging.getLogger("collsynth.service")
End: TypeAlias = StoredAnswer | bytes | dict[str, Any] | None
"""A complete answer, a partial one's body, or a problem; None: only the last ``best`` is left."""


@dataclass
class Runner:
    """Carries a claimed job out; ``run`` does so in a thread of its own.

    The dispatcher reads ``new_progress`` and may call ``cancel``, ``abandon`` (the job goes back to
    the queue), ``give_way`` (it goes back as one that was tried, as it does by itself after
    ``trial_seconds``) or ``lose`` (another server has the job now). At the very end ``ended`` is
    called with the job's status, or with None where no end was written; ``by_bug``: it failed of a
    mistake of ours. Where there are no workers
    (``no_workers``), the dispatcher gives the job back itself, so that it claims nothing before.
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
        """How many pieces of the question have been carried out."""
        return self._question_run.pieces if self._question_run else 0

    def new_progress(self) -> Progress | None:
        """The latest progress, once: None until there is newer."""
        with self._lock:
            latest, self._latest = self._latest, None
        return latest

    def cancel(self) -> None:
        """End with what has been found so far: by itself, or soon by force."""
        with self._lock:
            self.cancelled = True
            question_run = self._question_run
        if question_run:
            question_run.stop()
            end = threading.Timer(CANCEL_SECONDS, question_run.kill)
            end.daemon = True
            end.start()

    def abandon(self) -> None:
        """Stop at once; the job goes back to the queue."""
        with self._lock:
            self.abandoned = True
        self._kill()

    def give_way(self) -> None:
        """Stop at once: it did not end quickly, or a place is another team's now."""
        with self._lock:
            self.tried = True
        self._kill()

    def lose(self) -> None:
        """Stop at once; nothing is to be written."""
        with self._lock:
            self.lost = True
        self._kill()

    def run(self) -> None:
        """Carry the job out. Raises nothing."""
        status: str | None = None
        try:
            status = self._outcome()
        except StoreError as error:
            log.error("a job's end could not be written: %s", error, extra=self._named())
        except Exception:
            status = self._broken()
        finally:
            self.ended(self, status)
            self._question_run = None  # which tells this runner of its progress: they are a circle

    def _broken(self) -> str | None:
        """End the job after a bug of ours: it fails with an id, and the log says why."""
        error = InternalError(uuid4().hex[:12])
        log.exception("internal error %s", error.id, extra=self._named())
        with suppress(StoreError):
            return self._failed(problem(error))
        return None

    def _failed(self, why: dict[str, Any]) -> str | None:
        self.by_bug = why["status"] == HTTPStatus.INTERNAL_SERVER_ERROR
        return "failed" if self._written(self.store.claims.fail, why) else None

    def _kill(self) -> None:
        question_run = self._question_run
        if question_run:
            question_run.kill()

    def _outcome(self) -> str | None:
        """Carry the job out and write its end; its status, or None where we wrote no end."""
        try:
            end = self._end()
        except WorkerLostError as error:
            log.warning("a job lost its worker: %s", error, extra=self._named())
            self._written(self.store.claims.lose)
            return None
        except (KilledError, NoWorkersError) as error:
            if self.cancelled and not self.abandoned:
                return "cancelled" if self._finished(None) else None
            self.no_workers = isinstance(error, NoWorkersError)
            if not self.lost and not self.no_workers:
                self._written(self.store.claims.give_back, self.tried)
            return None
        if isinstance(end, dict):
            return self._failed(end)
        if self.abandoned and not isinstance(end, StoredAnswer):
            self._written(self.store.claims.give_back)
            return None
        if not self._finished(end):
            return None
        if isinstance(end, StoredAnswer):
            return "done"
        return "cancelled" if self.cancelled else "partial"

    def _end(self) -> End:
        """How the question ends. Raises those WorkErrors after which the job may be tried again."""
        begun = time.monotonic()
        try:
            prepared = prepare(self.verb, question_in(self.claim.job.question))
            known = self.store.answers.one(prepared.key) if VERBS[self.verb].repeatable else None
            if known is not None:
                return known
            reply = self._carried_out(prepared)
        except StoreError:
            raise
        except OverTimeError:  # its budget has ended: what was found until then stays
            return None
        except OutOfMemoryError as error:
            return None if self.cancelled else problem(error)
        except (InputError, InternalError) as error:
            return problem(error)
        answer = prepared.answered(reply, time.monotonic() - begun)
        return answer.body if VERBS[self.verb].cut_short(reply) else answer

    def _carried_out(self, prepared: PreparedQuestion) -> Reply:
        question_run = QuestionRun(
            self.workers,
            prepared.verb,
            prepared.question,
            budget_seconds=self._budget_seconds(),
            memory_bytes=self.limits.job_memory_bytes,
            on_progress=self._progressed,
        )
        with self._lock:
            self._question_run = question_run
            cancelled, gone = self.cancelled, self.abandoned or self.lost or self.tried
        if cancelled:
            question_run.kill()
        if gone:
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
        wished = self.claim.job.budget_seconds
        return min(self.limits.job_seconds, wished or self.limits.job_seconds)

    def _progressed(self, progress: Progress) -> None:
        """Keep the latest progress; if it has no best, that of an earlier unread report."""
        with self._lock:
            self._best = progress.best or self._best
            if progress.best is None and self._latest is not None:
                progress = replace(progress, best=self._latest.best)
            self._latest = progress

    def _finished(self, end: StoredAnswer | bytes | None) -> bool:
        """Write an end; of work that was ended the best so far, if anybody has noted it or not."""
        end = self._best if end is None else end
        return self._written(self.store.claims.finish, end, self._headline(end))

    def _headline(self, end: StoredAnswer | bytes | None) -> str:
        """What it comes to; nothing of what workers of another version answered otherwise."""
        body = end.body if isinstance(end, StoredAnswer) else end or NOTHING_YET
        with suppress(ValueError, LookupError, TypeError, AttributeError):
            return headline(self.verb, json.loads(body))
        return ""

    def _written(self, write: Callable[..., bool], *end: object) -> bool:
        """Write an end to the store; while the store fails try again, until the job is abandoned.

        Giving up would lose work: while this server renews its leases no other takes the job.
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

    def _named(self) -> dict[str, Any]:
        return {"logged": {"job": self.claim.job.id, "verb": self.verb}}


def problem(error: InputError | WorkError) -> dict[str, Any]:
    """Why a job failed, as JSON that is kept with it."""
    ours = isinstance(error, InternalError)
    status = HTTPStatus.INTERNAL_SERVER_ERROR if ours else HTTPStatus.UNPROCESSABLE_ENTITY
    texts = {"problem": error.problem, "where": error.where, "hint": error.hint}
    return {"status": int(status), **{key: clip_text(text) for key, text in texts.items()}}
