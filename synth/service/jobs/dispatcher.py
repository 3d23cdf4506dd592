"""The dispatcher: claims queued jobs, starts a runner for each, and renews their leases.

One thread claims a job whenever a slot is free. It also writes the progress of running jobs to the
store, renews their leases, requeues the jobs of dead servers, and deletes old jobs and answers. It
continues through failures of the store, during which it reports that this server is not ready.
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
"""Time without a step after which the dispatcher counts as hung. No step or pause is as long."""
_TOO_MANY = 2
"""A team that runs this many jobs more than another has more than a fair share."""
TRIAL_SECONDS = 2.0
"""How long a job may run on the trial worker while all slots are busy."""
log = logging.getLogger("collsynth.service")


class Dispatcher:
    """Carries out the jobs of a store with the workers of one server, in a thread of its own.

    While all slots are busy, an untried job gets ``TRIAL_SECONDS`` on a reserved worker, ``trial``.
    If it does not end in that time, it is queued again as tried. Long jobs therefore do not delay
    quick ones, and a long job loses at most that time. If a team holds at least ``_TOO_MANY`` slots
    more than another team that waits for a slot, its youngest job is queued again. ``notify`` is
    called with the id of each job that changed, and whether it has ended.
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
        self._to_check: set[str] = set()
        self._to_give_back: list[JobClaim] = []
        self._wakeup = threading.Event()
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
        """Requeue the jobs that a dead server of this name had running, and start the thread.

        Raises StoreError if the store cannot be used.
        """
        requeued = self._store.claims.requeue(self._settings.name)
        if requeued:
            log.info("jobs queued again", extra={"logged": {"jobs": requeued}})
        self._thread.start()

    def wake(self) -> None:
        """Check the queue now, because a job was added."""
        self._wakeup.set()

    def look(self, job_id: str) -> None:
        """Check this job now, because it was changed and may be running here."""
        with self._lock:
            self._to_check.add(job_id)
        self._wakeup.set()

    @property
    def under_way(self) -> int:
        """How many jobs are running."""
        with self._lock:
            return len(self._runners)

    @property
    def lives(self) -> bool:
        """Whether the thread makes progress. If not, only a restart helps."""
        return self._thread.is_alive() and time.monotonic() - self._stepped < _HANGS_SECONDS

    def unready(self) -> str | None:
        """Return why this server does no work at the moment, or None if it does."""
        if self._stopping.is_set() or not self.lives:
            return "the dispatcher is not running"
        if self._failures:
            return self._trouble
        if self._no_workers_until or self._workers.slots < 1:
            return "there are no workers"
        return None

    def drain(self, within_seconds: float) -> bool:
        """Claim no more jobs, wait for running ones, and return whether all ended in time."""
        self._stopping.set()
        self._wakeup.set()
        end = time.monotonic() + within_seconds
        while self.under_way and time.monotonic() < end:
            time.sleep(0.05)
        return not self.under_way

    def stop(self, grace_seconds: float) -> None:
        """Wait for running jobs, requeue those that exceed the grace period, and end."""
        end = time.monotonic() + grace_seconds + 2 * _POLL_SECONDS
        drained = self.drain(grace_seconds)
        while not drained and time.monotonic() < end:
            for (
                runner
            ) in self._running():  # a job claimed at this moment is abandoned in the next round
                runner.abandon()
            drained = self.drain(_SHORTEST_PAUSE_SECONDS)
        if self._thread.ident is not None:
            self._thread.join(_LONGEST_PAUSE_SECONDS)

    def _running(self) -> list[Runner]:
        with self._lock:
            return list(self._runners.values())

    def _run(self) -> None:
        while not self._stopping.is_set() or self.under_way or self._to_give_back:
            pause = self._step()
            self._stepped = time.monotonic()
            if self._wakeup.wait(pause):
                self._wakeup.clear()

    def _step(self) -> float:
        """Do everything that is due; return the seconds until the next step."""
        try:
            self._give_back()
            self._check_runners()
            self._keep_leases()
            # Before a claim: the claim puts the teams that have used up their work of a day last.
            self._count_work()
            self._claim_all()
            self._make_room()
            self._delete_old()
        except StoreError as error:
            log.error("the store failed: %s", error)
            self._metrics.store_errors.inc()
            return self._note_failure(error.public_message)
        except Exception:
            log.exception("the dispatcher failed, and continues")
            return self._note_failure("the dispatcher fails")
        self._failures = 0
        self._metrics.slots.set(self._workers.slots)
        return NOTE_SECONDS if self.under_way else _POLL_SECONDS

    def _note_failure(self, trouble: str) -> float:
        self._failures += 1
        self._trouble = trouble
        doubled = min(self._failures, _MOST_DOUBLINGS)
        return float(min(_SHORTEST_PAUSE_SECONDS * 2**doubled, _LONGEST_PAUSE_SECONDS))

    def _give_back(self) -> None:
        """Requeue jobs for which there were no workers."""
        while self._to_give_back:
            self._store.claims.give_back(self._to_give_back[0])
            self._notify(self._to_give_back.pop(0).job.id, False)

    def _claim_all(self) -> None:
        """Claim jobs until no slot is free or no job waits."""
        if self._no_workers_until > time.monotonic():
            return
        self._no_workers_until = 0.0
        while not self._stopping.is_set() and self._claim_one():
            pass

    def _claim_one(self) -> bool:
        """Claim a job for a free slot or for the trial worker; False if none was claimed.

        While all slots are busy, untried jobs go to the trial worker and tried ones wait.
        """
        tried = sum(runner.trial_seconds is not None for runner in self._running())
        room = self.under_way - tried < self._workers.slots
        if room and (self._trial is None or self._workers.idle > 0):
            return self._claim_for(None, self._workers)
        if (
            self._trial is not None
            and not tried
            and self._claim_for(False, self._trial, TRIAL_SECONDS)
        ):
            return True
        return room and self._claim_for(True, self._workers)

    def _claim_for(
        self, tried: bool | None, workers: Workers, trial_seconds: float | None = None
    ) -> bool:
        """Claim the next job and start it; False if there is none."""
        name, lease_seconds = self._settings.name, self._settings.lease_seconds
        claim = self._store.claims.claim(name, lease_seconds, tried, self._overworked)
        if claim is None:
            return False
        limits = self._settings.limits
        self._begin(Runner(claim, self._store, workers, limits, self._ended, trial_seconds))
        return True

    def _make_room(self) -> None:
        """If a team has too many slots while another waits, requeue its youngest job.

        At most one job is requeued at a time.
        """
        runners = [runner for runner in self._running() if runner.trial_seconds is None]
        slots_of_team = Counter(runner.claim.job.team for runner in runners)
        if len(runners) < self._workers.slots or max(slots_of_team.values(), default=0) < _TOO_MANY:
            return
        if any(runner.tried for runner in runners):
            return
        waiting = self._store.claims.waiting()
        fewest = min(
            (n for team, n in waiting.items() if team not in self._overworked), default=inf
        )
        youngest = sorted(runners, key=lambda runner: runner.begun, reverse=True)
        for runner in youngest:
            excess = slots_of_team[runner.claim.job.team] - fewest
            if excess >= _TOO_MANY and VERBS[runner.verb].repeatable and not runner.cancelled:
                runner.give_way()
                return

    def _count_work(self) -> None:
        """Update the teams that have used up their daily work: their jobs come last."""
        if self._settings.keys and time.monotonic() >= self._next_count:
            most_seconds = self._settings.limits.work_seconds_per_day
            day = datetime.now(UTC) - timedelta(days=1)
            self._overworked = self._store.jobs.overworked(day, most_seconds)
            self._next_count = time.monotonic() + _COUNT_SECONDS

    def _begin(self, runner: Runner) -> None:
        claim = runner.claim
        with self._lock:
            self._runners[claim.token] = runner
            self._metrics.running.set(len(self._runners))
        self._notify(claim.job.id, False)
        try:
            threading.Thread(target=runner.run, name="collsynth-runner", daemon=True).start()
        except RuntimeError:  # no thread can be started: the job waits
            self._ended(runner, None)
            self._store.claims.give_back(claim)
            raise

    def _ended(self, runner: Runner, status: str | None) -> None:
        with self._lock:
            self._runners.pop(runner.claim.token, None)
            self._metrics.running.set(len(self._runners))
        self._metrics.pieces.labels(runner.verb).inc(runner.pieces)
        if runner.no_workers and not runner.lost:
            self._no_workers_until = time.monotonic() + _LONGEST_PAUSE_SECONDS
            self._to_give_back.append(runner.claim)
        if status is not None:
            seconds = time.monotonic() - runner.begun
            self._metrics.ended(runner.verb, status, seconds, by_bug=runner.by_bug)
            logged = {"job": runner.claim.job.id, "verb": runner.verb, "status": status}
            log.info("job ended", extra={"logged": {**logged, "seconds": round(seconds, 4)}})
        self._notify(runner.claim.job.id, status is not None)
        self._wakeup.set()

    def _check_runners(self) -> None:
        """Write the progress of jobs to the store, and stop those cancelled or lost."""
        with self._lock:
            job_ids, self._to_check = self._to_check, set()
        due = time.monotonic() >= self._next_note
        if due:
            self._next_note = time.monotonic() + NOTE_SECONDS
        for runner in self._running():
            if due or runner.claim.job.id in job_ids:
                self._check_runner(runner)

    def _check_runner(self, runner: Runner) -> None:
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
                self._wakeup.set()
            self._next_requeue = now + self._settings.lease_seconds / 2

    def _delete_old(self) -> None:
        """Delete a batch of jobs and answers that are too old or too large for their team.

        After a full batch more are probably left, so the next batch follows soon.
        """
        keep_seconds = self._settings.keep_seconds
        if time.monotonic() < self._next_forgetting:
            return
        most_bytes = self._settings.limits.kept_bytes_per_team
        deleted = self._store.forget_beyond(most_bytes, _MOST_FORGOTTEN)
        if keep_seconds is not None:
            deleted += self._store.forget(keep_seconds, _MOST_FORGOTTEN)
        more = max(deleted.jobs, deleted.answers) >= _MOST_FORGOTTEN
        self._next_forgetting = time.monotonic() + (_POLL_SECONDS if more else _FORGET_SECONDS)
        for what, count in asdict(deleted).items():
            self._metrics.forgotten.labels(what).inc(count)
        if deleted.jobs or deleted.answers:
            log.info("forgotten", extra={"logged": asdict(deleted)})
