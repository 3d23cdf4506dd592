"""The store on both databases: what each statement promises."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta

import pytest

pytest.importorskip("sqlalchemy", reason="needs sqlalchemy, of the extra 'server'")

from sqlalchemy import event, update

from hierarchies import InputError
from synth.service.store import (
    MOST_ATTEMPTS,
    MOST_LOSSES,
    ConflictError,
    DeletionCounts,
    EndedSessions,
    JobClaim,
    JobFilter,
    JobOrder,
    NewJob,
    SeenAnswer,
    Status,
    Store,
    StoredAnswer,
    StoredJob,
    StoreError,
)
from synth.service.store.tables import JOB

DAY = timedelta(days=1)


@pytest.fixture
def store(store_url: str) -> Iterator[Store]:
    with Store(store_url) as made:
        made.migrate()
        yield made


def new(question: str = "{}", team: str = "ours", **more: object) -> NewJob:
    return NewJob(team, None, "top", question, f"key of {question}", **more)


def answer_to(job: StoredJob, body: bytes = b"{}") -> StoredAnswer:
    when = datetime(2026, 1, 2, 3, 4, 5, 678901, UTC)
    return StoredAnswer(job.answer_key, job.verb, "0.1", job.question, 0, body, 0.25, when)


def claimed(store: Store, owner: str = "we", lease_seconds: float = 60) -> JobClaim:
    claim = store.claims.claim(owner, lease_seconds)
    assert claim is not None
    return claim


def seen(store: Store, job_id: str) -> StoredJob:
    job = store.jobs.one(job_id)
    assert job is not None
    return job


def test_a_key_is_shown_once_and_stored_as_a_digest(store: Store) -> None:
    made = store.keys.create("ours", "ci", rate_per_second=2.5, jobs_per_day=7)
    kept = store.keys.one(made.id)
    assert kept is not None
    assert made.secret.startswith(f"cs_{made.id}_")
    assert made.secret.split("_")[2] not in repr((made, kept, kept.digest))
    assert kept.admits(made.secret)
    assert not kept.admits(made.secret + "0")
    assert not kept.admits("cs_\ud800")
    assert (kept.team, kept.name, kept.rate_per_second, kept.jobs_per_day, kept.revoked) == (
        ("ours", "ci", 2.5, 7, False)
    )
    assert store.keys.revoke(made.id)
    again = store.keys.one(made.id)
    assert again is not None
    assert not again.admits(made.secret)
    assert not store.keys.revoke("unknown")
    assert store.keys.one("unknown") is None


def test_keys_are_listed_by_team(store: Store) -> None:
    made = [store.keys.create(team, "a").id for team in ("ours", "theirs", "ours")]
    everyones = store.keys.known()
    assert {key.id for key in everyones} == {*made}
    assert [key.id for key in store.keys.known("theirs")] == [made[1]]
    assert store.keys.known("nobody's") == []


def test_jobs_of_a_key_are_counted_since_a_time(store: Store) -> None:
    key = store.keys.create("ours", "ci").id
    for question in ("1", "2"):
        store.jobs.submit(NewJob("ours", key, "top", question, question))
    store.jobs.submit(new("3"))
    now = datetime.now(UTC)
    assert store.jobs.since(key, now - DAY) == 2
    assert store.jobs.since(key, now + DAY) == 0


def test_a_system_is_kept_under_its_team_and_name(store: Store) -> None:
    store.systems.put("ours", "lab", "old")
    store.systems.put("ours", "lab", "new")
    store.systems.put("theirs", "lab", "another")
    store.systems.put("ours", "Attic", "more")
    found = store.systems.one("ours", "lab")
    assert found is not None
    assert found.text == "new"
    assert [one.name for one in store.systems.known("ours")] == ["Attic", "lab"]
    assert store.systems.remove("ours", "lab")
    assert not store.systems.remove("ours", "lab")
    assert store.systems.one("ours", "lab") is None
    assert store.systems.one("theirs", "lab") is not None


def test_a_baseline_is_kept_under_its_team_machine_and_test(store: Store) -> None:
    store.baselines.put("ours", "lab", "all-reduce", "old")
    store.baselines.put("ours", "lab", "all-reduce", "new")
    store.baselines.put("ours", "lab", "all-gather", "another")
    store.baselines.put("ours", "attic", "all-reduce", "elsewhere")
    store.baselines.put("theirs", "lab", "all-reduce", "theirs")
    found = store.baselines.one("ours", "lab", "all-reduce")
    assert found is not None
    assert found.text == "new"
    of_the_lab = {"all-gather": "another", "all-reduce": "new"}
    assert store.baselines.texts("ours", "lab") == of_the_lab
    assert store.baselines.texts("ours", "lab", ["all-reduce", "x"]) == {"all-reduce": "new"}
    assert [one.machine for one in store.baselines.listed("ours")] == ["attic", "lab", "lab"]
    assert store.baselines.remove("ours", "lab", "all-reduce")
    assert not store.baselines.remove("ours", "lab", "all-reduce")
    assert store.baselines.one("ours", "lab", "all-reduce") is None
    assert store.baselines.one("theirs", "lab", "all-reduce") is not None


def test_bytes_of_baselines_are_those_of_their_texts_in_utf_8(store: Store) -> None:
    texts = {"ascii": "abc", "latin": "é" * 10, "wide": "界\n𝄞", "empty": "", "slash": r"\x41\1"}
    for test, text in texts.items():
        store.baselines.put("ours", "lab", test, text)
    bytes_of = {test: len(text.encode()) for test, text in texts.items()}
    assert {one.test: one.bytes for one in store.baselines.listed("ours")} == bytes_of
    assert store.baselines.total("ours") == (5, sum(bytes_of.values()))
    assert store.baselines.total("ours", "lab", ["latin", "x"]) == (1, 20)
    assert store.baselines.total("theirs") == (0, 0)


def test_the_first_answer_under_a_key_stays(store: Store) -> None:
    first = answer_to(store.jobs.submit(new()).job, b'{"x": 1}')
    store.answers.keep(first)
    store.answers.keep(answer_to(store.jobs.submit(new()).job, b'{"x": 2}'))
    assert store.answers.one(first.key) == first
    assert store.answers.one("unknown") is None


def test_a_team_sees_the_answers_it_asked_for(store: Store) -> None:
    assert store.answers.look("ours", "unknown") is None
    store.answers.saw("ours", "unknown")
    answer = answer_to(store.jobs.submit(new()).job)
    store.answers.keep(answer)
    assert store.answers.one(answer.key, "ours") is None
    assert store.answers.look("ours", answer.key) == SeenAnswer(answer, before=False)
    for _ in range(2):
        store.answers.saw("ours", answer.key)
        assert store.answers.look("ours", answer.key) == SeenAnswer(answer, before=True)
    assert store.answers.one(answer.key, "ours") == answer
    assert store.answers.one(answer.key, "theirs") is None


def test_a_known_answer_leaves_an_idempotency_key_to_its_job(store: Store) -> None:
    job = store.jobs.submit(new(idempotency_key="k")).job
    answer = answer_to(job)
    store.answers.keep(answer)
    assert store.answers.look("ours", answer.key, "k") is None
    assert store.answers.look("ours", answer.key, "another") == SeenAnswer(answer, before=False)
    assert store.answers.look("theirs", answer.key, "k") == SeenAnswer(answer, before=False)


def test_a_job_from_queue_to_answer(store: Store) -> None:
    submitted = store.jobs.submit(new(budget_seconds=1.5))
    job = submitted.job
    assert submitted.created
    assert (job.status, job.attempts, job.revision, job.budget_seconds) == ("queued", 0, 0, 1.5)
    assert job == store.jobs.one(job.id)
    claim = claimed(store)
    assert (claim.job.id, claim.job.status, claim.job.attempts) == (job.id, "running", 1)
    noted = store.claims.note(claim, {"stage": "searching \0 \ud800", "done": 1, "of": 2}, b"best")
    assert (noted.going_on, noted.lost) == (True, False)
    store.claims.note(claim, {"done": 2})
    assert seen(store, job.id).best == b"best"
    assert seen(store, job.id).progress == {"done": 2}
    answer = answer_to(job)
    assert store.claims.finish(claim, answer)
    done = seen(store, job.id)
    assert (done.status, done.best, done.revision) == (Status.DONE, None, 4)
    assert done.finished is not None
    assert done.started is not None
    assert done.created <= done.started <= done.finished
    assert store.answers.one(job.answer_key) == answer
    assert store.answers.one(answer.key, "ours") == answer
    assert store.claims.claim("we", 60) is None


def test_a_job_of_an_older_edition_points_to_the_answer_that_was_made(store: Store) -> None:
    job = store.jobs.submit(new()).job
    later = answer_to(job).__class__(**{**vars(answer_to(job)), "key": "of another edition"})
    assert store.claims.finish(claimed(store), later)
    assert seen(store, job.id).answer_key == later.key
    assert store.answers.one(later.key, "ours") == later


def test_a_lost_claim_writes_nothing(store: Store) -> None:
    job = store.jobs.submit(new()).job
    old = claimed(store, lease_seconds=-1)
    assert store.claims.requeue_expired() == 1
    now = claimed(store, "another")
    before = seen(store, job.id)
    assert store.claims.note(old, {"done": 1}, b"wrong").lost
    assert not store.claims.finish(old, answer_to(job))
    assert not store.claims.finish(old, b"wrong")
    assert not store.claims.fail(old, {"problem": "wrong"})
    assert not store.claims.give_back(old)
    assert not store.claims.lose(old)
    assert seen(store, job.id) == before
    assert store.answers.one(job.answer_key) is None
    assert store.claims.finish(now, answer_to(job))
    assert not store.claims.finish(now, answer_to(job))


def test_a_renewed_lease_is_not_taken(store: Store) -> None:
    store.jobs.submit(new())
    claimed(store, lease_seconds=-1)
    assert store.claims.renew("another", 60) == 0
    assert store.claims.renew("we", 60) == 1
    assert store.claims.requeue_expired() == 0
    assert store.claims.requeue("another") == 0
    assert store.claims.requeue("we") == 1


def test_a_job_whose_workers_are_lost_fails_and_reports_it(store: Store) -> None:
    job = store.jobs.submit(new()).job
    for attempt in range(1, MOST_LOSSES + 1):
        claim = claimed(store)
        assert claim.job.attempts == attempt
        assert store.claims.lose(claim) == (attempt < MOST_LOSSES)
    failed = seen(store, job.id)
    assert failed.status is Status.FAILED
    assert failed.problem is not None
    assert "lost its worker 3 times" in failed.problem["problem"]
    assert failed.finished is not None


def test_that_servers_die_is_not_held_against_their_jobs(store: Store) -> None:
    job = store.jobs.submit(new()).job
    for _ in range(MOST_ATTEMPTS - 1):
        claimed(store)
        assert store.claims.requeue("we") == 1
    claimed(store)
    assert store.claims.requeue("we") == 0
    failed = seen(store, job.id)
    assert failed.problem is not None
    assert f"started {MOST_ATTEMPTS} times" in failed.problem["problem"]


def test_giving_back_does_not_count(store: Store) -> None:
    store.jobs.submit(new())
    for _ in range(MOST_ATTEMPTS + 1):
        claim = claimed(store)
        assert claim.job.attempts == 1
        assert store.claims.give_back(claim)


def test_a_queued_job_is_cancelled_at_once(store: Store) -> None:
    job = store.jobs.submit(new()).job
    cancelled = store.jobs.cancel(job.id)
    assert cancelled is not None
    assert (cancelled.status, cancelled.revision) == (Status.CANCELLED, 1)
    assert cancelled.finished is not None
    assert store.jobs.cancel(job.id) == cancelled
    assert store.claims.claim("we", 60) is None
    assert store.jobs.cancel("unknown") is None


def test_all_jobs_of_a_key_or_person_are_cancelled_by_as_many_statements_as_one(
    store: Store,
) -> None:
    """Of others, and of keys that bear the person's name, none."""
    keys = [store.keys.create("ours", "ann").id for _ in range(2)]
    asked = [*([(keys[0], "ann")] * 9), (keys[1], "ann"), *([(None, "ann")] * 9), (None, "bob")]
    for number, (key, name) in enumerate(asked):
        store.jobs.submit(replace(new(str(number)), key_id=key, asked_by=name))
    claims = [claimed(store) for _ in range(3)]
    store.claims.fail(claims[1], {"problem": "no"})
    store.jobs.cancel(claims[2].job.id)
    before = [job.id for job in store.jobs.listed("ours", 99, order=JobOrder.OLDEST)]
    statements: list[str] = []
    event.listen(
        store.jobs._database.engine,
        "before_cursor_execute",
        lambda *sent: statements.append(sent[2]),
    )
    revoked, one = store.keys.revoke(keys[0], cancel=True), len(statements)
    out = store.keys.sign_out("ann", cancel=True)
    assert max(one, len(statements) - one) < 9
    assert revoked is not None
    assert revoked.jobs == (before[0], *before[2:9])
    assert out == EndedSessions(0, tuple(before[10:19]))
    statuses = [job.status for job in store.jobs.listed("ours", 99, order=JobOrder.OLDEST)]
    gone = Status.CANCELLED
    first = [Status.CANCELLING, Status.FAILED, Status.CANCELLING, *([gone] * 6)]
    assert statuses == [*first, Status.QUEUED, *([gone] * 9), Status.QUEUED]


