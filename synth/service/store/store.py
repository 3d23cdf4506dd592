"""The store: a database, and what is kept in it, by kind."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

from sqlalchemy import Connection, literal, select

from synth.service.store import engines, forgetting, migrating
from synth.service.store.answers import Answers
from synth.service.store.claims import Claims
from synth.service.store.database import Database
from synth.service.store.jobs import Jobs
from synth.service.store.keys import Keys
from synth.service.store.records import Forgotten
from synth.service.store.systems import Systems


class Store:
    """What the service knows, in SQLite or PostgreSQL.

    Once a method has returned, what it wrote outlives the process. All methods raise StoreError
    where the database cannot be reached or used, and InputError for texts it cannot keep.
    ``now`` is the clock of transactions: unless given, that of the database.
    """

    def __init__(
        self, url: str, now: Callable[[Connection], datetime] = engines.database_now
    ) -> None:
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
            before = self._database.now(connection) - timedelta(seconds=keep_seconds)
            return forgetting.forget(connection, before, most)
