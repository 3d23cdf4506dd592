"""Jobs as callers see them: submit, look, list, cancel."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import asdict, fields
from datetime import UTC, datetime, time
from typing import Any
from uuid import uuid4

from sqlalchemy import (
    ColumnElement,
    Connection,
    Select,
    String,
    Update,
    bindparam,
    case,
    func,
    literal,
    null,
    or_,
    select,
    tuple_,
    type_coerce,
    update,
)

from hierarchies import InputError
from synth.service.store.engines import Database, insert
from synth.service.store.records import (
    ALL_JOBS,
    ConflictError,
    JobFilter,
    JobOrder,
    NewJob,
    Status,
    StoredJob,
    SubmittedJob,
    make_printable,
)
from synth.service.store.tables import JOB, UtcTime

COLUMNS = tuple(JOB.c[field.name] for field in fields(StoredJob))
_SORTED_BY = {
    JobOrder.NEWEST: (JOB.c.number,),
    JobOrder.OLDEST: (JOB.c.number,),
    JobOrder.LONGEST: (JOB.c.work_seconds, JOB.c.number),
}
_AMOUNT = re.compile(r"^([0-9.]+)([a-z]+)$")
"""An amount as it is typed, ``64mib``, which results have as ``64 MiB``."""
_SEARCH_COLUMNS = (JOB.c.name, JOB.c.headline, JOB.c.asked_by)
MOST_WORDS = 8
MOST_SEARCHED = 50_000
_UNREAD = literal("").label("question")
_SHORT_COLUMNS = tuple(_UNREAD if column.name == "question" else column for column in COLUMNS)
_LIST_COLUMNS = tuple(
    null().label("best") if column.name == "best" else column for column in _SHORT_COLUMNS
)
_BY_ID = JOB.c.id == bindparam("id")
_ONE, _ONE_SEEN = select(*COLUMNS).where(_BY_ID), select(*_SHORT_COLUMNS).where(_BY_ID)
_REVISION = select(JOB.c.revision).where(_BY_ID)
"""Made once: to make a statement takes longer than to have it carried out."""


class Jobs:
    """The jobs in a database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def submit(self, new: NewJob) -> SubmittedJob:
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
                "size_bytes": len(new.question),
            }
            same_key = ["team", "idempotency_key"]
            added = insert(connection, JOB).on_conflict_do_nothing(index_elements=same_key)
            # The row is no part of the statement: who keeps that would keep a question, too.
            made = connection.execute(added.returning(*COLUMNS), row).one_or_none()
            if made is not None:
                return SubmittedJob(StoredJob(*made), created=True)
            same = job_with_key(new.team, str(new.idempotency_key))
            job = StoredJob(*connection.execute(select(*COLUMNS).where(same)).one())
        if (job.verb, job.question) != (new.verb, new.question):
            problem = f"the idempotency key {new.idempotency_key!r} came with another question"
            raise ConflictError(f"{problem} before", hint="give every question a key of its own")
        return SubmittedJob(job, created=False)

    def one(self, id: str) -> StoredJob | None:
        """The job of that id."""
        with self._database.reading() as connection:
            return _select_one(connection, _ONE, id)

    def seen(self, id: str) -> StoredJob | None:
        """The same without its question, which is not read."""
        with self._database.reading() as connection:
            return _select_one(connection, _ONE_SEEN, id)

    def revision(self, id: str) -> int | None:
        """The revision of a job: cheaper than the whole job, whose ``best`` may be long."""
        with self._database.reading() as connection:
            return connection.execute(_REVISION, {"id": id}).scalar_one_or_none()

    def came_with(self, team: str, idempotency_key: str) -> bool:
        """Whether a job of the team came with that idempotency key."""
        found = select(JOB.c.number).where(job_with_key(team, idempotency_key))
        with self._database.reading() as connection:
            return connection.execute(found).scalar_one_or_none() is not None

    def listed(
        self,
        team: str,
        limit: int,
        after: str | None = None,
        wanted: JobFilter = ALL_JOBS,
        order: JobOrder = JobOrder.NEWEST,
    ) -> list[StoredJob]:
        """A page of a team's jobs as ``seen``, without their ``best``, and no parts of pages.

        ``after`` is the id of the last job of the page before, so that jobs that come meanwhile
        do not shift the pages. Words are looked for in the latest ``MOST_SEARCHED`` jobs alone: no
        index has them. Raises InputError where the team has no such job, and for too many words.
        """
        chosen = select(*_LIST_COLUMNS).where(JOB.c.team == team, ~JOB.c.part, *_conditions(wanted))
        if wanted.text:
            latest = select(JOB.c.number).where(JOB.c.team == team).order_by(JOB.c.number.desc())
            chosen = chosen.where(JOB.c.number.in_(latest.limit(MOST_SEARCHED)))
        sorted_by = _SORTED_BY[order]
        with self._database.reading() as connection:
            if after is not None:
                there = select(*sorted_by).where(JOB.c.id == after, JOB.c.team == team)
                last = connection.execute(there).one_or_none()
                if last is None:
                    hint = "give the id of a job that was listed"
                    raise InputError(f"there is no job {after!r} to go on after", hint=hint)
                place, passed = tuple_(*sorted_by), tuple_(*last)
                chosen = chosen.where(
                    place > passed if order is JobOrder.OLDEST else place < passed
                )
            way = [one.asc() if order is JobOrder.OLDEST else one.desc() for one in sorted_by]
            found = connection.execute(chosen.order_by(*way).limit(limit))
            return [StoredJob(*row) for row in found]

    def cancel(self, id: str) -> StoredJob | None:
        """Cancel a job: a queued one ends at once, a running one is cancelling until it ends.

        The job as ``seen`` then.
        """
        with self._database.writing() as connection:
            connection.execute(cancel_statement(JOB.c.id == id, self._database.now(connection)))
            return _select_one(connection, _ONE_SEEN, id)

    def counts(self, team: str | None = None) -> dict[Status, int]:
        """The number of jobs by status, of a team or of all."""
        chosen = select(JOB.c.status, func.count()).group_by(JOB.c.status)
        if team is not None:
            chosen = chosen.where(JOB.c.team == team)
        with self._database.reading() as connection:
            found: dict[Status, int] = dict(connection.execute(chosen).all())
        return dict.fromkeys(Status, 0) | found

    def queues(self) -> dict[str, tuple[int, float]]:
        """For each team with queued jobs: how many, and how many seconds the oldest has waited."""
        chosen = select(JOB.c.team, func.count(), func.min(JOB.c.created, type_=UtcTime()))
        queued = chosen.where(JOB.c.status == Status.QUEUED).group_by(JOB.c.team)
        with self._database.reading() as connection:
            now = self._database.now(connection)
            found = connection.execute(queued).all()
        return {team: (count, (now - oldest).total_seconds()) for team, count, oldest in found}

    def waiting_bytes(self, team: str) -> int:
        """What the questions of a team's jobs that have not ended take in the store."""
        size = select(func.coalesce(func.sum(JOB.c.size_bytes), 0))
        going_on = JOB.c.status.in_([status for status in Status if not status.ended])
        with self._database.reading() as connection:
            return int(connection.execute(size.where(JOB.c.team == team, going_on)).scalar_one())

    def worked_since(self, team: str, when: datetime, seconds: float) -> datetime | None:
        """When the latest job came from which on work on the team's jobs took so long.

        None where it took less on all jobs that came since ``when``.
        """
        newest = func.sum(JOB.c.work_seconds).over(order_by=JOB.c.number.desc())
        lately = (JOB.c.team == team) & (JOB.c.created >= when)
        jobs = select(JOB.c.created, newest.label("seconds")).where(lately).subquery()
        latest = select(func.max(jobs.c.created, type_=UtcTime())).where(jobs.c.seconds >= seconds)
        with self._database.reading() as connection:
            found: datetime | None = connection.execute(latest).scalar_one()
        return found

    def overworked(self, when: datetime, seconds: float) -> list[str]:
        """The teams on whose jobs that came since then work took so long, or longer."""
        lately = select(JOB.c.team).where(JOB.c.created >= when).group_by(JOB.c.team)
        with self._database.reading() as connection:
            found = connection.execute(lately.having(func.sum(JOB.c.work_seconds) >= seconds))
            return list(found.scalars())

    def came_since(self, key_id: str, jobs: int) -> datetime | None:
        """When the latest job came with a key from which on so many did; None: there are fewer."""
        chosen = select(JOB.c.created).where(JOB.c.key_id == key_id)
        latest = chosen.order_by(JOB.c.number.desc()).offset(max(0, jobs - 1)).limit(1)
        with self._database.reading() as connection:
            return connection.execute(latest).scalar_one_or_none()

    def since(self, key_id: str, when: datetime) -> int:
        """How many jobs came with a key since then."""
        found = select(func.count()).where(JOB.c.key_id == key_id, JOB.c.created >= when)
        with self._database.reading() as connection:
            return connection.execute(found).scalar_one()


