"""Very much at once, of one team, over HTTP and with real workers: nothing is lost or held up."""

from __future__ import annotations

import json
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi", reason="needs the extra server")

from patience import until
from server_process import AT_ONCE, LONG, resident_bytes, serving, status_of
from serving import served
from synth.service.http.examples import EXAMPLES
from synth.service.limits import Limits
from synth.service.store import Status, Store
from synth.service.workers import ProcessWorkers

JOBS, LONG_JOBS, BODIES = 300, 6, 8
PATIENT = {"Prefer": "wait=60"}
CANCEL_SECONDS = 2.0
"""What is promised. Of a few tries the quickest counts, as the machine may be busy with others."""


def test_of_many_jobs_at_once_none_is_lost_and_none_done_twice(tmp_path: Path) -> None:
    with served(tmp_path, ProcessWorkers(2)) as server:

        def asked(number: int) -> str:
            question = {**EXAMPLES["place"], "axes": {f"axis{number}": 32}}
            answer = server.ask.post("/v1/place", json=question, headers=AT_ONCE)
            assert answer.status_code in (200, 202), answer.text
            return str(answer.json()["id"])

        with ThreadPoolExecutor(32) as pool:
            jobs = [*pool.map(asked, range(JOBS))]
        store = server.service.store.jobs
        assert until(lambda: store.counts()[Status.DONE] == JOBS)
        found = [store.seen(job) for job in jobs]
        assert len({job.answer_key for job in found if job}) == JOBS
        assert {job.attempts for job in found if job} == {1}
        counted = f'collsynth_pieces_total{{verb="place"}} {JOBS}.0'
        assert until(lambda: counted in server.ask.get("/metrics").text)


def test_long_jobs_of_one_key_keep_nobody_else_waiting(tmp_path: Path) -> None:
    with served(tmp_path, ProcessWorkers(2), ProcessWorkers(1), keys=True) as server:
        red, blue = (
            {"X-API-Key": server.service.store.keys.create(team, "").secret}
            for team in ("red", "blue")
        )
        for number in range(LONG_JOBS):
            question = {"digits": 8, "max_steps": 8 - number // 2, "across": number % 2 == 1}
            answer = server.ask.post("/v1/count", json=question, headers={**red, **AT_ONCE})
            assert answer.status_code == 202, answer.text
        counts = server.service.store.jobs.counts
        until(lambda: counts("red")[Status.RUNNING])
        quick = server.ask.post("/v1/place", json=EXAMPLES["place"], headers={**blue, **PATIENT})
        assert quick.status_code == 200, quick.text
        assert sum(n for status, n in counts("red").items() if not status.ended) == LONG_JOBS


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc")
def test_large_bodies_at_once_keep_nobody_else_waiting_and_leave_nothing(tmp_path: Path) -> None:
    """Others are answered again and again while these are read."""
    url = f"sqlite:///{tmp_path / 'service.db'}"
    with Store(url) as store:
        store.migrate()
        red, blue = (
            {"X-API-Key": store.keys.create(team, "").secret, "Content-Type": "application/json"}
            for team in ("red", "blue")
        )
    text = "lorem ipsum\n" * ((Limits().body_bytes - 2**21) // 13)
    body = json.dumps({"kind": "slurm", "files": [{"name": "a.conf", "text": text}]}).encode()
    with serving(url, "--host", "0.0.0.0") as (process, client):

        def quick() -> int:
            answer = client.post("/v1/place", json=EXAMPLES["place"], headers={**blue, **PATIENT})
            return int(answer.status_code)

        def large(_: int) -> Any:
            return client.post("/v1/import", content=body, headers=red).status_code

        assert quick() == 200
        before = resident_bytes(process.pid)
        with ThreadPoolExecutor(BODIES) as pool:
            sent = [pool.submit(large, number) for number in range(2 * BODIES)]
            others = []
            while not all(one.done() for one in sent):
                others.append(quick())
        assert {one.result() for one in sent} <= {422, 429}
        assert others.count(200) == len(others) > BODIES
        assert until(lambda: resident_bytes(process.pid) < before + 100 * 2**20)


def test_cancelling_takes_two_seconds_at_most(tmp_path: Path) -> None:
    with serving(f"sqlite:///{tmp_path / 'service.db'}") as (_, client):
        tries = []
        for steps in (8, 7, 6):
            question = {**LONG, "max_steps": steps}
            job = client.post("/v1/count", json=question, headers=AT_ONCE).json()
            status_of(client, job, "running")
            begun = time.monotonic()
            client.post(f"{job['url']}/cancel")
            status_of(client, job, "cancelled", "done")
            tries.append(time.monotonic() - begun)
            if tries[-1] < CANCEL_SECONDS:
                break
        assert min(tries) < CANCEL_SECONDS, tries
