"""A Dask cluster of two worker processes here: the same answers, and what may go wrong."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import wait
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any

import psutil  # type: ignore[import-untyped]
import pytest

from places import ROOT

pytest.importorskip("distributed", reason="distributed is not installed: the extra cluster has it")

from distributed import Client

from hierarchies import InputError
from partitioned import RANGE, body_of, told
from patience import PATIENCE_SECONDS, until
from server_process import free_port
from serving import served
from synth.ask.identity.edition import edition
from synth.ask.reply import Outcome
from synth.service.workers import KilledError, NoWorkersError, OverTimeError, QuestionRun, reporting
from synth.service.workers import dask as remote
from synth.service.workers.dask import DaskTicket, DaskWorkers, PieceOrder
from working import COUNT, HOG, LARGE, LONG_COUNT, TOP, Listener, piece, question

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::DeprecationWarning:distributed"),
]


def started(what: str, *words: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", f"distributed.cli.dask_{what}", *words, "--no-dashboard"],
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )


def worker(address: str, threads: int) -> subprocess.Popen[bytes]:
    """A worker without a nanny: what is killed here stays dead."""
    return started("worker", address, "--no-nanny", "--nthreads", str(threads))


@contextmanager
def cluster(workers: int, threads: int = 1) -> Iterator[tuple[str, list[subprocess.Popen[bytes]]]]:
    """A scheduler and its workers; what is running at the end is ended."""
    with TemporaryDirectory() as folder:
        told = Path(folder) / "scheduler.json"
        own = ("--host", "127.0.0.1", "--port", "0", "--scheduler-file", str(told))
        processes = [started("scheduler", *own)]
        try:
            until(lambda: told.is_file() and told.read_text().strip())
            address = json.loads(told.read_text())["address"]
            processes += [worker(address, threads) for _ in range(workers)]
            if workers:
                with Client(address, set_as_default=False) as client:
                    client.wait_for_workers(workers, timeout=PATIENCE_SECONDS)
            yield address, processes
        finally:
            for process in processes:
                process.kill()
                process.wait()


@pytest.fixture(scope="module")
def two() -> Iterator[str]:
    with cluster(2) as (address, _):
        yield address


@pytest.fixture
def workers(two: str) -> Iterator[DaskWorkers]:
    workers = DaskWorkers(two, grace_seconds=2)
    try:
        yield workers
    finally:
        workers.close()


def test_the_answers_are_those_of_the_verbs(workers: DaskWorkers) -> None:
    assert workers.slots == 2
    for verb, given in (("top", TOP), ("top", RANGE), ("count", {"digits": 2})):
        reply = QuestionRun(workers, verb, question(verb, given)).run()
        assert told(reply) == body_of(verb, given)


def test_progress_is_reported_and_a_stop_returns_the_partial_answer(workers: DaskWorkers) -> None:
    listener = Listener()
    question_run = QuestionRun(
        workers, "count", question("count", LONG_COUNT), on_progress=listener
    )
    thread = threading.Thread(
        target=lambda: (listener.heard.wait(PATIENCE_SECONDS), question_run.stop())
    )
    thread.start()
    reply = question_run.run()
    thread.join()
    assert reply.outcome is Outcome.PARTIAL
    assert {one.stage for one in listener.reports} == {"states explored"}


def test_budgets_and_kills(workers: DaskWorkers) -> None:
    reply = QuestionRun(workers, "count", question("count", LONG_COUNT), budget_seconds=0.5).run()
    assert reply.outcome is Outcome.PARTIAL
    killed = workers.submit(piece("count", LONG_COUNT))
    killed.kill()
    assert isinstance(killed.future.exception(PATIENCE_SECONDS), KilledError)


def test_excessive_requests_wait_no_longer_than_the_grace_period() -> None:
    """On a cluster of its own: the worker goes on for minutes, and what came next would wait."""
    with cluster(1) as (address, _):
        workers = DaskWorkers(address, grace_seconds=2)
        try:
            with pytest.raises(OverTimeError):
                QuestionRun(workers, "place", question("place", HOG), budget_seconds=0.2).run()
        finally:
            workers.close()


def test_the_callers_mistakes_arrive_as_they_were_made(workers: DaskWorkers) -> None:
    given = TOP | {"axes": {"data": 7}, "slow": {"node1": 0.5}}
    with pytest.raises(InputError, match="data=7 multiply to 7 devices"):
        QuestionRun(workers, "cost", question("cost", given)).run()


def test_a_worker_with_two_threads_works_by_two_processes() -> None:
    """Which end with it."""
    with cluster(1, threads=2) as (address, processes):
        workers = DaskWorkers(address)
        try:
            assert workers.slots == 1
            replies: list[Any] = []
            run = QuestionRun(workers, "top", question("top", LARGE))
            thread = threading.Thread(target=lambda: replies.append(run.run()))
            thread.start()
            one = psutil.Process(processes[1].pid)
            until(lambda: len(one.children()) == 2)
            thread.join(PATIENCE_SECONDS)
            assert told(replies[0]) == body_of("top", LARGE)
            assert not one.children()
            workers.submit(piece("top", LARGE))
            until(lambda: len(one.children()) == 2)
            forks = one.children()
            processes[1].send_signal(signal.SIGKILL)
            until(lambda: not any(fork.is_running() for fork in forks))
        finally:
            workers.close()


def test_stops_are_remembered_and_do_not_grow_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "_stopped_keys", {})
    for number in range(3000):
        remote.stop_remotely(f"a {number}")
    assert len(remote._stopped_keys) == 1000
    assert "a 2999" in remote._stopped_keys
    assert "a 1999" not in remote._stopped_keys


def test_a_lost_worker_is_replaced_by_another() -> None:
    """Of two workers one is killed with a piece under way; the other one carries out both."""
    with cluster(2) as (address, processes):
        workers = DaskWorkers(address)
        try:
            listeners = Listener(), Listener()
            tickets = [
                workers.submit(piece("count", COUNT), on_progress=heard) for heard in listeners
            ]
            assert all(listener.heard.wait(PATIENCE_SECONDS) for listener in listeners)
            processes[1].send_signal(signal.SIGKILL)
            wait([ticket.future for ticket in tickets], PATIENCE_SECONDS)
            bodies = [json.dumps(ticket.future.result(0)["body"]) for ticket in tickets]
            assert bodies == [body_of("count", COUNT)[0]] * 2
            assert workers.slots == 1
            until(lambda: workers.lost == 1)
        finally:
            workers.close()


SWEPT: dict[str, Any] = {
    "system": "dgx-h100:1",
    "model": "llama3-tiny",
    "k": 1,
    "pin": "pipe=1 zero=0 sequence=no remat=no",
    "sweep": {"batch": [str(8 * number) for number in range(1, 17)]},
}


def test_a_sweep_is_answered_as_by_one_process_though_a_worker_is_lost() -> None:
    """Its pieces go to both workers; the one that is killed has a piece under way."""
    with cluster(2) as (address, processes):
        workers = DaskWorkers(address)
        try:
            listener = Listener()
            run = QuestionRun(workers, "plan", question("plan", SWEPT), on_progress=listener)
            replies: list[Any] = []
            thread = threading.Thread(target=lambda: replies.append(run.run()))
            thread.start()
            assert listener.heard.wait(PATIENCE_SECONDS)
            until(lambda: workers.idle == 0)
            processes[1].send_signal(signal.SIGKILL)
            thread.join(PATIENCE_SECONDS)
            assert told(replies[0]) == body_of("plan", SWEPT)
            assert run.pieces > 2
            assert {one.of for one in listener.reports} == {16}
            until(lambda: workers.lost >= 1 and workers.slots == 1)
        finally:
            workers.close()


def test_a_scheduler_that_dies_takes_all_workers_with_it() -> None:
    with cluster(1) as (address, processes):
        workers = DaskWorkers(address, connect_seconds=2)
        try:
            listener = Listener()
            ticket = workers.submit(piece("count", LONG_COUNT), on_progress=listener)
            assert listener.heard.wait(PATIENCE_SECONDS)
            processes[0].kill()
            assert isinstance(ticket.future.exception(PATIENCE_SECONDS), NoWorkersError)
            until(lambda: _refused(workers))
        finally:
            workers.close()


@contextmanager
def scheduler(port: int) -> Iterator[str]:
    """A scheduler at a port, and a worker of it."""
    address = f"tcp://127.0.0.1:{port}"
    processes = [started("scheduler", "--host", "127.0.0.1", "--port", str(port))]
    processes.append(worker(address, 1))
    try:
        yield address
    finally:
        for process in processes:
            process.kill()
            process.wait()


@pytest.mark.parametrize("gone", ["for a moment", "for long"])
def test_a_scheduler_that_comes_back_is_found_again(gone: str) -> None:
    """Also where its client was closed, and where that has connected to the next one by itself."""
    port = free_port()
    with scheduler(port) as address:
        until(lambda: _answers(port))
        workers = DaskWorkers(address, grace_seconds=2, connect_seconds=1)
        until(lambda: workers.slots == 1)
        first = workers._client
    try:
        until(lambda: workers.slots == 0)
        with pytest.raises(NoWorkersError, match="is gone"):
            workers.submit(piece("count", {"digits": 1}))
        if gone == "for long":
            until(lambda: first.status == "closed")
        with scheduler(port):
            until(lambda: workers.slots == 1)
            reply = QuestionRun(workers, "count", question("count", {"digits": 2})).run()
            assert told(reply) == body_of("count", {"digits": 2})
            budget = QuestionRun(
                workers, "count", question("count", LONG_COUNT), budget_seconds=0.5
            )
            assert budget.run().outcome is Outcome.PARTIAL
            listener = Listener()
            late = workers.submit(piece("count", LONG_COUNT), on_progress=listener)
            assert listener.heard.wait(PATIENCE_SECONDS)  # its events are heard of
            late.kill()
    finally:
        workers.close()


def _answers(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True


def test_without_workers_a_server_is_not_ready(tmp_path: Path) -> None:
    with cluster(0) as (address, processes), served(tmp_path, DaskWorkers(address)) as server:
        assert server.ask.get("/readyz").json()["problems"] == ["there are no workers"]
        assert server.ask.get("/readyz").status_code == 503
        processes.append(worker(address, 1))
        until(lambda: server.ask.get("/readyz").status_code == 200)
        wait = {"Prefer": "wait=60"}
        assert server.ask.post("/v1/count", json={"digits": 2}, headers=wait).is_success
        processes[0].kill()
        until(lambda: server.ask.get("/readyz").status_code == 503)


def _refused(workers: DaskWorkers) -> bool:
    try:
        return isinstance(
            workers.submit(piece("count", {"digits": 1})).future.exception(PATIENCE_SECONDS),
            Exception,
        )
    except NoWorkersError:
        return True


def test_where_nobody_answers_there_are_no_workers() -> None:
    with pytest.raises(NoWorkersError, match="no Dask scheduler answers at tcp://127"):
        DaskWorkers("tcp://127.0.0.1:9", connect_seconds=1)


def test_workers_with_other_code_are_refused(
    workers: DaskWorkers, monkeypatch: pytest.MonkeyPatch
) -> None:
    def other() -> str:
        return "0.0.9+0123456789ab"

    monkeypatch.setattr("synth.service.workers.dask.edition", other)
    with pytest.raises(NoWorkersError, match="a worker runs version") as raised:
        workers.submit(piece("count", {"digits": 1})).future.result(PATIENCE_SECONDS)
    assert "install the same version" in raised.value.hint


def test_many_short_pieces_send_one_event(monkeypatch: pytest.MonkeyPatch) -> None:
    """While the clock stands still a worker reports once, and says of no piece that it is begun."""
    said: list[Any] = []
    worker = SimpleNamespace(
        log_event=lambda name, event: said.append(event), state=SimpleNamespace(nthreads=1)
    )
    still = SimpleNamespace(monotonic=lambda: 1000.0)
    monkeypatch.setattr(remote, "get_worker", lambda: worker)
    monkeypatch.setattr(remote, "PAUSE_SECONDS", 3600)
    monkeypatch.setattr(remote, "_next_report", 0.0)
    monkeypatch.setattr(reporting, "clock", still)
    short = piece("top", TOP)
    order = {"name": "a", "piece": short.text, "partial": True, "budget_seconds": None}
    for number in range(3):
        text = json.dumps({**order, "number": number, "edition": edition()})
        assert "result" in json.loads(remote.carry_remotely(text))
    assert [event["number"] for event in said] == [0]
    assert "progress" in said[0]


def test_text_alone_travels(workers: DaskWorkers, monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[Any] = []
    submit = workers._executor.submit
    monkeypatch.setattr(
        workers._executor,
        "submit",
        lambda f, *args, **how: (sent.append((f, args)), submit(f, *args, **how))[1],
    )
    QuestionRun(workers, "top", question("top", RANGE)).run()
    assert len(sent) == 1
    assert {function.__name__ for function, _ in sent} == {"carry_remotely"}
    assert all(isinstance(text, str) and len(text) < 20_000 for _, (text,) in sent)


class Forgetful:
    """Workers of which only a ticket that fails asks anything."""

    def send_stop(self, ticket: DaskTicket) -> None:
        pass

    def forget(self, ticket: DaskTicket) -> None:
        pass


@pytest.mark.parametrize("begun", [False, True])
def test_a_piece_that_has_begun_keeps_its_worker_busy_when_it_is_given_up(begun: bool) -> None:
    """Else the scheduler takes the worker for free, and sends it pieces that wait for ever."""
    given = {"name": "n", "number": 1, "piece": "", "partial": False, "edition": ""}
    ticket = DaskTicket(
        Forgetful(), PieceOrder(**given, budget_seconds=None), lambda progress: None
    )
    ticket.begun = begun
    ticket.fail(NoWorkersError("given up"))
    assert isinstance(ticket.future.exception(0), NoWorkersError)
    assert ticket.away.cancelled() != begun
