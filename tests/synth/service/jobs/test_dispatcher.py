"""Whatever fails between a job and its answer, the job ends once, and the truth is told of it."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from importlib import resources
from pathlib import Path
from shutil import disk_usage
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("fastapi", reason="needs the extra server")

from sqlalchemy import event, update

from partitioned import RANGE
from patience import PATIENCE_SECONDS, until
from serving import HereTicket, Served, ThreadWorkers, served
from synth.ask.partition import Piece
from synth.service.http.examples import EXAMPLES
from synth.service.jobs.dispatcher import Dispatcher
from synth.service.jobs.questions import prepare
from synth.service.jobs.runner import CANCEL_SECONDS
from synth.service.limits import Limits
from synth.service.metrics import Metrics
from synth.service.settings import Settings
from synth.service.store import (
    DeletionCounts,
    NewJob,
    Status,
    Store,
    StoredAnswer,
    StoredJob,
    StoreError,
)
from synth.service.store.answers import Answers
from synth.service.store.claims import Claims
from synth.service.store.jobs import Jobs
from synth.service.store.keys import Keys
from synth.service.store.records import JobClaim
from synth.service.store.systems import Systems
from synth.service.store.tables import JOB
from synth.service.workers import (
    InternalError,
    NoWorkersError,
    OutOfMemoryError,
    WorkerLostError,
)

DESCRIBED = (resources.files("hierarchies") / "catalogue" / "dgx-h100.toml").read_text("utf-8")
AT_ONCE = {"Prefer": "respond-async"}
LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)
LONG = {"digits": 5, "max_steps": 8, "across": True}


class Flaky:
    """A store that fails, in all its parts, while it is ``down``."""

    def __init__(self, store: Any, whole: Flaky | None = None) -> None:
        self._store = store
        self._whole = whole or self
        self.down = False

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        if isinstance(found, (Answers, Claims, Jobs, Keys, Systems)):
            return Flaky(found, self)
        if not callable(found):
            return found

        def call(*given: Any) -> Any:
            if self._whole.down and name != "close":
                raise StoreError("the disk is gone")
            return found(*given)

        return call


class Scripted(ThreadWorkers):
    """Every piece ends with an error, for as long as there are any."""

    def __init__(self, *errors: Exception) -> None:
        super().__init__()
        self.errors = list(errors)
        self.handed_in = 0

    def submit(self, piece: Piece, **how: Any) -> HereTicket:
        self.handed_in += 1
        if not self.errors:
            return super().submit(piece, **how)
        ticket = HereTicket()
        ticket.future.set_exception(self.errors.pop(0))
        return ticket


def new_job(number: int, verb: str = "place") -> NewJob:
    question: Any = {"system": f"dgx-h100:{number}", "axes": {"data": 8 * number}}
    put = prepare(verb, question if verb == "place" else LONG)
    return NewJob("red", None, verb, put.text, put.key)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    made = Store(f"sqlite:///{tmp_path / 'jobs.db'}")
    made.migrate()
    yield made
    made.close()


class Running:
    """A dispatcher with a store of the test's."""

    def __init__(
        self, store: Any, workers: Any, name: str = "one", trial: Any = None, **how: Any
    ) -> None:
        self.workers = workers
        settings = Settings(store_url="", name=name, **how)
        self.dispatcher = Dispatcher(store, workers, settings, Metrics(), trial=trial)

    def __enter__(self) -> Dispatcher:
        self.dispatcher.start()
        return self.dispatcher

    def __exit__(self, *raised: object) -> None:
        self.dispatcher.stop(0)
        self.workers.close(0)


def ended(store: Store, job_id: str) -> StoredJob | None:
    job = store.jobs.one(job_id)
    return job if job is not None and job.status.ended else None


def test_jobs_queued_before_and_after_the_start_are_done(store: Store) -> None:
    before = store.jobs.submit(new_job(1)).job
    with Running(store, ThreadWorkers()) as dispatcher:
        after = store.jobs.submit(new_job(2)).job
        dispatcher.wake()
        for job in (before, after):
            done = until(lambda job=job: ended(store, job.id))
            assert (done.status, done.attempts) == (Status.DONE, 1)
            assert store.answers.one(done.answer_key, "red") is not None


