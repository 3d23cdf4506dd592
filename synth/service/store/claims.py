"""Jobs from the viewpoint of the servers that compute them: claim, renew, note, finish, give back.

A claim has a token, and its owner can write to the job only while the job has that token. A server
that was presumed dead can therefore neither end a job that went to another server, nor end a job
twice.
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
"""How often a job may lose its worker before it fails: the job is the likely cause."""
MOST_ATTEMPTS = 50
"""How often a job may be started. The limit is high: a job seldom causes the death of a server."""
_PUT_OFF_SECONDS = 60.0
"""How long a job that exceeded its trial yields to other jobs of its team."""
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
    "problem": f"the job was started {MOST_ATTEMPTS} times, and its server stopped each time",
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
        """Claim the next queued job for an owner; None if there is no job.

        The team with the fewest running jobs comes first; teams in ``last`` come after all others.
        Within a team the oldest job comes first, but long jobs come last unless they have waited
        for ``_PUT_OFF_SECONDS``. A job is long if it, or an unended job of the same team and verb,
        has exceeded its trial (``tried``). With ``tried=True`` only tried jobs are claimed, with
        False only untried jobs, and then waiting does not move long jobs ahead. No two claims get
        the same job. A job waits while its question is being computed for another job. A claim
        expires unless it is renewed within the lease.
        """
        token = uuid4().hex
        with self._database.writing() as connection:
            now = self._database.now(connection)
            parameters = {"at": now, "by": owner, "its_token": token, "last": list(last)}
            parameters |= {"until": now + timedelta(seconds=lease_seconds)}
            parameters |= {"lately": now - timedelta(seconds=_PUT_OFF_SECONDS)}
            row = connection.execute(_claim_statement(tried), parameters).one_or_none()
        return None if row is None else JobClaim(StoredJob(*row), owner, token)

    def waiting(self) -> dict[str, int]:
        """Return the number of running jobs of each team with a queued job that was tried."""
        return dict(map(tuple, self._database.rows(_select_waiting())))

    def renew(self, owner: str, lease_seconds: float) -> int:
        """Renew the leases of all jobs of an owner, and return their number."""
        renewed = update(JOB).where(_IS_HELD, JOB.c.owner == owner)
        with self._database.writing() as connection:
            until = self._database.now(connection) + timedelta(seconds=lease_seconds)
            return connection.execute(renewed.values(lease_until=until)).rowcount

    def requeue(self, owner: str) -> int:
        """Requeue the jobs of a dead owner, and return their number.

        A job that was started ``MOST_ATTEMPTS`` times fails. A job being cancelled is cancelled.
        """
        with self._database.writing() as connection:
            return _requeue(connection, JOB.c.owner == owner, self._database.now(connection))

    def requeue_expired(self) -> int:
        """Requeue all jobs with expired leases, except those locked by other transactions."""
        with self._database.writing() as connection:
            now = self._database.now(connection)
            return _requeue(connection, JOB.c.lease_until < now, now, skip_locked=True)

    def lose(self, claim: JobClaim) -> bool:
        """Requeue a job whose worker died, perhaps because of it; False if it ended instead.

        The job fails after ``MOST_LOSSES`` such deaths. A job being cancelled is cancelled.
        """
        chosen = (
            select(JOB.c.status, JOB.c.losses)
            .where(_IS_HELD, _claimed_job(claim))
            .with_for_update()
        )
        with self._database.writing() as connection:
            row = connection.execute(chosen).one_or_none()
            if row is None:
                return False
            losses = row.losses + 1
            fate = _fate(row.status, failing=losses >= MOST_LOSSES)
            now = self._database.now(connection)
            change = _put_back(fate, _LOSSES_PROBLEM, now) | _work_columns(claim, now)
            connection.execute(_update_claimed(claim).values(change | {"losses": losses}))
            return fate is Status.QUEUED

    def note(
        self, claim: JobClaim, progress: dict[str, Any], best: bytes | None = None
    ) -> ClaimState:
        """Write a job's progress and its best answer so far (None: unchanged)."""
        change = {"progress": progress, "revision": JOB.c.revision + 1}
        columns = change if best is None else change | _best_columns(best)
        with self._database.writing() as connection:
            updated = connection.execute(
                _update_claimed(claim).values(columns).returning(JOB.c.status)
            )
            status = updated.scalar()
        return ClaimState(going_on=status is Status.RUNNING, lost=status is None)

    def finish(
        self, claim: JobClaim, end: StoredAnswer | bytes | None, headline: str | None = None
    ) -> bool:
        """End a job; False, and nothing is written, if the claim was lost.

        With a complete answer the job becomes done, even if it was being cancelled, and the answer
        is stored for all teams. With a partial body (None: the best noted before) the job becomes
        cancelled if it was being cancelled, else partial; the body remains as its ``best``.
        ``headline`` is the outcome in a few words.
        """
        headline_column = {"headline": headline and _shorten(headline)}
        with self._database.writing() as connection:
            now = self._database.now(connection)
            if isinstance(end, StoredAnswer):
                hold_answers(connection, alone=False)
                done = _end_columns(Status.DONE, now) | _work_columns(claim, now) | headline_column
                done |= {"answer_key": end.key, "best": None}
                done |= {"size_bytes": func.length(JOB.c.question)}
                if not _change_claimed(connection, claim, done):
                    return False
                answers.add(connection, end)
                answers.add_seen(connection, claim.job.team, end.key)
                return True
            ended = _end_columns(
                case((_IS_CANCELLING, Status.CANCELLED), else_=Status.PARTIAL), now
            )
            ended |= _work_columns(claim, now) | headline_column
            return _change_claimed(
                connection, claim, ended | ({} if end is None else _best_columns(end))
            )

    def fail(self, claim: JobClaim, problem: dict[str, Any]) -> bool:
        """End a job with a problem; False if the claim was lost."""
        with self._database.writing() as connection:
            now = self._database.now(connection)
            change = _end_columns(Status.FAILED, now) | _work_columns(claim, now)
            return _change_claimed(connection, claim, change | _failure_columns(problem))

    def give_back(self, claim: JobClaim, tried: bool = False) -> bool:
        """Requeue a job without counting the attempt; False if the claim was lost.

        ``tried``: the job did not end within its trial.
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
    """Return the number of running jobs of each team, and the answer keys of all running jobs."""
    other_jobs = JOB.alias()
    claimed = other_jobs.c.status.in_(_HELD_STATUSES)
    counts = select(other_jobs.c.team, func.count().label("jobs")).where(claimed)
    return counts.group_by(other_jobs.c.team).subquery(), select(other_jobs.c.answer_key).where(
        claimed
    )


@cache
def _select_waiting() -> Select[Any]:
    """Return the statement of ``waiting``, built once: the dispatcher executes it at each step."""
    under_way, worked_on = _count_under_way()
    return (
        select(JOB.c.team, func.coalesce(func.max(under_way.c.jobs), 0))
        .outerjoin(under_way, under_way.c.team == JOB.c.team)
        .where(JOB.c.status == Status.QUEUED, JOB.c.tried, JOB.c.answer_key.not_in(worked_on))
        .group_by(JOB.c.team)
    )


@cache
def _claim_statement(tried: bool | None) -> ReturningUpdate[Any]:
    """Return the statement of ``claim``, built once: building takes twice as long as executing."""
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
    """Return the number of the next queued job; teams in ``last`` come after all others."""
    other_jobs = JOB.alias()
    under_way, worked_on = _count_under_way()
    unended = other_jobs.c.status.in_((Status.QUEUED, *_HELD_STATUSES))
    kinds = (
        select(other_jobs.c.team, other_jobs.c.verb).where(other_jobs.c.tried, unended).distinct()
    )
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
    """Requeue jobs whose server is ``lost``, and return their number.

    Jobs locked by another transaction are waited for or, with ``skip_locked``, skipped.
    """
    chosen = select(JOB.c.number, JOB.c.status, JOB.c.attempts).where(_IS_HELD, lost)
    jobs = chosen.order_by(JOB.c.number).with_for_update(skip_locked=skip_locked)
    fates: dict[Status, list[int]] = {}
    for number, status, attempts in connection.execute(jobs):
        fates.setdefault(_fate(status, failing=attempts >= MOST_ATTEMPTS), []).append(number)
    for fate, numbers in fates.items():
        change = _put_back(fate, _ATTEMPTS_PROBLEM, now)
        connection.execute(update(JOB).where(JOB.c.number.in_(numbers)).values(change))
    return len(fates.get(Status.QUEUED, ()))


def _claimed_job(claim: JobClaim) -> ColumnElement[bool]:
    """Return the condition for the job of a claim while the claim is valid."""
    return (JOB.c.id == claim.job.id) & (JOB.c.token == claim.token)


def _update_claimed(claim: JobClaim) -> Update:
    return update(JOB).where(_claimed_job(claim))


def _change_claimed(connection: Connection, claim: JobClaim, change: dict[str, Any]) -> bool:
    return connection.execute(_update_claimed(claim).values(change)).rowcount == 1


def _best_columns(best: bytes) -> dict[str, Any]:
    """Return the columns of the best answer so far and of the job's size with it."""
    return {"best": best, "size_bytes": func.length(JOB.c.question) + len(best)}


def _work_columns(claim: JobClaim, now: datetime) -> dict[str, Any]:
    """Return the column of the work seconds, including the attempt that ends now."""
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
    """Return the columns of a failed job's problem and headline."""
    return {"problem": problem, "headline": _shorten(str(problem.get("problem", "")))}


def _shorten(text: str) -> str:
    """Truncate a text to the length of a name."""
    return make_printable(text)[:NAME_CHARACTERS]


def _end_columns(status: Status | ColumnElement[Status], now: datetime) -> dict[str, Any]:
    return {"status": status, "finished": now, "revision": JOB.c.revision + 1, **_FREED_COLUMNS}
