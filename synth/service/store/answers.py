"""Answers under the keys of their questions, and who asked for them."""

from __future__ import annotations

from dataclasses import asdict

from sqlalchemy import Connection, literal, select

from synth.service.store.engines import insert
from synth.service.store.records import StoredAnswer
from synth.service.store.tables import ANSWER, SEEN


def one(connection: Connection, key: str) -> StoredAnswer | None:
    """The answer kept under a key."""
    row = connection.execute(select(ANSWER).where(ANSWER.c.key == key)).one_or_none()
    return None if row is None else StoredAnswer(**row._mapping)


def keep(connection: Connection, answer: StoredAnswer) -> None:
    """Keep an answer, unless there is one: the first stays."""
    connection.execute(insert(connection, ANSWER).values(asdict(answer)).on_conflict_do_nothing())


def saw(connection: Connection, team: str, key: str) -> None:
    """A team may look at an answer from now on, if there is one."""
    row = select(literal(team, SEEN.c.team.type), ANSWER.c.key).where(ANSWER.c.key == key)
    told = insert(connection, SEEN).from_select(["team", "key"], row)
    connection.execute(told.on_conflict_do_nothing())


def has_seen(connection: Connection, team: str, key: str) -> bool:
    """If a team asked for an answer."""
    found = select(SEEN.c.key).where(SEEN.c.team == team, SEEN.c.key == key)
    return connection.execute(found).one_or_none() is not None
