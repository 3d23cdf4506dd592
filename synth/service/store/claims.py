"""Jobs as servers that do the work see them: claim, renew, note, finish, give back.

A claim has a token, and what its owner writes about the job later is written only while the job has
that token. So a server that was taken for dead can neither end a job that went to another server,
nor end a job twice.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timedelta
from functools import cache
from typing import Any
from uuid import uuid4

from sqlalchemy import (
    ColumnElement,
    Connection,
    ScalarSelect,
    Select,
    Subquery,
    Update,
    bindparam,
    case,
    func,
    literal,
    null,
    select,
    update,
)
from sqlalchemy.sql.dml import ReturningUpdate

from synth.service.store import answers
from synth.service.store.engines import Database, hold_answers
from synth.service.store.jobs import COLUMNS
from synth.service.store.records import (
    ClaimState,
    JobClaim,
    Status,
    StoredAnswer,
    StoredJob,
    make_printable,
)
from synth.service.store.tables import JOB, NAME_CHARACTERS

MOST_LOSSES = 3
"""How often a job may lose its worker; then it fails, as it is likely what kills them."""
MOST_ATTEMPTS = 50
"""How often a job may be begun at all. Many, as the death of a server is seldom a job's fault."""
_PUT_OFF_SECONDS = 60.0
"""How long a job that was tried in vain lets others of its team go before it."""
_HELD_STATUSES = (Status.RUNNING, Status.CANCELLING)
_IS_HELD = JOB.c.status.in_(_HELD_STATUSES)
_IS_CANCELLING = JOB.c.status == Status.CANCELLING
_FREED_COLUMNS = {"owner": None, "token": None, "lease_until": None}

_LOSSES_PROBLEM = {
    "problem": f"the job lost its worker {MOST_LOSSES} times",
    "where": "",
    "hint": "ask for less, or give the workers more memory",
}
_ATTEMPTS_PROBLEM = {
    "problem": f"the job was begun {MOST_ATTEMPTS} times, and its server ended each time",
    "where": "",
    "hint": "the log of the server may say why; then ask again",
}


