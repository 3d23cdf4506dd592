"""API keys of teams: of each secret only a digest is kept."""

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
    """The keys in a database, and the sessions of who has signed in to the page."""

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
        """A new key of a team. None as a limit is no limit."""
        key_id = token_hex(8)
        made = NewKey(key_id, team, f"cs_{key_id}_{token_hex(32)}")
        with self._database.writing() as connection:
            row = {
                "id": key_id,
                "team": team,
                "name": name,
                "digest": digest_of(made.secret),
                "rate_per_second": rate_per_second,
                "jobs_per_day": jobs_per_day,
                "created": self._database.now(connection),
                "revoked": False,
                "expires": expires,
                "scopes": " ".join(scopes),
            }
            connection.execute(insert(API_KEY).values(row))
        return made

    def one(self, id: str) -> Key | None:
        """The key of that id."""
        with self._database.reading() as connection:
            row = connection.execute(select(API_KEY).where(API_KEY.c.id == id)).one_or_none()
            return None if row is None else Key(**row._mapping)

    def known(self, team: str | None = None) -> list[Key]:
        """The keys of a team, or of all, oldest first, the revoked ones too."""
        chosen = select(API_KEY).order_by(API_KEY.c.created, API_KEY.c.id)
        if team is not None:
            chosen = chosen.where(API_KEY.c.team == team)
        with self._database.reading() as connection:
            return [Key(**row._mapping) for row in connection.execute(chosen)]

    def used(self, id: str) -> None:
        """Note that a key was used now."""
        with self._database.writing() as connection:
            now = self._database.now(connection)
            connection.execute(update(API_KEY).where(API_KEY.c.id == id).values(last_used=now))

    def revoke(self, id: str, *, cancel: bool = False) -> RevokedKey | None:
        """Revoke a key, and end its sessions; None where there is none of that id.

        ``cancel``: its jobs are cancelled, too.
        """
        mine = API_KEY.c.id == id
        with self._database.writing() as connection:
            row = connection.execute(select(API_KEY).where(mine)).one_or_none()
            if row is None:
                return None
            connection.execute(update(API_KEY).where(mine).values(revoked=True))
            ended = self._ended(connection, SESSION.c.key_id == id)
            jobs = self._going_on(connection, JOB.c.key_id == id, cancel)
            return RevokedKey(Key(**row._mapping), ended, jobs)

    def sign_out(self, person: str, *, cancel: bool = False) -> EndedSessions:
        """End all sessions of somebody whom a proxy has signed in; ``cancel``: their jobs, too."""
        asked = JOB.c.key_id.is_(None) & (JOB.c.asked_by == person)
        with self._database.writing() as connection:
            ended = self._ended(connection, SESSION.c.person == person)
            return EndedSessions(ended, self._going_on(connection, asked, cancel))

    def sign_all_out(self) -> int:
        """End all sessions, whoever's they are; how many there were."""
        with self._database.writing() as connection:
            return self._ended(connection, true())

    def begin_session(self, whose: Key | Person, seconds: float) -> str:
        """A new session of who has signed in: its token, of which a digest is kept.

        Of more than 100 sessions of one key or person those go that would end first.
        """
        token = token_hex(32)
        key_id, person = (whose.id, None) if isinstance(whose, Key) else (None, whose)
        mine = SESSION.c.key_id == key_id if key_id else SESSION.c.person == whose.name
        latest = select(SESSION.c.digest).where(mine).order_by(SESSION.c.expires.desc())
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
        """Whose session it is, by the digest of its token; None where it is over."""
        mine = (SESSION.c.digest == digest) & (SESSION.c.expires > datetime.now(UTC))
        with self._database.reading() as connection:
            found = connection.execute(select(SESSION).where(mine)).one_or_none()
            if found is None:
                return None
            if found.key_id is None:
                return Person(found.person, found.team, found.scopes)
            row = connection.execute(select(API_KEY).where(API_KEY.c.id == found.key_id)).one()
            return Key(**row._mapping)

    def _ended(self, connection: Connection, whose: ColumnElement[bool]) -> int:
        """End sessions; how many there were, but for those whose time was over."""
        over = SESSION.c.expires <= self._database.now(connection)
        connection.execute(delete(SESSION).where(over))
        return connection.execute(delete(SESSION).where(whose)).rowcount

    def _going_on(
        self, connection: Connection, whose: ColumnElement[bool], cancel: bool
    ) -> tuple[str, ...]:
        """The ids of the jobs that have not ended; with ``cancel`` they are cancelled.

        They are locked in the order in which others lock several, so that neither waits for ever.
        """
        unended = JOB.c.status.in_([status for status in Status if not status.ended])
        jobs = select(JOB.c.id).where(whose, unended).order_by(JOB.c.number)
        found = connection.execute(jobs.with_for_update() if cancel else jobs).scalars().all()
        if cancel:
            connection.execute(cancel_statement(whose, self._database.now(connection)))
        return tuple(found)

    def end_session(self, digest: str) -> None:
        """End a session, if there is one, by the digest of its token."""
        with self._database.writing() as connection:
            connection.execute(delete(SESSION).where(SESSION.c.digest == digest))