def test_a_store_that_fails_for_a_while(store: Store) -> None:
    flaky = Flaky(store)
    with Running(flaky, ThreadWorkers()) as dispatcher:
        assert until(lambda: dispatcher.unready() is None)
        flaky.down = True
        job = store.jobs.submit(new_job(1)).job
        dispatcher.wake()
        assert until(dispatcher.unready) == "the store does not answer"
        assert store.jobs.one(job.id) == job
        flaky.down = False
        assert until(lambda: ended(store, job.id)).status is Status.DONE
        assert until(lambda: dispatcher.unready() is None)


def test_an_end_that_cannot_be_written_is_written_later(store: Store) -> None:
    flaky = Flaky(store)

    class Breaking(ThreadWorkers):
        def submit(self, piece: Piece, **how: Any) -> HereTicket:
            ticket = super().submit(piece, **how)
            flaky.down = True
            return ticket

    with Running(flaky, Breaking()) as dispatcher:
        job = store.jobs.submit(new_job(1)).job
        dispatcher.wake()
        until(dispatcher.unready)
        flaky.down = False
        assert until(lambda: ended(store, job.id)).status is Status.DONE


def test_a_worker_that_is_lost_once(store: Store) -> None:
    job = store.jobs.submit(new_job(1)).job
    with Running(store, Scripted(WorkerLostError("gone"))):
        assert until(lambda: ended(store, job.id)).status is Status.DONE


def test_a_worker_that_is_lost_every_time(store: Store) -> None:
    job = store.jobs.submit(new_job(1)).job
    workers = Scripted(*[WorkerLostError("gone")] * 100)
    with Running(store, workers):
        failed = until(lambda: ended(store, job.id))
    assert (failed.status, failed.attempts) == (Status.FAILED, 3)
    assert "lost its worker" in failed.problem["problem"]
    assert workers.handed_in < 100


def test_workers_that_are_lost_are_counted(tmp_path: Path) -> None:
    workers = ThreadWorkers()
    with served(tmp_path, workers) as server:
        assert "collsynth_workers_lost_total 0.0" in server.ask.get("/metrics").text
        workers.lost = 2
        assert "collsynth_workers_lost_total 2.0" in server.ask.get("/metrics").text


def test_where_all_workers_are_lost_the_job_is_given_back(store: Store) -> None:
    job = store.jobs.submit(new_job(1)).job
    with Running(store, Scripted(NoWorkersError("no cluster"))) as dispatcher:
        assert until(dispatcher.unready) == "there are no workers"
        until(lambda: store.jobs.one(job.id).status is Status.QUEUED)
        time.sleep(0.3)
        waiting = store.jobs.one(job.id)
        assert waiting is not None
        assert (waiting.status, waiting.attempts) == (Status.QUEUED, 0)


@pytest.mark.parametrize(
    ("error", "status"), [(OutOfMemoryError("too much"), 422), (InternalError("17"), 500)]
)
def test_the_failure_of_a_job_is_reported(store: Store, error: Exception, status: int) -> None:
    job = store.jobs.submit(new_job(1)).job
    with Running(store, Scripted(error)):
        failed = until(lambda: ended(store, job.id))
    assert failed.status is Status.FAILED
    assert failed.problem["status"] == status


def test_a_mistake_of_ours_fails_the_job_and_nothing_else(store: Store) -> None:
    """Of two jobs at once one meets the mistake: whose piece is handed in first."""
    jobs = [store.jobs.submit(new_job(number)).job for number in (1, 2)]
    with Running(store, Scripted(ZeroDivisionError())):
        done, failed = sorted(
            (until(lambda job=job: ended(store, job.id)) for job in jobs),
            key=lambda job: job.status is Status.FAILED,
        )
    assert (done.status, failed.status) == (Status.DONE, Status.FAILED)
    assert failed.problem["status"] == 500
    assert "internal error" in failed.problem["problem"]
    assert "ZeroDivision" not in str(failed.problem)