class Claims:
    """The claims to the jobs of a database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def claim(
        self,
        owner: str,
        lease_seconds: float,
        tried: bool | None = None,
        last: Collection[str] = (),
    ) -> JobClaim | None:
        """Claim the queued job whose turn it is for an owner; None where there is none.

        Teams take turns: first comes the team that has the fewest jobs under way, and those named
        ``last`` after all others. Of its jobs those come last that are long, as they were ``tried``
        in vain or one of the same verb was that has not ended, unless they have waited long; else
        the oldest comes. Given ``tried``, only such jobs, or only others, are claimed, and of these
        the long come last however they have waited: they are only to be tried. No two claims get
        the same job. A job whose question is being worked on for another job is left waiting for
        that answer. A claim is lost unless it is renewed within the lease.
        """
        token = uuid4().hex
        with self._database.writing() as connection:
            now = self._database.now(connection)
            given = {"at": now, "by": owner, "its_token": token, "last": list(last)}
            given |= {"until": now + timedelta(seconds=lease_seconds)}
            given |= {"lately": now - timedelta(seconds=_PUT_OFF_SECONDS)}
            row = connection.execute(_claim_statement(tried), given).one_or_none()
        return None if row is None else JobClaim(StoredJob(*row), owner, token)

    def waiting(self) -> dict[str, int]:
        """The teams that have a job waiting that was tried in vain: how many each has under way."""
        with self._database.reading() as connection:
            found: dict[str, int] = dict(connection.execute(_select_waiting()).all())
        return found

    def renew(self, owner: str, lease_seconds: float) -> int:
        """Renew the leases of all jobs of an owner, from now on; how many jobs that is."""
        mine = update(JOB).where(_IS_HELD, JOB.c.owner == owner)
        with self._database.writing() as connection:
            until = self._database.now(connection) + timedelta(seconds=lease_seconds)
            return connection.execute(mine.values(lease_until=until)).rowcount

    def requeue(self, owner: str) -> int:
        """Queue the jobs of a dead owner again; how many these are.

        A job that was begun ``MOST_ATTEMPTS`` times fails; one being cancelled is cancelled.
        """
        with self._database.writing() as connection:
            return _requeue(connection, JOB.c.owner == owner, self._database.now(connection))

    def requeue_expired(self) -> int:
        """Do the same with all jobs whose leases are over, but those that others are writing."""
        with self._database.writing() as connection:
            now = self._database.now(connection)
            return _requeue(connection, JOB.c.lease_until < now, now, skip_locked=True)

    def lose(self, claim: JobClaim) -> bool:
        """Queue a job again whose worker died, perhaps because of it; False where it ended instead.

        It fails after ``MOST_LOSSES`` such deaths; one that was being cancelled is cancelled.
        """
        chosen = (
            select(JOB.c.status, JOB.c.losses)
            .where(_IS_HELD, _claimed_job(claim))
            .with_for_update()
        )
        with self._database.writing() as connection:
            found = connection.execute(chosen).one_or_none()
            if found is None:
                return False
            losses = found.losses + 1
            fate = _fate(found.status, failing=losses >= MOST_LOSSES)
            now = self._database.now(connection)
            change = _put_back(fate, _LOSSES_PROBLEM, now) | _work_columns(claim, now)
            connection.execute(_update_claimed(claim).values(change | {"losses": losses}))
            return fate is Status.QUEUED

    def note(
        self, claim: JobClaim, progress: dict[str, Any], best: bytes | None = None
    ) -> ClaimState:
        """Keep a job's progress, and its best answer so far (None: as before)."""
        change = {"progress": progress, "revision": JOB.c.revision + 1}
        kept = change if best is None else change | _best_columns(best)
        with self._database.writing() as connection:
            found = connection.execute(_update_claimed(claim).values(kept).returning(JOB.c.status))
            status = found.scalar()
        return ClaimState(going_on=status is Status.RUNNING, lost=status is None)

    def finish(
        self, claim: JobClaim, found: StoredAnswer | bytes | None, headline: str | None = None
    ) -> bool:
        """End a job; False where the claim was lost: then nothing is written.

        With a complete answer the job is done, even if it was being cancelled, and the answer is
        kept for all teams. With a partial body (None: the best noted before) it is cancelled if
        that was asked for, else partial, and the body stays with the job as its ``best``.
        ``headline`` is what it comes to, in a few words.
        """
        said = {"headline": headline and _shorten(headline)}
        with self._database.writing() as connection:
            now = self._database.now(connection)
            if isinstance(found, StoredAnswer):
                hold_answers(connection, alone=False)
                done = _end_columns(Status.DONE, now) | _work_columns(claim, now) | said
                done |= {"answer_key": found.key, "best": None}
                done |= {"size_bytes": func.length(JOB.c.question)}
                if not _change_claimed(connection, claim, done):
                    return False
                answers.add(connection, found)
                answers.add_seen(connection, claim.job.team, found.key)
                return True
            ended = _end_columns(
                case((_IS_CANCELLING, Status.CANCELLED), else_=Status.PARTIAL), now
            )
            ended |= _work_columns(claim, now) | said
            return _change_claimed(
                connection, claim, ended | ({} if found is None else _best_columns(found))
            )

    def fail(self, claim: JobClaim, problem: dict[str, Any]) -> bool:
        """End a job with what went wrong; False where the claim was lost."""
        with self._database.writing() as connection:
            now = self._database.now(connection)
            change = _end_columns(Status.FAILED, now) | _work_columns(claim, now)
            return _change_claimed(connection, claim, change | _failure_columns(problem))

    def give_back(self, claim: JobClaim, tried: bool = False) -> bool:
        """Queue a job again without counting the attempt; False where the claim was lost.

        ``tried``: the time that it was given to end quickly was over.
        """
        with self._database.writing() as connection:
            now = self._database.now(connection)
            ended = literal(now, JOB.c.finished.type)
            change = _work_columns(claim, now) | {
                "status": case((_IS_CANCELLING, Status.CANCELLED), else_=Status.QUEUED),
                "finished": case((_IS_CANCELLING, ended), else_=null()),
                "attempts": JOB.c.attempts - 1,
                "revision": JOB.c.revision + 1,
            }
            change |= {"tried": True} if tried else {}
            return _change_claimed(connection, claim, change | _FREED_COLUMNS)


def _count_under_way() -> tuple[Subquery, Select[tuple[str]]]:
    """How many jobs each team has under way, and the keys of the answers they are for."""
    others = JOB.alias()
    held = others.c.status.in_(_HELD_STATUSES)
    counts = select(others.c.team, func.count().label("jobs")).where(held)
    return counts.group_by(others.c.team).subquery(), select(others.c.answer_key).where(held)


@cache
def _select_waiting() -> Select[Any]:
    """What counts for each team that waits: made once, as the dispatcher asks at each step."""
    under_way, worked_on = _count_under_way()
    return (
        select(JOB.c.team, func.coalesce(func.max(under_way.c.jobs), 0))
        .outerjoin(under_way, under_way.c.team == JOB.c.team)
        .where(JOB.c.status == Status.QUEUED, JOB.c.tried, JOB.c.answer_key.not_in(worked_on))
        .group_by(JOB.c.team)
    )


