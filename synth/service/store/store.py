"""The interface of the store: every method is one transaction, from any thread."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from datetime import datetime, timedelta
from threading import Lock
from typing import Any

from sqlalchemy import Connection, literal, select

from synth.service.store import answers, claims, engines, forgetting, jobs, keys, migrating, systems
from synth.service.store.records import (
    Claim,
    Forgotten,
    Job,
    Key,
    NewJob,
    NewKey,
    Noted,
    Seen,
    Status,
    StoredAnswer,
    StoredSystem,
    Submitted,
)


class Store:
    """What the service knows, in SQLite or PostgreSQL.

    Once a method has returned, what it wrote outlives the process. All methods raise StoreError
    where the database cannot be reached or used, and InputError for texts it cannot keep.
    ``now`` is the clock of transactions: unless given, that of the database.
    """

    def __init__(
        self, url: str, now: Callable[[Connection], datetime] = engines.database_now
    ) -> None:
        self._engine = engines.engine(url)
        self._writer = engines.for_writing(self._engine)
        self._now = now
        one_writer = self._engine.dialect.name == "sqlite"
        self._turn: Lock | nullcontext[None] = Lock() if one_writer else nullcontext()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def migrate(self) -> None:
        """Make the tables, or bring them up to date; several servers may do so at once.

        Raises StoreError for a database that a newer version made.
        """
        with self._writing() as connection:
            migrating.migrate(connection)

    def ping(self) -> None:
        """Do nothing, or raise StoreError where the store does not answer."""
        with self._reading() as connection:
            connection.execute(select(literal(1)))

    def close(self) -> None:
        """Close all connections."""
        self._engine.dispose()

    def create_key(
        self,
        team: str,
        name: str,
        rate_per_second: float | None = None,
        jobs_per_day: int | None = None,
    ) -> NewKey:
        """A new key of a team. None as a limit is no limit."""
        with self._writing() as connection:
            limits = (rate_per_second, jobs_per_day)
            return keys.create(connection, team, name, limits, self._now(connection))

    def key(self, id: str) -> Key | None:
        """The key of that id."""
        with self._reading() as connection:
            return keys.one(connection, id)

    def keys(self, team: str | None = None) -> list[Key]:
        """The keys of a team, or of all, oldest first, the revoked ones too."""
        with self._reading() as connection:
            return keys.known(connection, team)

    def revoke(self, id: str) -> bool:
        """Revoke a key, so that it is no longer admitted; False where there is none of that id."""
        with self._writing() as connection:
            return keys.revoke(connection, id)

    def jobs_since(self, key_id: str, when: datetime) -> int:
        """How many jobs came with a key since then."""
        with self._reading() as connection:
            return keys.jobs_since(connection, key_id, when)

    def put_system(self, team: str, name: str, text: str) -> StoredSystem:
        """Keep a system under a name; one of the team that had it is replaced."""
        with self._writing() as connection:
            system = StoredSystem(team, name, text, self._now(connection))
            systems.put(connection, system)
            return system

    def system(self, team: str, name: str) -> StoredSystem | None:
        """A team's system of that name."""
        with self._reading() as connection:
            return systems.one(connection, team, name)

    def systems(self, team: str) -> list[StoredSystem]:
        """A team's systems, by name."""
        with self._reading() as connection:
            return systems.known(connection, team)

    def delete_system(self, team: str, name: str) -> bool:
        """Delete a team's system; False where there was none."""
        with self._writing() as connection:
            return systems.remove(connection, team, name)

    def answer(self, key: str, team: str | None = None) -> StoredAnswer | None:
        """The answer under a key; given a team, only if that team has asked for it."""
        with self._reading() as connection:
            return answers.one(connection, key, team)

    @property
    def quick(self) -> bool:
        """Whether reading takes less than starting a thread: so it is from a file of our own."""
        return self._engine.dialect.name == "sqlite"

    def look(self, team: str, key: str, idempotency_key: str | None = None) -> Seen | None:
        """The answer under a key, and whether the team has asked for it before; None: not known.

        None, too, where the team has a job with that idempotency key: ``submit`` finds it.
        """
        with self._reading() as connection:
            return answers.look(connection, team, key, idempotency_key)

    def saw(self, team: str, key: str) -> None:
        """Note that a team has asked for an answer, if it is kept: then it may look at it."""
        with self._writing() as connection:
            engines.hold_answers(connection, alone=False)
            answers.saw(connection, team, key)

    def keep(self, answer: StoredAnswer) -> None:
        """Keep a complete answer, unless there is one under its key: the first stays."""
        with self._writing() as connection:
            engines.hold_answers(connection, alone=False)
            answers.keep(connection, answer)

    def submit(self, new: NewJob) -> Submitted:
        """Queue a job, or find the one with an idempotency key that the team has used before.

        Raises ConflictError where that key came with another question.
        """
        with self._writing() as connection:
            return jobs.submit(connection, new, self._now(connection))

    def job(self, id: str) -> Job | None:
        """The job of that id."""
        with self._reading() as connection:
            return jobs.one(connection, id)

    def revision(self, id: str) -> int | None:
        """The revision of a job: cheaper than the whole job, whose ``best`` may be long."""
        with self._reading() as connection:
            return jobs.revision(connection, id)

    def has_job(self, team: str, idempotency_key: str) -> bool:
        """Whether a job of the team came with that idempotency key."""
        with self._reading() as connection:
            return jobs.came_with(connection, team, idempotency_key)

    def jobs(
        self,
        team: str,
        limit: int,
        after: str | None = None,
        status: Status | None = None,
        verb: str | None = None,
    ) -> list[Job]:
        """A page of a team's jobs, newest first, without their ``best``.

        ``after`` is the id of the last job of the page before, so that jobs that come meanwhile
        do not shift the pages. Raises InputError where the team has no such job.
        """
        with self._reading() as connection:
            wanted = {"status": status, "verb": verb}
            return jobs.listed(connection, team, limit, after, wanted)

    def counts(self, team: str | None = None) -> dict[Status, int]:
        """The number of jobs by status, of a team or of all."""
        with self._reading() as connection:
            return jobs.counted(connection, team)

    def cancel(self, id: str) -> Job | None:
        """Cancel a job: a queued one ends at once, a running one is cancelling until it ends."""
        with self._writing() as connection:
            return jobs.cancel(connection, id, self._now(connection))

    def claim(self, owner: str, lease_seconds: float) -> Claim | None:
        """Claim the oldest queued job for an owner; None where there is none.

        No two claims get the same job. A job whose question is being worked on for another job is
        left waiting for that answer. A claim is lost unless it is renewed within the lease.
        """
        with self._writing() as connection:
            lease = timedelta(seconds=lease_seconds)
            return claims.claim(connection, owner, lease, self._now(connection))

    def renew(self, owner: str, lease_seconds: float) -> int:
        """Renew the leases of all jobs of an owner, from now on; how many jobs that is."""
        with self._writing() as connection:
            until = self._now(connection) + timedelta(seconds=lease_seconds)
            return claims.renew(connection, owner, until)

    def requeue(self, owner: str) -> int:
        """Queue the jobs of a dead owner again; how many these are.

        A job that was begun ``MOST_ATTEMPTS`` times fails; one being cancelled is cancelled.
        """
        with self._writing() as connection:
            lost = claims.owned(owner)
            return claims.requeue(connection, lost, self._now(connection))

    def requeue_expired(self) -> int:
        """Do the same with all jobs whose leases are over."""
        with self._writing() as connection:
            now = self._now(connection)
            return claims.requeue(connection, claims.expired(now), now, skip_locked=True)

    def lose(self, claim: Claim) -> bool:
        """Queue a job again whose worker died; False where it ended instead.

        It fails after ``MOST_LOSSES`` such deaths; one that was being cancelled is cancelled.
        """
        with self._writing() as connection:
            return claims.lose(connection, claim, self._now(connection))

    def note(self, claim: Claim, progress: dict[str, Any], best: bytes | None = None) -> Noted:
        """Keep a job's progress, and its best answer so far (None: as before)."""
        with self._writing() as connection:
            return claims.note(connection, claim, progress, best)

    def finish(self, claim: Claim, found: StoredAnswer | bytes | None) -> bool:
        """End a job; False where the claim was lost: then nothing is written.

        With a complete answer the job is done, even if it was being cancelled, and the answer is
        kept for all teams. With a partial body (None: the best noted before) it is cancelled if
        that was asked for, else partial, and the body stays with the job as its ``best``.
        """
        with self._writing() as connection:
            now = self._now(connection)
            if isinstance(found, StoredAnswer):
                engines.hold_answers(connection, alone=False)
                return claims.finish(connection, claim, found, now)
            return claims.finish_partly(connection, claim, found, now)

    def fail(self, claim: Claim, problem: dict[str, Any]) -> bool:
        """End a job with what went wrong; False where the claim was lost."""
        with self._writing() as connection:
            return claims.fail(connection, claim, problem, self._now(connection))

    def give_back(self, claim: Claim) -> bool:
        """Queue a job again without counting the attempt; False where the claim was lost."""
        with self._writing() as connection:
            return claims.give_back(connection, claim, self._now(connection))

    def forget(self, keep_seconds: float, most: int) -> Forgotten:
        """Delete jobs that ended, and answers that were made, longer ago than that.

        At most so many of each, the oldest first. A job that has not ended is never deleted, nor an
        answer while a job points to it. With an answer goes the note of which teams asked for it;
        the idempotency key of a deleted job is free again.
        """
        with self._writing() as connection:
            before = self._now(connection) - timedelta(seconds=keep_seconds)
            return forgetting.forget(connection, before, most)

    @contextmanager
    def _reading(self) -> Iterator[Connection]:
        with engines.as_store_errors(self._engine), self._engine.begin() as connection:
            yield connection

    @contextmanager
    def _writing(self) -> Iterator[Connection]:
        with self._turn, engines.as_store_errors(self._engine), self._writer.begin() as connection:
            yield connection
