"""System descriptions of teams, by name."""

from __future__ import annotations

from dataclasses import asdict

from sqlalchemy import ColumnElement, delete, select

from synth.service.store.engines import Database, insert
from synth.service.store.records import StoredSystem
from synth.service.store.tables import SYSTEM


class Systems:
    """The systems in a database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def put(self, team: str, name: str, text: str) -> StoredSystem:
        """Store a system under a name, replacing the team's earlier system of that name."""
        with self._database.writing() as connection:
            system = StoredSystem(team, name, text, self._database.now(connection))
            row = insert(connection, SYSTEM).values(asdict(system))
            change = {"text": system.text, "changed": system.changed}
            connection.execute(
                row.on_conflict_do_update(index_elements=["team", "name"], set_=change)
            )
            return system

    def one(self, team: str, name: str) -> StoredSystem | None:
        """Return a team's system of that name, or None."""
        return self._database.one(StoredSystem, select(SYSTEM).where(_has_name(team, name)))

    def known(self, team: str) -> list[StoredSystem]:
        """Return a team's systems, sorted by name."""
        chosen = select(SYSTEM).where(SYSTEM.c.team == team)
        systems = self._database.all(StoredSystem, chosen)
        return sorted(systems, key=lambda system: system.name)

    def remove(self, team: str, name: str) -> bool:
        """Delete a team's system; False if there was none."""
        with self._database.writing() as connection:
            return connection.execute(delete(SYSTEM).where(_has_name(team, name))).rowcount == 1


def _has_name(team: str, name: str) -> ColumnElement[bool]:
    return (SYSTEM.c.team == team) & (SYSTEM.c.name == name)
