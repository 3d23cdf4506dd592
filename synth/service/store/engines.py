"""Databases in SQLite and PostgreSQL, their transactions, and all in which the two differ.

SQLite has a write-ahead log, so that readers never wait. A transaction that writes takes the lock
at its beginning, so that none fails half-way. Every commit is on the disk before it returns
(``synchronous=FULL``), so that what was acknowledged outlives the process and, as far as the disk
keeps its promises, a power cut. PostgreSQL does the same by its own settings.
"""

from __future__ import annotations

import re
import selectors
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from datetime import UTC, datetime
from pathlib import Path
from shutil import disk_usage
from sqlite3 import Connection as SqliteConnection
from sqlite3 import OperationalError as SqliteBusyError
from threading import Lock
from typing import Any

from sqlalchemy import Connection, Engine, Table, create_engine, event, func, select
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, InvalidatePoolError, StatementError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from sqlalchemy.pool import ConnectionPoolEntry

from hierarchies import InputError
from synth.service.store.records import FullError, StoreError
from synth.service.store.tables import UtcTime

BUSY_SECONDS = 30.0
LEAST_FREE_BYTES = 16 * 2**20
_HINT = "sqlite:///answers.db, or postgresql://user:password@host/database"
_BEGIN = "collsynth_begin"
_FULL = re.compile("disk is full|No space left on device")
"""What SQLite and PostgreSQL say."""
_ANSWERS_LOCK = 0x636F6C6D
"""The number of the lock in PostgreSQL: arbitrary, but not that of ``migrating``."""
_NOW = select(func.clock_timestamp(type_=UtcTime()))
_HOLD = select(func.pg_advisory_xact_lock_shared(_ANSWERS_LOCK))
_HOLD_ALONE = select(func.pg_advisory_xact_lock(_ANSWERS_LOCK))
"""Made once: to make a statement takes longer than to have it carried out."""


class Database:
    """Transactions of one database; ``now`` is the clock they go by. For any thread."""

    def __init__(self, url: str, now: Callable[[Connection], datetime]) -> None:
        self.engine = engine(url)
        self.now = now
        self._writer = writing_engine(self.engine)
        self._reader = reading_engine(self.engine)
        one_writer = self.engine.dialect.name == "sqlite"
        self._turn: Lock | nullcontext[None] = Lock() if one_writer else nullcontext()

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """What reads, statement by statement. Raises StoreError where that cannot be done."""
        with _raise_store_errors(self.engine), self._reader.begin() as connection:
            yield connection

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """A transaction that writes: whole, or not at all. Raises as ``reading``."""
        with self._turn, _raise_store_errors(self.engine), self._writer.begin() as connection:
            yield connection

    def check_room(self) -> None:
        """Raises FullError where the disk of a database of our own is nearly full."""
        file = self.engine.url.database
        if self.engine.dialect.name != "sqlite" or file is None:
            return
        with suppress(OSError):
            free = disk_usage(Path(file).parent).free
            if free < LEAST_FREE_BYTES:
                problem = f"the disk of the store has {free} bytes left"
                raise FullError(problem, hint=f"at least {LEAST_FREE_BYTES} are needed")


def engine(given: str) -> Engine:
    """The engine of a database, not connected yet. Raises InputError for a URL of no use."""
    url = _url(given)
    try:
        url.get_dialect().import_dbapi()
    except ModuleNotFoundError as error:
        hint = "pip install 'collsynth[postgres]'"
        raise InputError(f"there is no {error.name} here", hint=hint) from None
    if url.get_backend_name() == "sqlite":
        made = create_engine(url, connect_args={"timeout": BUSY_SECONDS})
        event.listen(made, "connect", _configure)
        event.listen(made, "begin", _begin)
        return made
    made = create_engine(url, pool_size=10, max_overflow=20, skip_autocommit_rollback=True)
    event.listen(made, "checkout", _check_alive)
    return made


