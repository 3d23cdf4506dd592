"""The dispatcher: takes jobs from the store to the crew, and sees to it that none is lost.

One thread claims a job whenever there is room for one more, writes down how far the running ones
are, holds their leases, takes back those of servers that are no more, and forgets what is old. It
goes on through failures of the store, and says meanwhile that this server is not ready.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import asdict

from synth.service.jobs.runner import Drive
from synth.service.metrics import Metrics
from synth.service.settings import Settings
from synth.service.store import Claim, Status, Store, StoreError
from synth.service.workers import Crew

_POLL_SECONDS = 1.0
_NOTE_SECONDS = 0.5
_SHORTEST_PAUSE_SECONDS = 0.2
_LONGEST_PAUSE_SECONDS = 10.0
_MOST_DOUBLINGS = 8
_FORGET_SECONDS = 300.0
_MOST_FORGOTTEN = 500
_JOBS_A_SLOT = 2
"""So many jobs are under way for every slot: the quick ones pass between pieces of the long."""
log = logging.getLogger("collsynth.service")


class Dispatcher:
    """``ring`` is called with a job's id, and whether it ended, when something happened to it."""

    def __init__(
        self,
        store: Store,
        crew: Crew,
        settings: Settings,
        metrics: Metrics,
        ring: Callable[[str, bool], None] = lambda job_id, ended: None,
    ) -> None:
        self._store = store
        self._crew = crew
        self._settings = settings
        self._metrics = metrics
        self._ring = ring
        self._lock = threading.Lock()
        self._drives: dict[str, Drive] = {}
        self._looks: set[str] = set()
        self._unwanted: list[Claim] = []
        self._something = threading.Event()
        self._stopping = threading.Event()
        self._failures = 0
        self._trouble = ""
        self._crew_lost_until = 0.0
        self._thread = threading.Thread(target=self._run, name="collsynth-dispatcher", daemon=True)
        self._next_note = self._next_renewal = self._next_requeue = self._next_forgetting = 0.0

    def start(self) -> None:
        """Queue again what a server of this name had under way, and begin.

        Raises StoreError where the store cannot be used.
        """
        again = self._store.requeue(self._settings.name)
        if again:
            log.info("jobs queued again", extra={"told": {"jobs": again}})
        self._thread.start()

    def wake(self) -> None:
        """A job was queued."""
        self._something.set()

    def look(self, job_id: str) -> None:
        """Somebody changed a job that may be under way here."""
        with self._lock:
            self._looks.add(job_id)
        self._something.set()

    @property
    def under_way(self) -> int:
        """How many jobs are."""
        with self._lock:
            return len(self._drives)

    def unready(self) -> str | None:
        """Why this server does no work at the moment; None if it does."""
        if self._stopping.is_set() or not self._thread.is_alive():
            return "the dispatcher does not run"
        if self._failures:
            return self._trouble
        if self._crew_lost_until or self._crew.slots < 1:
            return "there are no workers"
        return None

    def drain(self, within_seconds: float) -> bool:
        """Claim nothing more, and wait for what is under way; whether all of it ended in time."""
        self._stopping.set()
        self._something.set()
        end = time.monotonic() + within_seconds
        while self.under_way and time.monotonic() < end:
            time.sleep(0.05)
        return not self.under_way

    def stop(self, grace_seconds: float) -> None:
        """Let what is under way end, give back what does not, and end."""
        if not self.drain(grace_seconds):
            for drive in self._all():
                drive.abandon()
            self.drain(2 * _POLL_SECONDS)
        if self._thread.ident is not None:
            self._thread.join(_LONGEST_PAUSE_SECONDS)

    def _all(self) -> list[Drive]:
        with self._lock:
            return list(self._drives.values())

    def _run(self) -> None:
        while not self._stopping.is_set() or self.under_way or self._unwanted:
            pause = self._step()
            if self._something.wait(pause):
                self._something.clear()

    def _step(self) -> float:
        """Whatever is to be done now; in how many seconds to look again."""
        try:
            self._give_back()
            self._look_after()
            self._keep_leases()
            self._claim_all()
            self._forget()
        except StoreError as error:
            log.error("the store failed: %s", error)
            self._metrics.store_failed()
            return self._failed("the store does not answer")
        except Exception:
            log.exception("the dispatcher failed, and goes on")
            return self._failed("the dispatcher fails")
        self._failures = 0
        self._metrics.slots.set(self._crew.slots)
        return _NOTE_SECONDS if self.under_way else _POLL_SECONDS

    def _failed(self, trouble: str) -> float:
        self._failures += 1
        self._trouble = trouble
        doubled = min(self._failures, _MOST_DOUBLINGS)
        return float(min(_SHORTEST_PAUSE_SECONDS * 2**doubled, _LONGEST_PAUSE_SECONDS))

    def _give_back(self) -> None:
        """Put back in the queue what the crew could not take."""
        while self._unwanted:
            self._store.give_back(self._unwanted[0])
            self._ring(self._unwanted.pop(0).job.id, False)

    def _claim_all(self) -> None:
        """Claim as many jobs as there is room for."""
        if self._crew_lost_until > time.monotonic():
            return
        self._crew_lost_until = 0.0
        while self.under_way < _JOBS_A_SLOT * self._crew.slots and not self._stopping.is_set():
            claim = self._store.claim(self._settings.name, self._settings.lease_seconds)
            if claim is None:
                return
            self._begin(claim)

    def _begin(self, claim: Claim) -> None:
        drive = Drive(claim, self._store, self._crew, self._settings.limits, self._ended)
        with self._lock:
            self._drives[claim.token] = drive
            self._metrics.running.set(len(self._drives))
        self._ring(claim.job.id, False)
        try:
            threading.Thread(target=drive.run, name="collsynth-drive", daemon=True).start()
        except RuntimeError:  # no thread is left: the job waits until there is one
            self._ended(drive, None)
            self._store.give_back(claim)
            raise

    def _ended(self, drive: Drive, status: str | None) -> None:
        with self._lock:
            self._drives.pop(drive.claim.token, None)
            self._metrics.running.set(len(self._drives))
        if drive.crew_lost and not drive.lost:
            self._crew_lost_until = time.monotonic() + _LONGEST_PAUSE_SECONDS
            self._unwanted.append(drive.claim)
        if status is not None:
            seconds = time.monotonic() - drive.begun
            self._metrics.ended(drive.verb, status, seconds)
            told = {"job": drive.claim.job.id, "verb": drive.verb, "status": status}
            log.info("job ended", extra={"told": {**told, "seconds": round(seconds, 4)}})
        self._ring(drive.claim.job.id, status is not None)
        self._something.set()

    def _look_after(self) -> None:
        """Write down progress, and see which jobs were cancelled or lost."""
        with self._lock:
            looks, self._looks = self._looks, set()
        due = time.monotonic() >= self._next_note
        if due:
            self._next_note = time.monotonic() + _NOTE_SECONDS
        for drive in self._all():
            if due or drive.claim.job.id in looks:
                self._look_at(drive)

    def _look_at(self, drive: Drive) -> None:
        told = drive.told()
        if told is not None:
            progress = {"stage": told.stage, "done": told.done, "of": told.of}
            noted = self._store.note(drive.claim, progress, told.best)
            cancelled, lost = not noted.going_on, noted.lost
            self._ring(drive.claim.job.id, False)
        else:
            job = self._store.job(drive.claim.job.id)
            cancelled = job is not None and job.status is Status.CANCELLING
            lost = job is None or job.attempts != drive.claim.job.attempts
        if lost:
            drive.lose()
        elif cancelled and not drive.cancelled:
            drive.cancel()

    def _keep_leases(self) -> None:
        now = time.monotonic()
        if now >= self._next_renewal:
            self._store.renew(self._settings.name, self._settings.lease_seconds)
            self._next_renewal = now + self._settings.lease_seconds / 3
        if now >= self._next_requeue:
            if self._store.requeue_expired():
                self._something.set()
            self._next_requeue = now + self._settings.lease_seconds / 2

    def _forget(self) -> None:
        """Forget a batch of what is old; the next one soon where there is more."""
        keep_seconds = self._settings.keep_seconds
        if keep_seconds is None or time.monotonic() < self._next_forgetting:
            return
        gone = self._store.forget(keep_seconds, _MOST_FORGOTTEN)
        more = max(gone.jobs, gone.answers) == _MOST_FORGOTTEN
        self._next_forgetting = time.monotonic() + (_POLL_SECONDS if more else _FORGET_SECONDS)
        self._metrics.forgot(gone.jobs, gone.answers)
        if gone.jobs or gone.answers:
            log.info("forgotten", extra={"told": asdict(gone)})