@pytest.mark.parametrize(
    ("end", "status", "best"),
    [
        (lambda store, claim: store.claims.finish(claim, b"part"), Status.CANCELLED, b"part"),
        (lambda store, claim: store.claims.finish(claim, None), Status.CANCELLED, b"noted"),
        (lambda store, claim: store.claims.finish(claim, answer_to(claim.job)), Status.DONE, None),
        (lambda store, claim: store.claims.fail(claim, {"problem": "no"}), Status.FAILED, b"noted"),
        (lambda store, claim: store.claims.give_back(claim), Status.CANCELLED, b"noted"),
        (lambda store, claim: not store.claims.lose(claim), Status.CANCELLED, b"noted"),
    ],
)
def test_a_cancelling_job_comes_to_an_end(
    store: Store, end: object, status: Status, best: bytes | None
) -> None:
    store.jobs.submit(new())
    claim = claimed(store)
    store.claims.note(claim, {}, b"noted")
    cancelling = store.jobs.cancel(claim.job.id)
    assert cancelling is not None
    assert (cancelling.status, cancelling.finished) == (Status.CANCELLING, None)
    noted = store.claims.note(claim, {})
    assert (noted.going_on, noted.lost) == (False, False)
    assert callable(end)
    assert end(store, claim)
    ended = seen(store, claim.job.id)
    assert (ended.status, ended.best) == (status, best)
    assert ended.finished is not None


