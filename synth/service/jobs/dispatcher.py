"""The dispatcher: claims queued jobs, starts a runner for each, and keeps their leases.

One thread claims a job whenever there is room for one more. It also notes the progress of running
jobs in the store, renews their leases, queues again the jobs of servers that died, and deletes what
is old. It goes on through failures of the store, and says meanwhile that this server is not ready.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from math import inf

from synth.ask.table import VERBS
from synth.service.jobs.runner import Runner
from synth.service.metrics import Metrics
from synth.service.settings import Settings
from synth.service.store import JobClaim, Status, Store, StoreError
from synth.service.workers import Workers

_POLL_SECONDS = 1.0
NOTE_SECONDS = 0.5
_SHORTEST_PAUSE_SECONDS = 0.2
_LONGEST_PAUSE_SECONDS = 10.0
_MOST_DOUBLINGS = 8
_FORGET_SECONDS = 300.0
_MOST_FORGOTTEN = 500
_COUNT_SECONDS = 10.0
_HANGS_SECONDS = 60.0
"""So long no step takes, nor any pause between two: then the dispatcher waits for ever."""
_TOO_MANY = 2
"""So many jobs more than another team has are more than a fair share, whoever came first."""
TRIAL_SECONDS = 2.0
"""How long a job may take that is tried while all slots are busy."""
log = logging.getLogger("collsynth.service")


class Dispatcher:
    """Works on the jobs of a store with the workers of one server, in a thread of its own.

    Where all slots are busy, a job that may be a quick one is given ``TRIAL_SECONDS`` on a worker
    that is kept for that, ``trial``; one that does not end by then is queued again, as one that was
    tried. So nobody's long jobs keep a quick one waiting, and a long one loses that time at most.
    Where a team holds two slots, or more, beyond what another has under way that waits for one, the
    job that it began last gives way; what it has begun before goes on.
    ``notify`` is called with a job's id, and whether it has ended, when something happened to it.
    """

    def __init__(
        self,
        store: Store,
        workers: Workers,
        settings: Settings,
        metrics: Metrics,
        notify: Callable[[str, bool], None] = lambda job_id, ended: None,
        trial: Workers | None = None,
    ) -> None:
        self._trial = trial
        self._store = store
        self._workers = workers
        self._settings = settings
        self._metrics = metrics
        self._notify = notify
        self._lock = threading.Lock()
        self._runners: dict[str, Runner] = {}
        self._looks: set[str] = set()
        self._unwanted: list[JobClaim] = []
        self._something = threading.Event()
        self._stopping = threading.Event()
        self._failures = 0
        self._stepped = time.monotonic()
        self._trouble = ""
        self._no_workers_until = 0.0
        self._thread = threading.Thread(target=self._run, name="collsynth-dispatcher", daemon=True)
        self._next_note = self._next_renewal = self._next_requeue = self._next_forgetting = 0.0
        self._next_count = 0.0
        self._overworked: list[str] = []

    def start(self) -> None:
        """Queue again the jobs that a dead server of this name had under way, and begin.

        Raises StoreError where the store cannot be used.
        """
        again = self._store.claims.requeue(self._settings.name)
        if again:
            log.info("jobs queued again", extra={"logged": {"jobs": again}})
        self._thread.start()

    def wake(self) -> None:
        """Look at the queue now: a job was added."""
        self._something.set()

    def look(self, job_id: str) -> None:
        """Look at this job now: it was changed, and may be under way here."""
        with self._lock:
            self._looks.add(job_id)
        self._something.set()

    @property
    def under_way(self) -> int:
        """How many jobs are under way."""
        with self._lock:
            return len(self._runners)

    @property
    def lives(self) -> bool:
        """Whether it goes on, whatever it meets; where it does not, only a restart helps."""
        return self._thread.is_alive() and time.monotonic() - self._stepped < _HANGS_SECONDS

    def unready(self) -> str | None:
        """Why this server does no work at the moment; None if it works."""
        if self._stopping.is_set() or not self.lives:
            return "the dispatcher does not run"
        if self._failures:
            return self._trouble
        if self._no_workers_until or self._workers.slots < 1:
            return "there are no workers"
        return None

    def drain(self, within_seconds: float) -> bool:
        """Claim no more jobs, and wait for those under way; whether all of them ended in time."""
        self._stopping.set()
        self._something.set()
        end = time.monotonic() + within_seconds
        while self.under_way and time.monotonic() < end:
            time.sleep(0.05)
        return not self.under_way

    def stop(self, grace_seconds: float) -> None:
        """Wait for jobs under way; after the grace put the others back in the queue. Then end."""
        end = time.monotonic() + grace_seconds + 2 * _POLL_SECONDS
        drained = self.drain(grace_seconds)
        while not drained and time.monotonic() < end:
            for runner in self._all():  # one that is claimed at this moment is there the next time
                runner.abandon()
            drained = self.drain(_SHORTEST_PAUSE_SECONDS)
        if self._thread.ident is not None:
            self._thread.join(_LONGEST_PAUSE_SECONDS)

    def _all(self) -> list[Runner]:
        with self._lock:
            return list(self._runners.values())

    def _run(self) -> None:
        while not self._stopping.is_set() or self.under_way or self._unwanted:
            pause = self._step()
            self._stepped = time.monotonic()
            if self._something.wait(pause):
                self._something.clear()

    def _step(self) -> float:
        """Do all that is due now; in how many seconds to look again."""
        try:
            self._give_back()
            self._look_after()
            self._keep_leases()
            self._count_work()
            self._claim_all()
            self._make_room()
            self._forget()
        except StoreError as error:
            log.error("the store failed: %s", error)
            self._metrics.store_failed()
            return self._failed(error.told)
        except Exception:
            log.exception("the dispatcher failed, and goes on")
            return self._failed("the dispatcher fails")
        self._failures = 0
        self._metrics.slots.set(self._workers.slots)
        return NOTE_SECONDS if self.under_way else _POLL_SECONDS

    def _failed(self, trouble: str) -> float:
        self._failures += 1
        self._trouble = trouble
        doubled = min(self._failures, _MOST_DOUBLINGS)
        return float(min(_SHORTEST_PAUSE_SECONDS * 2**doubled, _LONGEST_PAUSE_SECONDS))

    def _give_back(self) -> None:
        """Put back in the queue the jobs that the workers could not take."""
        while self._unwanted:
            self._store.claims.give_back(self._unwanted[0])
            self._notify(self._unwanted.pop(0).job.id, False)

    def _claim_all(self) -> None:
        """Claim as many jobs as there is room for."""
        if self._no_workers_until > time.monotonic():
            return
        self._no_workers_until = 0.0
        while not self._stopping.is_set() and self._claimed():
            pass

    def _claimed(self) -> bool:
        """Claim a job for a place that is free; whether there was one for it.

        Where all slots are busy a job is tried, and one that was tried waits for a slot.
        """
        tried = sum(runner.trial_seconds is not None for runner in self._all())
        room = self.under_way - tried < self._workers.slots
        if room and (self._trial is None or self._workers.idle > 0):
            return self._begun(None, self._workers)
        if self._trial is not None and not tried and self._begun(False, self._trial, TRIAL_SECONDS):
            return True
        return room and self._begun(True, self._workers)

    def _begun(
        self, tried: bool | None, workers: Workers, trial_seconds: float | None = None
    ) -> bool:
        """Claim the job whose turn it is, and begin it; False where there is none."""
        name, lease_seconds = self._settings.name, self._settings.lease_seconds
        claim = self._store.claims.claim(name, lease_seconds, tried, self._overworked)
        if claim is None:
            return False
        limits = self._settings.limits
        self._begin(Runner(claim, self._store, workers, limits, self._ended, trial_seconds))
        return True

    def _make_room(self) -> None:
        """Where a team crowds out another, have its youngest job give way; one after the other."""
        runners = [one for one in self._all() if one.trial_seconds is None]
        held = Counter(one.claim.job.team for one in runners)
        if len(runners) < self._workers.slots or max(held.values(), default=0) < _TOO_MANY:
            return
        if any(one.tried for one in runners):
            return
        waiting = self._store.claims.waiting()
        fewest = min(
            (n for team, n in waiting.items() if team not in self._overworked), default=inf
        )
        youngest = sorted(runners, key=lambda one: one.begun, reverse=True)
        for one in youngest:
            apart = held[one.claim.job.team] - fewest
            if apart >= _TOO_MANY and VERBS[one.verb].repeatable and not one.cancelled:
                one.give_way()
                return

    def _count_work(self) -> None:
        """See now and then which teams have had their work of a day: theirs comes last."""
        if self._settings.keys and time.monotonic() >= self._next_count:
            most = self._settings.limits.work_seconds_per_day
            day = datetime.now(UTC) - timedelta(days=1)
            self._overworked = self._store.jobs.overworked(day, most)
            self._next_count = time.monotonic() + _COUNT_SECONDS

    def _begin(self, runner: Runner) -> None:
        claim = runner.claim
        with self._lock:
            self._runners[claim.token] = runner
            self._metrics.running.set(len(self._runners))
        self._notify(claim.job.id, False)
        try:
            threading.Thread(target=runner.run, name="collsynth-runner", daemon=True).start()
        except RuntimeError:  # no thread is left: the job waits until there is one
            self._ended(runner, None)
            self._store.claims.give_back(claim)
            raise

    def _ended(self, runner: Runner, status: str | None) -> None:
        with self._lock:
            self._runners.pop(runner.claim.token, None)
            self._metrics.running.set(len(self._runners))
        self._metrics.worked(runner.verb, runner.pieces)
        if runner.no_workers and not runner.lost:
            self._no_workers_until = time.monotonic() + _LONGEST_PAUSE_SECONDS
            self._unwanted.append(runner.claim)
        if status is not None:
            seconds = time.monotonic() - runner.begun
            self._metrics.ended(runner.verb, status, seconds, by_bug=runner.by_bug)
            logged = {"job": runner.claim.job.id, "verb": runner.verb, "status": status}
            log.info("job ended", extra={"logged": {**logged, "seconds": round(seconds, 4)}})
        self._notify(runner.claim.job.id, status is not None)
        self._something.set()

    def _look_after(self) -> None:
        """Note the progress of jobs in the store, and see which were cancelled or lost."""
        with self._lock:
            looks, self._looks = self._looks, set()
        due = time.monotonic() >= self._next_note
        if due:
            self._next_note = time.monotonic() + NOTE_SECONDS
        for runner in self._all():
            if due or runner.claim.job.id in looks:
                self._look_at(runner)

    def _look_at(self, runner: Runner) -> None:
        latest = runner.new_progress()
        if latest is not None:
            progress = {"stage": latest.stage, "done": latest.done, "of": latest.of}
            noted = self._store.claims.note(runner.claim, progress, latest.best)
            cancelled, lost = not noted.going_on, noted.lost
            self._notify(runner.claim.job.id, False)
        else:
            job = self._store.jobs.seen(runner.claim.job.id)
            cancelled = job is not None and job.status is Status.CANCELLING
            lost = job is None or job.attempts != runner.claim.job.attempts
        if lost:
            runner.lose()
        elif cancelled and not runner.cancelled:
            runner.cancel()

    def _keep_leases(self) -> None:
        now = time.monotonic()
        if now >= self._next_renewal:
            self._store.claims.renew(self._settings.name, self._settings.lease_seconds)
            self._next_renewal = now + self._settings.lease_seconds / 3
        if now >= self._next_requeue:
            if self._store.claims.requeue_expired():
                self._something.set()
            self._next_requeue = now + self._settings.lease_seconds / 2

    def _forget(self) -> None:
        """Delete a batch of jobs and answers, old or too many; the next one soon if needed."""
        keep_seconds = self._settings.keep_seconds
        if time.monotonic() < self._next_forgetting:
            return
        most_bytes = self._settings.limits.kept_bytes_per_team
        gone = self._store.forget_beyond(most_bytes, _MOST_FORGOTTEN)
        if keep_seconds is not None:
            gone += self._store.forget(keep_seconds, _MOST_FORGOTTEN)
        more = max(gone.jobs, gone.answers) >= _MOST_FORGOTTEN
        self._next_forgetting = time.monotonic() + (_POLL_SECONDS if more else _FORGET_SECONDS)
        self._metrics.forgot(gone.jobs, gone.answers)
        if gone.jobs or gone.answers:
            log.info("forgotten", extra={"logged": asdict(gone)})
