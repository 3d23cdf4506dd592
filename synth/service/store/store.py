"""The store: a database, and the kinds of records in it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

from sqlalchemy import BigInteger, Connection, delete, func, select, tuple_

from synth.service.store import migrating
from synth.service.store.answers import Answers
from synth.service.store.baselines import Baselines
from synth.service.store.claims import Claims
from synth.service.store.engines import Database, database_now, hold_answers, insert
from synth.service.store.jobs import Jobs
from synth.service.store.keys import Keys
from synth.service.store.records import DeletionCounts, Status
from synth.service.store.systems import Systems
from synth.service.store.tables import ANSWER, JOB, SEEN, SERVER

_ENDED_STATUSES = tuple(status for status in Status if status.ended)


class Store:
    """The state of the service, in SQLite or PostgreSQL.

    Once a method has returned, its writes survive the end of the process. All methods raise
    StoreError if the database cannot be reached or used, and InputError for texts that it cannot
    store. ``now`` is the clock of transactions, by default the database's.
    """

    def __init__(self, url: str, now: Callable[[Connection], datetime] = database_now) -> None:
        self._database = Database(url, now)
        self.answers = Answers(self._database)
        self.baselines = Baselines(self._database)
        self.claims = Claims(self._database)
        self.jobs = Jobs(self._database)
        self.keys = Keys(self._database)
        self.systems = Systems(self._database)

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    @property
    def quick(self) -> bool:
        """Whether reading is faster than starting a thread, as from a SQLite file."""
        return self._database.engine.dialect.name == "sqlite"

    def migrate(self) -> None:
        """Create or upgrade the tables; several servers may do so at once.

        Raises StoreError if a newer version, or one before 0.1.0, created the database.
        """
        with self._database.writing() as connection:
            migrating.migrate(connection)

    def check_writing(self, server: str) -> None:
        """Record that a server is live. Raises StoreError if that fails or the disk is full.

        SQLite overwrites pages of its log, so a small write succeeds even on a full disk. Therefore
        the free space is checked, too.
        """
        self._database.check_room()
        with self._database.writing() as connection:
            now = self._database.now(connection)
            row = insert(connection, SERVER).values(name=server, seen=now)
            connection.execute(
                row.on_conflict_do_update(index_elements=["name"], set_={"seen": now})
            )

    def close(self) -> None:
        """Close all connections."""
        self._database.engine.dispose()

    def forget(self, keep_seconds: float, limit: int) -> DeletionCounts:
        """Delete jobs that ended, and answers created, more than ``keep_seconds`` ago.

        At most ``limit`` of each are deleted, the oldest first. Unended jobs are never deleted, nor
        are answers while a job, ended or not, refers to them. Deleting an answer also deletes the
        record of the teams that asked for it. The idempotency key of a deleted job can be used
        again.
        """
        with self._database.writing() as connection:
            hold_answers(connection, alone=True)
            before = self._database.now(connection) - timedelta(seconds=keep_seconds)
            old = select(JOB.c.number).where(
                JOB.c.status.in_(_ENDED_STATUSES), JOB.c.finished < before
            )
            oldest = old.order_by(JOB.c.finished, JOB.c.number).limit(limit)
            jobs = connection.execute(delete(JOB).where(JOB.c.number.in_(oldest))).rowcount
            referenced = ANSWER.c.key.in_(
                select(JOB.c.answer_key)
            )  # uncorrelated, so the database evaluates it once, not for each answer
            old_answers = select(ANSWER.c.key).where(ANSWER.c.created < before, ~referenced)
            chosen = old_answers.order_by(ANSWER.c.created, ANSWER.c.key).limit(limit)
            keys = connection.execute(chosen).scalars().all()
            connection.execute(delete(SEEN).where(SEEN.c.key.in_(keys)))
            connection.execute(delete(ANSWER).where(ANSWER.c.key.in_(keys)))
            return DeletionCounts(jobs, len(keys))

    def forget_beyond(self, most_bytes: int, limit: int) -> DeletionCounts:
        """Delete the oldest jobs or answers of teams that have more than ``most_bytes`` of them.

        At most ``limit`` of each are deleted. The size of an answer includes its question. Deleting
        a team's answer deletes the record that the team asked for it. The answer itself is deleted
        only if no other team has asked for it and no job refers to it.
        """
        newest_jobs = (JOB.c.finished.desc(), JOB.c.number.desc())
        held_bytes = func.sum(JOB.c.size_bytes, type_=BigInteger)
        so_far = held_bytes.over(partition_by=JOB.c.team, order_by=newest_jobs)
        ended = select(JOB.c.number, so_far.label("bytes")).where(JOB.c.status.in_(_ENDED_STATUSES))
        jobs = ended.subquery()
        beyond = select(jobs.c.number).where(jobs.c.bytes > most_bytes)
        old_jobs = beyond.order_by(jobs.c.bytes.desc()).limit(limit)
        newest_answers = (ANSWER.c.created.desc(), ANSWER.c.key)
        answered_bytes = func.sum(ANSWER.c.size_bytes, type_=BigInteger)
        total = answered_bytes.over(partition_by=SEEN.c.team, order_by=newest_answers).label(
            "bytes"
        )
        answered = select(SEEN.c.team, SEEN.c.key, total).join(ANSWER, ANSWER.c.key == SEEN.c.key)
        seen = answered.subquery()
        beyond_seen = select(seen.c.team, seen.c.key).where(seen.c.bytes > most_bytes)
        old_seen = beyond_seen.order_by(seen.c.bytes.desc()).limit(limit)
        with self._database.writing() as connection:
            hold_answers(connection, alone=True)
            deleted = connection.execute(delete(JOB).where(JOB.c.number.in_(old_jobs))).rowcount
            pairs = connection.execute(old_seen).all()
            if not pairs:
                return DeletionCounts(deleted, 0)
            of_them = tuple_(SEEN.c.team, SEEN.c.key).in_([tuple(pair) for pair in pairs])
            connection.execute(delete(SEEN).where(of_them))
            keys = [key for _, key in pairs]
            needed = select(SEEN.c.key).union_all(select(JOB.c.answer_key))
            lone = ANSWER.c.key.in_(keys) & ANSWER.c.key.not_in(needed)
            return DeletionCounts(deleted, connection.execute(delete(ANSWER).where(lone)).rowcount)
