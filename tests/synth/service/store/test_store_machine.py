"""Any order of statements leaves the store as a few lines of plain Python say."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

pytest.importorskip("sqlalchemy", reason="needs sqlalchemy, of the extra 'server'")

from hierarchies import InputError
from synth.service.store import (
    ConflictError,
    DeletionCounts,
    JobClaim,
    NewJob,
    Status,
    Store,
    StoredAnswer,
    StoredJob,
    engines,
    tables,
)

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
TEAMS = st.sampled_from(["ours", "theirs"])
OWNERS = st.sampled_from(["one", "two"])
NUMBERS = st.integers(0, 30)
BODIES = st.sampled_from([b"a", b"b"])
SECONDS = st.sampled_from([10, 20])
OURS = {"problem": "ours"}
VERBS = {"1": "top", "2": "count"}


@dataclass
class Known:
    """A job as it should be."""

    id: str
    team: str
    question: str
    idempotency_key: str | None
    status: str = "queued"
    attempts: int = 0
    revision: int = 0
    best: bytes | None = None
    progress: dict[str, int] | None = None
    owner: str | None = None
    until: datetime = BEGIN
    claims: int = 0
    gave_up: bool = False
    losses: int = 0
    tried: bool = False
    made: datetime = BEGIN
    finished: datetime | None = None

    @property
    def verb(self) -> str:
        return VERBS[self.question]

    @property
    def told(self) -> tuple[object, ...]:
        return (self.id, self.status, self.attempts, self.revision, self.progress)

    def becomes(self, status: str, **more: object) -> None:
        self.status = status
        self.revision += 1
        for name, value in more.items():
            setattr(self, name, value)

    def put_back(self, *, lost_its_worker: bool = False) -> bool:
        self.losses += lost_its_worker
        if self.status == "cancelling":
            self.becomes("cancelled", owner=None)
        elif (lost_its_worker and self.losses >= 3) or (
            not lost_its_worker and self.attempts >= 50
        ):
            self.becomes("failed", owner=None, gave_up=True)
        else:
            self.becomes("queued", owner=None)
        return self.status == "queued"


@dataclass
class Kept:
    """An answer as it should be: when it was made, and who has seen it."""

    made: datetime
    seen: set[str] = field(default_factory=set)


def told(job: StoredJob) -> tuple[object, ...]:
    return (job.id, job.status, job.attempts, job.revision, job.progress)


@dataclass
class Held:
    """A claim that was given out, and which of its job's claims it is."""

    claim: JobClaim
    job: Known
    number: int

    @property
    def holds(self) -> bool:
        return self.job.owner is not None and self.job.claims == self.number


@dataclass
class Listing:
    """Pages read so far, and what was there when the first was."""

    team: str
    there: list[str]
    got: list[str] = field(default_factory=list)