def test_a_partial_answer_stays_with_its_job(store: Store) -> None:
    job = store.jobs.submit(new()).job
    assert store.claims.finish(claimed(store), b"part")
    assert (seen(store, job.id).status, seen(store, job.id).best) == (Status.PARTIAL, b"part")
    assert store.answers.one(job.answer_key) is None


def test_an_idempotency_key_finds_its_job_again(store: Store) -> None:
    assert not store.jobs.came_with("ours", "k")
    first = store.jobs.submit(new("1", idempotency_key="k"))
    assert store.jobs.came_with("ours", "k")
    assert not store.jobs.came_with("theirs", "k")
    assert store.jobs.revision(first.job.id) == first.job.revision
    assert store.jobs.revision("unknown") is None
    again = store.jobs.submit(new("1", idempotency_key="k"))
    assert (again.job, again.created) == (first.job, False)
    with pytest.raises(ConflictError, match="another question"):
        store.jobs.submit(new("2", idempotency_key="k"))
    assert store.jobs.submit(new("2", "theirs", idempotency_key="k")).created
    assert store.jobs.counts() == {**dict.fromkeys(Status, 0), Status.QUEUED: 2}
    assert store.jobs.counts("ours")[Status.QUEUED] == 1


def test_old_entries_are_deleted(store_url: str) -> None:
    """Ended jobs and what they point to; nothing else, and not before its time."""
    now = [datetime(2026, 3, 1, tzinfo=UTC)]
    with Store(store_url, now=lambda _: now[0]) as store:
        store.migrate()
        store.systems.put("ours", "lab", "text")
        key = store.keys.create("ours", "ci").id
        submitted = NewJob("ours", key, "top", "done", "key of done", "nightly")
        done = store.jobs.submit(submitted).job
        claim = claimed(store)
        assert store.claims.finish(claim, answer_to(claim.job))
        running, queued = (store.jobs.submit(new(name)).job for name in ("running", "queued"))
        assert claimed(store).job.id == running.id
        now[0] += 3 * DAY
        assert store.forget(3 * 86400, 500) == DeletionCounts(0, 0)
        now[0] += DAY
        assert store.forget(3 * 86400, 500) == DeletionCounts(1, 1)
        assert store.jobs.one(done.id) is None
        assert store.answers.one(done.answer_key) is None
        assert store.answers.look("ours", done.answer_key) is None
        assert [job.id for job in store.jobs.listed("ours", 9)] == [queued.id, running.id]
        assert store.systems.one("ours", "lab") is not None
        assert store.keys.one(key) is not None
        again = store.jobs.submit(submitted)
        assert again.created
        assert again.job.id != done.id


