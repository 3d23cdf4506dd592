"""Jobs from the viewpoint of callers: submit, read, list, cancel."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import asdict, fields
from datetime import UTC, datetime, time
from uuid import uuid4

from sqlalchemy import (
    ColumnElement,
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
"""An amount as users type it, such as ``64mib``; names spell it ``64 MiB``."""
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
"""Statements built once: building one takes longer than executing it."""


class Jobs:
    """The jobs in a database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def submit(self, new: NewJob) -> SubmittedJob:
        """Queue a job, or return the team's job with the same idempotency key.

        Raises ConflictError if that key was used with another question.
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
            # The row is passed separately, because a cached statement would retain the question.
            inserted = connection.execute(added.returning(*COLUMNS), row).one_or_none()
            if inserted is not None:
                return SubmittedJob(StoredJob(*inserted), created=True)
            same = job_with_key(new.team, str(new.idempotency_key))
            job = StoredJob(*connection.execute(select(*COLUMNS).where(same)).one())
        if (job.verb, job.question) != (new.verb, new.question):
            problem = f"the idempotency key {new.idempotency_key!r} was used with another question"
            raise ConflictError(f"{problem} before", hint="use a new key for each question")
        return SubmittedJob(job, created=False)

    def one(self, id: str) -> StoredJob | None:
        """Return the job of an id, or None."""
        return self._database.one(StoredJob, _ONE, {"id": id})

    def seen(self, id: str) -> StoredJob | None:
        """Return the job of an id without reading its question."""
        return self._database.one(StoredJob, _ONE_SEEN, {"id": id})

    def revision(self, id: str) -> int | None:
        """Return the revision of a job. The whole job costs more, as its ``best`` may be long."""
        revision: int | None = self._database.scalar(_REVISION, {"id": id})
        return revision

    def came_with(self, team: str, idempotency_key: str) -> bool:
        """Whether the team has a job with that idempotency key."""
        same = select(JOB.c.number).where(job_with_key(team, idempotency_key))
        return self._database.scalar(same) is not None

    def listed(
        self,
        team: str,
        limit: int,
        after: str | None = None,
        wanted: JobFilter = ALL_JOBS,
        order: JobOrder = JobOrder.NEWEST,
    ) -> list[StoredJob]:
        """Return a page of a team's jobs as ``seen``, without ``best`` and without parts of pages.

        ``after`` is the id of the last job of the previous page, so that new jobs do not shift the
        pages. Words are searched only in the latest ``MOST_SEARCHED`` jobs, as they have no index.
        Raises InputError if the team has no job ``after``, or if there are too many words.
        """
        chosen = select(*_LIST_COLUMNS).where(JOB.c.team == team, ~JOB.c.part, *_conditions(wanted))
        if wanted.text:
            latest = select(JOB.c.number).where(JOB.c.team == team).order_by(JOB.c.number.desc())
            chosen = chosen.where(JOB.c.number.in_(latest.limit(MOST_SEARCHED)))
        sorted_by = _SORTED_BY[order]
        with self._database.reading() as connection:
            if after is not None:
                cursor = select(*sorted_by).where(JOB.c.id == after, JOB.c.team == team)
                last = connection.execute(cursor).one_or_none()
                if last is None:
                    hint = "give the id of a job that was listed"
                    raise InputError(f"there is no job {after!r} to continue after", hint=hint)
                place, passed = tuple_(*sorted_by), tuple_(*last)
                chosen = chosen.where(
                    place > passed if order is JobOrder.OLDEST else place < passed
                )
            order_by = [
                column.asc() if order is JobOrder.OLDEST else column.desc() for column in sorted_by
            ]
            rows = connection.execute(chosen.order_by(*order_by).limit(limit))
            return [StoredJob(*row) for row in rows]

    def cancel(self, id: str) -> StoredJob | None:
        """Cancel a job and return it as ``seen``.

        A queued job ends immediately. A running job is cancelling until it ends.
        """
        with self._database.writing() as connection:
            connection.execute(cancel_statement(JOB.c.id == id, self._database.now(connection)))
            row = connection.execute(_ONE_SEEN, {"id": id}).one_or_none()
        return None if row is None else StoredJob(*row)

    def counts(self, team: str | None = None) -> dict[Status, int]:
        """Return the number of jobs by status, of a team or of all teams."""
        chosen = select(JOB.c.status, func.count()).group_by(JOB.c.status)
        if team is not None:
            chosen = chosen.where(JOB.c.team == team)
        return dict.fromkeys(Status, 0) | dict(map(tuple, self._database.rows(chosen)))

    def queues(self) -> dict[str, tuple[int, float]]:
        """Return for each team with queued jobs their number and the seconds the oldest waited."""
        chosen = select(JOB.c.team, func.count(), func.min(JOB.c.created, type_=UtcTime()))
        queued = chosen.where(JOB.c.status == Status.QUEUED).group_by(JOB.c.team)
        with self._database.reading() as connection:
            now = self._database.now(connection)
            rows = connection.execute(queued).all()
        return {team: (count, (now - oldest).total_seconds()) for team, count, oldest in rows}

    def waiting_bytes(self, team: str) -> int:
        """Return the bytes that a team's unended jobs take in the store."""
        size = select(func.coalesce(func.sum(JOB.c.size_bytes), 0))
        going_on = JOB.c.status.in_([status for status in Status if not status.ended])
        return int(self._database.scalar(size.where(JOB.c.team == team, going_on)))

    def worked_since(self, team: str, when: datetime, seconds: float) -> datetime | None:
        """Return the creation time of the latest job from which the work adds up to ``seconds``.

        Jobs are added from the newest back to ``when``. Returns None if the total is less.
        """
        newest = func.sum(JOB.c.work_seconds).over(order_by=JOB.c.number.desc())
        lately = (JOB.c.team == team) & (JOB.c.created >= when)
        jobs = select(JOB.c.created, newest.label("seconds")).where(lately).subquery()
        latest = select(func.max(jobs.c.created, type_=UtcTime())).where(jobs.c.seconds >= seconds)
        created: datetime | None = self._database.scalar(latest)
        return created

    def overworked(self, when: datetime, seconds: float) -> list[str]:
        """Return the teams whose jobs created since ``when`` took at least ``seconds`` of work."""
        lately = select(JOB.c.team).where(JOB.c.created >= when).group_by(JOB.c.team)
        enough = func.sum(JOB.c.work_seconds) >= seconds
        return [team for (team,) in self._database.rows(lately.having(enough))]

    def came_since(self, key_id: str, jobs: int) -> datetime | None:
        """Return when the key's ``jobs``-th latest job was created; None if it has fewer."""
        chosen = select(JOB.c.created).where(JOB.c.key_id == key_id)
        latest = chosen.order_by(JOB.c.number.desc()).offset(max(0, jobs - 1)).limit(1)
        created: datetime | None = self._database.scalar(latest)
        return created

    def since(self, key_id: str, when: datetime) -> int:
        """Return the number of a key's jobs created since ``when``."""
        count = select(func.count()).where(JOB.c.key_id == key_id, JOB.c.created >= when)
        return int(self._database.scalar(count))


