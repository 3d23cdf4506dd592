"""Answers by key, and which teams have asked for them."""

from __future__ import annotations

from dataclasses import asdict, fields

from sqlalchemy import Connection, bindparam, exists, literal, select

from synth.service.store.engines import Database, hold_answers, insert
from synth.service.store.jobs import job_with_key
from synth.service.store.records import SeenAnswer, StoredAnswer
from synth.service.store.tables import ANSWER, SEEN

_COLUMNS = tuple(ANSWER.c[field.name] for field in fields(StoredAnswer))
_BY_KEY = ANSWER.c.key == bindparam("key")
_SEEN_BY_TEAM = exists().where(SEEN.c.team == bindparam("team"), SEEN.c.key == bindparam("key"))
_SELECT_ONE = select(*_COLUMNS).where(_BY_KEY)
_SELECT_ONE_SEEN = _SELECT_ONE.where(_SEEN_BY_TEAM)
_SELECT_AND_SEEN = select(*_COLUMNS, _SEEN_BY_TEAM.label("before")).where(_BY_KEY)
"""Statements built once: building one takes longer than executing it."""


class Answers:
    """The answers in a database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def one(self, key: str, team: str | None = None) -> StoredAnswer | None:
        """Return the answer of a key; given a team, only if that team has asked for it."""
        chosen = _SELECT_ONE if team is None else _SELECT_ONE_SEEN
        return self._database.one(StoredAnswer, chosen, {"key": key, "team": team})

    def look(self, team: str, key: str, idempotency_key: str | None = None) -> SeenAnswer | None:
        """Return the answer of a key, and whether the team has asked for it before, or None.

        Also None if the team has a job with that idempotency key, because that job is the reply.
        """
        chosen = _SELECT_AND_SEEN
        if idempotency_key is not None:
            chosen = chosen.where(~exists().where(job_with_key(team, idempotency_key)))
        with self._database.reading() as connection:
            row = connection.execute(chosen, {"key": key, "team": team}).one_or_none()
        if row is None:
            return None
        *columns, before = row
        return SeenAnswer(StoredAnswer(*columns), bool(before))

    def saw(self, team: str, key: str) -> None:
        """Record that a team has asked for a stored answer, which it may open from now on."""
        with self._database.writing() as connection:
            hold_answers(connection, alone=False)
            add_seen(connection, team, key)

    def keep(self, answer: StoredAnswer) -> None:
        """Store a complete answer, unless its key already has an answer."""
        with self._database.writing() as connection:
            hold_answers(connection, alone=False)
            add(connection, answer)


def add(connection: Connection, answer: StoredAnswer) -> None:
    """Store an answer, within a transaction that called ``hold_answers``."""
    row = asdict(answer) | {"size_bytes": len(answer.question) + len(answer.body)}
    connection.execute(insert(connection, ANSWER).on_conflict_do_nothing(), row)


def add_seen(connection: Connection, team: str, key: str) -> None:
    """Record that a team has asked for an answer, within a transaction as for ``add``."""
    row = select(literal(team, SEEN.c.team.type), ANSWER.c.key).where(ANSWER.c.key == key)
    added = insert(connection, SEEN).from_select(["team", "key"], row)
    connection.execute(added.on_conflict_do_nothing())