def test_an_answer_stays_while_a_job_points_to_it(store_url: str) -> None:
    now = [datetime(2026, 3, 1, tzinfo=UTC)]
    with Store(store_url, now=lambda _: now[0]) as store:
        store.migrate()
        store.answers.keep(answer_to(store.jobs.submit(new()).job))
        now[0] += 9 * DAY
        assert store.forget(86400, 500) == DeletionCounts(0, 0)
        claim = claimed(store)
        assert store.claims.finish(claim, answer_to(claim.job))
        assert store.forget(86400, 500) == DeletionCounts(0, 0)
        now[0] += 2 * DAY
        assert store.forget(86400, 500) == DeletionCounts(1, 1)


def test_old_entries_are_deleted_in_batches_oldest_first(store_url: str) -> None:
    now = [datetime(2026, 3, 1, tzinfo=UTC)]
    with Store(store_url, now=lambda _: now[0]) as store:
        store.migrate()
        jobs = []
        for number in range(5):
            jobs.append(store.jobs.submit(new(str(number))).job.id)
            store.jobs.cancel(jobs[-1])
            now[0] += DAY
        now[0] += 9 * DAY
        assert [store.forget(0, 2).jobs for _ in range(2)] == [2, 2]
        assert [job.id for job in store.jobs.listed("ours", 9)] == jobs[4:]
        assert [store.forget(0, 2).jobs for _ in range(2)] == [1, 0]


