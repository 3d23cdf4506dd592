"""Servers of two versions on one store: the newer brings its tables up while the older serves."""

from __future__ import annotations

import io
import signal
import subprocess
import tarfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest

pytest.importorskip("fastapi", reason="needs the extra server")
pytest.importorskip("psycopg", reason="needs psycopg, of the extra 'postgres'")

import psycopg

from databases import Cluster
from patience import PATIENCE_SECONDS, until
from places import ROOT
from server_process import AT_ONCE, LONG, serving, status_of
from synth.service.store import migrating, tables

NEWEST = Path(migrating.__file__).parent / f"migrations/versions/revision_{tables.REVISION}.py"
SMALL = {"system": "dgx-h100:2", "axes": {"data": 16}}


def git(*words: str) -> bytes:
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, check=True).stdout


@pytest.fixture(scope="module")
def older(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sources of the commit before the newest tables."""
    try:
        once = ("--first-parent", "-m", "--diff-filter=A", "--format=%H", "-1")
        made = git("log", *once, "--", str(NEWEST)).decode()
        packed = git("archive", f"{made.strip()}^", "hierarchies", "grammar", "synth")
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("needs git, and the commit before the newest tables")
    folder = tmp_path_factory.mktemp("older")
    with tarfile.open(fileobj=io.BytesIO(packed)) as files:
        files.extractall(folder, filter="data")
    assert not (folder / NEWEST.relative_to(ROOT)).exists()
    return folder


@pytest.fixture
def store(postgres: Cluster) -> Iterator[Kept]:
    url = postgres.new_database()
    with psycopg.connect(url, autocommit=True) as connection:
        yield Kept(url, connection)


class Kept:
    """A store, and what is to be seen in it."""

    def __init__(self, url: str, connection: Any) -> None:
        self.url = url
        self._connection = connection

    def one(self, query: str, *given: object) -> Any:
        row = self._connection.execute(query, given).fetchone()
        return None if row is None else row[0]

    def owner(self, job: Any) -> Any:
        return self.one("SELECT owner FROM job WHERE id = %s", job["id"])

    def revision(self) -> Any:
        return self.one("SELECT version_num FROM alembic_version")


def long_job(client: Any, max_steps: int) -> Any:
    asked = client.post("/v1/count", json={**LONG, "max_steps": max_steps}, headers=AT_ONCE)
    assert asked.status_code == 202, asked.text
    return asked.json()


def cancel(client: Any, job: Any) -> None:
    said = client.post(f"{job['url']}/cancel")
    assert said.status_code == 200, said.text


class Somebody:
    """Submits jobs one after the other, each under a key of its own, until told to stop."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self._over = Event()
        self._thread = Thread(target=self._go_on)
        self.jobs: list[Any] = []
        self.refused: list[str] = []
        self._thread.start()

    def _go_on(self) -> None:
        while not self._over.wait(0.05):
            number = len(self.jobs)
            question = {**SMALL, "axes": {f"a{number}": 16}}
            headers = {**AT_ONCE, "Idempotency-Key": f"key-{number}"}
            said = self._client.post("/v1/place", json=question, headers=headers)
            if said.status_code not in (200, 202):
                self.refused.append(said.text)
            elif said.status_code == 202:
                self.jobs.append(said.json())

    def stop(self) -> None:
        self._over.set()
        self._thread.join()


def test_two_versions_serve_one_store_while_it_is_migrated(older: Path, store: Kept) -> None:
    how = ("--quiet", "--grace", "0")
    with ExitStack() as running:
        server, old = running.enter_context(
            serving(store.url, "--name", "older", *how, sources=older)
        )
        before = store.revision()
        assert before < tables.REVISION
        first, second = long_job(old, 8), long_job(old, 7)
        status_of(old, first, "running")
        somebody = Somebody(old)
        until(lambda: somebody.jobs)
        try:
            _, new = running.enter_context(serving(store.url, "--name", "newer", *how))
            assert store.revision() == tables.REVISION
            asked = len(somebody.jobs)
            until(lambda: len(somebody.jobs) > asked + 3)
        finally:
            somebody.stop()
        assert somebody.refused == []

        # What the older was asked is taken by the newer, and what the newer was asked by the older.
        until(lambda: store.owner(second) == "newer")
        third = long_job(new, 6)
        cancel(new, first)
        assert status_of(old, first, "cancelled")["id"] == first["id"]
        until(lambda: store.owner(third) == "older")

        # Each can be asked about all, and gives answers that the other has worked out.
        for job in somebody.jobs:
            done = status_of(new, job, "done")
            assert old.get(done["answer"]).json() == new.get(done["answer"]).json()
        for client in (old, new):
            assert client.post("/v1/place", json=SMALL).status_code == 200

        # The older stops: what it had under way goes on at the newer.
        server.send_signal(signal.SIGTERM)
        server.communicate(timeout=PATIENCE_SECONDS)
        assert server.returncode == 0
        cancel(new, second)
        until(lambda: store.owner(third) == "newer")
        cancel(new, third)
        for job in (second, third):
            status_of(new, job, "cancelled")
        left = "SELECT count(*) FROM job WHERE status NOT IN ('done', 'cancelled')"
        assert store.one(left) == 0
        assert store.one("SELECT count(*) FROM job") >= len(somebody.jobs) + 3


def test_an_older_version_that_starts_on_a_newer_store_says_so(older: Path, store: Kept) -> None:
    with serving(store.url, "--quiet") as (_, new):
        with (
            pytest.raises(AssertionError, match=r"made by a newer version.*upgrade collsynth"),
            serving(store.url, "--name", "older", sources=older),
        ):
            pass
        assert store.revision() == tables.REVISION
        assert new.post("/v1/place", json=SMALL).status_code == 200
