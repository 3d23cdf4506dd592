"""API keys of teams and sessions of the page; only digests of secrets are kept."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from secrets import token_hex

from sqlalchemy import ColumnElement, Connection, delete, insert, select, true, update

from synth.service.store.engines import Database
from synth.service.store.jobs import cancel_statement
from synth.service.store.records import (
    EndedSessions,
    Key,
    NewKey,
    Person,
    RevokedKey,
    Scope,
    Status,
    digest_of,
)
from synth.service.store.tables import API_KEY, JOB, SESSION

_MOST_SESSIONS = 100


class Keys:
    """The keys and the page's sessions in a database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def create(
        self,
        team: str,
        name: str,
        rate_per_second: float | None = None,
        jobs_per_day: int | None = None,
        *,
        expires: datetime | None = None,
        scopes: Iterable[Scope] = (Scope.ASK, Scope.KEEP),
    ) -> NewKey:
        """Create a key of a team. A limit of None is the server's default."""
        key_id = token_hex(8)
        key = NewKey(key_id, team, f"cs_{key_id}_{token_hex(32)}")
        with self._database.writing() as connection:
            row = {
                "id": key_id,
                "team": team,
                "name": name,
                "digest": digest_of(key.secret),
                "rate_per_second": rate_per_second,
                "jobs_per_day": jobs_per_day,
                "created": self._database.now(connection),
                "revoked": False,
                "expires": expires,
                "scopes": " ".join(scopes),
            }
            connection.execute(insert(API_KEY).values(row))
        return key

    def one(self, id: str) -> Key | None:
        """Return the key of an id, or None."""
        return self._database.one(Key, select(API_KEY).where(API_KEY.c.id == id))

    def known(self, team: str | None = None) -> list[Key]:
        """Return the keys of a team or of all, oldest first, including revoked ones."""
        chosen = select(API_KEY).order_by(API_KEY.c.created, API_KEY.c.id)
        if team is not None:
            chosen = chosen.where(API_KEY.c.team == team)
        return self._database.all(Key, chosen)

    def used(self, id: str) -> None:
        """Record that a key was used now."""
        with self._database.writing() as connection:
            now = self._database.now(connection)
            connection.execute(update(API_KEY).where(API_KEY.c.id == id).values(last_used=now))

    def revoke(self, id: str, *, cancel: bool = False) -> RevokedKey | None:
        """Revoke a key and end its sessions; None if there is no such key.

        ``cancel``: also cancel its jobs.
        """
        this_key = API_KEY.c.id == id
        with self._database.writing() as connection:
            row = connection.execute(select(API_KEY).where(this_key)).one_or_none()
            if row is None:
                return None
            connection.execute(update(API_KEY).where(this_key).values(revoked=True))
            ended = self._ended(connection, SESSION.c.key_id == id)
            jobs = self._going_on(connection, JOB.c.key_id == id, cancel)
            return RevokedKey(Key(**row._mapping), ended, jobs)

    def sign_out(self, person: str, *, cancel: bool = False) -> EndedSessions:
        """End all sessions of a person signed in by a proxy; ``cancel``: also cancel their jobs."""
        their_jobs = JOB.c.key_id.is_(None) & (JOB.c.asked_by == person)
        with self._database.writing() as connection:
            ended = self._ended(connection, SESSION.c.person == person)
            return EndedSessions(ended, self._going_on(connection, their_jobs, cancel))

    def sign_all_out(self) -> int:
        """End all sessions and return their number."""
        with self._database.writing() as connection:
            return self._ended(connection, true())

    def begin_session(self, principal: Key | Person, seconds: float) -> str:
        """Begin a session of a key or person and return its token; only a digest is stored.

        Beyond 100 sessions of one key or person, those that expire first are ended.
        """
        token = token_hex(32)
        key_id, person = (principal.id, None) if isinstance(principal, Key) else (None, principal)
        own = SESSION.c.key_id == key_id if key_id else SESSION.c.person == principal.name
        latest = select(SESSION.c.digest).where(own).order_by(SESSION.c.expires.desc())
        with self._database.writing() as connection:
            now = self._database.now(connection)
            over = (SESSION.c.expires <= now) | SESSION.c.digest.in_(
                latest.offset(_MOST_SESSIONS - 1)
            )
            connection.execute(delete(SESSION).where(over))
            row = {
                "digest": digest_of(token),
                "key_id": key_id,
                "expires": now + timedelta(seconds=seconds),
                "person": person and person.name,
                "team": person and person.team,
                "scopes": person and person.scopes,
            }
            connection.execute(insert(SESSION).values(row))
        return token

    def of_session(self, digest: str) -> Key | Person | None:
        """Return the owner of a session by the digest of its token; None if it has ended."""
        current = (SESSION.c.digest == digest) & (SESSION.c.expires > datetime.now(UTC))
        with self._database.reading() as connection:
            session = connection.execute(select(SESSION).where(current)).one_or_none()
            if session is None:
                return None
            if session.key_id is None:
                return Person(session.person, session.team, session.scopes)
            row = connection.execute(select(API_KEY).where(API_KEY.c.id == session.key_id)).one()
            return Key(**row._mapping)

    def _ended(self, connection: Connection, condition: ColumnElement[bool]) -> int:
        """End sessions, and return their number, not counting those that had expired."""
        over = SESSION.c.expires <= self._database.now(connection)
        connection.execute(delete(SESSION).where(over))
        return connection.execute(delete(SESSION).where(condition)).rowcount

    def _going_on(
        self, connection: Connection, condition: ColumnElement[bool], cancel: bool
    ) -> tuple[str, ...]:
        """Return the ids of unended jobs; with ``cancel`` they are cancelled.

        Jobs are locked in the same order as elsewhere, to prevent deadlocks.
        """
        unended = JOB.c.status.in_([status for status in Status if not status.ended])
        jobs = select(JOB.c.id).where(condition, unended).order_by(JOB.c.number)
        ids = connection.execute(jobs.with_for_update() if cancel else jobs).scalars().all()
        if cancel:
            connection.execute(cancel_statement(condition, self._database.now(connection)))
        return tuple(ids)

    def end_session(self, digest: str) -> None:
        """End a session by the digest of its token, if there is one."""
        with self._database.writing() as connection:
            connection.execute(delete(SESSION).where(SESSION.c.digest == digest))