def test_a_team_keeps_no_more_bytes_than_it_may(store_url: str) -> None:
    """The oldest goes first, its question counted; one that another team knows stays for that."""
    now = [datetime(2026, 3, 1, tzinfo=UTC)]
    with Store(store_url, now=lambda _: now[0]) as store:
        store.migrate()
        for number in range(4):
            store.jobs.submit(replace(new(str(number)), question="q" * 600))
            claim = claimed(store)
            answer = replace(answer_to(claim.job, b"a" * 100), question="q" * 400, created=now[0])
            assert store.claims.finish(claim, answer)
            now[0] += DAY
        waiting = store.jobs.submit(replace(new("w"), question="w" * 900)).job
        keys = [f"key of {number}" for number in range(4)]
        store.answers.saw("theirs", keys[0])
        assert store.jobs.waiting_bytes("ours") == 900
        assert store.forget_beyond(2400, 500) == DeletionCounts(0, 0)
        assert store.forget_beyond(2**40, 500) == DeletionCounts(0, 0)
        assert store.forget_beyond(1300, 1).jobs == 1
        assert store.forget_beyond(1300, 500) == DeletionCounts(1, 1)
        assert store.forget_beyond(1300, 500) == DeletionCounts(0, 0)
        assert store.jobs.listed("ours", 1)[0].id == waiting.id
        assert len(store.jobs.listed("ours", 9)) == 3
        assert store.answers.one(keys[0], "ours") is None
        assert store.answers.one(keys[0], "theirs") is not None
        assert store.answers.one(keys[1]) is None
        assert all(store.answers.one(key, "ours") is not None for key in keys[2:])
        assert store.jobs.worked_since("ours", now[0] - 9 * DAY, 1.0) is None


