"""Every cache and limit with a moved clock: it holds until its time is over, and no longer.

Each law has two sides, a moment before the end and a moment after: a limit that never ends, and one
that is over at once, are both noticed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from datetime import UTC, datetime, timedelta, tzinfo
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("fastapi", reason="needs the extra server")

from synth.service import threads as threads_module
from synth.service.auth import keys as keys_module
from synth.service.auth import quotas as quotas_module
from synth.service.auth.identity import Caller
from synth.service.auth.keys import Authenticator
from synth.service.auth.quotas import Quotas
from synth.service.errors import RefusalError
from synth.service.jobs import broker as broker_module
from synth.service.jobs import dispatcher as dispatcher_module
from synth.service.jobs import known as known_module
from synth.service.jobs.broker import Broker
from synth.service.jobs.dispatcher import Dispatcher
from synth.service.jobs.known import KnownAnswers
from synth.service.jobs.notifications import Notifications
from synth.service.limits import Limits
from synth.service.metrics import Metrics
from synth.service.settings import Settings
from synth.service.store import (
    Key,
    NewJob,
    Person,
    Scope,
    Status,
    Store,
    StoredAnswer,
    StoreError,
    digest_of,
)
from synth.service.store import keys as stored_keys_module
from synth.service.store import records as records_module
from synth.service.threads import Threads

BEGIN = datetime(2026, 3, 1, tzinfo=UTC)
A_MOMENT = 0.001


class Clock:
    """The time everywhere: of the process, of this machine, and of the database."""

    def __init__(self) -> None:
        self.seconds = 0.0

    @property
    def now(self) -> datetime:
        return BEGIN + timedelta(seconds=self.seconds)

    def monotonic(self) -> float:
        return 1000.0 + self.seconds

    def time(self) -> float:
        return self.now.timestamp()

    def stands_at(self, seconds: float) -> None:
        self.seconds = seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()

    class Moved(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> Any:
            return made.now

    for module in (keys_module, quotas_module, threads_module, broker_module, dispatcher_module):
        still = SimpleNamespace(
            monotonic=made.monotonic, time=made.time, perf_counter=made.monotonic, sleep=None
        )
        monkeypatch.setattr(module, "time", still)
    for other in (quotas_module, known_module, records_module, stored_keys_module):
        monkeypatch.setattr(other, "datetime", Moved)
    return made


@pytest.fixture
def store(tmp_path: Path, clock: Clock) -> Iterator[Store]:
    with Store(f"sqlite:///{tmp_path / 'store.db'}", now=lambda connection: clock.now) as made:
        made.migrate()
        yield made


@pytest.fixture
def threads() -> Iterator[Threads]:
    made = Threads(Metrics(), "tests", 1)
    yield made
    made.close()


def done(work: Coroutine[Any, Any, Any]) -> Any:
    """What comes of it: a value, or the status of a refusal."""
    try:
        return asyncio.run(work)
    except RefusalError as refusal:
        return int(refusal.status)


def holds(clock: Clock, seconds: float, law: Callable[[], bool]) -> None:
    """A law holds until so many seconds after the beginning, and not from then on."""
    clock.stands_at(seconds - A_MOMENT)
    assert law(), f"it is over before {seconds} s"
    clock.stands_at(seconds + A_MOMENT)
    assert not law(), f"it is not over after {seconds} s"


# Keys and sessions.


def admits(keys: Authenticator, secret: str) -> bool:
    return isinstance(done(keys.admit(secret)), Caller)


def test_a_revoked_key_is_admitted_for_seconds_and_no_longer(
    store: Store, threads: Threads, clock: Clock
) -> None:
    keys = Authenticator(store, threads, Limits())
    made = store.keys.create("red", "")
    assert admits(keys, made.secret)
    store.keys.revoke(made.id)
    holds(clock, 3, lambda: admits(keys, made.secret))


def test_a_key_that_is_asked_with_all_the_time_is_looked_up_again(
    store: Store, threads: Threads, clock: Clock
) -> None:
    """To be asked for does not keep it fresh."""
    keys = Authenticator(store, threads, Limits())
    made = store.keys.create("red", "")
    assert admits(keys, made.secret)
    store.keys.revoke(made.id)
    for second in (1, 2, 2.9):
        clock.stands_at(second)
        assert admits(keys, made.secret)
    clock.stands_at(3.1)
    assert not admits(keys, made.secret)


def test_a_key_ends_at_its_time(store: Store, threads: Threads, clock: Clock) -> None:
    made = store.keys.create("red", "", expires=BEGIN + timedelta(days=1))

    def fresh() -> bool:
        return admits(Authenticator(store, threads, Limits()), made.secret)

    holds(clock, 86_400, fresh)
    assert store.keys.known()[0].state == "expired"


@pytest.mark.parametrize("whose", ["key", "person"])
def test_a_session_ends_at_its_time(
    store: Store, threads: Threads, clock: Clock, whose: str
) -> None:
    keys = Authenticator(store, threads, Limits())
    if whose == "key":
        made = store.keys.create("red", "")
        token = done(keys.sign_in(made.secret, ""))
        seconds = keys_module.KEY_SESSION_SECONDS
        assert seconds == 7 * 24 * 3600
    else:
        token = done(keys.sign_in_person(Person("ann", "red", "ask")))
        seconds = keys_module.PERSON_SESSION_SECONDS
        assert seconds == 12 * 3600
    holds(clock, seconds, lambda: isinstance(done(keys.admit_session(token, "")), Caller))
    caller = Caller("red", session=digest_of(token))
    assert not done(keys.still_admits(caller))


def test_a_session_of_a_key_ends_with_the_key(store: Store, threads: Threads, clock: Clock) -> None:
    keys = Authenticator(store, threads, Limits())
    made = store.keys.create("red", "", expires=BEGIN + timedelta(hours=1))
    token = done(keys.sign_in(made.secret, ""))
    holds(clock, 3600, lambda: isinstance(done(keys.admit_session(token, "")), Caller))


def test_that_a_key_was_used_is_noted_once_a_minute(
    store: Store, threads: Threads, clock: Clock
) -> None:
    keys = Authenticator(store, threads, Limits())
    made = store.keys.create("red", "")

    def used() -> datetime | None:
        assert admits(keys, made.secret)
        key = store.keys.one(made.id)
        assert isinstance(key, Key)
        return key.last_used

    assert used() == BEGIN
    holds(clock, 60, lambda: used() == BEGIN)


def test_a_key_may_ask_again_when_its_bucket_has_filled(
    store: Store, threads: Threads, clock: Clock
) -> None:
    keys = Authenticator(store, threads, Limits(requests_per_second=0.25))
    keys._rates._clock = keys._failed._clock = clock.monotonic
    made = store.keys.create("red", "")
    assert [admits(keys, made.secret) for _ in range(2)] == [True, False]
    holds(clock, 4, lambda: not admits(keys, made.secret))


def test_wrong_keys_are_looked_at_again_when_a_minute_has_passed(
    store: Store, threads: Threads, clock: Clock
) -> None:
    keys = Authenticator(store, threads, Limits(failed_sign_ins_per_minute=3))
    keys._rates._clock = keys._failed._clock = clock.monotonic
    assert [done(keys.admit("cs_wrong", "10.0.0.1")) for _ in range(4)] == [403, 403, 403, 429]
    holds(clock, 20, lambda: done(keys.admit("cs_wrong", "10.0.0.1")) == 429)
    assert done(keys.admit("cs_wrong", "10.0.0.2")) == 403


# Quotas.


def submitted(store: Store, number: int, key_id: str | None = None, team: str = "red") -> str:
    question = f"{{{number}}}"
    return store.jobs.submit(NewJob(team, key_id, "top", question, f"key {number}")).job.id


def test_jobs_of_a_day_are_counted_for_a_day(store: Store, threads: Threads, clock: Clock) -> None:
    made = store.keys.create("red", "")
    submitted(store, 1, made.id)
    caller = Caller("red", made.id, jobs_per_day=1)

    def full() -> bool:
        return done(Quotas(store, threads, Limits()).take(caller, 1)) == 429

    holds(clock, 86_400, full)


def test_work_of_a_day_is_counted_for_a_day(store: Store, threads: Threads, clock: Clock) -> None:
    submitted(store, 1)
    claim = store.claims.claim("us", 3600)
    assert claim is not None
    clock.stands_at(100)
    assert store.claims.fail(claim, {})
    limits, caller = Limits(work_seconds_per_day=100), Caller("red", name="ann")

    def spent() -> bool:
        return done(Quotas(store, threads, limits).take(caller, 1)) == 429

    begun = done(Quotas(store, threads, Limits(work_seconds_per_day=101)).take(caller, 1))
    assert begun is None
    holds(clock, 86_400, spent)


def test_a_count_holds_for_seconds_and_is_taken_anew(
    store: Store, threads: Threads, clock: Clock
) -> None:
    """What other servers of the store accept is seen after at most so many seconds."""
    made = store.keys.create("red", "")
    quotas, caller = Quotas(store, threads, Limits()), Caller("red", made.id, jobs_per_day=3)
    assert done(quotas.take(caller, 1)) is None
    for number in range(5):
        submitted(store, number, made.id)
    clock.stands_at(5 - A_MOMENT)
    assert done(quotas.take(caller, 1)) is None
    clock.stands_at(5 + A_MOMENT)
    assert done(quotas.take(caller, 1)) == 429


# Jobs.


@pytest.mark.parametrize("renewed", [0.0, 20.0])
def test_a_lease_ends_so_long_after_it_was_renewed(
    store: Store, clock: Clock, renewed: float
) -> None:
    job = submitted(store, 1)
    assert store.claims.claim("one", 30) is not None
    if renewed:
        clock.stands_at(renewed)
        assert store.claims.renew("one", 30) == 1

    def held() -> bool:
        store.claims.requeue_expired()
        found = store.jobs.one(job)
        return found is not None and found.status is Status.RUNNING

    holds(clock, renewed + 30, held)


def test_a_long_job_comes_after_others_of_its_team_for_a_minute(store: Store, clock: Clock) -> None:
    first = submitted(store, 1)
    claim = store.claims.claim("us", 3600)
    assert claim is not None
    assert store.claims.give_back(claim, tried=True)
    clock.stands_at(1)
    other = store.jobs.submit(NewJob("red", None, "place", "{}", "other")).job.id

    def other_comes_first() -> bool:
        chosen = store.claims.claim("us", 3600)
        assert chosen is not None
        assert store.claims.give_back(chosen)
        assert chosen.job.id in (first, other)
        return chosen.job.id == other

    holds(clock, 60, other_comes_first)


def test_ended_jobs_and_answers_are_kept_for_their_time(store: Store, clock: Clock) -> None:
    job = submitted(store, 1)
    claim = store.claims.claim("us", 30)
    assert claim is not None
    answer = StoredAnswer("key 1", "top", "e", "{}", 0, b"{}", 1.0, clock.now)
    assert store.claims.finish(claim, answer)

    def kept() -> bool:
        store.forget(100.0, 10)
        store.forget(100.0, 10)
        there = [store.jobs.one(job), store.answers.one("key 1")]
        assert there.count(None) in (0, 2)
        return there[0] is not None

    holds(clock, 100, kept)


# Caches of the server.


def test_an_answer_in_memory_is_given_as_long_as_the_store_keeps_it(
    store: Store, threads: Threads, clock: Clock
) -> None:
    """The store may have deleted it since: then nobody is given what has no permalink."""
    settings = Settings(store_url="", name="one", keep_days=1)
    known = KnownAnswers(store, threads, settings, Metrics())
    answer = StoredAnswer("key", "top", "e", "{}", 0, b"{}", 1.0, clock.now)
    store.answers.keep(answer)
    assert done(known.find("red", "key", None)) is not None
    store.answers.one = lambda *given: None  # type: ignore[method-assign]
    with store._database.writing() as connection:
        connection.exec_driver_sql("DELETE FROM seen")
        connection.exec_driver_sql("DELETE FROM answer")
    holds(clock, 86_400, lambda: done(known.find("red", "key", None)) is not None)


def test_that_the_store_has_failed_is_remembered_for_seconds(
    store: Store, threads: Threads, clock: Clock
) -> None:
    def fail() -> None:
        raise StoreError("gone")

    assert done(threads.do(fail)) == 503

    def failed_lately() -> bool:
        try:
            threads.check_lately()
        except RefusalError:
            return True
        return False

    holds(clock, 5, failed_lately)


def idle(store: Store) -> Dispatcher:
    workers = SimpleNamespace(slots=1, idle=1, lost=0)
    settings = Settings(store_url="", name="one")
    return Dispatcher(store, workers, settings, Metrics())  # type: ignore[arg-type]


def test_that_the_store_can_be_written_is_believed_for_a_second(store: Store, clock: Clock) -> None:
    dispatcher = idle(store)
    broker = Broker(store, dispatcher._settings, Metrics(), Notifications(), dispatcher)
    try:
        assert done(broker.check_store()) is None

        def fail(server: str) -> None:
            raise StoreError("gone")

        store.check_writing = fail  # type: ignore[method-assign]
        holds(clock, 1, lambda: done(broker.check_store()) is None)
    finally:
        broker.close()


def test_a_dispatcher_that_makes_no_step_is_given_up(store: Store, clock: Clock) -> None:
    dispatcher = idle(store)
    dispatcher._thread = SimpleNamespace(is_alive=lambda: True)  # type: ignore[assignment]
    holds(clock, 60, lambda: dispatcher.lives)
    assert dispatcher.unready() == "the dispatcher is not running"


def test_workers_that_were_gone_are_tried_again_after_a_while(store: Store, clock: Clock) -> None:
    dispatcher = idle(store)
    claimed: list[float] = []
    dispatcher._claim_one = lambda: bool(claimed.append(clock.seconds))  # type: ignore[method-assign]
    dispatcher._no_workers_until = clock.monotonic() + 10
    dispatcher._thread = SimpleNamespace(is_alive=lambda: True)  # type: ignore[assignment]

    def waits() -> bool:
        claimed.clear()
        dispatcher._claim_all()
        assert (dispatcher.unready() == "there are no workers") == (not claimed)
        return not claimed

    holds(clock, 10, waits)


def test_how_many_dask_workers_there_are_is_known_for_seconds(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("distributed", reason="needs distributed, of the extra 'cluster'")
    from synth.service.workers import dask

    monkeypatch.setattr(dask, "clock", clock)
    workers = dask.DaskWorkers.__new__(dask.DaskWorkers)
    line = object()
    client: Any = SimpleNamespace(status="running", scheduler_comm=line)
    workers._client, workers._line, workers._workers = client, line, 3
    workers._counted = clock.monotonic()
    holds(clock, 5, lambda: workers.slots == 3)
    clock.stands_at(0)
    assert workers.slots == 3
    client.scheduler_comm = object()
    assert workers.slots == 0


def test_a_scope_is_no_matter_of_time(store: Store, threads: Threads, clock: Clock) -> None:
    keys = Authenticator(store, threads, Limits())
    made = store.keys.create("red", "", scopes=[Scope.ASK])
    for second in (0.0, 2.0, 4.0):
        clock.stands_at(second)
        assert done(keys.admit(made.secret)).scopes == {Scope.ASK}
