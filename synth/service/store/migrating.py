"""Migrates a database to the tables of this version, by alembic."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import Connection, inspect, text

from synth.service.store.records import StoreError
from synth.service.store.tables import REVISION

_PLACE = Path(__file__).parent / "migrations"
_LOCK = 0x636F6C6C
"""The number of the lock that servers take in PostgreSQL: arbitrary."""


def migrate(connection: Connection, revision: str = REVISION) -> None:
    """Upgrade to a revision within the transaction: all or nothing, and one server at a time.

    Raises StoreError where the database is at a revision that this version does not know: one of a
    newer version, or of one before the first release.
    """
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _LOCK})
    if _revision(connection) == revision:
        return
    # Not at the top of the file: it takes long to load, and is seldom needed.
    from alembic import command
    from alembic.config import Config
    from alembic.script import ScriptDirectory

    config = Config(attributes={"connection": connection})
    config.set_main_option("script_location", str(_PLACE).replace("%", "%%"))
    known = {one.revision for one in ScriptDirectory.from_config(config).walk_revisions()}
    found = _revision(connection)
    if found is not None and found not in known:
        raise _refused(found)
    command.upgrade(config, revision)


def _refused(found: str) -> StoreError:
    tables = f"(its tables are at revision {found!r})"
    # Before the first release revisions were plain numbers, whose tables no migration starts from.
    if found.isdecimal():
        problem = f"the store was made before version 0.1.0 {tables}"
        return StoreError(problem, hint="use another store, and make its keys and systems anew")
    problem = f"the store was made by a newer version {tables}"
    return StoreError(problem, hint="upgrade collsynth, or use another store")


def _revision(connection: Connection) -> str | None:
    if not inspect(connection).has_table("alembic_version"):
        return None
    found = connection.execute(text("SELECT version_num FROM alembic_version"))
    return found.scalar_one_or_none()
