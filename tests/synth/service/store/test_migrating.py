"""Tables of every version become those of this one, whoever asks, and however many at once."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

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
    Person,
    Store,
    StoreError,
    digest_of,
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
    made = engines.for_writing(engines.engine(store_url))
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


@pytest.mark.parametrize("first", REVISIONS)
def test_every_version_is_brought_up_to_date(
    store_url: str, engine: sqlalchemy.Engine, first: str
) -> None:
    with engine.begin() as connection:
        migrating.migrate(connection, first)
        assert at(connection) == first
    with Store(store_url) as store:
        for _ in range(2):
            store.migrate()
        job = store.jobs.submit(NewJob("ours", None, "top", "{}", "key")).job
        store.migrate()
        assert store.jobs.one(job.id) == job


@pytest.mark.parametrize("first", REVISIONS[: REVISIONS.index("0007")])
def test_keys_and_sessions_of_every_version_go_on(
    store_url: str, engine: sqlalchemy.Engine, first: str
) -> None:
    """A key from before scopes may do what it could: ask and keep, for ever."""
    secret, token = f"cs_{'1' * 16}_{'2' * 64}", "3" * 64
    with engine.begin() as connection:
        migrating.migrate(connection, first)
        key = {"id": "1" * 16, "team": "red", "name": "old", "digest": digest_of(secret)}
        put(connection, "api_key", key | {"created": NOW, "revoked": False})
        if first >= "0004":
            ends = datetime.now(UTC) + timedelta(days=1)
            session = {"digest": digest_of(token), "key_id": key["id"], "expires": ends}
            put(connection, "session", session)
    with Store(store_url) as store:
        store.migrate()
        found = store.keys.one("1" * 16)
        assert found is not None
        assert found.admits(secret)
        assert (found.scopes, found.expires, found.last_used) == ("ask keep", None, None)
        assert store.keys.of_session(digest_of(token)) == (found if first >= "0004" else None)
        person = Person("ann", "red", "ask")
        again = store.keys.begin_session(person, 60)
        assert store.keys.of_session(digest_of(again)) == person


@pytest.mark.parametrize("first", ["0001", "0007"])
def test_partial_answers_that_were_kept_are_deleted_and_stay_with_their_jobs(
    store_url: str, engine: sqlalchemy.Engine, first: str
) -> None:
    """Of ``import`` an answer that is not ``complete`` has blanks: that is no partial answer."""
    part = b'{"schema_version": 1, "plans": [], "complete": false}'
    whole = b'{"schema_version": 1, "systems": [{"complete": false}], "complete": true}'
    bodies = {
        **{f"{number:064}": ("plan", part) for number in range(250)},
        "top": ("top", part),
        "whole": ("sweep", whole),
        "blank": ("import", part),
    }
    with engine.begin() as connection:
        migrating.migrate(connection, first)
        about = {"edition": "e", "question": "{}", "outcome": 1, "seconds": 1.0, "created": NOW}
        job = {"team": "red", "question": "{}", "status": "done", "created": NOW, "revision": 5}
        job |= {"attempts": 1, "losses": 0}
        rows = [{"key": key, "verb": verb, "body": body} for key, (verb, body) in bodies.items()]
        put(connection, "answer", *(row | about for row in rows))
        put(connection, "seen", *({"team": "red", "key": key} for key in bodies))
        jobs = [{"id": row["key"], "answer_key": row["key"], "verb": row["verb"]} for row in rows]
        put(connection, "job", *(row | job for row in jobs))
    with Store(store_url) as store:
        store.migrate()
        kept = [key for key in list(bodies)[240:] if store.answers.look("blue", key)]
        assert kept == ["whole", "blank"]
        found = {key: store.jobs.one(key) for key in ("top", f"{7:064}", "whole")}
        ends = [(job.status, job.best, job.revision) for job in found.values() if job]
        assert ends == [("partial", part, 6)] * 2 + [("done", None, 5)]
        assert store.answers.one("whole", "red") is not None


def put(connection: sqlalchemy.Connection, table: str, *rows: dict[str, Any]) -> None:
    """Rows into a table as it is at this moment."""
    there = sqlalchemy.Table(table, sqlalchemy.MetaData(), autoload_with=connection)
    connection.execute(there.insert(), rows)


def test_a_newer_version_is_refused_and_left_alone(
    store_url: str, engine: sqlalchemy.Engine
) -> None:
    with Store(store_url) as store:
        store.migrate()
        with engine.begin() as connection:
            connection.execute(sqlalchemy.text("UPDATE alembic_version SET version_num = '9999'"))
        with pytest.raises(StoreError, match=r"newer version.*'9999'.*upgrade collsynth"):
            store.migrate()
    with engine.begin() as connection:
        assert at(connection) == "9999"


def test_what_is_no_store_is_left_alone(store_url: str, engine: sqlalchemy.Engine) -> None:
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
