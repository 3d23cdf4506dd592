"""Jobs as callers see them: submit, look, list, cancel."""

from __future__ import annotations

from dataclasses import asdict, fields
from datetime import datetime
from uuid import uuid4

from sqlalchemy import ColumnElement, Connection, case, func, literal, null, select, update

from hierarchies import InputError
from synth.service.store.engines import Database, insert
from synth.service.store.records import ConflictError, Job, NewJob, Status, Submitted
from synth.service.store.tables import JOB

COLUMNS = tuple(JOB.c[field.name] for field in fields(Job))
_LISTED = tuple(column if column.name != "best" else null().label("best") for column in COLUMNS)


class Jobs:
    """The jobs in a database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def submit(self, new: NewJob) -> Submitted:
        """Queue a job, or find the one with an idempotency key that the team has used before.

        Raises ConflictError where that key came with another question.
        """
        with self._database.writing() as connection:
            row = asdict(new) | {
                "id": uuid4().hex,
                "status": Status.QUEUED,
                "created": self._database.now(connection),
                "attempts": 0,
                "losses": 0,
                "revision": 0,
            }
            added = insert(connection, JOB).values(row)
            added = added.on_conflict_do_nothing(index_elements=["team", "idempotency_key"])
            made = connection.execute(added.returning(*COLUMNS)).one_or_none()
            if made is not None:
                return Submitted(Job(*made), created=True)
            same = with_key(new.team, str(new.idempotency_key))
            job = Job(*connection.execute(select(*COLUMNS).where(same)).one())
        if (job.verb, job.question) != (new.verb, new.question):
            problem = f"the idempotency key {new.idempotency_key!r} came with another question"
            raise ConflictError(f"{problem} before", hint="give every question a key of its own")
        return Submitted(job, created=False)

    def one(self, id: str) -> Job | None:
        """The job of that id."""
        with self._database.reading() as connection:
            return _one(connection, id)

    def revision(self, id: str) -> int | None:
        """The revision of a job: cheaper than the whole job, whose ``best`` may be long."""
        chosen = select(JOB.c.revision).where(JOB.c.id == id)
        with self._database.reading() as connection:
            return connection.execute(chosen).scalar_one_or_none()

    def came_with(self, team: str, idempotency_key: str) -> bool:
        """Whether a job of the team came with that idempotency key."""
        found = select(JOB.c.number).where(with_key(team, idempotency_key))
        with self._database.reading() as connection:
            return connection.execute(found).scalar_one_or_none() is not None

    def listed(
        self,
        team: str,
        limit: int,
        after: str | None = None,
        status: Status | None = None,
        verb: str | None = None,
    ) -> list[Job]:
        """A page of a team's jobs, newest first, without their ``best``.

        ``after`` is the id of the last job of the page before, so that jobs that come meanwhile
        do not shift the pages. Raises InputError where the team has no such job.
        """
        chosen = select(*_LISTED).where(JOB.c.team == team)
        if status is not None:
            chosen = chosen.where(JOB.c.status == status)
        if verb is not None:
            chosen = chosen.where(JOB.c.verb == verb)
        with self._database.reading() as connection:
            if after is not None:
                there = select(JOB.c.number).where(JOB.c.id == after, JOB.c.team == team)
                number = connection.execute(there).scalar_one_or_none()
                if number is None:
                    hint = "give the id of a job that was listed"
                    raise InputError(f"there is no job {after!r} to go on after", hint=hint)
                chosen = chosen.where(JOB.c.number < number)
            found = connection.execute(chosen.order_by(JOB.c.number.desc()).limit(limit))
            return [Job(*row) for row in found]

    def cancel(self, id: str) -> Job | None:
        """Cancel a job: a queued one ends at once, a running one is cancelling until it ends."""
        queued = JOB.c.status == Status.QUEUED
        with self._database.writing() as connection:
            now = self._database.now(connection)
            change = (
                update(JOB)
                .where(JOB.c.id == id, JOB.c.status.in_((Status.QUEUED, Status.RUNNING)))
                .values(
                    status=case((queued, Status.CANCELLED), else_=Status.CANCELLING),
                    finished=case((queued, literal(now, JOB.c.finished.type)), else_=null()),
                    revision=JOB.c.revision + 1,
                )
            )
            connection.execute(change)
            return _one(connection, id)

    def counts(self, team: str | None = None) -> dict[Status, int]:
        """The number of jobs by status, of a team or of all."""
        chosen = select(JOB.c.status, func.count()).group_by(JOB.c.status)
        if team is not None:
            chosen = chosen.where(JOB.c.team == team)
        with self._database.reading() as connection:
            found: dict[Status, int] = dict(connection.execute(chosen).all())
        return dict.fromkeys(Status, 0) | found

    def since(self, key_id: str, when: datetime) -> int:
        """How many jobs came with a key since then."""
        found = select(func.count()).where(JOB.c.key_id == key_id, JOB.c.created >= when)
        with self._database.reading() as connection:
            return connection.execute(found).scalar_one()


def with_key(team: str, idempotency_key: str) -> ColumnElement[bool]:
    """The job of a team that came with that idempotency key, if there is one."""
    return (JOB.c.team == team) & (JOB.c.idempotency_key == idempotency_key)


def _one(connection: Connection, id: str) -> Job | None:
    row = connection.execute(select(*COLUMNS).where(JOB.c.id == id)).one_or_none()
    return None if row is None else Job(*row)
