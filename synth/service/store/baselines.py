"""Baselines of teams, by machine and test."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import asdict

from sqlalchemy import ColumnElement, delete, func, select

from synth.service.store.engines import Database, bytes_of, insert
from synth.service.store.records import ListedBaseline, StoredBaseline
from synth.service.store.tables import BASELINE


class Baselines:
    """The baselines in a database."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._bytes = bytes_of(database.engine, BASELINE.c.text)

    def put(self, team: str, machine: str, test: str, text: str) -> StoredBaseline:
        """Store a log, replacing the team's earlier one of that machine and test."""
        with self._database.writing() as connection:
            baseline = StoredBaseline(team, machine, test, text, self._database.now(connection))
            row = insert(connection, BASELINE).values(asdict(baseline))
            change = {"text": baseline.text, "changed": baseline.changed}
            keys = ["team", "machine", "test"]
            connection.execute(row.on_conflict_do_update(index_elements=keys, set_=change))
            return baseline

    def listed(self, team: str) -> list[ListedBaseline]:
        """Return a team's baselines without their texts, sorted by machine and test."""
        columns = (BASELINE.c.machine, BASELINE.c.test, self._bytes, BASELINE.c.changed)
        chosen = select(*columns).where(BASELINE.c.team == team)
        found = self._database.all(ListedBaseline, chosen)
        return sorted(found, key=lambda baseline: (baseline.machine, baseline.test))

    def total(
        self, team: str, machine: str | None = None, tests: Collection[str] | None = None
    ) -> tuple[int, int]:
        """Return the number and the bytes of a team's baselines, or of those of these names."""
        total = select(func.count(), func.coalesce(func.sum(self._bytes), 0))
        with self._database.reading() as connection:
            row = connection.execute(total.where(_are_of(team, machine, tests))).one()
        return row[0], int(row[1])  # PostgreSQL's sum is a Decimal

    def texts(
        self, team: str, machine: str, tests: Collection[str] | None = None
    ) -> dict[str, str]:
        """Return the texts of a team's baselines of a machine, or of these tests, by test."""
        chosen = select(BASELINE.c.test, BASELINE.c.text).where(_are_of(team, machine, tests))
        with self._database.reading() as connection:
            return dict(sorted((row[0], row[1]) for row in connection.execute(chosen)))

    def one(self, team: str, machine: str, test: str) -> StoredBaseline | None:
        """Return a team's baseline of that machine and test, or None."""
        chosen = select(BASELINE).where(_is_of(team, machine, test))
        return self._database.one(StoredBaseline, chosen)

    def remove(self, team: str, machine: str, test: str) -> bool:
        """Delete a team's baseline; False if there was none."""
        with self._database.writing() as connection:
            gone = connection.execute(delete(BASELINE).where(_is_of(team, machine, test)))
            return gone.rowcount == 1


def _are_of(team: str, machine: str | None, tests: Collection[str] | None) -> ColumnElement[bool]:
    condition = BASELINE.c.team == team
    if machine is not None:
        condition &= BASELINE.c.machine == machine
    return condition if tests is None else condition & BASELINE.c.test.in_(tests)


def _is_of(team: str, machine: str, test: str) -> ColumnElement[bool]:
    return (BASELINE.c.team == team) & (BASELINE.c.machine == machine) & (BASELINE.c.test == test)