@cache
def _claim_statement(tried: bool | None) -> ReturningUpdate[Any]:
    """What claims the job whose turn it is: made once, as to make it takes twice as long."""
    change = {
        "status": Status.RUNNING,
        "started": bindparam("at"),
        "attempts": JOB.c.attempts + 1,
        "revision": JOB.c.revision + 1,
        "owner": bindparam("by"),
        "token": bindparam("its_token"),
        "lease_until": bindparam("until"),
    }
    return update(JOB).where(JOB.c.number == _select_next(tried)).values(change).returning(*COLUMNS)


def _select_next(tried: bool | None) -> ScalarSelect[int]:
    """The number of the queued job whose turn it is; teams named ``last`` come after all others."""
    others = JOB.alias()
    under_way, worked_on = _count_under_way()
    unended = others.c.status.in_((Status.QUEUED, *_HELD_STATUSES))
    kinds = select(others.c.team, others.c.verb).where(others.c.tried, unended).distinct()
    alike = kinds.subquery()
    long = JOB.c.tried | alike.c.team.is_not(None)
    if tried is not False:
        long &= JOB.c.created > bindparam("lately")
    turn = (
        case((JOB.c.team.in_(bindparam("last", expanding=True)), 1), else_=0),
        func.coalesce(under_way.c.jobs, 0),
        case((long, 1), else_=0),
        JOB.c.number,
    )
    chosen = (
        select(JOB.c.number)
        .outerjoin(under_way, under_way.c.team == JOB.c.team)
        .outerjoin(alike, (alike.c.team == JOB.c.team) & (alike.c.verb == JOB.c.verb))
        .where(JOB.c.status == Status.QUEUED, JOB.c.answer_key.not_in(worked_on))
        .order_by(*turn)
        .limit(1)
        .with_for_update(skip_locked=True, of=JOB)
    )
    if tried is not None:
        chosen = chosen.where(JOB.c.tried == tried)
    return chosen.scalar_subquery()


def _requeue(
    connection: Connection,
    lost: ColumnElement[bool],
    now: datetime,
    *,
    skip_locked: bool = False,
) -> int:
    """Queue jobs again whose server is ``lost``; how many these are.

    Jobs that another transaction is writing are waited for or, with ``skip_locked``, left alone.
    """
    chosen = select(JOB.c.number, JOB.c.status, JOB.c.attempts).where(_IS_HELD, lost)
    found = chosen.order_by(JOB.c.number).with_for_update(skip_locked=skip_locked)
    fates: dict[Status, list[int]] = {}
    for number, status, attempts in connection.execute(found):
        fates.setdefault(_fate(status, failing=attempts >= MOST_ATTEMPTS), []).append(number)
    for fate, numbers in fates.items():
        change = _put_back(fate, _ATTEMPTS_PROBLEM, now)
        connection.execute(update(JOB).where(JOB.c.number.in_(numbers)).values(change))
    return len(fates.get(Status.QUEUED, ()))


def _claimed_job(claim: JobClaim) -> ColumnElement[bool]:
    """The job of a claim, while the claim is valid."""
    return (JOB.c.id == claim.job.id) & (JOB.c.token == claim.token)


def _update_claimed(claim: JobClaim) -> Update:
    return update(JOB).where(_claimed_job(claim))


def _change_claimed(connection: Connection, claim: JobClaim, change: dict[str, Any]) -> bool:
    return connection.execute(_update_claimed(claim).values(change)).rowcount == 1


def _best_columns(found: bytes) -> dict[str, Any]:
    """The best so far, and what the job then takes in the store."""
    return {"best": found, "size_bytes": func.length(JOB.c.question) + len(found)}


def _work_columns(claim: JobClaim, now: datetime) -> dict[str, Any]:
    """The seconds of an attempt that ends now, added to those of the attempts before."""
    began = claim.job.started or now
    seconds = max(0.0, (now - began).total_seconds())
    return {"work_seconds": JOB.c.work_seconds + seconds}


def _fate(status: Status, *, failing: bool) -> Status:
    if status is Status.CANCELLING:
        return Status.CANCELLED
    return Status.FAILED if failing else Status.QUEUED


def _put_back(fate: Status, problem: dict[str, str], now: datetime) -> dict[str, Any]:
    if fate is Status.QUEUED:
        return {"status": fate, "revision": JOB.c.revision + 1, **_FREED_COLUMNS}
    return _end_columns(fate, now) | (_failure_columns(problem) if fate is Status.FAILED else {})


def _failure_columns(problem: dict[str, Any]) -> dict[str, Any]:
    """What a job failed of, and that in a few words."""
    return {"problem": problem, "headline": _shorten(str(problem.get("problem", "")))}


def _shorten(text: str) -> str:
    """As much of a text as there is room for."""
    return make_printable(text)[:NAME_CHARACTERS]


def _end_columns(status: Status | ColumnElement[Status], now: datetime) -> dict[str, Any]:
    return {"status": status, "finished": now, "revision": JOB.c.revision + 1, **_FREED_COLUMNS}