def _conditions(job_filter: JobFilter) -> Iterator[ColumnElement[bool]]:
    """Yield the conditions of a filter."""
    if job_filter.status is not None:
        yield JOB.c.status == job_filter.status
    if job_filter.verb is not None:
        yield JOB.c.verb == job_filter.verb
    if job_filter.day is not None:
        first, last = (datetime.combine(job_filter.day, end, UTC) for end in (time.min, time.max))
        yield JOB.c.created.between(first, last)
    for word in _words(job_filter.text):
        places = [func.lower(type_coerce(place, String)) for place in _SEARCH_COLUMNS]
        spelled = dict.fromkeys((word, _AMOUNT.sub(r"\1 \2", word)))
        yield or_(*(p.contains(spelling, autoescape=True) for p in places for spelling in spelled))


def _words(text: str) -> list[str]:
    """Return the distinct words of a text. Raises InputError if a search for them would be slow."""
    words = list(dict.fromkeys(make_printable(text).lower().split()))
    if len(words) > MOST_WORDS:
        hint = f"at most {MOST_WORDS}, each of which is in the question or in the result"
        raise InputError(f"{len(words)} words", where="text", hint=hint)
    return words


def cancel_statement(condition: ColumnElement[bool], now: datetime) -> Update:
    """Return a statement that cancels jobs: queued jobs end, running jobs become cancelling."""
    queued = JOB.c.status == Status.QUEUED
    change = {
        "status": case((queued, Status.CANCELLED), else_=Status.CANCELLING),
        "finished": case((queued, literal(now, JOB.c.finished.type)), else_=null()),
        "revision": JOB.c.revision + 1,
    }
    going_on = JOB.c.status.in_((Status.QUEUED, Status.RUNNING))
    return update(JOB).where(condition, going_on).values(change)


def job_with_key(team: str, idempotency_key: str) -> ColumnElement[bool]:
    """Return the condition for a team's job with that idempotency key."""
    return (JOB.c.team == team) & (JOB.c.idempotency_key == idempotency_key)