class Machine(RuleBasedStateMachine):
    """Jobs in the store, and in the order they came, in a list; answers by key."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self.now = BEGIN
        self.store = Store(url, now=lambda _: self.now)
        self.jobs: list[Known] = []
        self.forgotten: list[Known] = []
        self.answers: dict[str, Kept] = {}
        self.held: list[Held] = []
        self.listing: Listing | None = None

    def of(self, team: str) -> list[str]:
        return [job.id for job in self.jobs if job.team == team][::-1]

    @initialize()
    def begin(self) -> None:
        """Few orders come to an answer by themselves, and to one that is asked for again."""
        self.submit("ours", "1", "a")
        self.claim("one", 10)
        self.finish(0, b"a")
        self.submit("theirs", "1", None)

    @rule(team=TEAMS, question=st.sampled_from("12"), key=st.sampled_from([None, None, "a", "b"]))
    def submit(self, team: str, question: str, key: str | None) -> None:
        new = NewJob(team, None, VERBS[question], question, f"key of {question}", key)
        same = [j for j in self.jobs if key and (j.team, j.idempotency_key) == (team, key)]
        if same and same[0].question != question:
            with pytest.raises(ConflictError):
                self.store.jobs.submit(new)
            return
        submitted = self.store.jobs.submit(new)
        assert submitted.created == (not same)
        if same:
            assert submitted.job.id == same[0].id
        else:
            self.jobs.append(Known(submitted.job.id, team, question, key, made=self.now))

    @rule(
        owner=OWNERS,
        lease=SECONDS,
        tried=st.none() | st.booleans(),
        last=st.sampled_from(["", "ours"]),
    )
    def claim(self, owner: str, lease: int, tried: bool | None = None, last: str = "") -> None:
        claim = self.store.claims.claim(owner, lease, tried, [last])
        held = [job for job in self.jobs if job.owner is not None]
        worked_on = {job.question for job in held}
        queued = [j for j in self.jobs if j.status == "queued" and j.question not in worked_on]
        queued = [job for job in queued if tried in (None, job.tried)]
        assert (claim is None) == (not queued)
        if claim is not None:
            unended = [job for job in self.jobs if not Status(job.status).ended]
            long = {(job.team, job.verb) for job in unended if job.tried}

            def turn(job: Known) -> tuple[bool, int, bool]:
                put_off = self.now - job.made < timedelta(seconds=60) or tried is False
                under_way = sum(one.team == job.team for one in held)
                return job.team == last, under_way, put_off and (job.team, job.verb) in long

            job = min(queued, key=turn)
            assert claim.job.id == job.id
            until = self.now + timedelta(seconds=lease)
            job.becomes("running", owner=owner, until=until)
            job.attempts += 1
            job.claims += 1
            self.held.append(Held(claim, job, job.claims))

    @precondition(lambda self: self.held)
    @rule(which=NUMBERS, done=NUMBERS, best=st.none() | BODIES)
    def note(self, which: int, done: int, best: bytes | None) -> None:
        held = self.held[which % len(self.held)]
        noted = self.store.claims.note(held.claim, {"done": done}, best)
        assert noted.lost == (not held.holds)
        assert noted.going_on == (held.holds and held.job.status == "running")
        if held.holds:
            held.job.becomes(held.job.status, progress={"done": done})
            held.job.best = best or held.job.best

    @precondition(lambda self: self.held)
    @rule(which=NUMBERS, body=BODIES)
    def finish(self, which: int, body: bytes) -> None:
        held = self.held[which % len(self.held)]
        job = held.claim.job
        answer = StoredAnswer(job.answer_key, "top", "1", job.question, 0, body, 1.0, self.now)
        before = self.store.answers.one(job.answer_key)
        assert self.store.claims.finish(held.claim, answer) == held.holds
        if held.holds:
            held.job.becomes("done", owner=None, best=None)
            kept = self.answers.setdefault(job.answer_key, Kept(self.now))
            kept.seen.add(job.team)
            assert self.store.answers.one(job.answer_key) == (before or answer)
            assert self.store.answers.one(job.answer_key, held.job.team) == (before or answer)
        else:
            assert self.store.answers.one(job.answer_key) == before

    @precondition(lambda self: self.held)
    @rule(which=NUMBERS, body=st.none() | BODIES)
    def finish_partly(self, which: int, body: bytes | None) -> None:
        held = self.held[which % len(self.held)]
        assert self.store.claims.finish(held.claim, body) == held.holds
        if held.holds:
            wanted = held.job.status == "cancelling"
            best = body or held.job.best
            held.job.becomes("cancelled" if wanted else "partial", owner=None, best=best)

    @precondition(lambda self: self.held)
    @rule(which=NUMBERS)
    def fail(self, which: int) -> None:
        held = self.held[which % len(self.held)]
        assert self.store.claims.fail(held.claim, OURS) == held.holds
        if held.holds:
            held.job.becomes("failed", owner=None)

    @precondition(lambda self: self.held)
    @rule(which=NUMBERS, tried=st.booleans())
    def give_back(self, which: int, tried: bool) -> None:
        held = self.held[which % len(self.held)]
        assert self.store.claims.give_back(held.claim, tried) == held.holds
        if held.holds:
            held.job.tried |= tried
            wanted = held.job.status == "cancelling"
            held.job.becomes("cancelled" if wanted else "queued", owner=None)
            held.job.attempts -= 1

    @precondition(lambda self: self.held)
    @rule(which=NUMBERS)
    def lose(self, which: int) -> None:
        held = self.held[which % len(self.held)]
        lost = self.store.claims.lose(held.claim)
        assert lost == (held.holds and held.job.put_back(lost_its_worker=True))

    @rule()
    def waiting(self) -> None:
        held = [job for job in self.jobs if job.owner is not None]
        worked_on = {job.question for job in held}
        queued = [j for j in self.jobs if j.status == "queued" and j.question not in worked_on]
        teams = {job.team for job in queued if job.tried}
        counts = {team: sum(one.team == team for one in held) for team in teams}
        assert self.store.claims.waiting() == counts

    @rule(owner=OWNERS)
    def requeue(self, owner: str) -> None:
        lost = [job for job in self.jobs if job.owner == owner]
        assert self.store.claims.requeue(owner) == sum(job.put_back() for job in lost)

    @rule()
    def requeue_expired(self) -> None:
        lost = [job for job in self.jobs if job.owner is not None and job.until < self.now]
        assert self.store.claims.requeue_expired() == sum(job.put_back() for job in lost)

    @rule(owner=OWNERS, lease=SECONDS)
    def renew(self, owner: str, lease: int) -> None:
        mine = [job for job in self.jobs if job.owner == owner]
        assert self.store.claims.renew(owner, lease) == len(mine)
        for job in mine:
            job.until = self.now + timedelta(seconds=lease)

    @rule(seconds=SECONDS)
    def wait(self, seconds: int) -> None:
        self.now += timedelta(seconds=seconds)

    @precondition(lambda self: self.jobs)
    @rule(which=NUMBERS)
    def cancel(self, which: int) -> None:
        job = self.jobs[which % len(self.jobs)]
        if job.status == "queued":
            job.becomes("cancelled")
        elif job.status == "running":
            job.becomes("cancelling")
        cancelled = self.store.jobs.cancel(job.id)
        assert cancelled is not None
        assert cancelled.status == job.status

    @rule(team=TEAMS, question=st.sampled_from("123"))
    def saw(self, team: str, question: str) -> None:
        key = f"key of {question}"
        found, kept = self.store.answers.look(team, key), self.answers.get(key)
        assert (found is None) == (kept is None)
        assert found is None or kept is None or found.before == (team in kept.seen)
        self.store.answers.saw(team, key)
        if kept is not None:
            kept.seen.add(team)

    @rule(question=st.sampled_from("123"))
    def keep(self, question: str) -> None:
        key = f"key of {question}"
        self.store.answers.keep(StoredAnswer(key, "top", "1", question, 0, b"kept", 1.0, self.now))
        self.answers.setdefault(key, Kept(self.now))

    @rule(seconds=st.sampled_from([-1, 5, 15]), most=st.integers(1, 3))
    def forget(self, seconds: int, most: int) -> None:
        before = self.now - timedelta(seconds=seconds)
        ended = sorted((job for job in self.jobs if job.finished), key=lambda job: job.finished)
        gone = [job for job in ended if job.finished < before][:most]
        self.jobs = [job for job in self.jobs if job not in gone]
        self.forgotten += gone
        wanted = {f"key of {job.question}" for job in self.jobs}
        made = sorted((kept.made, key) for key, kept in self.answers.items() if key not in wanted)
        keys = [key for when, key in made if when < before][:most]
        for key in keys:
            del self.answers[key]
        assert self.store.forget(seconds, most) == DeletionCounts(len(gone), len(keys))

    @rule(team=TEAMS)
    def begin_listing(self, team: str) -> None:
        self.listing = Listing(team, self.of(team))

    @precondition(lambda self: self.listing)
    @rule(limit=st.integers(1, 4))
    def next_page(self, limit: int) -> None:
        listing = self.listing
        assert listing is not None
        now = self.of(listing.team)
        if not listing.got:
            listing.there = now
        after = listing.got[-1] if listing.got else None
        listing.there = [one for one in listing.there if one in listing.got or one in now]
        if after is not None and after not in now:
            with pytest.raises(InputError, match="no job"):
                self.store.jobs.listed(listing.team, limit, after)
            self.listing = None
            return
        page = [job.id for job in self.store.jobs.listed(listing.team, limit, after)]
        listing.got += page
        assert listing.got == listing.there[: len(listing.got)]
        if len(page) < limit:
            assert listing.got == listing.there
            self.listing = None

    @invariant()
    def the_store_is_as_it_should_be(self) -> None:
        for job in self.jobs:
            if Status(job.status).ended and job.finished is None:
                job.finished = self.now
        for team in ("ours", "theirs"):
            known = [job for job in self.jobs if job.team == team][::-1]
            found = self.store.jobs.listed(team, len(known) + 1)
            assert [told(job) for job in found] == [job.told for job in known]
            for job, one in zip(known, found, strict=True):
                assert one.finished == job.finished
                assert (one.problem is not None) == (job.status == "failed")
                assert (one.problem not in (None, OURS)) == job.gave_up
        counts = self.store.jobs.counts()
        assert counts == {s: sum(job.status == s for job in self.jobs) for s in Status}

    @invariant()
    def answers_are_as_they_should_be(self) -> None:
        for key in ("key of 1", "key of 2", "key of 3"):
            found, kept = self.store.answers.one(key), self.answers.get(key)
            assert (found and found.created) == (kept and kept.made)
            for team in ("ours", "theirs"):
                looked = self.store.answers.one(key, team)
                assert looked == (found if kept and team in kept.seen else None)

    def teardown(self) -> None:
        for job in self.forgotten:
            assert self.store.jobs.one(job.id) is None
        for job in self.jobs:
            found = self.store.jobs.one(job.id)
            assert found is not None
            assert (*told(found), found.best) == (*job.told, job.best)
        self.store.close()


def emptied(url: str) -> str:
    engine = engines.writing_engine(engines.engine(url))
    with engine.begin() as connection:
        for table in reversed(tables.METADATA.sorted_tables):
            connection.execute(table.delete())
    engine.dispose()
    return url


def explore(url: str, examples: int) -> None:
    with Store(url) as store:
        store.migrate()
    how = settings(max_examples=examples, stateful_step_count=40)
    run_state_machine_as_test(lambda: Machine(emptied(url)), settings=how)


def test_any_order_of_statements(store_url: str) -> None:
    explore(store_url, 6)


@pytest.mark.slow
def test_any_order_of_statements_at_length(store_url: str) -> None:
    explore(store_url, 100)
