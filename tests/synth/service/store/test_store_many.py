"""Many at the store at once, and some of them killed: no job twice, none lost."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from threading import Event

import pytest

from patience import PATIENCE_SECONDS
from places import TESTS

pytest.importorskip("sqlalchemy", reason="needs sqlalchemy, of the extra 'server'")

from synth.service.store import NewJob, Status, Store, StoredAnswer

SERVER = TESTS / "store_server.py"


@contextmanager
def servers(url: str, *tasks: str) -> Iterator[list[subprocess.Popen[str]]]:
    """Processes at the same store, all ready before the first begins."""
    started = [
        subprocess.Popen(
            [sys.executable, SERVER, url, task],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for task in tasks
    ]
    try:
        for server in started:
            assert server.stdout is not None
            assert server.stdout.readline() == "ready\n"
        for server in started:
            assert server.stdin is not None
            server.stdin.write("go\n")
            server.stdin.flush()
        yield started
    finally:
        for server in started:
            server.kill()
            server.communicate()


def new(number: int, key: str | None = None) -> NewJob:
    return NewJob("ours", None, "top", json.dumps(number), f"key of {number}", key)


def take_back(store: Store, owner: str) -> None:
    """All of it: PostgreSQL may take a moment to carry out a dead client's last commit."""
    end = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < end:
        store.claims.requeue(owner)
        if store.jobs.counts()[Status.RUNNING] == 0:
            return
        time.sleep(0.05)
    raise AssertionError("jobs of the dead are still running")


def test_threads_and_processes_never_claim_the_same_job(store_url: str) -> None:
    with Store(store_url) as store:
        store.migrate()
        jobs = {store.jobs.submit(new(number)).job.id for number in range(200)}

        def claim_all(owner: int) -> list[str]:
            found = []
            while claim := store.claims.claim(f"thread {owner}", 600):
                found.append(claim.job.id)
            return found

        with servers(store_url, "claim", "claim") as others, ThreadPoolExecutor(6) as threads:
            ours = [one for found in threads.map(claim_all, range(6)) for one in found]
            theirs = [line for other in others for line in other.communicate()[0].split()]
        assert Counter(ours + theirs) == Counter(jobs)
        assert store.jobs.counts()[Status.RUNNING] == len(jobs)


def test_one_idempotency_key_makes_one_job_however_many_send_it(store_url: str) -> None:
    with Store(store_url) as store, ThreadPoolExecutor(8) as threads:
        store.migrate()
        for number in range(5):
            found = list(threads.map(lambda n: store.jobs.submit(new(n, f"k{n}")), [number] * 8))
            assert sum(one.created for one in found) == 1
            assert len({one.job.id for one in found}) == 1


def test_lost_jobs_are_queued_once_however_many_look_for_them(store_url: str) -> None:
    with Store(store_url) as store, ThreadPoolExecutor(8) as threads:
        store.migrate()
        for number in range(30):
            store.jobs.submit(new(number))
            store.claims.claim("dead", -1)
        found = list(threads.map(lambda _: store.claims.requeue_expired(), range(8)))
        assert sum(found) == 30
        assert store.jobs.counts()[Status.QUEUED] == 30
        assert {job.revision for job in store.jobs.listed("ours", 99)} == {2}


def test_a_done_job_keeps_its_answer_during_deletion(store_url: str) -> None:
    """Answers of long ago are forgotten while they are asked for and new jobs come to them."""
    long_ago = datetime(2020, 1, 1, tzinfo=UTC)
    over = Event()

    def work(store: Store) -> None:
        for number in range(25):
            store.jobs.submit(new(number % 3))
            claim = store.claims.claim("we", 600)
            if claim is None:  # what is asked is being worked on
                continue
            key, text = claim.job.answer_key, claim.job.question
            answer = StoredAnswer(key, "top", "1", text, 0, b"{}", 1.0, long_ago)
            assert store.claims.finish(claim, answer)
            kept, then = store.answers.one(key), store.jobs.one(claim.job.id)
            assert then is None or kept == answer
            store.answers.saw(f"team {number}", key)

    def forget(store: Store) -> int:
        gone = 0
        while not over.wait(0.005):
            gone += store.forget(0, 500).answers
        return gone

    with Store(store_url) as store, ThreadPoolExecutor(5) as threads:
        store.migrate()
        forgetting = [threads.submit(forget, store) for _ in range(2)]
        try:
            for worked in [threads.submit(work, store) for _ in range(3)]:
                worked.result()
        finally:
            over.set()
        assert sum(one.result() for one in forgetting) > 0


@pytest.mark.slow
def test_reported_results_survive_kill_9(store_url: str) -> None:
    """Servers that submit and work are killed in the middle of it, again and again."""
    chance = random.Random(5)
    told: Counter[str] = Counter()
    done: Counter[str] = Counter()
    with Store(store_url) as store:
        store.migrate()
        for _ in range(4):
            with servers(store_url, "live") as (server,):
                assert server.stdout is not None
                for line in (server.stdout.readline() for _ in range(chance.randrange(1, 120))):
                    word, job_id = line.split()
                    (told if word == "submitted" else done)[job_id] += 1
                server.send_signal(signal.SIGKILL)
                for line in server.stdout:
                    if line.endswith("\n"):
                        word, job_id = line.split()
                        (told if word == "submitted" else done)[job_id] += 1
            take_back(store, "live")
            known = {job.id: job for job in store.jobs.listed("ours", 10**6)}
            assert told.keys() <= known.keys()
            assert all(known[one].status is Status.DONE for one in done)
            finished = [job for job in known.values() if job.status is Status.DONE]
            assert all(store.answers.one(job.answer_key) is not None for job in finished)
        assert max(done.values()) == max(told.values()) == 1
        with servers(store_url, "finish") as (server,):
            rest = Counter(line.split()[1] for line in server.communicate()[0].splitlines())
        assert not rest.keys() & done.keys()
        counts = store.jobs.counts()
        assert counts[Status.DONE] + counts[Status.FAILED] == len(store.jobs.listed("ours", 10**6))
