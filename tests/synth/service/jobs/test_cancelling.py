"""Cancelling ends a job within two seconds, whatever its worker does, and whoever is asked."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi", reason="needs the extra server")

from patience import PATIENCE_SECONDS, until
from serving import HereTicket, Served, ThreadWorkers, served
from synth.ask.partition import Piece
from synth.service.http.examples import EXAMPLES
from synth.service.jobs import broker, dispatcher, runner
from synth.service.store import JobClaim, Status
from synth.service.store.claims import Claims
from synth.service.workers import ProcessWorkers, WorkerLostError, processes

AT_ONCE = {"Prefer": "respond-async"}
LONG = {"digits": 5, "max_steps": 8, "across": True}


def begun(server: Served, verb: str = "count", question: Any = LONG) -> str:
    """The address of a job that runs."""
    job: str = server.ask.post(f"/v1/{verb}", json=question, headers=AT_ONCE).json()["url"]
    until(lambda: server.ask.get(job).json()["status"] == "running")
    return job


def end_of(server: Served, job: str) -> dict[str, Any]:
    """The end of a job, as who follows it is told."""
    with server.ask.stream("GET", f"{job}/events", timeout=PATIENCE_SECONDS) as stream:
        lines = iter(stream.iter_lines())
        for line in lines:
            if line == "event: end":
                found = [one for one in lines if one.startswith("data: ")]
                ended: dict[str, Any] = json.loads(found[0].removeprefix("data: "))
                return ended
    raise AssertionError("it has no end")


def test_all_that_is_waited_for_comes_to_less_than_two_seconds() -> None:
    """Another server hears of it, the work may stop by itself, its slot sees that it must end.

    Then who follows it at a third server hears of the end.
    """
    waited = (
        dispatcher.NOTE_SECONDS,
        runner.CANCEL_SECONDS,
        processes.LOOK_SECONDS,
        broker.CANCELLING_POLL_SECONDS,
    )
    assert sum(waited) < 2


def test_a_worker_that_has_stopped_altogether_is_not_waited_for(tmp_path: Path) -> None:
    """It neither hears nor ends by itself: as in a call of z3, or a process that swaps."""
    workers = ProcessWorkers(1)
    with served(tmp_path, workers) as server:
        job = begun(server)
        [pid] = workers.pids
        os.kill(pid, signal.SIGSTOP)
        server.ask.post(f"{job}/cancel")
        assert end_of(server, job)["status"] == "cancelled"
        assert pid not in workers.pids
        quick = server.ask.post("/v1/count", json={"digits": 1}, headers={"Prefer": "wait=60"})
        assert quick.status_code == 200


class Held(ThreadWorkers):
    """A piece waits until it is killed; ``given`` says what it then ends with."""

    def __init__(self, error: Exception | None = None) -> None:
        super().__init__(slots=1)
        self.error = error
        self.began = threading.Event()

    def submit(self, piece: Piece, **how: Any) -> HereTicket:
        ticket = HeldTicket(self.error)
        self._tickets.append(ticket)
        self.began.set()
        return ticket


class HeldTicket(HereTicket):
    def __init__(self, error: Exception | None) -> None:
        super().__init__()
        self.error = error

    def stop(self) -> None:
        if self.error is not None and not self.future.done():
            self.future.set_exception(self.error)


@pytest.mark.parametrize("error", [None, WorkerLostError("gone", "")], ids=["deaf", "lost"])
def test_a_job_whose_worker_is_lost_as_it_is_cancelled_is_not_begun_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception | None
) -> None:
    monkeypatch.setattr(runner, "CANCEL_SECONDS", 0.05)
    with served(tmp_path, Held(error)) as server:
        job = begun(server)
        server.ask.post(f"{job}/cancel")
        assert end_of(server, job)["status"] == "cancelled"


def test_a_job_that_is_cancelled_as_it_is_claimed_is_not_worked_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    claim = Claims.claim

    def cancelled_at_once(self: Claims, *given: Any) -> JobClaim | None:
        found = claim(self, *given)
        if found is not None:
            server.service.store.jobs.cancel(found.job.id)
        return found

    monkeypatch.setattr(Claims, "claim", cancelled_at_once)
    monkeypatch.setattr(runner, "CANCEL_SECONDS", 0.05)
    with served(tmp_path, Held()) as server:
        job = server.ask.post("/v1/count", json=LONG, headers=AT_ONCE).json()["url"]
        assert end_of(server, job)["status"] == "cancelled"


@pytest.fixture(scope="module")
def held(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("held"), Held()) as found:
        yield found


def test_waiting_jobs_are_cancelled_at_once_and_idempotently(held: Served) -> None:
    first = begun(held)
    waits = held.ask.post("/v1/place", json=EXAMPLES["place"], headers=AT_ONCE).json()["url"]
    for _ in range(2):
        assert held.ask.post(f"{waits}/cancel").json()["status"] == "cancelled"
    told = [held.ask.post(f"{first}/cancel").json()["status"] for _ in range(2)]
    assert set(told) <= {Status.CANCELLING, Status.CANCELLED}
    assert end_of(held, first)["status"] == "cancelled"
