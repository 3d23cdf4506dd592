"""Baselines of teams, by machine and test."""

from __future__ import annotations

from dataclasses import asdict

from sqlalchemy import ColumnElement, delete, select

from synth.service.store.engines import Database, insert
from synth.service.store.records import StoredBaseline
from synth.service.store.tables import BASELINE


class Baselines:
    """The baselines in a database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def put(self, team: str, machine: str, test: str, text: str) -> StoredBaseline:
        """Store a log, replacing the team's earlier one of that machine and test."""
        with self._database.writing() as connection:
            baseline = StoredBaseline(team, machine, test, text, self._database.now(connection))
            row = insert(connection, BASELINE).values(asdict(baseline))
            change = {"text": baseline.text, "changed": baseline.changed}
            keys = ["team", "machine", "test"]
            connection.execute(row.on_conflict_do_update(index_elements=keys, set_=change))
            return baseline

    def known(self, team: str, machine: str | None = None) -> list[StoredBaseline]:
        """Return a team's baselines, or those of one machine, sorted by machine and test."""
        chosen = select(BASELINE).where(BASELINE.c.team == team)
        if machine is not None:
            chosen = chosen.where(BASELINE.c.machine == machine)
        found = self._database.all(StoredBaseline, chosen)
        return sorted(found, key=lambda baseline: (baseline.machine, baseline.test))

    def one(self, team: str, machine: str, test: str) -> StoredBaseline | None:
        """Return a team's baseline of that machine and test, or None."""
        chosen = select(BASELINE).where(_is_of(team, machine, test))
        return self._database.one(StoredBaseline, chosen)

    def remove(self, team: str, machine: str, test: str) -> bool:
        """Delete a team's baseline; False if there was none."""
        with self._database.writing() as connection:
            gone = connection.execute(delete(BASELINE).where(_is_of(team, machine, test)))
            return gone.rowcount == 1


def _is_of(team: str, machine: str, test: str) -> ColumnElement[bool]:
    return (BASELINE.c.team == team) & (BASELINE.c.machine == machine) & (BASELINE.c.test == test)