def test_a_long_question_is_not_read_where_only_its_job_is_asked_for(store: Store) -> None:
    job = store.jobs.submit(replace(new("q"), name="top of q")).job
    assert store.jobs.one(job.id) == job
    assert store.jobs.seen(job.id) == replace(job, question="")
    assert store.jobs.listed("ours", 9) == [replace(job, question="")]
    assert store.jobs.cancel(job.id).question == ""


def test_jobs_are_listed_newest_first_by_pages(store: Store) -> None:
    made = [store.jobs.submit(new(str(number))).job.id for number in range(5)]
    store.jobs.submit(new("6", "theirs"))
    claim = claimed(store)
    store.claims.note(claim, {}, b"best")
    assert [job.id for job in store.jobs.listed("ours", 9)] == made[::-1]
    first = store.jobs.listed("ours", 2)
    store.jobs.submit(new("7"))
    rest = store.jobs.listed("ours", 9, after=first[-1].id)
    assert [job.id for job in first + rest] == made[::-1]
    running = store.jobs.listed("ours", 9, wanted=JobFilter(Status.RUNNING, "top"))
    assert [(job.id, job.best) for job in running] == [(made[0], None)]
    assert store.jobs.listed("ours", 9, wanted=JobFilter(verb="plan")) == []
    with pytest.raises(InputError, match="there is no job"):
        store.jobs.listed("theirs", 9, after=made[0])


def test_a_list_has_an_order_and_lacks_what_pages_ask_for_themselves(store: Store) -> None:
    made = [store.jobs.submit(new(str(number))).job.id for number in range(4)]
    store.jobs.submit(new("part", part=True))
    oldest = [job.id for job in store.jobs.listed("ours", 3, order=JobOrder.OLDEST)]
    assert oldest == made[:3]
    rest = store.jobs.listed("ours", 3, after=oldest[-1], order=JobOrder.OLDEST)
    assert [job.id for job in rest] == made[3:]


