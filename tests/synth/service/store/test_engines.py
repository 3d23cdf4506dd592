"""Connections to PostgreSQL that were ended, and a server on either database."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest

pytest.importorskip("fastapi", reason="needs the extra server")
pytest.importorskip("psycopg", reason="needs psycopg, of the extra 'postgres'")

import psycopg

from databases import Cluster
from patience import PATIENCE_SECONDS, until
from serving import served
from synth.service.http.examples import EXAMPLES
from synth.service.store import Store

OTHERS = "FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"


def test_connections_that_were_ended_are_made_anew(postgres: Cluster) -> None:
    """As by a restart of the database: no statement fails for it."""
    together = Barrier(5)

    def count(store: Store) -> int:
        with store._database.reading():
            together.wait(PATIENCE_SECONDS)  # so that there are as many connections
        return sum(store.jobs.counts().values())

    url = postgres.new_database()
    with (
        Store(url) as store,
        ThreadPoolExecutor(5) as threads,
        psycopg.connect(url, autocommit=True) as beside,
    ):
        store.migrate()
        for _ in range(2):
            assert list(threads.map(count, [store] * 5)) == [0] * 5
            ended = beside.execute(f"SELECT pg_terminate_backend(pid) {OTHERS}").fetchall()
            assert len(ended) == 5
            until(lambda: beside.execute(f"SELECT count(*) {OTHERS}").fetchall() == [(0,)])


def test_a_server_answers_alike_on_either_database(store_url: str, tmp_path: Path) -> None:
    with served(tmp_path, store_url=store_url, keys=True) as server:
        own = {"X-API-Key": server.service.store.keys.create("ours", "ci").secret}
        ask = server.ask
        wait = {**own, "Prefer": "wait=60"}
        said = ask.post("/v1/place", json=EXAMPLES["place"], headers=wait)
        assert said.status_code == 200, said.text
        link = said.headers["content-location"]
        assert ask.get(link, headers=own).json()["answer"] == said.json()
        again = ask.post("/v1/place", json=EXAMPLES["place"], headers=own)
        assert (again.headers["collsynth-cache"], again.content) == ("hit", said.content)
        question = {**EXAMPLES["place"], "axes": {"other": 32}}
        at_once = {**own, "Prefer": "respond-async"}
        job = ask.post("/v1/place", json=question, headers=at_once).json()
        with ask.stream("GET", f"{job['url']}/events", headers=own) as events:
            assert any(line == "event: end" for line in events.iter_lines())
        assert len(ask.get("/v1/jobs", headers=own).json()["jobs"]) == 2
        assert ask.get("/readyz").json()["problems"] == []
