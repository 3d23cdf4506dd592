"""Answers under the keys of their questions, and who asked for them."""

from __future__ import annotations

from dataclasses import asdict

from sqlalchemy import Connection, Exists, exists, literal, select

from synth.service.store.engines import insert
from synth.service.store.jobs import with_key
from synth.service.store.records import Seen, StoredAnswer
from synth.service.store.tables import ANSWER, SEEN


def one(connection: Connection, key: str, team: str | None = None) -> StoredAnswer | None:
    """The answer kept under a key; for a team, if that asked for it."""
    chosen = select(ANSWER).where(ANSWER.c.key == key)
    if team is not None:
        chosen = chosen.where(_seen(team, key))
    row = connection.execute(chosen).one_or_none()
    return None if row is None else StoredAnswer(**row._mapping)


def look(connection: Connection, team: str, key: str, idempotency_key: str | None) -> Seen | None:
    """The answer kept under a key, and if the team asked for it before.

    None, too, where the team has a job of that idempotency key: then it is for that to answer.
    """
    chosen = select(ANSWER, _seen(team, key).label("before")).where(ANSWER.c.key == key)
    if idempotency_key is not None:
        chosen = chosen.where(~exists().where(with_key(team, idempotency_key)))
    row = connection.execute(chosen).one_or_none()
    if row is None:
        return None
    found = dict(row._mapping)
    before = bool(found.pop("before"))
    return Seen(StoredAnswer(**found), before)


def keep(connection: Connection, answer: StoredAnswer) -> None:
    """Keep an answer, unless there is one: the first stays."""
    connection.execute(insert(connection, ANSWER).values(asdict(answer)).on_conflict_do_nothing())


def saw(connection: Connection, team: str, key: str) -> None:
    """A team may look at an answer from now on, if there is one."""
    row = select(literal(team, SEEN.c.team.type), ANSWER.c.key).where(ANSWER.c.key == key)
    told = insert(connection, SEEN).from_select(["team", "key"], row)
    connection.execute(told.on_conflict_do_nothing())


def _seen(team: str, key: str) -> Exists:
    return exists().where(SEEN.c.team == team, SEEN.c.key == key)
