"""Descriptions of machines that teams keep, each under a name."""

from __future__ import annotations

from sqlalchemy import Connection, delete, select

from synth.service.store.engines import insert
from synth.service.store.records import StoredSystem
from synth.service.store.tables import SYSTEM


def put(connection: Connection, system: StoredSystem) -> None:
    """Keep a system; one of its team that had its name is replaced."""
    change = {"text": system.text, "changed": system.changed}
    row = insert(connection, SYSTEM).values(team=system.team, name=system.name, **change)
    connection.execute(row.on_conflict_do_update(index_elements=["team", "name"], set_=change))


def one(connection: Connection, team: str, name: str) -> StoredSystem | None:
    """A team's system of that name."""
    chosen = select(SYSTEM).where(SYSTEM.c.team == team, SYSTEM.c.name == name)
    row = connection.execute(chosen).one_or_none()
    return None if row is None else StoredSystem(**row._mapping)


def known(connection: Connection, team: str) -> list[StoredSystem]:
    """A team's systems, by name."""
    chosen = select(SYSTEM).where(SYSTEM.c.team == team)
    found = [StoredSystem(**row._mapping) for row in connection.execute(chosen)]
    return sorted(found, key=lambda system: system.name)


def remove(connection: Connection, team: str, name: str) -> bool:
    """Delete a team's system; False where there was none."""
    change = delete(SYSTEM).where(SYSTEM.c.team == team, SYSTEM.c.name == name)
    return connection.execute(change).rowcount == 1
