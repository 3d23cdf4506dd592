"""API keys of teams: of each secret only a digest is kept."""

from __future__ import annotations

from datetime import datetime
from secrets import token_hex

from sqlalchemy import Connection, RowMapping, func, insert, select, update

from synth.service.store.records import Key, NewKey, digest_of
from synth.service.store.tables import API_KEY, JOB


def create(
    connection: Connection,
    team: str,
    name: str,
    limits: tuple[float | None, int | None],
    now: datetime,
) -> NewKey:
    """A new key, with its rate per second and jobs per day."""
    key_id = token_hex(8)
    made = NewKey(key_id, team, f"cs_{key_id}_{token_hex(32)}")
    row = {
        "id": key_id,
        "team": team,
        "name": name,
        "digest": digest_of(made.secret),
        "rate_per_second": limits[0],
        "jobs_per_day": limits[1],
        "created": now,
        "revoked": False,
    }
    connection.execute(insert(API_KEY).values(row))
    return made


def one(connection: Connection, key_id: str) -> Key | None:
    """The key of that id."""
    row = connection.execute(select(API_KEY).where(API_KEY.c.id == key_id)).one_or_none()
    return None if row is None else _key(row._mapping)


def known(connection: Connection, team: str | None) -> list[Key]:
    """The keys of a team, or of all, oldest first."""
    chosen = select(API_KEY).order_by(API_KEY.c.created, API_KEY.c.id)
    if team is not None:
        chosen = chosen.where(API_KEY.c.team == team)
    return [_key(row._mapping) for row in connection.execute(chosen)]


def revoke(connection: Connection, key_id: str) -> bool:
    """Revoke a key: it is no longer admitted. False where there is no such key."""
    change = update(API_KEY).where(API_KEY.c.id == key_id).values(revoked=True)
    return connection.execute(change).rowcount == 1


def jobs_since(connection: Connection, key_id: str, when: datetime) -> int:
    """How many jobs came with that key since then."""
    found = select(func.count()).where(JOB.c.key_id == key_id, JOB.c.created >= when)
    return connection.execute(found).scalar_one()


def _key(row: RowMapping) -> Key:
    return Key(**row)