def test_jobs_are_searched_by_question_result_caller_and_day(
    store_url: str,
) -> None:
    now = [datetime(2026, 3, 1, 23, 59, 59, tzinfo=UTC)]
    with Store(store_url, now=lambda _: now[0]) as store:
        store.migrate()
        asked = (("plan Llama3 100%, 64 MiB", "Ann"), ("top a_b", "Ben"), ("top acb", None))
        made = [store.jobs.submit(new(name, name=name, asked_by=who)).job.id for name, who in asked]
        now[0] += timedelta(seconds=1)
        made.append(store.jobs.submit(new("nameless")).job.id)
        claim = claimed(store)
        assert store.claims.finish(claim, answer_to(claim.job), "2.1x: do this")
        assert store.claims.fail(claimed(store), {"problem": "no\0thing fits " + "x" * 300})

        def found(text: str = "", day: date | None = None) -> list[int]:
            jobs = store.jobs.listed("ours", 9, wanted=JobFilter(day=day, text=text))
            return sorted(made.index(job.id) for job in jobs)

        for text, jobs in {
            "LLAMA3 plan": [0],
            "2.1x": [0],
            "do  ann": [0],
            "100%": [0],
            "64MiB": [0],
            "64 mib": [0],
            "4MiB ann": [0],
            "6MiB": [],
            "0%0": [],
            "a_b": [1],
            "fits": [1],
            "ben": [1],
            "top": [1, 2],
            "\0": [0, 1, 2, 3],
            "'": [],
            "\ud800": [0, 1, 2, 3],
            "nothing": [],
        }.items():
            assert found(text) == jobs, text
        days = (date(2026, 3, 1), date(2026, 3, 2), date.max)
        assert [found(day=day) for day in days] == [[0, 1, 2], [3], []]
        assert seen(store, made[0]).headline == "2.1x: do this"
        assert str(seen(store, made[1]).headline).startswith("no thing fits x")
        assert seen(store, made[2]).headline is None


