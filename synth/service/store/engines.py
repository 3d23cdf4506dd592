"""SQLite and PostgreSQL databases, their transactions, and all differences between the two.

SQLite uses a write-ahead log, so that readers never wait. A writing transaction takes the lock when
it begins, so that it cannot fail halfway on a lock. Every commit reaches the disk before it returns
(``synchronous=FULL``), so that acknowledged writes survive the end of the process and, unless the
disk reports writes too early, a power failure. PostgreSQL does the same by default.
"""

from __future__ import annotations

import re
import selectors
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from datetime import UTC, datetime
from pathlib import Path
from shutil import disk_usage
from sqlite3 import Connection as SqliteConnection
from sqlite3 import OperationalError as SqliteBusyError
from threading import Lock
from types import MappingProxyType
from typing import Any, TypeVar

from sqlalchemy import (
    ColumnElement,
    Connection,
    Engine,
    LargeBinary,
    Row,
    Select,
    Table,
    cast,
    create_engine,
    event,
    func,
    select,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, InvalidatePoolError, StatementError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from sqlalchemy.pool import ConnectionPoolEntry

from hierarchies import InputError
from synth.service.store.records import FullError, StoreError
from synth.service.store.tables import UtcTime

T = TypeVar("T")
_NONE: Mapping[str, object] = MappingProxyType({})
BUSY_SECONDS = 30.0
LEAST_FREE_BYTES = 16 * 2**20
_HINT = "sqlite:///answers.db, or postgresql://user:password@host/database"
_BEGIN = "collsynth_begin"
_FULL = re.compile("disk is full|No space left on device")
"""Messages of SQLite and PostgreSQL about a full disk."""
_ANSWERS_LOCK = 0x636F6C6D
"""The number of a PostgreSQL advisory lock. Arbitrary, but different from that of ``migrating``."""
_NOW = select(func.clock_timestamp(type_=UtcTime()))
_HOLD = select(func.pg_advisory_xact_lock_shared(_ANSWERS_LOCK))
_HOLD_ALONE = select(func.pg_advisory_xact_lock(_ANSWERS_LOCK))
"""Statements built once: building one takes longer than executing it."""


class Database:
    """Transactions of one database; ``now`` is their clock. Thread-safe."""

    def __init__(self, url: str, now: Callable[[Connection], datetime]) -> None:
        self.engine = engine(url)
        self.now = now
        self._writer = writing_engine(self.engine)
        self._reader = reading_engine(self.engine)
        one_writer = self.engine.dialect.name == "sqlite"
        self._turn: Lock | nullcontext[None] = Lock() if one_writer else nullcontext()

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Open a connection that only reads. Raises StoreError if the database cannot be used."""
        with _raise_store_errors(self.engine), self._reader.begin() as connection:
            yield connection

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """Open a transaction that writes everything or nothing. Raises as ``reading``."""
        with self._turn, _raise_store_errors(self.engine), self._writer.begin() as connection:
            yield connection

    def one(
        self,
        kind: Callable[..., T],
        statement: Select[Any],
        parameters: Mapping[str, object] = _NONE,
    ) -> T | None:
        """Return the only row of a query as a record whose fields are its columns, or None."""
        with self.reading() as connection:
            row = connection.execute(statement, parameters).one_or_none()
        return None if row is None else kind(*row)

    def rows(self, statement: Select[Any]) -> Sequence[Row[Any]]:
        """Return all rows of a query."""
        with self.reading() as connection:
            return connection.execute(statement).all()

    def all(self, kind: Callable[..., T], statement: Select[Any]) -> list[T]:
        """Return all rows of a query as records whose fields are its columns."""
        return [kind(*row) for row in self.rows(statement)]

    def scalar(self, statement: Select[Any], parameters: Mapping[str, object] = _NONE) -> Any:
        """Return the only column of the only row of a query, or None if there is no row."""
        with self.reading() as connection:
            return connection.execute(statement, parameters).scalar_one_or_none()

    def check_room(self) -> None:
        """Raise FullError if the disk of a SQLite database is nearly full."""
        file = self.engine.url.database
        if self.engine.dialect.name != "sqlite" or file is None:
            return
        with suppress(OSError):
            free = disk_usage(Path(file).parent).free
            if free < LEAST_FREE_BYTES:
                problem = f"the disk of the store has {free} bytes left"
                raise FullError(problem, hint=f"at least {LEAST_FREE_BYTES} are needed")


def engine(url_text: str) -> Engine:
    """Create the engine of a database, unconnected. Raises InputError for an unusable URL."""
    parsed = _url(url_text)
    try:
        parsed.get_dialect().import_dbapi()
    except ModuleNotFoundError as error:
        hint = "pip install 'collsynth[postgres]'"
        raise InputError(f"{error.name} is not installed", hint=hint) from None
    if parsed.get_backend_name() == "sqlite":
        created = create_engine(parsed, connect_args={"timeout": BUSY_SECONDS})
        event.listen(created, "connect", _configure)
        event.listen(created, "begin", _begin)
        return created
    created = create_engine(parsed, pool_size=10, max_overflow=20, skip_autocommit_rollback=True)
    event.listen(created, "checkout", _check_alive)
    return created


def reading_engine(base: Engine) -> Engine:
    """Return the engine for reading: in autocommit mode on PostgreSQL.

    A transaction around each statement would cost two more round trips.
    """
    if base.dialect.name == "sqlite":
        return base
    return base.execution_options(isolation_level="AUTOCOMMIT")


def writing_engine(base: Engine) -> Engine:
    """Return the engine for writing: its transactions take the write lock when they begin."""
    return base.execution_options(**{_BEGIN: "BEGIN IMMEDIATE"})


def insert(connection: Connection, table: Table) -> postgresql.Insert | sqlite.Insert:
    """Return an insert in the database's own dialect, which supports ``ON CONFLICT``."""
    postgres = connection.dialect.name == "postgresql"
    return postgresql.insert(table) if postgres else sqlite.insert(table)


def bytes_of(database: Engine, text: ColumnElement[str]) -> ColumnElement[int]:
    """Return the bytes of a text in UTF-8, which both databases store."""
    if database.dialect.name == "postgresql":
        return func.octet_length(text)
    return func.length(cast(text, LargeBinary))  # SQLite has octet_length since 3.43 only


def database_now(connection: Connection) -> datetime:
    """Return the database's time, because leases need a clock shared by all servers of a store."""
    if connection.dialect.name == "sqlite":
        return datetime.now(UTC)
    return connection.execute(_NOW).scalar_one()


def hold_answers(connection: Connection, *, alone: bool) -> None:
    """Lock answers until the end of the transaction: shared, or exclusively (``alone``).

    A transaction that adds a reference to an answer shares the lock. A transaction that deletes
    answers holds it exclusively. Therefore no answer is deleted while another transaction adds a
    reference to it. SQLite needs no lock, as it has one writer at a time.
    """
    if connection.dialect.name == "postgresql":
        connection.execute(_HOLD_ALONE if alone else _HOLD)


@contextmanager
def _raise_store_errors(database: Engine) -> Iterator[None]:
    """Turn database errors into StoreError."""
    try:
        yield
    except (DBAPIError, PoolTimeoutError) as error:
        shown = database.url.render_as_string(hide_password=True)
        lines = str(getattr(error, "orig", None) or error).strip().splitlines()
        problem = f"the store {shown} cannot be used: {lines[0] if lines else error}"
        kind = FullError if _FULL.search(problem) else StoreError
        raise kind(problem, hint="check that it exists and is writable") from error
    except StatementError as error:
        if isinstance(error.orig, InputError):
            raise error.orig from None
        raise


def _url(text: str) -> URL:
    try:
        url = make_url(text)
        backend = url.get_backend_name()
    except (ArgumentError, ValueError):
        raise InputError("this is not the URL of a store", hint=_HINT) from None
    if backend in ("postgresql", "postgres"):
        return url.set(drivername="postgresql+psycopg")
    if backend != "sqlite":
        raise InputError(f"a store cannot be in {backend}", hint=_HINT)
    if url.database in (None, "", ":memory:"):
        raise InputError("a store in SQLite needs a file", hint=_HINT)
    return url.set(drivername="sqlite+pysqlite")


def _check_alive(connection: object, record: ConnectionPoolEntry, fairy: object) -> None:
    """Make the pool reconnect if its connection was closed, as by a restart of PostgreSQL.

    Unlike a ping, this costs no round trip: an idle connection is readable only if it was closed.
    """
    driver: Any = record.driver_connection
    if driver.closed or _is_readable(driver.fileno()):
        raise InvalidatePoolError


def _is_readable(file: int) -> bool:
    with selectors.DefaultSelector() as selector:
        selector.register(file, selectors.EVENT_READ)
        return bool(selector.select(0))


def _configure(connection: SqliteConnection, record: object) -> None:
    connection.isolation_level = None  # sqlite3 must not begin transactions: ``_begin`` does
    _enable_write_ahead(connection)
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA foreign_keys = ON")


def _enable_write_ahead(connection: SqliteConnection) -> None:
    """Enable the write-ahead log, with retries: SQLite's timeout does not apply to this pragma."""
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
