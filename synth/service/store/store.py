"""The store: a database, and what is kept in it, by kind."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

from sqlalchemy import BigInteger, Connection, delete, func, select, tuple_

from synth.service.store import migrating
from synth.service.store.answers import Answers
from synth.service.store.claims import Claims
from synth.service.store.engines import Database, database_now, hold_answers, insert
from synth.service.store.jobs import Jobs
from synth.service.store.keys import Keys
from synth.service.store.records import DeletionCounts, Status
from synth.service.store.systems import Systems
from synth.service.store.tables import ANSWER, JOB, SEEN, SERVER

_ENDED_STATUSES = tuple(status for status in Status if status.ended)


class Store:
    """What the service knows, in SQLite or PostgreSQL.

    Once a method has returned, what it wrote outlives the process. All methods raise StoreError
    where the database cannot be reached or used, and InputError for texts it cannot keep.
    ``now`` is the clock of transactions: unless given, that of the database.
    """

    def __init__(self, url: str, now: Callable[[Connection], datetime] = database_now) -> None:
        self._database = Database(url, now)
        self.answers = Answers(self._database)
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
        """Whether reading takes less than starting a thread: so it is from a file of our own."""
        return self._database.engine.dialect.name == "sqlite"

    def migrate(self) -> None:
        """Make the tables, or bring them up to date; several servers may do so at once.

        Raises StoreError for a database that a newer version made, or one before 0.1.0.
        """
        with self._database.writing() as connection:
            migrating.migrate(connection)

    def check_writing(self, server: str) -> None:
        """Write that a server lives. Raises StoreError where that fails, or the disk is full.

        SQLite writes over what it has written before, so that little fits on a full disk, too:
        there the room that is left is looked at.
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

    def forget(self, keep_seconds: float, most: int) -> DeletionCounts:
        """Delete jobs that ended, and answers that were made, longer ago than that.

        At most so many of each, the oldest first. A job that has not ended is never deleted, nor an
        answer while a job, ended or not, points to it. With an answer goes the note of which teams
        asked for it; the idempotency key of a deleted job is free again.
        """
        with self._database.writing() as connection:
            hold_answers(connection, alone=True)
            before = self._database.now(connection) - timedelta(seconds=keep_seconds)
            old = select(JOB.c.number).where(
                JOB.c.status.in_(_ENDED_STATUSES), JOB.c.finished < before
            )
            oldest = old.order_by(JOB.c.finished, JOB.c.number).limit(most)
            jobs = connection.execute(delete(JOB).where(JOB.c.number.in_(oldest))).rowcount
            wanted = ANSWER.c.key.in_(select(JOB.c.answer_key))  # read once, not for each answer
            made = select(ANSWER.c.key).where(ANSWER.c.created < before, ~wanted)
            chosen = made.order_by(ANSWER.c.created, ANSWER.c.key).limit(most)
            keys = connection.execute(chosen).scalars().all()
            connection.execute(delete(SEEN).where(SEEN.c.key.in_(keys)))
            connection.execute(delete(ANSWER).where(ANSWER.c.key.in_(keys)))
            return DeletionCounts(jobs, len(keys))

    def forget_beyond(self, most_bytes: int, most: int) -> DeletionCounts:
        """Delete the oldest of teams that keep more than so many bytes of jobs, or of answers.

        An answer comes to its own bytes and those of its question.
        At most so many of each. A team loses its note of having asked for an answer; the answer
        itself goes where no other team has asked for it and no job points to it.
        """
        newest = (JOB.c.finished.desc(), JOB.c.number.desc())
        held_bytes = func.sum(JOB.c.size_bytes, type_=BigInteger)
        so_far = held_bytes.over(partition_by=JOB.c.team, order_by=newest)
        ended = select(JOB.c.number, so_far.label("bytes")).where(JOB.c.status.in_(_ENDED_STATUSES))
        jobs = ended.subquery()
        beyond = select(jobs.c.number).where(jobs.c.bytes > most_bytes)
        old_jobs = beyond.order_by(jobs.c.bytes.desc()).limit(most)
        made = (ANSWER.c.created.desc(), ANSWER.c.key)
        answered_bytes = func.sum(ANSWER.c.size_bytes, type_=BigInteger)
        total = answered_bytes.over(partition_by=SEEN.c.team, order_by=made).label("bytes")
        held = select(SEEN.c.team, SEEN.c.key, total).join(ANSWER, ANSWER.c.key == SEEN.c.key)
        seen = held.subquery()
        beyond_seen = select(seen.c.team, seen.c.key).where(seen.c.bytes > most_bytes)
        old_seen = beyond_seen.order_by(seen.c.bytes.desc()).limit(most)
        with self._database.writing() as connection:
            hold_answers(connection, alone=True)
            gone = connection.execute(delete(JOB).where(JOB.c.number.in_(old_jobs))).rowcount
            pairs = connection.execute(old_seen).all()
            if not pairs:
                return DeletionCounts(gone, 0)
            of_them = tuple_(SEEN.c.team, SEEN.c.key).in_([tuple(pair) for pair in pairs])
            connection.execute(delete(SEEN).where(of_them))
            keys = [key for _, key in pairs]
            needed = select(SEEN.c.key).union_all(select(JOB.c.answer_key))
            lone = ANSWER.c.key.in_(keys) & ANSWER.c.key.not_in(needed)
            return DeletionCounts(gone, connection.execute(delete(ANSWER).where(lone)).rowcount)
