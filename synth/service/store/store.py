"""The store: a database, and what is kept in it, by kind."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

from sqlalchemy import Connection, delete, literal, select

from synth.service.store import migrating
from synth.service.store.answers import Answers
from synth.service.store.claims import Claims
from synth.service.store.engines import Database, database_now, hold_answers
from synth.service.store.jobs import Jobs
from synth.service.store.keys import Keys
from synth.service.store.records import Forgotten, Status
from synth.service.store.systems import Systems
from synth.service.store.tables import ANSWER, JOB, SEEN

_ENDED = tuple(status for status in Status if status.ended)


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

        Raises StoreError for a database that a newer version made.
        """
        with self._database.writing() as connection:
            migrating.migrate(connection)

    def ping(self) -> None:
        """Do nothing, or raise StoreError where the store does not answer."""
        with self._database.reading() as connection:
            connection.execute(select(literal(1)))

    def close(self) -> None:
        """Close all connections."""
        self._database.engine.dispose()

    def forget(self, keep_seconds: float, most: int) -> Forgotten:
        """Delete jobs that ended, and answers that were made, longer ago than that.

        At most so many of each, the oldest first. A job that has not ended is never deleted, nor an
        answer while a job, ended or not, points to it. With an answer goes the note of which teams
        asked for it; the idempotency key of a deleted job is free again.
        """
        with self._database.writing() as connection:
            hold_answers(connection, alone=True)
            before = self._database.now(connection) - timedelta(seconds=keep_seconds)
            old = select(JOB.c.number).where(JOB.c.status.in_(_ENDED), JOB.c.finished < before)
            oldest = old.order_by(JOB.c.finished, JOB.c.number).limit(most)
            jobs = connection.execute(delete(JOB).where(JOB.c.number.in_(oldest))).rowcount
            wanted = ANSWER.c.key.in_(select(JOB.c.answer_key))  # read once, not for each answer
            made = select(ANSWER.c.key).where(ANSWER.c.created < before, ~wanted)
            chosen = made.order_by(ANSWER.c.created, ANSWER.c.key).limit(most)
            keys = connection.execute(chosen).scalars().all()
            connection.execute(delete(SEEN).where(SEEN.c.key.in_(keys)))
            connection.execute(delete(ANSWER).where(ANSWER.c.key.in_(keys)))
            return Forgotten(jobs, len(keys))
