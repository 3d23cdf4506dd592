"""Jobs as callers see them: submit, look, list, cancel."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, fields
from datetime import datetime
from typing import Any
from uuid import uuid4

from sqlalchemy import (
    ColumnElement,
    Connection,
    RowMapping,
    case,
    func,
    literal,
    null,
    select,
    update,
)

from hierarchies import InputError
from synth.service.store.engines import insert
from synth.service.store.records import ConflictError, Job, NewJob, Status, Submitted
from synth.service.store.tables import JOB

_JSON = ("progress", "problem")
COLUMNS = tuple(JOB.c[field.name] for field in fields(Job))
_LISTED = tuple(column if column.name != "best" else null().label("best") for column in COLUMNS)


def submit(connection: Connection, new: NewJob, now: datetime) -> Submitted:
    """Queue a job, or find the team's job with the same idempotency key.

    Raises ConflictError where that job is of another question.
    """
    row = asdict(new) | {
        "id": uuid4().hex,
        "status": Status.QUEUED,
        "created": now,
        "attempts": 0,
        "losses": 0,
        "revision": 0,
    }
    added = insert(connection, JOB).values(row)
    added = added.on_conflict_do_nothing(index_elements=["team", "idempotency_key"])
    made = connection.execute(added.returning(*COLUMNS)).one_or_none()
    if made is not None:
        return Submitted(job_of(made._mapping), created=True)
    same = with_key(new.team, str(new.idempotency_key))
    job = job_of(connection.execute(select(*COLUMNS).where(same)).one()._mapping)
    if (job.verb, job.question) != (new.verb, new.question):
        problem = f"the idempotency key {new.idempotency_key!r} came with another question before"
        raise ConflictError(problem, hint="give every question a key of its own")
    return Submitted(job, created=False)


def one(connection: Connection, job_id: str) -> Job | None:
    """The job of that id."""
    row = connection.execute(select(*COLUMNS).where(JOB.c.id == job_id)).one_or_none()
    return None if row is None else job_of(row._mapping)


def revision(connection: Connection, job_id: str) -> int | None:
    """The revision of the job of that id."""
    return connection.execute(select(JOB.c.revision).where(JOB.c.id == job_id)).scalar_one_or_none()


def came_with(connection: Connection, team: str, idempotency_key: str) -> bool:
    """Whether a job of the team came with that idempotency key."""
    found = select(JOB.c.number).where(with_key(team, idempotency_key))
    return connection.execute(found).scalar_one_or_none() is not None


def listed(
    connection: Connection,
    team: str,
    limit: int,
    after: str | None,
    wanted: Mapping[str, str | None],
) -> list[Job]:
    """A page of a team's jobs, newest first, after the job of id ``after``.

    ``wanted`` are values by column that they must have. Raises InputError where the team has no job
    ``after``.
    """
    chosen = select(*_LISTED).where(JOB.c.team == team)
    if after is not None:
        there = select(JOB.c.number).where(JOB.c.id == after, JOB.c.team == team)
        number = connection.execute(there).scalar_one_or_none()
        if number is None:
            hint = "give the id of a job that was listed"
            raise InputError(f"there is no job {after!r} to go on after", hint=hint)
        chosen = chosen.where(JOB.c.number < number)
    for name, value in wanted.items():
        if value is not None:
            chosen = chosen.where(JOB.c[name] == value)
    found = connection.execute(chosen.order_by(JOB.c.number.desc()).limit(limit))
    return [job_of(row._mapping) for row in found]


def cancel(connection: Connection, job_id: str, now: datetime) -> Job | None:
    """Cancel a job: a queued one ends at once, a running one is cancelling until it ends."""
    queued = JOB.c.status == Status.QUEUED
    change = (
        update(JOB)
        .where(JOB.c.id == job_id, JOB.c.status.in_((Status.QUEUED, Status.RUNNING)))
        .values(
            status=case((queued, Status.CANCELLED), else_=Status.CANCELLING),
            finished=case((queued, literal(now, JOB.c.finished.type)), else_=null()),
            revision=JOB.c.revision + 1,
        )
    )
    connection.execute(change)
    return one(connection, job_id)


def counted(connection: Connection, team: str | None) -> dict[Status, int]:
    """The number of jobs by status, of a team or of all."""
    chosen = select(JOB.c.status, func.count()).group_by(JOB.c.status)
    if team is not None:
        chosen = chosen.where(JOB.c.team == team)
    found = {Status(status): count for status, count in connection.execute(chosen)}
    return {status: found.get(status, 0) for status in Status}


def written(value: dict[str, Any] | None) -> str | None:
    """JSON in a column: in ASCII, so that any text can be kept in it."""
    return None if value is None else json.dumps(value, allow_nan=False)


def with_key(team: str, idempotency_key: str) -> ColumnElement[bool]:
    """The job of a team that came with that idempotency key, if there is one."""
    return (JOB.c.team == team) & (JOB.c.idempotency_key == idempotency_key)


def job_of(row: RowMapping) -> Job:
    """A row of ``COLUMNS`` as a record."""
    read = {name: None if row[name] is None else json.loads(row[name]) for name in _JSON}
    return Job(**{**row, **read, "status": Status(row["status"])})
