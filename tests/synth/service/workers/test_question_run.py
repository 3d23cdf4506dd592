"""A sweep divided over workers: rows in order, lost pieces again, stops, and room for others."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, wait
from contextlib import suppress
from typing import Any

import pytest

from synth.ask.answers.parts import Json
from synth.ask.partition import Piece
from synth.ask.planning import PlanQuestion
from synth.ask.questions.question import parse_question
from synth.ask.reply import Outcome, Reply
from synth.service.workers import (
    KilledError,
    OverTimeError,
    Progress,
    QuestionRun,
    WorkerLostError,
)
from synth.service.workers.pool import OnProgress, ignore

BATCHES = [str(8 * number) for number in range(1, 17)]
SWEEP = {"batch": BATCHES, "dtype": ["bfloat16", "float32"]}
NO_PLAN = dict.fromkeys(
    (
        *("system", "devices", "plan", "axes", "placement", "seconds", "samples"),
        *("tokens_per_second", "utilisation", "bytes", "gap"),
    )
)


def answer_of(piece: Piece) -> Json:
    """The answer that a worker without plans would give to a sweep."""
    rows = [
        {"values": {"batch": batch, "dtype": dtype}, "problem": "no", "complete": True, **NO_PLAN}
        for batch in piece.question["sweep"]["batch"]
        for dtype in piece.question["sweep"]["dtype"]
    ]
    body = {"schema_version": 1, "swept": piece.question["sweep"], "rows": rows, "complete": True}
    return {"body": body, "outcome": int(Outcome.NO)}


class FakeTicket:
    """A piece that ends as soon as it is told to, or that is stopped or killed."""

    def __init__(self, piece: Piece, on_progress: OnProgress) -> None:
        self.piece, self.on_progress = piece, on_progress
        self.future: Future[Json] = Future()
        self.stopped = False

    def stop(self) -> None:
        self.stopped = True

    def kill(self) -> None:
        if not self.future.done():
            self.future.set_exception(KilledError("killed"))


class FakeWorkers:
    """Two workers that end pieces by a function when both are busy or nothing else comes."""

    slots = 2
    lost = 0
    divides_sweeps = True

    def __init__(self, end: Callable[[int, FakeTicket], Json | Exception]) -> None:
        self._end = end
        self.tickets: list[FakeTicket] = []
        self.most = 0

    @property
    def busy(self) -> int:
        return sum(not ticket.future.done() for ticket in self.tickets)

    @property
    def idle(self) -> int:
        return self.slots - self.busy

    def submit(
        self,
        piece: Piece,
        *,
        budget_seconds: float | None = None,
        memory_bytes: int | None = None,
        on_progress: OnProgress = ignore,
    ) -> FakeTicket:
        ticket = FakeTicket(piece, on_progress)
        self.tickets.append(ticket)
        self.most = max(self.most, self.busy)
        threading.Timer(0.01, self._finish, (len(self.tickets) - 1, ticket)).start()
        return ticket

    def _finish(self, number: int, ticket: FakeTicket) -> None:
        found = self._end(number, ticket)
        if ticket.future.done():
            return
        if isinstance(found, Exception):
            ticket.future.set_exception(found)
        else:
            ticket.future.set_result(found)

    def close(self, grace_seconds: float = 5) -> None:
        """Nothing to close."""


def run_of(workers: FakeWorkers, **others: Any) -> QuestionRun:
    given = {"system": "dgx-h100:1", "model": "llama3-tiny", "sweep": SWEEP}
    return QuestionRun(workers, "plan", parse_question(PlanQuestion, given), **others)


def values(reply: Reply) -> list[tuple[str, ...]]:
    return [tuple(row["values"].values()) for row in reply.body["rows"]]


ALL = [(batch, dtype) for batch in BATCHES for dtype in SWEEP["dtype"]]


def test_pieces_are_put_together_in_order_and_progress_counts_all_questions() -> None:
    heard: list[Progress] = []
    workers = FakeWorkers(lambda number, ticket: answer_of(ticket.piece))
    run = run_of(workers, on_progress=heard.append)
    reply = run.run()
    assert values(reply) == ALL
    assert reply.body["complete"]
    assert reply.outcome is Outcome.NO
    assert run.pieces == len(workers.tickets) == 8
    assert workers.most == 2
    assert [progress.done for progress in heard] == sorted(progress.done for progress in heard)
    assert heard[-1] == Progress("questions answered", len(ALL), len(ALL))


def test_workers_that_share_idle_slots_get_a_sweep_whole() -> None:
    workers = FakeWorkers(lambda number, ticket: answer_of(ticket.piece))
    workers.divides_sweeps = False
    assert values(run_of(workers).run()) == ALL
    assert len(workers.tickets) == 1


def test_a_lost_piece_is_submitted_again_and_not_for_ever() -> None:
    def lose(number: int, ticket: FakeTicket) -> Json | Exception:
        return WorkerLostError("dead") if number == 1 else answer_of(ticket.piece)

    workers = FakeWorkers(lose)
    assert values(run_of(workers).run()) == ALL
    assert len(workers.tickets) == 9
    with pytest.raises(WorkerLostError):
        run_of(FakeWorkers(lambda number, ticket: WorkerLostError("dead"))).run()


def test_an_error_ends_the_other_pieces() -> None:
    def fail(number: int, ticket: FakeTicket) -> Json | Exception:
        return OverTimeError("late") if number == 0 else answer_of(ticket.piece)

    with pytest.raises(OverTimeError):
        run_of(FakeWorkers(lambda number, ticket: OverTimeError("late"))).run()
    workers = FakeWorkers(fail)
    try:
        found = values(run_of(workers).run())
        assert set(found) < set(ALL)  # the late piece alone is missing
    except OverTimeError:
        assert workers.busy == 0  # it was the first to end


def test_a_stop_keeps_what_has_been_answered_and_begins_no_more() -> None:
    stopping: list[QuestionRun] = []

    def stop(number: int, ticket: FakeTicket) -> Json | Exception:
        if number == 2:
            stopping[0].stop()
        return answer_of(ticket.piece)

    workers = FakeWorkers(stop)
    stopping.append(run_of(workers))
    reply = stopping[0].run()
    assert reply.outcome is Outcome.PARTIAL
    assert len(workers.tickets) < 8
    assert values(reply) == [row for row in ALL if row in set(values(reply))]
    assert len(values(reply)) >= 12


def test_a_spent_budget_still_has_the_rows_of_a_piece() -> None:
    workers = FakeWorkers(lambda number, ticket: answer_of(ticket.piece))
    reply = run_of(workers, budget_seconds=0.0).run()
    assert reply.outcome is Outcome.PARTIAL
    assert len(workers.tickets) == 1
    assert values(reply)


def test_a_killed_piece_may_be_taken_before_the_others_are_killed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begun, kill = threading.Event(), FakeTicket.kill

    def kill_slowly(ticket: FakeTicket) -> None:
        kill(ticket)
        time.sleep(0.1)  # the run takes the piece meanwhile

    def begin(number: int, ticket: FakeTicket) -> Json | Exception:
        begun.set()
        wait([ticket.future])
        return KilledError("killed")

    def run_until_killed() -> None:
        with suppress(KilledError):
            run.run()

    monkeypatch.setattr(FakeTicket, "kill", kill_slowly)
    run = run_of(FakeWorkers(begin))
    running = threading.Thread(target=run_until_killed)
    running.start()
    assert begun.wait(60)
    run.kill()
    running.join(60)
    assert not running.is_alive()


def test_a_kill_ends_all_pieces() -> None:
    killing: list[QuestionRun] = []

    def kill(number: int, ticket: FakeTicket) -> Json | Exception:
        killing[0].kill()
        return answer_of(ticket.piece)

    workers = FakeWorkers(kill)
    killing.append(run_of(workers))
    with pytest.raises(KilledError):
        killing[0].run()
    assert workers.busy == 0
