"""Processes as workers: answers as ever, and what becomes of a piece whose process dies."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time as clock
from collections.abc import Iterator
from concurrent.futures import wait
from contextlib import suppress
from typing import Any

import psutil  # type: ignore[import-untyped]
import pytest

from hierarchies import InputError
from partitioned import RANGE, SUPERPOD, body_of, told
from patience import PATIENCE_SECONDS, until
from places import ROOT
from synth.ask.partition import Piece
from synth.ask.reply import Outcome
from synth.service.workers import (
    InternalError,
    KilledError,
    NoWorkersError,
    OutOfMemoryError,
    OverTimeError,
    ProcessWorkers,
    QuestionRun,
    WorkerLostError,
)
from working import COUNT, HOG, LARGE, LONG_COUNT, TOP, Listener, end, piece, question


@pytest.fixture(scope="module")
def workers() -> Iterator[ProcessWorkers]:
    workers = ProcessWorkers(2, grace_seconds=1)
    try:
        yield workers
    finally:
        pids = workers.pids
        workers.close()
        assert workers.pids == []
        assert not any(alive(pid) for pid in pids)


def alive(pid: int) -> bool:
    """Whether there is such a process, a zombie counted."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.parametrize(
    ("verb", "given"),
    [
        ("top", TOP),
        ("top", TOP | {"bytes": [2**20, 2**23], "max_steps": 3}),
        ("place", {"system": "dgx-h100:4", "axes": {"data": 8, "model": 4}}),
        ("count", {"digits": 2}),
        ("check", {"program": "reduce root inside", "tree": [2, 4]}),
    ],
)
def test_the_answer_is_that_of_the_verb(
    workers: ProcessWorkers, verb: str, given: dict[str, Any]
) -> None:
    alone = body_of(verb, given)
    reply = QuestionRun(workers, verb, question(verb, given)).run()
    assert (json.dumps(reply.body), reply.outcome) == alone


def test_the_callers_mistakes_arrive_as_they_were_made(workers: ProcessWorkers) -> None:
    with pytest.raises(InputError) as raised:
        QuestionRun(workers, "top", question("top", TOP | {"axes": {"data": 7}})).run()
    assert raised.value.problem.startswith("the axes data=7 multiply to 7 devices")
    assert raised.value.hint == "their product must be the number of devices"
    with pytest.raises(InputError) as raised:
        QuestionRun(workers, "top", question("top", TOP | {"without": ["nod3"]})).run()
    assert raised.value.where == "--without"


