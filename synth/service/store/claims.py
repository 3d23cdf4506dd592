"""Jobs as servers that do the work see them: claim, renew, note, finish, give back.

A claim has a token, and what its owner writes about the job later is written only while the job has
that token. So a server that was taken for dead can neither end a job that went to another server,
nor end a job twice.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any
from uuid import uuid4

from sqlalchemy import ColumnElement, Connection, Update, case, literal, null, select, update

from synth.service.store import answers
from synth.service.store.jobs import COLUMNS, job_of, written
from synth.service.store.records import Claim, Noted, Status, StoredAnswer
from synth.service.store.tables import JOB

MOST_LOSSES = 3
"""How often a job may lose its worker: then it is taken to be what kills them, and fails."""
MOST_ATTEMPTS = 50
"""How often a job may be begun at all. Many, as the death of a server is seldom a job's fault."""
_HELD_STATUSES = (Status.RUNNING, Status.CANCELLING)
_HELD = JOB.c.status.in_(_HELD_STATUSES)
_FREED = {"owner": None, "token": None, "lease_until": None}

_DEADLY = {
    "problem": f"the job lost its worker {MOST_LOSSES} times",
    "where": "",
    "hint": "ask for less, or give the workers more memory",
}
_ENDLESS = {
    "problem": f"the job was begun {MOST_ATTEMPTS} times, and its server ended each time",
    "where": "",
    "hint": "the log of the server may say why; then ask again",
}


def claim(connection: Connection, owner: str, lease: timedelta, now: datetime) -> Claim | None:
    """Claim the oldest queued job for an owner; None where there is none.

    A job whose question is being worked on for another job is left waiting for that answer.
    """
    token = uuid4().hex
    others = JOB.alias()
    worked_on = select(others.c.answer_key).where(others.c.status.in_(_HELD_STATUSES))
    queued = select(JOB.c.number).where(
        JOB.c.status == Status.QUEUED, JOB.c.answer_key.not_in(worked_on)
    )
    first = queued.order_by(JOB.c.number).limit(1)
    oldest = first.with_for_update(skip_locked=True).scalar_subquery()
    change = {
        "status": Status.RUNNING,
        "started": now,
        "attempts": JOB.c.attempts + 1,
        "revision": JOB.c.revision + 1,
        "owner": owner,
        "token": token,
        "lease_until": now + lease,
    }
    taken = update(JOB).where(JOB.c.number == oldest).values(change).returning(*COLUMNS)
    row = connection.execute(taken).one_or_none()
    return None if row is None else Claim(job_of(row._mapping), owner, token)


def renew(connection: Connection, owner: str, until: datetime) -> int:
    """Renew the leases of all jobs of an owner; how many jobs that is."""
    mine = update(JOB).where(_HELD, JOB.c.owner == owner)
    return connection.execute(mine.values(lease_until=until)).rowcount


def requeue(
    connection: Connection,
    lost: ColumnElement[bool],
    now: datetime,
    *,
    skip_locked: bool = False,
) -> int:
    """Queue jobs again whose server is ``lost``; how many these are.

    A job that was being cancelled is cancelled instead; one that was begun too often fails. Jobs
    that another transaction is writing are waited for or, with ``skip_locked``, left alone.
    """
    chosen = select(JOB.c.number, JOB.c.status, JOB.c.attempts).where(_HELD, lost)
    found = chosen.order_by(JOB.c.number).with_for_update(skip_locked=skip_locked)
    fates: dict[Status, list[int]] = {}
    for number, status, attempts in connection.execute(found):
        fate = _fate(Status(status), failing=attempts >= MOST_ATTEMPTS)
        fates.setdefault(fate, []).append(number)
    for fate, numbers in fates.items():
        change = _put_back(fate, _ENDLESS, now)
        connection.execute(update(JOB).where(JOB.c.number.in_(numbers)).values(change))
    return len(fates.get(Status.QUEUED, ()))


