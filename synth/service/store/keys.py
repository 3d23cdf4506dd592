"""API keys of teams: of each secret only a digest is kept."""

from __future__ import annotations

from secrets import token_hex

from sqlalchemy import insert, select, update

from synth.service.store.engines import Database
from synth.service.store.records import Key, NewKey, digest_of
from synth.service.store.tables import API_KEY


class Keys:
    """The keys in a database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def create(
        self,
        team: str,
        name: str,
        rate_per_second: float | None = None,
        jobs_per_day: int | None = None,
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

    def revoke(self, id: str) -> bool:
        """Revoke a key, so that it is no longer admitted; False where there is none of that id."""
        with self._database.writing() as connection:
            change = update(API_KEY).where(API_KEY.c.id == id).values(revoked=True)
            return connection.execute(change).rowcount == 1