def test_a_mistake_of_the_dispatcher_does_not_end_it(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def wrong(*given: Any) -> None:
        raise KeyError("wrong")

    running = Running(store, ThreadWorkers(), lease_seconds=3.0)
    with monkeypatch.context() as broken, running as dispatcher:
        broken.setattr(store.claims, "renew", wrong)
        assert until(dispatcher.unready) == "the dispatcher fails"
        broken.undo()
        job = store.jobs.submit(new_job(1)).job
        assert until(lambda: ended(store, job.id)).status is Status.DONE
        assert until(lambda: dispatcher.unready() is None)


def test_a_job_cancelled_elsewhere_is_ended_here(store: Store) -> None:
    job = store.jobs.submit(new_job(1, "count")).job
    with Running(store, ThreadWorkers()):
        until(lambda: store.jobs.one(job.id).status is Status.RUNNING)
        store.jobs.cancel(job.id)
        cancelled = until(lambda: ended(store, job.id))
    assert cancelled.status is Status.CANCELLED
    assert cancelled.best is not None


def test_a_job_that_another_took_over_is_left_alone(store: Store) -> None:
    job = store.jobs.submit(new_job(1, "count")).job
    with Running(store, ThreadWorkers()) as dispatcher:
        until(lambda: store.jobs.one(job.id).status is Status.RUNNING)

        def taken_over() -> JobClaim | None:
            """The dispatcher may be the faster one, and claim it again."""
            store.claims.requeue("one")
            return store.claims.claim("two", 60)

        theirs = until(taken_over)
        until(lambda: dispatcher.under_way == 0)
        found = store.jobs.one(job.id)
        assert found is not None
        assert found.status is Status.RUNNING
        assert found.attempts >= 2
        assert store.claims.finish(theirs, b"{}")


def test_jobs_of_a_server_that_is_no_more_are_taken_over(store: Store) -> None:
    job = store.jobs.submit(new_job(1)).job
    assert store.claims.claim("dead", 0.5)
    with Running(store, ThreadWorkers(), "two", lease_seconds=1):
        done = until(lambda: ended(store, job.id))
    assert (done.status, done.attempts) == (Status.DONE, 2)


def test_a_lease_is_held_for_as_long_as_the_work_takes(store: Store) -> None:
    job = store.jobs.submit(new_job(1, "count")).job
    with Running(store, ThreadWorkers(), lease_seconds=0.6):
        until(lambda: store.jobs.one(job.id).status is Status.RUNNING)
        time.sleep(1.5)
        assert store.claims.requeue_expired() == 0
        store.jobs.cancel(job.id)
        assert until(lambda: ended(store, job.id)).attempts == 1


def test_two_servers_share_the_jobs_of_one_store(store: Store) -> None:
    jobs = [store.jobs.submit(new_job(number)).job for number in range(1, 25)]
    with Running(store, ThreadWorkers(), "one"), Running(store, ThreadWorkers(), "two"):
        done = [until(lambda job=job: ended(store, job.id)) for job in jobs]
    assert {(job.status, job.attempts) for job in done} == {(Status.DONE, 1)}


def test_the_same_question_twice_is_worked_out_once(store: Store) -> None:
    workers = Scripted()
    jobs = [store.jobs.submit(new_job(1)).job for _ in range(5)]
    with Running(store, workers):
        done = [until(lambda job=job: ended(store, job.id)) for job in jobs]
    assert {job.status for job in done} == {Status.DONE}
    assert workers.handed_in == 1


def test_a_quick_question_passes_long_ones(store: Store) -> None:
    jobs = []
    for smallest in (2**12, 2**13):
        put = prepare("top", RANGE | {"bytes": [smallest, 2**30]})
        jobs.append(store.jobs.submit(NewJob("red", None, "top", put.text, put.key)).job)
    trial = ThreadWorkers(slots=1)
    with Running(store, ThreadWorkers(slots=2), trial=trial) as dispatcher:
        until(lambda: dispatcher.under_way == 2)
        quick = store.jobs.submit(new_job(1)).job
        dispatcher.wake()
        done = until(lambda: ended(store, quick.id))
        others = [store.jobs.one(job.id) for job in jobs]
    assert done.status is Status.DONE
    assert all(one.finished is None or one.finished > done.finished for one in others)


class Sluggish(ThreadWorkers):
    """Workers for whom counting comes to no end until it is killed."""

    def submit(self, piece: Piece, **how: Any) -> HereTicket:
        if piece.verb != "count":
            return super().submit(piece, **how)
        ticket = HereTicket()
        self._tickets.append(ticket)
        return ticket


def test_long_jobs_do_not_delay_quick_ones_of_any_team(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Six that would take minutes fill two workers: another's question is answered, then theirs."""
    monkeypatch.setattr("synth.service.jobs.dispatcher.TRIAL_SECONDS", 0.05)
    counts = []
    for digits in range(1, 7):
        put = prepare("count", {"digits": digits, "max_steps": 8})
        counts.append(store.jobs.submit(NewJob("red", None, "count", put.text, put.key)).job)
    trial = Sluggish(slots=1)
    with Running(store, Sluggish(slots=2), trial=trial) as dispatcher:
        for team in ("blue", "red"):
            put = prepare("place", {"system": "dgx-h100:1", "axes": {team: 8}})
            quick = store.jobs.submit(NewJob(team, None, "place", put.text, put.key)).job
            dispatcher.wake()
            assert until(lambda quick=quick: ended(store, quick.id)).status is Status.DONE
        until(lambda: store.jobs.counts()[Status.QUEUED] == 4)
        assert not any(ended(store, job.id) for job in counts)
    again = [store.jobs.one(job.id) for job in counts]
    assert {job.status for job in again if job} == {Status.QUEUED}
    assert {job.attempts for job in again if job} == {0}


def test_jobs_like_long_ones_of_a_team_run_after_its_others(store: Store) -> None:
    """One of six that take minutes has been tried: the quick one need not wait for all of them."""
    counts = []
    for steps in range(1, 7):
        put = prepare("count", {"digits": 8, "max_steps": steps})
        counts.append(store.jobs.submit(NewJob("red", None, "count", put.text, put.key)).job.id)
    first = store.claims.claim("us", 9, tried=False)
    assert first is not None
    store.claims.give_back(first, tried=True)
    quick = store.jobs.submit(new_job(1)).job.id
    tried = [store.claims.claim("us", 9, tried=False) for _ in range(3)]
    assert [one.job.id for one in tried if one] == [quick, *counts[1:3]]


def test_a_team_with_all_slots_makes_room_for_another(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What takes longer than a trial has a slot then, and not when one of theirs has ended."""
    monkeypatch.setattr("synth.service.jobs.dispatcher.TRIAL_SECONDS", 0.05)

    def counting(team: str, steps: int) -> str:
        put = prepare("count", {"digits": 8, "max_steps": steps})
        return store.jobs.submit(NewJob(team, None, "count", put.text, put.key)).job.id

    def runs(*jobs: str) -> bool:
        found = [store.jobs.one(job) for job in jobs]
        return all(job.status is Status.RUNNING for job in found if job)

    red = [counting("red", 1)]
    with Running(store, Sluggish(slots=3), trial=Sluggish(slots=1)) as dispatcher:
        for steps in (2, 3):
            until(lambda: runs(*red))
            red.append(counting("red", steps))
            dispatcher.wake()
        until(lambda: runs(*red))
        blue = [counting("blue", steps) for steps in (4, 5)]
        dispatcher.wake()
        shared = {"red": 2, "blue": 1}
        until(lambda: store.claims.waiting() == shared and runs(blue[0], *red[:2]))
        dispatcher._make_room()
        assert runs(blue[0], *red[:2])
        assert [store.jobs.one(job).attempts for job in (red[2], blue[1])] == [0, 0]


class Place:
    """A job under way, as far as it is looked at to see who gives way."""

    verb, trial_seconds, cancelled = "count", None, False

    def __init__(self, team: str, begun: float) -> None:
        self.claim = SimpleNamespace(job=SimpleNamespace(team=team))
        self.begun, self.tried = begun, False

    def give_way(self) -> None:
        self.tried = True


@pytest.mark.parametrize("slots", [1, 2, 3, 4])
@pytest.mark.parametrize("teams", [2, 3])
def test_slots_are_freed_until_shares_differ_by_one(slots: int, teams: int) -> None:
    """The youngest gives way each time, and of one slot nobody does: they would take turns."""
    held = dict.fromkeys(map(str, range(teams)), 0) | {"0": slots}
    store: Any = SimpleNamespace(claims=SimpleNamespace(waiting=lambda: held))
    workers: Any = SimpleNamespace(slots=slots, idle=0, lost=0)
    dispatcher = Dispatcher(store, workers, Settings(store_url="", name="one"), Metrics())
    places = [Place("0", float(number)) for number in range(slots)]
    for turn in range(2 * slots):
        dispatcher._runners = {str(at): place for at, place in enumerate(places)}  # type: ignore[misc]
        dispatcher._make_room()
        gone = [place for place in places if place.tried]
        if not gone:
            break
        [gives_way] = gone
        mine = [place for place in places if place.claim == gives_way.claim]
        assert gives_way.begun == max(place.begun for place in mine)
        places.remove(gives_way)
        held[gives_way.claim.job.team] -= 1
        next_team = min(held, key=lambda team: held[team])
        held[next_team] += 1
        places.append(Place(next_team, 100.0 + turn))
    assert max(held.values()) - min(held.values()) <= 1
    assert sum(held.values()) == slots


def test_a_team_that_has_had_its_work_of_a_day_comes_last(store: Store) -> None:
    limits = Limits(work_seconds_per_day=1.0)
    worked = store.jobs.submit(new_job(1)).job
    claim = store.claims.claim("us", 9)
    assert claim is not None
    store.claims.fail(claim, {})
    with store._database.writing() as connection:
        connection.execute(update(JOB).where(JOB.c.id == worked.id).values(work_seconds=2.0))
    red = [store.jobs.submit(new_job(number)).job for number in (2, 3)]
    put = prepare("place", {"system": "dgx-h100:1", "axes": {"blue": 8}})
    blue = store.jobs.submit(NewJob("blue", None, "place", put.text, put.key)).job
    with Running(store, ThreadWorkers(slots=1), keys=True, limits=limits):
        *others, first = [until(lambda job=job: ended(store, job.id)) for job in (*red, blue)]
    assert all(job.started >= first.finished for job in others)


class Deaf(HereTicket):
    """A piece that does not hear when it is asked to stop."""

    def stop(self) -> None:
        pass


class DeafWorkers(ThreadWorkers):
    def submit(self, piece: Piece, **how: Any) -> HereTicket:
        return Deaf()


def test_a_job_that_is_cancelled_ends_soon_even_if_its_work_does_not(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The time that work has to stop by itself is at most a second, not the ten of a budget."""
    assert CANCEL_SECONDS <= 1
    monkeypatch.setattr("synth.service.jobs.runner.CANCEL_SECONDS", 0.05)
    job = store.jobs.submit(new_job(1)).job
    with Running(store, DeafWorkers()) as dispatcher:
        until(lambda: store.jobs.one(job.id).status is Status.RUNNING)
        store.jobs.cancel(job.id)
        dispatcher.look(job.id)
        assert until(lambda: ended(store, job.id)).status is Status.CANCELLED


SENT = [{"reduce": [axis], "bytes": 1024} for axis in ("data", "none")]
REFUSED_AT_ONCE = [
    ("top", {"axes": {"data": 8, "model": 3}}, "multiply to 24"),
    ("top", {"reduce": ["nobody"]}, "nobody"),
    ("sweep", {"axes": {"data": 33}}, "multiply to 33"),
    ("cost", {"axes": {"data": 33}}, "multiply to 33"),
    ("place", {"axes": {"data": 33}}, "multiply to 33"),
    ("lower", {"axes": {"data": 33}}, "multiply to 33"),
    ("time", {"axes": {"data": 33}}, "multiply to 33"),
    ("emit", {"axes": {"data": 33}}, "multiply to 33"),
    ("check", {"tree": None}, "--tree"),
    ("shard", {"axes": {"data": 7}}, "multiply to 7"),
    ("simulate", {"plan": "data=7; batch over data"}, "multiply to 7"),
    ("simulate", {"plan": "data=8; batch over nothing"}, "nothing"),
    ("plan", {"job": {"name": "x.toml", "text": "x = 1"}}, "x.toml"),
    ("plan", {"system": "dgx-h100:3"}, "24"),
    ("top", {"reduce": None, "collectives": SENT}, "none"),
]


@pytest.mark.parametrize(("verb", "change", "said"), REFUSED_AT_ONCE)
def test_what_can_be_refused_at_once_makes_no_job(
    idle: Served, verb: str, change: dict[str, Any], said: str
) -> None:
    answer = idle.ask.post(f"/v1/{verb}", json={**EXAMPLES[verb], **change}, headers=AT_ONCE)
    assert answer.status_code == 422, answer.text
    assert said in answer.json()["detail"]
    assert idle.ask.get("/v1/jobs").json()["jobs"] == []


@pytest.fixture(scope="module")
def idle(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("idle"), Scripted()) as found:
        yield found


def test_a_full_disk_is_an_error_in_the_log_and_not_ready(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(connection: Any, record: object) -> None:
        connection.execute("PRAGMA max_page_count = 1")  # as many as there are: SQLite's own words

    with served(tmp_path) as server:
        assert server.ask.get("/readyz").status_code == 200
        made = server.service.store._database.engine
        event.listen(made, "connect", full)
        made.dispose()
        text = "x" * 100_000  # more than is free within the pages there are
        named = {"name": "long", "text": f"# {text}\n{DESCRIBED}"}
        refused = server.ask.post("/v1/place", json={**EXAMPLES["place"], "system": named})
        assert refused.status_code == 503
        ready = server.ask.get("/readyz")
        assert ready.status_code == 503
        assert "the disk of the store is full" in ready.json()["problems"]
        errors = [one.getMessage() for one in caplog.records if one.levelname == "ERROR"]
        assert any("full" in message for message in errors)
        event.remove(made, "connect", full)
        made.dispose()


def test_a_disk_that_is_nearly_full_is_not_ready(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with served(tmp_path) as server:
        left = disk_usage(tmp_path)._replace(free=1000)
        monkeypatch.setattr("synth.service.store.engines.disk_usage", lambda folder: left)
        server.service.broker._store_checked_until = 0.0
        ready = server.ask.get("/readyz")
        assert (ready.status_code, ready.json()["problems"]) == (
            503,
            ["the disk of the store is full"],
        )


def test_measuring_verbs_are_not_run_within_a_time_limit(tmp_path: Path) -> None:
    with served(tmp_path, ThreadWorkers()) as server:
        server.service.dispatcher.drain(0)
        server.ask.post("/v1/run", json=EXAMPLES["run"], headers=AT_ONCE)
        server.ask.post("/v1/count", json=EXAMPLES["count"], headers=AT_ONCE)
        claims = server.service.store.claims
        assert claims.claim("us", 9, tried=True).job.verb == "run"
        assert claims.claim("us", 9, tried=False).job.verb == "count"


def test_stopping_gives_back_what_runs(store: Store) -> None:
    job = store.jobs.submit(new_job(1, "count")).job
    running = Running(store, ThreadWorkers())
    with running:
        until(lambda: store.jobs.one(job.id).status is Status.RUNNING)
    back = store.jobs.one(job.id)
    assert back is not None
    assert (back.status, back.attempts) == (Status.QUEUED, 0)
    assert running.dispatcher.unready() == "the dispatcher is not running"


def kept(store: Store, made: datetime, axes: dict[str, int]) -> StoredAnswer:
    """An answer to the example of ``place`` on such axes, in the store."""
    put = prepare("place", {**EXAMPLES["place"], "axes": axes})
    answer = StoredAnswer(put.key, "place", "0", put.text, 0, b'{"from": "the test"}', 1.0, made)
    store.answers.keep(answer)
    return answer


def test_old_entries_are_deleted_batch_by_batch(
    store: Store, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("synth.service.jobs.dispatcher._MOST_FORGOTTEN", 2)
    monkeypatch.setattr("synth.service.jobs.dispatcher._POLL_SECONDS", 0.05)
    old = [kept(store, LONG_AGO, {"data": 2**n}).key for n in range(5)]
    new = kept(store, datetime.now(UTC), {"data": 32}).key
    with caplog.at_level("INFO"), Running(store, ThreadWorkers(), keep_days=30) as dispatcher:
        until(lambda: not any(map(store.answers.one, old)))
        until(lambda: len([one for one in caplog.records if one.message == "forgotten"]) == 3)
        counted = dispatcher._metrics.text()
    assert b'collsynth_forgotten_total{what="answers"} 5.0' in counted
    gone = [vars(one)["logged"] for one in caplog.records if one.message == "forgotten"]
    assert [one["answers"] for one in gone] == [2, 2, 1]
    assert store.answers.one(new) is not None


def test_nothing_is_forgotten_where_that_is_wished(store: Store) -> None:
    old = kept(store, LONG_AGO, {"data": 32})
    job = store.jobs.submit(new_job(1)).job
    with Running(store, ThreadWorkers(), keep_days=None):
        until(lambda: ended(store, job.id))
    assert store.answers.one(old.key) == old


@pytest.mark.parametrize("made_elsewhere", [False, True])
def test_stale_entries_of_forgotten_answers_are_harmless(
    tmp_path: Path, made_elsewhere: bool
) -> None:
    """Whether it has to be worked out anew or was, its permalink works."""
    question = {**EXAMPLES["place"], "axes": {"data": 32}}
    with served(tmp_path, keep_days=2) as server:
        store = server.service.store
        until(lambda: server.service.dispatcher._next_forgetting)

        def asked() -> tuple[str, str]:
            said = server.ask.post("/v1/place", json=question, headers={"Prefer": "wait=60"})
            assert said.status_code == 200, said.text
            link = said.headers["content-location"]
            assert server.ask.get(link).status_code == 200
            return said.headers["collsynth-cache"], link

        kept(store, LONG_AGO, {"data": 32})
        assert {asked()[0] for _ in range(3)} == {"hit"}
        assert store.forget(2 * 86400, 500) == DeletionCounts(0, 1)
        assert server.ask.get(asked_for(question)).status_code == 404
        if made_elsewhere:
            kept(store, datetime.now(UTC), {"data": 32})
        assert asked() == ("hit" if made_elsewhere else "miss", asked_for(question))
        assert asked()[0] == "hit"


def asked_for(question: Any) -> str:
    """The permalink of an answer to ``place``."""
    return f"/v1/answers/{prepare('place', question).key}"


def test_a_job_that_is_forgotten_as_it_is_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    headers = {"Idempotency-Key": "nightly", "Prefer": "wait=60"}
    with served(tmp_path) as server:
        store = server.service.store

        def posted() -> Any:
            return server.ask.post("/v1/place", json=EXAMPLES["place"], headers=headers)

        assert posted().status_code == 200
        [before] = server.ask.get("/v1/jobs").json()["jobs"]
        with monkeypatch.context() as patched:
            patched.setattr(store.answers, "one", lambda key: None)
            refused = posted()
        assert refused.status_code == 503
        assert int(refused.headers["retry-after"]) > 0
        until(lambda: store.forget(0, 500) == DeletionCounts(1, 1))
        assert server.ask.get(before["url"]).status_code == 404
        assert posted().status_code == 200
        [after] = server.ask.get("/v1/jobs").json()["jobs"]
        assert after["id"] != before["id"]


def test_a_lost_store_is_reported_by_the_service(tmp_path: Path) -> None:
    with served(tmp_path) as server:
        flaky = broken(server)
        told = server.ask.get("/readyz")
        assert told.status_code == 503
        assert "the store does not answer" in told.json()["problems"]
        refused = server.ask.post("/v1/place", json=EXAMPLES["place"])
        assert refused.status_code == 503
        assert refused.json()["problem"] == "the store cannot be used now"
        assert int(refused.headers["retry-after"]) > 0
        assert server.ask.get("/healthz").status_code == 200
        assert server.ask.get("/v1/jobs").status_code == 503
        assert "collsynth_store_errors_total" in server.ask.get("/metrics").text
        flaky.down = False
        assert until(lambda: server.ask.get("/readyz").status_code == 200)
        assert server.ask.post("/v1/place", json=EXAMPLES["place"]).status_code == 200


def broken(server: Served) -> Flaky:
    """From now on the server's store fails."""
    flaky: Any = Flaky(server.service.store)
    flaky.down = True
    server.service.store = server.service.broker._store = flaky
    server.service.broker._quotas._store = server.service.broker._known._store = flaky
    server.service.broker.systems._store = flaky
    server.service.dispatcher._store = flaky
    return flaky


def test_all_waiting_clients_learn_of_the_end_at_once(tmp_path: Path) -> None:
    with served(tmp_path) as server:
        job = server.ask.post("/v1/count", json=LONG, headers=AT_ONCE).json()
        said: list[str] = []

        def follow() -> None:
            with server.ask.stream("GET", f"{job['url']}/events") as stream:
                said.append("".join(stream.iter_text()))

        threads = [threading.Thread(target=follow) for _ in range(8)]
        for thread in threads:
            thread.start()
        until(lambda: server.ask.get(job["url"]).json()["status"] == "running")
        server.ask.post(f"{job['url']}/cancel")
        for thread in threads:
            thread.join(PATIENCE_SECONDS)
    assert len(said) == 8
    for text in said:
        assert text.count("event: end") == 1
        assert '"status": "cancelled"' in text