def lose(connection: Connection, claim: Claim, now: datetime) -> bool:
    """Queue a job again whose worker died, perhaps of it; False where it ended instead."""
    chosen = select(JOB.c.status, JOB.c.losses).where(_HELD, mine(claim)).with_for_update()
    found = connection.execute(chosen).one_or_none()
    if found is None:
        return False
    losses = found.losses + 1
    fate = _fate(Status(found.status), failing=losses >= MOST_LOSSES)
    change = _put_back(fate, _DEADLY, now) | {"losses": losses}
    connection.execute(_held(claim).values(change))
    return fate is Status.QUEUED


def note(
    connection: Connection, claim: Claim, progress: dict[str, Any], best: bytes | None
) -> Noted:
    """Keep a job's progress and best answer so far; a ``best`` of None keeps the one before."""
    change: dict[str, Any] = {"progress": written(progress), "revision": JOB.c.revision + 1}
    if best is not None:
        change["best"] = best
    status = connection.execute(_held(claim).values(change).returning(JOB.c.status)).scalar()
    return Noted(going_on=status == Status.RUNNING, lost=status is None)


def finish(connection: Connection, claim: Claim, answer: StoredAnswer, now: datetime) -> bool:
    """End a job with a complete answer, which is kept under its own key."""
    change = _ended(Status.DONE, now) | {"answer_key": answer.key, "best": None}
    if not _changed(connection, claim, change):
        return False
    answers.keep(connection, answer)
    answers.saw(connection, claim.job.team, answer.key)
    return True


def finish_partly(connection: Connection, claim: Claim, body: bytes | None, now: datetime) -> bool:
    """End a job with a partial answer: as cancelled if that was asked for, else as partial."""
    cancelled = JOB.c.status == Status.CANCELLING
    change = _ended(case((cancelled, Status.CANCELLED), else_=Status.PARTIAL), now)
    return _changed(connection, claim, change | ({} if body is None else {"best": body}))


def fail(connection: Connection, claim: Claim, problem: dict[str, Any], now: datetime) -> bool:
    """End a job with what went wrong."""
    change = _ended(Status.FAILED, now) | {"problem": written(problem)}
    return _changed(connection, claim, change)


def give_back(connection: Connection, claim: Claim, now: datetime) -> bool:
    """Queue a job again as if it had not been begun; one that is being cancelled is cancelled."""
    cancelled = JOB.c.status == Status.CANCELLING
    change = {
        "status": case((cancelled, Status.CANCELLED), else_=Status.QUEUED),
        "finished": case((cancelled, literal(now, JOB.c.finished.type)), else_=null()),
        "attempts": JOB.c.attempts - 1,
        "revision": JOB.c.revision + 1,
    }
    return _changed(connection, claim, change | _FREED)


def owned(owner: str) -> ColumnElement[bool]:
    """Jobs of an owner."""
    return JOB.c.owner == owner


def expired(now: datetime) -> ColumnElement[bool]:
    """Jobs whose lease is over."""
    return JOB.c.lease_until < now


def mine(claim: Claim) -> ColumnElement[bool]:
    """The job of a claim, while the claim is valid."""
    return (JOB.c.id == claim.job.id) & (JOB.c.token == claim.token)


def _held(claim: Claim) -> Update:
    return update(JOB).where(mine(claim))


def _changed(connection: Connection, claim: Claim, change: dict[str, Any]) -> bool:
    return connection.execute(_held(claim).values(change)).rowcount == 1


def _fate(status: Status, *, failing: bool) -> Status:
    if status is Status.CANCELLING:
        return Status.CANCELLED
    return Status.FAILED if failing else Status.QUEUED


def _put_back(fate: Status, problem: dict[str, str], now: datetime) -> dict[str, Any]:
    if fate is Status.QUEUED:
        return {"status": fate, "revision": JOB.c.revision + 1, **_FREED}
    failed = {"problem": written(problem)} if fate is Status.FAILED else {}
    return _ended(fate, now) | failed


def _ended(status: Status | ColumnElement[Status], now: datetime) -> dict[str, Any]:
    return {"status": status, "finished": now, "revision": JOB.c.revision + 1, **_FREED}
