"""Migrates a database to the tables of this version with alembic."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import Connection, inspect, text

from synth.service.store.records import StoreError
from synth.service.store.tables import REVISION

_PLACE = Path(__file__).parent / "migrations"
_LOCK = 0x636F6C6C
"""The number of a PostgreSQL advisory lock. Arbitrary."""


def migrate(connection: Connection, revision: str = REVISION) -> None:
    """Upgrade to a revision within the transaction, one server at a time.

    Raises StoreError if this version does not know the revision of the database, because a newer
    version or one before the first release created it.
    """
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _LOCK})
    if _revision(connection) == revision:
        return
    # A late import: alembic loads slowly and is seldom needed.
    from alembic import command
    from alembic.config import Config
    from alembic.script import ScriptDirectory

    config = Config(attributes={"connection": connection})
    config.set_main_option("script_location", str(_PLACE).replace("%", "%%"))
    revisions = {script.revision for script in ScriptDirectory.from_config(config).walk_revisions()}
    current = _revision(connection)
    if current is not None and current not in revisions:
        raise _refused(current)
    command.upgrade(config, revision)


def _refused(current: str) -> StoreError:
    tables = f"(its tables are at revision {current!r})"
    # Before the first release revisions were plain numbers; no migration starts from their tables.
    if current.isdecimal():
        problem = f"the store was created before version 0.1.0 {tables}"
        return StoreError(problem, hint="use another store, and create its keys and systems again")
    problem = f"the store was created by a newer version {tables}"
    return StoreError(problem, hint="upgrade collsynth, or use another store")


def _revision(connection: Connection) -> str | None:
    if not inspect(connection).has_table("alembic_version"):
        return None
    version = connection.execute(text("SELECT version_num FROM alembic_version"))
    return version.scalar_one_or_none()