def reading_engine(made: Engine) -> Engine:
    """The same engine; in PostgreSQL a statement that reads is sent alone.

    To begin and to end a transaction around it would be two more round trips.
    """
    if made.dialect.name == "sqlite":
        return made
    return made.execution_options(isolation_level="AUTOCOMMIT")


def writing_engine(made: Engine) -> Engine:
    """The same engine, whose transactions hold the right to write from their beginning."""
    return made.execution_options(**{_BEGIN: "BEGIN IMMEDIATE"})


def insert(connection: Connection, table: Table) -> postgresql.Insert | sqlite.Insert:
    """An insert in the database's own dialect, which can say what to do on conflict."""
    postgres = connection.dialect.name == "postgresql"
    return postgresql.insert(table) if postgres else sqlite.insert(table)


def database_now(connection: Connection) -> datetime:
    """The time that leases go by: the database's, as the servers of a store must share a clock."""
    if connection.dialect.name == "sqlite":
        return datetime.now(UTC)
    return connection.execute(_NOW).scalar_one()


def hold_answers(connection: Connection, *, alone: bool) -> None:
    """Lock answers until the end of the transaction: shared, or exclusively (``alone``).

    A transaction that writes a reference to an answer shares the lock; one that deletes answers
    holds it alone. So no answer is deleted while another transaction adds a reference to it. In
    SQLite any writer is alone anyway.
    """
    if connection.dialect.name == "postgresql":
        connection.execute(_HOLD_ALONE if alone else _HOLD)


@contextmanager
def _raise_store_errors(made: Engine) -> Iterator[None]:
    """Turns whatever goes wrong between us and the database into a StoreError."""
    try:
        yield
    except (DBAPIError, PoolTimeoutError) as error:
        shown = made.url.render_as_string(hide_password=True)
        lines = str(getattr(error, "orig", None) or error).strip().splitlines()
        problem = f"the store {shown} cannot be used: {lines[0] if lines else error}"
        kind = FullError if _FULL.search(problem) else StoreError
        raise kind(problem, hint="see that it is there, and may be written") from error
    except StatementError as error:
        if isinstance(error.orig, InputError):
            raise error.orig from None
        raise


def _url(given: str) -> URL:
    try:
        url = make_url(given)
        backend = url.get_backend_name()
    except (ArgumentError, ValueError):
        raise InputError("that is no URL of a store", hint=_HINT) from None
    if backend in ("postgresql", "postgres"):
        return url.set(drivername="postgresql+psycopg")
    if backend != "sqlite":
        raise InputError(f"a store cannot be in {backend}", hint=_HINT)
    if url.database in (None, "", ":memory:"):
        raise InputError("a store in SQLite needs a file", hint=_HINT)
    return url.set(drivername="sqlite+pysqlite")


def _check_alive(connection: object, record: ConnectionPoolEntry, fairy: object) -> None:
    """Have the pool connect anew where its connection was ended, as by a restart of PostgreSQL.

    That is seen without asking, which would be one more round trip for each statement: an idle
    connection has something to be read only where it has ended.
    """
    driver: Any = record.driver_connection
    if driver.closed or _is_readable(driver.fileno()):
        raise InvalidatePoolError


def _is_readable(file: int) -> bool:
    with selectors.DefaultSelector() as selector:
        selector.register(file, selectors.EVENT_READ)
        return bool(selector.select(0))


def _configure(connection: SqliteConnection, record: object) -> None:
    connection.isolation_level = None
    _enable_write_ahead(connection)
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA foreign_keys = ON")


def _enable_write_ahead(connection: SqliteConnection) -> None:
    """Turn the write-ahead log on, with a loop: SQLite's own timeout does not cover this pragma."""
    end = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except SqliteBusyError as error:
            if "locked" not in str(error) or time.monotonic() > end:
                raise
            time.sleep(0.01)


def _begin(connection: Connection) -> None:
    connection.exec_driver_sql(connection.get_execution_options().get(_BEGIN, "BEGIN"))