def test_a_search_looks_for_few_words_in_the_latest_jobs(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hundred words in a hundred thousand jobs took a minute, of a thread that is everybody's."""
    for number in range(6):
        store.jobs.submit(new(str(number), name=f"job {number} {'even' if number % 2 else 'odd'}"))
    store.jobs.submit(new("theirs", team="theirs", name="job even"))

    def found(text: str) -> list[str]:
        listed = store.jobs.listed("ours", 9, wanted=JobFilter(text=text))
        return [str(job.name).split()[1] for job in listed]

    assert found("even " * 60) == ["5", "3", "1"]
    with pytest.raises(InputError, match="9 words"):
        found("a b c d e f g h i")
    monkeypatch.setattr("synth.service.store.jobs.MOST_SEARCHED", 4)
    assert found("even") == ["5", "3"]
    assert found("") == ["5", "4", "3", "2", "1", "0"]


def test_work_is_counted_from_the_latest_job_backwards(store_url: str) -> None:
    begin = datetime(2026, 3, 1, tzinfo=UTC)
    now = [begin]
    with Store(store_url, now=lambda _: now[0]) as store:
        store.migrate()
        for seconds in (7, 1, 4):
            store.jobs.submit(new(str(seconds)))
            claim = claimed(store)
            now[0] += timedelta(seconds=seconds)
            assert store.claims.fail(claim, {})
        came = [begin + timedelta(seconds=seconds) for seconds in (0, 7, 8)]
        for seconds, when in ((4, came[2]), (5, came[1]), (6, came[0]), (12, came[0]), (13, None)):
            assert store.jobs.worked_since("ours", begin, seconds) == when
        assert store.jobs.worked_since("ours", came[1], 6) is None
        assert store.jobs.worked_since("theirs", begin, 1) is None
        assert store.jobs.overworked(begin, 12) == ["ours"]
        assert store.jobs.overworked(came[1], 6) == []


def test_the_longest_come_first_where_that_is_asked_and_parts_of_work_add_up(
    store_url: str,
) -> None:
    now = [datetime(2026, 3, 1, tzinfo=UTC)]
    with Store(store_url, now=lambda _: now[0]) as store:
        store.migrate()
        made = [store.jobs.submit(new(str(number))).job.id for number in range(3)]
        for seconds in (2, 5, 1):
            claim = claimed(store)
            now[0] += timedelta(seconds=seconds)
            end = store.claims.give_back(claim) if seconds == 2 else store.claims.fail(claim, {})
            assert end
        claim = claimed(store)
        now[0] += timedelta(seconds=4)
        store.claims.finish(claim, b"part")
        found = store.jobs.listed("ours", 9, order=JobOrder.LONGEST)
        assert [job.work_seconds for job in found] == [7, 4, 1]
        pages = [store.jobs.listed("ours", 1, order=JobOrder.LONGEST)]
        for _ in range(2):
            pages.append(
                store.jobs.listed("ours", 1, after=pages[-1][0].id, order=JobOrder.LONGEST)
            )
        assert [page[0].id for page in pages] == [job.id for job in found]
        assert sorted(job.id for job in found) == sorted(made)


@pytest.mark.parametrize("bad", ["a\0b", "\ud800", "n" * 1_000_000])
def test_texts_that_no_database_keeps_alike_are_refused(store: Store, bad: str) -> None:
    with pytest.raises(InputError):
        store.jobs.submit(new(team=bad))
    with pytest.raises(InputError):
        store.jobs.submit(new(idempotency_key=bad))
    with pytest.raises(InputError):
        store.systems.put("ours", bad, "text")
    with pytest.raises(InputError):
        store.keys.create("ours", bad)
    with pytest.raises(InputError):
        store.jobs.one(bad)
    assert store.jobs.counts()[Status.QUEUED] == 0


@pytest.mark.parametrize("odd", ["🚀 é", "'; DROP TABLE job; --", "%s %(x)s :y ?", "", " \n\t"])
def test_odd_texts_come_back_as_they_were(store: Store, odd: str) -> None:
    store.systems.put(odd, odd, odd * 100_000)
    found = store.systems.one(odd, odd)
    assert found is not None
    assert found.text == odd * 100_000
    job = store.jobs.submit(new(odd, odd, idempotency_key=odd)).job
    assert not store.jobs.submit(new(odd, odd, idempotency_key=odd)).created
    assert store.jobs.one(job.id) == job
    assert store.jobs.listed(odd, 2) == [replace(job, question="")]
    store.claims.fail(claimed(store, odd), {"problem": odd})
    assert seen(store, job.id).problem == {"problem": odd}


def test_invalid_stores_are_reported(tmp_path: object) -> None:
    for url in ("nonsense", "", "mysql://host/db", "sqlite://", "sqlite:///:memory:", "http://[x"):
        with pytest.raises(InputError, match="store"):
            Store(url)
    for url in (f"sqlite:///{tmp_path}/no/folder.db", "postgresql://u:hush@127.0.0.1:1/db"):
        with pytest.raises(StoreError, match="cannot be used") as told:
            Store(url).migrate()
        assert "hush" not in str(told.value)


def test_a_reading_is_one_round_trip_and_a_writing_is_whole(store: Store) -> None:
    """In PostgreSQL; SQLite has no way to go."""
    database = store.jobs._database
    with database.reading() as connection:
        at_once = getattr(connection.connection.dbapi_connection, "autocommit", None)
        postgres = connection.dialect.name == "postgresql"
    assert at_once is True or not postgres
    job = store.jobs.submit(new()).job

    def broken_off() -> None:
        with database.writing() as connection:
            connection.execute(update(JOB).values(verb="changed"))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        broken_off()
    assert seen(store, job.id).verb == "top"


@pytest.mark.parametrize("slots", [1, 2, 3, 4])
def test_slots_are_shared_for_any_load_of_teams(store: Store, slots: int) -> None:
    """No team has a job under way beyond one more than any that has one waiting, nor is one idle.

    The first to come has all its jobs in the queue before any other brings one.
    """
    waiting = {"red": 5, "blue": 1, "green": 3}
    for team, count in waiting.items():
        for number in range(count):
            store.jobs.submit(new(f"{team} {number}", team=team))
    held = dict.fromkeys(waiting, 0)
    for _ in range(slots):
        claim = store.claims.claim("one", 60)
        assert claim is not None
        held[claim.job.team] += 1
        waiting[claim.job.team] -= 1
        left = [held[team] for team, count in waiting.items() if count]
        assert max(held.values()) <= min(left) + 1
    assert sum(held.values()) == slots
    assert max(held.values()) - min(held.values()) <= 1
