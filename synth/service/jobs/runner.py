"""One claimed job on its way through the crew, and what is written of its end."""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, TypeAlias
from uuid import uuid4

from hierarchies import InputError
from synth.service.errors import clipped
from synth.service.jobs.questions import Put, put_of
from synth.service.limits import Limits
from synth.service.store import Claim, Store, StoredAnswer, StoreError
from synth.service.workers import (
    Crew,
    CrewLostError,
    Errand,
    InternalError,
    KilledError,
    OutOfMemoryError,
    OverTimeError,
    Progress,
    WorkerLostError,
)
from synth.verbs.reply import Outcome, Reply
from synth.verbs.table import VERBS

_LONGEST_PAUSE_SECONDS = 5.0
log = logging.getLogger("collsynth.service")
End: TypeAlias = StoredAnswer | bytes | dict[str, Any] | None
"""A complete answer, a partial one, a problem; None: what was noted last is all there is."""


@dataclass
class Drive:
    """A claimed job; ``run`` carries it out in a thread of its own and writes down how it ended.

    ``ended`` is called at the very end with the job's status, or None where nothing was written.
    Where the crew is lost, the dispatcher gives the job back: nothing may be claimed before that.
    It reads ``told``, what is new of the progress, and says ``cancel``, ``abandon`` (it
    goes back to the queue) or ``lose`` (somebody else has it now).
    """

    claim: Claim
    store: Store
    crew: Crew
    limits: Limits
    ended: Callable[[Drive, str | None], None]
    begun: float = field(default_factory=time.monotonic)
    cancelled: bool = False
    abandoned: bool = False
    lost: bool = False
    crew_lost: bool = False
    _errand: Errand | None = None
    _told: Progress | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def verb(self) -> str:
        """What is asked."""
        return self.claim.job.verb

    def told(self) -> Progress | None:
        """The latest progress, if it was not asked for before."""
        with self._lock:
            told, self._told = self._told, None
        return told

    def cancel(self) -> None:
        """Come to an end with what there is."""
        with self._lock:
            self.cancelled = True
            errand = self._errand
        if errand:
            errand.stop()

    def abandon(self) -> None:
        """Stop at once; the job goes back to the queue."""
        with self._lock:
            self.abandoned = True
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

    def _broken(self) -> str | None:
        """A mistake of ours between the job and its answer: the job fails, and the log says why."""
        mark = uuid4().hex[:12]
        log.exception("internal error %s", mark, extra=self._named())
        told = problem(
            HTTPStatus.INTERNAL_SERVER_ERROR,
            f"internal error {mark}",
            hint="the log of the server says more under this id",
        )
        with suppress(StoreError):
            return "failed" if self._written(lambda: self.store.fail(self.claim, told)) else None
        return None

    def _kill(self) -> None:
        if self._errand:
            self._errand.kill()

    def _outcome(self) -> str | None:
        """How the job ended, written down; None where it did not, or not by us."""
        try:
            end = self._end()
        except WorkerLostError as error:
            log.warning("a job lost its worker: %s", error, extra=self._named())
            self._written(lambda: self.store.lose(self.claim))
            return None
        except (KilledError, CrewLostError) as error:
            if self.cancelled and not self.abandoned:
                return "cancelled" if self._finished(None) else None
            self.crew_lost = isinstance(error, CrewLostError)
            if not self.lost and not self.crew_lost:
                self._written(lambda: self.store.give_back(self.claim))
            return None
        if isinstance(end, dict):
            return "failed" if self._written(lambda: self.store.fail(self.claim, end)) else None
        if self.abandoned and not isinstance(end, StoredAnswer):
            self._written(lambda: self.store.give_back(self.claim))
            return None
        if not self._finished(end):
            return None
        if isinstance(end, StoredAnswer):
            return "done"
        return "cancelled" if self.cancelled else "partial"

    def _end(self) -> End:
        """What comes of the question. Raises those WorkErrors after which it may be tried again."""
        begun = time.monotonic()
        try:
            put = put_of(self.verb, json.loads(self.claim.job.question)["question"])
            known = self.store.answer(put.key) if VERBS[self.verb].repeatable else None
            if known is not None:
                return known
            reply = self._carried(put)
        except StoreError:
            raise
        except InputError as error:
            return problem(HTTPStatus.UNPROCESSABLE_ENTITY, error.problem, error.where, error.hint)
        except (OverTimeError, OutOfMemoryError) as error:
            if self.cancelled:
                return None
            return problem(HTTPStatus.UNPROCESSABLE_ENTITY, error.problem, hint=error.hint)
        except InternalError as error:
            return problem(HTTPStatus.INTERNAL_SERVER_ERROR, error.problem, hint=error.hint)
        return self._ending(put, reply, time.monotonic() - begun)

    def _carried(self, put: Put) -> Reply:
        errand = Errand(
            self.crew,
            put.verb,
            put.question,
            budget_seconds=self._budget_seconds(),
            memory_bytes=self.limits.job_memory_bytes,
            tell=self._tell,
        )
        with self._lock:
            self._errand = errand
            cancelled, gone = self.cancelled, self.abandoned or self.lost
        if cancelled:
            errand.stop()
        if gone:
            errand.kill()
        return errand.run()

    def _ending(self, put: Put, reply: Reply, seconds: float) -> StoredAnswer | bytes:
        answer = put.answered(reply, seconds)
        return answer.body if reply.outcome is Outcome.PARTIAL else answer

    def _budget_seconds(self) -> float:
        wished = self.claim.job.budget_seconds
        return min(self.limits.job_seconds, wished or self.limits.job_seconds)

    def _tell(self, progress: Progress) -> None:
        with self._lock:
            if progress.best is None and self._told is not None and self._told.best is not None:
                best = self._told.best
                progress = Progress(progress.stage, progress.done, progress.of, best)
            self._told = progress

    def _finished(self, end: StoredAnswer | bytes | None) -> bool:
        return self._written(lambda: self.store.finish(self.claim, end))

    def _written(self, write: Callable[[], bool]) -> bool:
        """Write, and if the store fails try again, as nobody else would until this server ends."""
        pause = 0.1
        while True:
            try:
                return write()
            except StoreError:
                if self.abandoned:
                    raise
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)

    def _named(self) -> dict[str, Any]:
        return {"told": {"job": self.claim.job.id, "verb": self.verb}}


def problem(status: HTTPStatus, told: str, where: str = "", hint: str = "") -> dict[str, Any]:
    """What a job failed of, as it is kept."""
    texts = {"problem": told, "where": where, "hint": hint}
    return {"status": int(status), **{key: clipped(text) for key, text in texts.items()}}
