"""A store gets the tables of this version, whoever asks, and however many at once."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

pytest.importorskip("sqlalchemy", reason="needs sqlalchemy, of the extra 'server'")
pytest.importorskip("alembic", reason="needs alembic, of the extra 'server'")

import sqlalchemy
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory

from patience import PATIENCE_SECONDS
from synth.service.store import (
    NewJob,
    Store,
    StoreError,
    engines,
    migrating,
    tables,
)

PLACE = Path(migrating.__file__).parent / "migrations"
SCRIPTS = ScriptDirectory(str(PLACE))
REVISIONS = [one.revision for one in SCRIPTS.walk_revisions()][::-1]
NOW = datetime(2026, 1, 31, tzinfo=UTC)


@pytest.fixture
def engine(store_url: str) -> Iterator[sqlalchemy.Engine]:
    made = engines.writing_engine(engines.engine(store_url))
    yield made
    made.dispose()


def at(connection: sqlalchemy.Connection) -> str | None:
    return MigrationContext.configure(connection).get_current_revision()


def test_the_tables_are_those_declared(store_url: str, engine: sqlalchemy.Engine) -> None:
    with Store(store_url) as store:
        store.migrate()
    with engine.begin() as connection:
        assert at(connection) == tables.REVISION == REVISIONS[-1]
        context = MigrationContext.configure(connection, opts={"compare_server_default": True})
        assert compare_metadata(context, tables.METADATA) == []


def test_tables_are_made_once_and_kept(store_url: str) -> None:
    with Store(store_url) as store:
        for _ in range(2):
            store.migrate()
        job = store.jobs.submit(NewJob("ours", None, "top", "{}", "key")).job
        store.migrate()
        assert store.jobs.one(job.id) == job


@pytest.mark.parametrize(
    ("revision", "said"),
    [
        ("0008", r"before version 0\.1\.0.*'0008'.*another store, and create its keys"),
        ("0001", r"before version 0\.1\.0.*'0001'"),
        ("v9999", r"newer version.*'v9999'.*upgrade collsynth"),
    ],
)
def test_another_version_is_refused_and_left_alone(
    store_url: str, engine: sqlalchemy.Engine, revision: str, said: str
) -> None:
    with Store(store_url) as store:
        store.migrate()
        with engine.begin() as connection:
            noted = sqlalchemy.text("UPDATE alembic_version SET version_num = :revision")
            connection.execute(noted, {"revision": revision})
        with pytest.raises(StoreError, match=said):
            store.migrate()
    with engine.begin() as connection:
        assert at(connection) == revision


def test_foreign_databases_are_left_alone(store_url: str, engine: sqlalchemy.Engine) -> None:
    with engine.begin() as connection:
        connection.execute(sqlalchemy.text("CREATE TABLE job (theirs INTEGER)"))
    with Store(store_url) as store, pytest.raises(StoreError, match="cannot be used"):
        store.migrate()
    with engine.begin() as connection:
        assert sqlalchemy.inspect(connection).get_table_names() == ["job"]


def test_a_file_that_is_no_database_is_left_alone(tmp_path: Path) -> None:
    other = tmp_path / "notes.txt"
    other.write_text("our notes\n" * 1000)
    store = Store(f"sqlite:///{other}")
    with store, pytest.raises(StoreError, match="not a database"):
        store.migrate()
    assert other.read_text() == "our notes\n" * 1000


def test_servers_that_start_at_once_make_the_tables_once(
    store_url: str, engine: sqlalchemy.Engine
) -> None:
    script = (
        "import sys; from synth.service.store import Store; store = Store(sys.argv[1]);"
        "print('ready', flush=True); sys.stdin.readline(); store.migrate(); store.jobs.counts()"
    )
    started = [
        subprocess.Popen(
            [sys.executable, "-W", "error", "-c", script, store_url],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(3)
    ]
    try:
        for server in started:
            assert server.stdout is not None
            assert server.stdout.readline() == "ready\n"
        for server in started:
            assert server.stdin is not None
            server.stdin.write("go\n")
            server.stdin.flush()
        assert [server.wait(timeout=PATIENCE_SECONDS) for server in started] == [0] * 3
    finally:
        for server in started:
            server.kill()
            server.communicate()
    with engine.begin() as connection:
        assert at(connection) == tables.REVISION