def _conditions(wanted: JobFilter) -> Iterator[ColumnElement[bool]]:
    """What the jobs fulfil that are wanted."""
    if wanted.status is not None:
        yield JOB.c.status == wanted.status
    if wanted.verb is not None:
        yield JOB.c.verb == wanted.verb
    if wanted.day is not None:
        first, last = (datetime.combine(wanted.day, end, UTC) for end in (time.min, time.max))
        yield JOB.c.created.between(first, last)
    for word in _words(wanted.text):
        places = [func.lower(type_coerce(place, String)) for place in _SEARCH_COLUMNS]
        spelled = dict.fromkeys((word, _AMOUNT.sub(r"\1 \2", word)))
        yield or_(*(p.contains(one, autoescape=True) for p in places for one in spelled))


def _words(text: str) -> list[str]:
    """Each word once. Raises InputError for so many that to look for them takes long."""
    words = list(dict.fromkeys(make_printable(text).lower().split()))
    if len(words) > MOST_WORDS:
        hint = f"at most {MOST_WORDS}, each of which is in what was asked or in what came of it"
        raise InputError(f"{len(words)} words", where="text", hint=hint)
    return words


def cancel_statement(whose: ColumnElement[bool], now: datetime) -> Update:
    """What cancels these jobs: queued ones end, running ones are told, the rest stays as it is."""
    queued = JOB.c.status == Status.QUEUED
    change = {
        "status": case((queued, Status.CANCELLED), else_=Status.CANCELLING),
        "finished": case((queued, literal(now, JOB.c.finished.type)), else_=null()),
        "revision": JOB.c.revision + 1,
    }
    going_on = JOB.c.status.in_((Status.QUEUED, Status.RUNNING))
    return update(JOB).where(whose, going_on).values(change)


def job_with_key(team: str, idempotency_key: str) -> ColumnElement[bool]:
    """The job of a team that came with that idempotency key, if there is one."""
    return (JOB.c.team == team) & (JOB.c.idempotency_key == idempotency_key)


def _select_one(connection: Connection, chosen: Select[Any], id: str) -> StoredJob | None:
    row = connection.execute(chosen, {"id": id}).one_or_none()
    return None if row is None else StoredJob(*row)
