"""The tables in SQLAlchemy; ``migrations`` creates them step by step."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    DateTime,
    Dialect,
    Enum,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    UniqueConstraint,
    false,
)
from sqlalchemy.types import TypeDecorator

from hierarchies import InputError
from synth.service.store.records import Status

NAME_CHARACTERS = 200
REVISION = "v0001"
"""The latest revision in ``migrations``."""


class Words(TypeDecorator[str]):
    """Text that every database stores unchanged; ``what`` names it in errors."""

    impl = String
    cache_ok = True

    def __init__(self, what: str, most: int | None = NAME_CHARACTERS) -> None:
        super().__init__(most)
        self.what = what
        self.most = most

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        if value is None:
            return None
        if self.most is not None and len(value) > self.most:
            problem = f"the {self.what} has {len(value)} characters"
            raise InputError(problem, hint=f"at most {self.most}")
        if "\0" in value:
            raise InputError(f"the {self.what} contains a NUL character", hint="remove it")
        if not value.isascii():
            try:
                value.encode()
            except UnicodeEncodeError:
                problem = f"the {self.what} contains half of a surrogate pair"
                raise InputError(problem, hint="give text that UTF-8 can encode") from None
        return value


class UtcTime(TypeDecorator[datetime]):
    """A time in UTC, also on SQLite, which has no time zones."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        return None if value is None else value.astimezone(UTC)

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        if value is None or value.tzinfo is not None:
            return None if value is None else value.astimezone(UTC)
        return value.replace(tzinfo=UTC)


class JsonText(TypeDecorator[dict[str, Any]]):
    """JSON in ASCII, so that every database stores any text in it unchanged."""

    impl = String
    cache_ok = True

    def process_bind_param(self, value: dict[str, Any] | None, dialect: Dialect) -> str | None:
        return None if value is None else json.dumps(value, allow_nan=False)

    def process_result_value(self, value: str | None, dialect: Dialect) -> dict[str, Any] | None:
        decoded: dict[str, Any] | None = None if value is None else json.loads(value)
        return decoded


METADATA = MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    }
)

_STATUS = Enum(
    Status,
    native_enum=False,
    length=10,
    values_callable=lambda kind: [status.value for status in kind],
)

API_KEY = Table(
    "api_key",
    METADATA,
    Column("id", Words("key"), primary_key=True),
    Column("team", Words("team"), nullable=False, index=True),
    Column("name", Words("key's name"), nullable=False),
    Column("digest", String(64), nullable=False),
    Column("rate_per_second", Float),
    Column("jobs_per_day", Integer),
    Column("created", UtcTime, nullable=False),
    Column("revoked", Boolean, nullable=False),
    Column("expires", UtcTime),
    Column("last_used", UtcTime),
    Column("scopes", Words("scopes"), nullable=False, server_default="ask keep"),
)

SESSION = Table(
    "session",
    METADATA,
    Column("digest", String(64), primary_key=True),
    Column("key_id", Words("key"), ForeignKey("api_key.id")),
    Column("expires", UtcTime, nullable=False, index=True),
    Column("person", Words("name")),
    Column("team", Words("team")),
    Column("scopes", Words("scopes")),
)

SYSTEM = Table(
    "system",
    METADATA,
    Column("team", Words("team"), primary_key=True),
    Column("name", Words("system's name"), primary_key=True),
    Column("text", Words("system's text", None), nullable=False),
    Column("changed", UtcTime, nullable=False),
)

BASELINE = Table(
    "baseline",
    METADATA,
    Column("team", Words("team"), primary_key=True),
    Column("machine", Words("machine"), primary_key=True),
    Column("test", Words("test"), primary_key=True),
    Column("text", Words("log's text", None), nullable=False),
    Column("changed", UtcTime, nullable=False),
)

ANSWER = Table(
    "answer",
    METADATA,
    Column("key", Words("answer's key"), primary_key=True),
    Column("verb", Words("verb"), nullable=False),
    Column("edition", Words("edition"), nullable=False),
    Column("question", Words("question", None), nullable=False),
    Column("outcome", Integer, nullable=False),
    Column("body", LargeBinary, nullable=False),
    Column("seconds", Float, nullable=False),
    Column("created", UtcTime, nullable=False, index=True),
    Column("size_bytes", Integer),
)

SEEN = Table(
    "seen",
    METADATA,
    Column("team", Words("team"), primary_key=True),
    Column("key", Words("answer's key"), ForeignKey("answer.key"), primary_key=True, index=True),
)

SERVER = Table(
    "server",
    METADATA,
    Column("name", Words("server's name"), primary_key=True),
    Column("seen", UtcTime, nullable=False),
)

JOB = Table(
    "job",
    METADATA,
    Column("number", BigInteger().with_variant(Integer, "sqlite"), primary_key=True),
    Column("id", Words("job"), nullable=False, unique=True),
    Column("team", Words("team"), nullable=False),
    Column("key_id", Words("key"), ForeignKey("api_key.id")),
    Column("verb", Words("verb"), nullable=False),
    Column("question", Words("question", None), nullable=False),
    Column("answer_key", Words("answer's key"), nullable=False, index=True),
    Column("idempotency_key", Words("idempotency key")),
    Column("budget_seconds", Float),
    Column("status", _STATUS, nullable=False),
    Column("created", UtcTime, nullable=False),
    Column("started", UtcTime),
    Column("finished", UtcTime, index=True),
    Column("attempts", Integer, nullable=False),
    Column("losses", Integer, nullable=False),
    Column("progress", JsonText),
    Column("best", LargeBinary),
    Column("problem", JsonText),
    Column("revision", Integer, nullable=False),
    Column("owner", Words("owner")),
    Column("token", String(32)),
    Column("lease_until", UtcTime),
    Column("asked_by", Words("name")),
    Column("part", Boolean, nullable=False, server_default=false()),
    Column("tried", Boolean, nullable=False, server_default=false()),
    Column("work_seconds", Float, nullable=False, server_default="0"),
    Column("size_bytes", Integer, nullable=False, server_default="0"),
    Column("name", Words("job's name")),
    Column("headline", Words("job's headline")),
    UniqueConstraint("team", "idempotency_key"),
    Index(None, "status", "number"),
    Index(None, "team", "number"),
    Index(None, "key_id", "created"),
)