def test_a_bug_is_logged_and_told_by_its_number_alone(
    workers: ProcessWorkers, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(InternalError) as raised:
        workers.submit(Piece(verb="no such part", question={})).future.result(PATIENCE_SECONDS)
    assert "KeyError" not in str(raised.value)
    assert raised.value.id in str(raised.value)
    assert f"internal error {raised.value.id}" in caplog.text
    assert "KeyError: 'no such part'" in caplog.text


def test_progress_is_reported_and_a_stop_returns_the_partial_answer(
    workers: ProcessWorkers,
) -> None:
    listener = Listener()
    question_run = QuestionRun(
        workers, "count", question("count", LONG_COUNT), on_progress=listener
    )
    threading.Thread(
        target=lambda: (listener.heard.wait(PATIENCE_SECONDS), question_run.stop())
    ).start()
    reply = question_run.run()
    assert reply.outcome is Outcome.PARTIAL
    assert reply.body["complete"] is False
    stages = [told.stage for told in listener.reports]
    assert stages
    assert set(stages) == {"states explored"}
    counts = [told.done for told in listener.reports]
    assert counts == sorted(counts)


def test_a_budget_brings_what_there_is(workers: ProcessWorkers) -> None:
    reply = QuestionRun(workers, "count", question("count", LONG_COUNT), budget_seconds=0.5).run()
    assert reply.outcome is Outcome.PARTIAL


def test_work_without_a_partial_answer_is_killed_after_the_grace(workers: ProcessWorkers) -> None:
    with pytest.raises(OverTimeError, match="the time limit was reached"):
        QuestionRun(workers, "place", question("place", HOG), budget_seconds=0.2).run()
    ticket = workers.submit(piece("place", HOG))
    until(ticket.future.running)
    ticket.stop()
    assert isinstance(ticket.future.exception(PATIENCE_SECONDS), OverTimeError)
    assert (
        workers.submit(piece("count", {"digits": 1})).future.result(PATIENCE_SECONDS)["outcome"]
        == 0
    )


def test_a_kill_ends_at_once_what_is_under_way_and_what_waits(workers: ProcessWorkers) -> None:
    tickets = [workers.submit(piece("place", HOG)) for _ in range(4)]
    until(lambda: sum(ticket.future.running() for ticket in tickets) == 2)
    for ticket in tickets:
        ticket.kill()
    for ticket in tickets:
        assert isinstance(ticket.future.exception(PATIENCE_SECONDS), KilledError)


def test_a_question_run_that_is_killed_reports_it(workers: ProcessWorkers) -> None:
    question_run = QuestionRun(workers, "place", question("place", HOG))
    threading.Timer(0.3, question_run.kill).start()
    with pytest.raises(KilledError):
        question_run.run()


def test_too_much_memory_is_a_clear_problem_and_nothing_else_suffers(
    workers: ProcessWorkers,
) -> None:
    greedy = workers.submit(piece("place", HOG), memory_bytes=32 * 2**20)
    modest = workers.submit(piece("top", TOP), memory_bytes=512 * 2**20)
    problem = greedy.future.exception(PATIENCE_SECONDS)
    assert isinstance(problem, OutOfMemoryError)
    assert "needs more than 32 MiB" in problem.problem
    assert modest.future.result(PATIENCE_SECONDS)["outcome"] == 0


def test_a_dead_process_fails_its_own_piece_only(workers: ProcessWorkers) -> None:
    until(lambda: len(workers.pids) == 2)
    listeners = Listener(), Listener()
    tickets = [workers.submit(piece("count", LONG_COUNT), on_progress=heard) for heard in listeners]
    assert all(listener.heard.wait(PATIENCE_SECONDS) for listener in listeners)
    before = workers.lost
    end(workers.pids[0])
    done, _ = wait(
        [ticket.future for ticket in tickets], PATIENCE_SECONDS, return_when="FIRST_COMPLETED"
    )
    [lost] = done
    with pytest.raises(WorkerLostError, match="signal 9"):
        lost.result()
    assert workers.lost == before + 1
    [other] = [ticket for ticket in tickets if ticket.future is not lost]
    other.stop()
    assert other.future.result(PATIENCE_SECONDS)["outcome"] == int(Outcome.PARTIAL)
    again = [workers.submit(piece("count", {"digits": 2})) for _ in range(4)]
    assert all(ticket.future.result(PATIENCE_SECONDS)["outcome"] == 0 for ticket in again)


def test_a_question_run_outlives_its_workers(workers: ProcessWorkers) -> None:
    """Two processes are killed while they work on it; the third try brings the answer."""
    listener = Listener()
    question_run = QuestionRun(workers, "count", question("count", COUNT), on_progress=listener)
    replies: list[Any] = []
    thread = threading.Thread(target=lambda: replies.append(question_run.run()))
    thread.start()
    for _ in range(2):
        listener.heard.clear()
        assert listener.heard.wait(PATIENCE_SECONDS)
        for pid in workers.pids:
            end(pid)
    thread.join(PATIENCE_SECONDS)
    [reply] = replies
    assert reply.outcome is Outcome.OK


def test_a_range_outlives_a_worker(workers: ProcessWorkers) -> None:
    listener = Listener()
    question_run = QuestionRun(workers, "top", question("top", RANGE), on_progress=listener)
    replies: list[Any] = []
    thread = threading.Thread(target=lambda: replies.append(question_run.run()))
    thread.start()
    assert listener.heard.wait(PATIENCE_SECONDS)
    end(workers.pids[0])
    thread.join(PATIENCE_SECONDS)
    [reply] = replies
    assert told(reply) == body_of("top", RANGE)
    assert {one.of for one in listener.reports if one.stage == "placements priced"} >= {9}
    assert not any(one.best for one in listener.reports)


def test_a_ranking_reports_the_best_so_far(workers: ProcessWorkers) -> None:
    """Over all axes: with one left over there is one placement to rank."""
    listener = Listener()
    asked_of = SUPERPOD | {"k": 12, "reduce": list(SUPERPOD["axes"])}
    reply = QuestionRun(workers, "top", question("top", asked_of), on_progress=listener).run()
    assert told(reply) == body_of("top", asked_of)
    assert {one.of for one in listener.reports if one.stage == "placements priced"} == {14}
    bests = [json.loads(one.best) for one in listener.reports if one.best]
    assert bests
    first = reply.body["answers"][0]["seconds"]
    for best in bests:
        assert [one["rank"] for one in best["answers"]] == list(range(1, len(best["answers"]) + 1))
        assert all(one["seconds"] >= first for one in best["answers"])
        assert {one["proof"] for one in best["answers"]} == {"not yet"}
        assert best["complete"] is False


def forks_of(workers: ProcessWorkers) -> list[psutil.Process]:
    """The processes that workers have forked."""
    found = []
    for pid in workers.pids:
        with suppress(psutil.NoSuchProcess):
            found += psutil.Process(pid).children()
    return found


def test_a_slot_that_is_idle_is_lent_until_there_is_work_for_it(workers: ProcessWorkers) -> None:
    """And the answer is the same, though forks are killed meanwhile."""
    replies: list[Any] = []
    large = QuestionRun(workers, "top", question("top", LARGE))
    thread = threading.Thread(target=lambda: replies.append(large.run()))
    thread.start()
    until(lambda: len(forks_of(workers)) == 2)
    end(forks_of(workers)[0].pid)
    small = QuestionRun(workers, "count", question("count", {"digits": 2})).run()
    assert small.outcome is Outcome.OK
    assert thread.is_alive()
    thread.join(PATIENCE_SECONDS)
    [reply] = replies
    assert told(reply) == body_of("top", LARGE)
    assert not forks_of(workers)


def test_a_worker_that_is_killed_takes_its_forks_with_it(workers: ProcessWorkers) -> None:
    replies: list[Any] = []
    large = QuestionRun(workers, "top", question("top", LARGE))
    thread = threading.Thread(target=lambda: replies.append(large.run()))
    thread.start()
    until(lambda: len(forks_of(workers)) == 2)
    orphans = [one.pid for one in forks_of(workers)]
    for pid in workers.pids:
        end(pid)
    until(lambda: not any(alive(pid) for pid in orphans))
    thread.join(PATIENCE_SECONDS)
    [reply] = replies
    assert told(reply) == body_of("top", LARGE)


def test_a_stop_ends_forks_too(workers: ProcessWorkers) -> None:
    large = QuestionRun(workers, "top", question("top", LARGE))
    replies: list[Any] = []
    thread = threading.Thread(target=lambda: replies.append(large.run()))
    thread.start()
    until(lambda: len(forks_of(workers)) == 2)
    large.stop()
    thread.join(PATIENCE_SECONDS)
    assert replies[0].outcome is Outcome.PARTIAL
    assert not forks_of(workers)


def test_slots_are_shared_by_the_pieces_that_there_are(workers: ProcessWorkers) -> None:
    shares = [workers._share()]
    tickets = []
    for _ in range(3):
        tickets.append(workers.submit(piece("count", LONG_COUNT)))
        shares.append(workers._share())
    for ticket in tickets:
        ticket.kill()
    assert shares == [2, 2, 1, 1]


def test_a_question_run_whose_workers_always_die_gives_up(workers: ProcessWorkers) -> None:
    listener = Listener()
    question_run = QuestionRun(
        workers, "count", question("count", LONG_COUNT), on_progress=listener
    )
    failed: list[BaseException] = []

    def run() -> None:
        try:
            question_run.run()
        except WorkerLostError as lost:
            failed.append(lost)

    thread = threading.Thread(target=run)
    thread.start()
    while thread.is_alive():
        listener.heard.clear()
        if listener.heard.wait(0.2):
            for pid in workers.pids:
                end(pid)
    assert len(failed) == 1


def test_many_kills_at_odd_moments_lose_nothing(workers: ProcessWorkers) -> None:
    """Each piece ends, with its answer or as lost; and there are always two processes again."""
    tickets = [workers.submit(piece("count", {"digits": 3, "max_steps": 5})) for _ in range(60)]
    rounds = 0
    while not all(ticket.future.done() for ticket in tickets):
        clock.sleep(0.011 * (rounds % 7))
        pids = workers.pids
        if rounds < 15 and pids:
            end(pids[rounds % len(pids)])
        rounds += 1
    lost = [ticket for ticket in tickets if ticket.future.exception()]
    assert all(isinstance(ticket.future.exception(), WorkerLostError) for ticket in lost)
    assert len(lost) <= 15
    until(lambda: len(workers.pids) == 2)


def test_close_drops_what_waits_and_stops_what_is_under_way() -> None:
    workers = ProcessWorkers(1, grace_seconds=1)
    pids = workers.pids
    running, waiting = (workers.submit(piece("count", LONG_COUNT)) for _ in range(2))
    until(running.future.running)
    workers.close(10)
    assert workers.slots == 0  # nobody is told that there is one
    assert running.future.result(0)["outcome"] == int(Outcome.PARTIAL)
    assert isinstance(waiting.future.exception(0), NoWorkersError)
    with pytest.raises(NoWorkersError):
        workers.submit(piece("count", {"digits": 1}))
    assert not any(alive(pid) for pid in pids)
    workers.close()


def test_close_kills_what_does_not_end() -> None:
    workers = ProcessWorkers(1)
    pids = workers.pids
    running = workers.submit(piece("place", HOG))
    until(running.future.running)
    workers.close(0.2)
    assert isinstance(running.future.exception(0), NoWorkersError)
    assert not any(alive(pid) for pid in pids)


SERVER = """
import os, signal, sys, time
from synth.ask.partition import Piece
from synth.service.workers import ProcessWorkers
if __name__ == "__main__":
    workers = ProcessWorkers(2)
    got = []
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: got.append(1))
    question = {"digits": 5, "max_steps": 9}
    ticket = workers.submit(Piece(verb="count", question=question))
    while not ticket.future.running():
        time.sleep(0.01)
    print(*workers.pids, flush=True)
    while len(got) < 2:
        time.sleep(0.01)
    time.sleep(0.3)
    ticket.stop()
    print(ticket.future.result(120)["outcome"], flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def server() -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-c", SERVER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        start_new_session=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def test_signals_to_the_group_are_the_servers_to_decide_on(server: subprocess.Popen[str]) -> None:
    """And when it ends without a word, its workers do not stay behind."""
    assert server.stdout is not None
    pids = [int(word) for word in server.stdout.readline().split()]
    assert len(pids) == 2
    os.killpg(server.pid, signal.SIGINT)
    os.killpg(server.pid, signal.SIGTERM)
    assert int(server.stdout.readline()) == int(Outcome.PARTIAL)
    assert all(alive(pid) for pid in pids)
    server.kill()
    until(lambda: not any(alive(pid) for pid in pids))
