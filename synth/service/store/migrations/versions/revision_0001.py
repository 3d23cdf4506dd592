"""All tables: keys, sessions, systems, baselines, answers with their teams, servers and jobs."""

import sqlalchemy as sa
from alembic import op

revision = "v0001"
down_revision = None

NAME = sa.String(200)
MOMENT = sa.DateTime(timezone=True)


def upgrade() -> None:
    """Create the tables and their indexes."""
    make_keys()
    make_answers()
    make_jobs()


def make_keys() -> None:
    """Create the tables of keys, sessions, systems and baselines."""
    op.create_table(
        "api_key",
        sa.Column("id", NAME, nullable=False),
        sa.Column("team", NAME, nullable=False),
        sa.Column("name", NAME, nullable=False),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("rate_per_second", sa.Float()),
        sa.Column("jobs_per_day", sa.Integer()),
        sa.Column("created", MOMENT, nullable=False),
        sa.Column("revoked", sa.Boolean(), nullable=False),
        sa.Column("expires", MOMENT),
        sa.Column("last_used", MOMENT),
        sa.Column("scopes", NAME, nullable=False, server_default="ask keep"),
        sa.PrimaryKeyConstraint("id", name="pk_api_key"),
    )
    op.create_index("ix_api_key_team", "api_key", ["team"])
    op.create_table(
        "session",
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("key_id", NAME),
        sa.Column("expires", MOMENT, nullable=False),
        sa.Column("person", NAME),
        sa.Column("team", NAME),
        sa.Column("scopes", NAME),
        sa.ForeignKeyConstraint(["key_id"], ["api_key.id"], name="fk_session_key_id"),
        sa.PrimaryKeyConstraint("digest", name="pk_session"),
    )
    op.create_index("ix_session_expires", "session", ["expires"])
    op.create_table(
        "system",
        sa.Column("team", NAME, nullable=False),
        sa.Column("name", NAME, nullable=False),
        sa.Column("text", sa.String(), nullable=False),
        sa.Column("changed", MOMENT, nullable=False),
        sa.PrimaryKeyConstraint("team", "name", name="pk_system"),
    )
    op.create_table(
        "baseline",
        sa.Column("team", NAME, nullable=False),
        sa.Column("machine", NAME, nullable=False),
        sa.Column("test", NAME, nullable=False),
        sa.Column("text", sa.String(), nullable=False),
        sa.Column("changed", MOMENT, nullable=False),
        sa.PrimaryKeyConstraint("team", "machine", "test", name="pk_baseline"),
    )


def make_answers() -> None:
    """Create the tables of answers and of the teams that have asked for them."""
    op.create_table(
        "answer",
        sa.Column("key", NAME, nullable=False),
        sa.Column("verb", NAME, nullable=False),
        sa.Column("edition", NAME, nullable=False),
        sa.Column("question", sa.String(), nullable=False),
        sa.Column("outcome", sa.Integer(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.Column("seconds", sa.Float(), nullable=False),
        sa.Column("created", MOMENT, nullable=False),
        sa.Column("size_bytes", sa.Integer()),
        sa.PrimaryKeyConstraint("key", name="pk_answer"),
    )
    op.create_index("ix_answer_created", "answer", ["created"])
    op.create_table(
        "seen",
        sa.Column("team", NAME, nullable=False),
        sa.Column("key", NAME, nullable=False),
        sa.ForeignKeyConstraint(["key"], ["answer.key"], name="fk_seen_key"),
        sa.PrimaryKeyConstraint("team", "key", name="pk_seen"),
    )
    op.create_index("ix_seen_key", "seen", ["key"])


def make_jobs() -> None:
    """Create the tables of servers and jobs; ``number`` is the order of submission."""
    op.create_table(
        "server",
        sa.Column("name", NAME, nullable=False),
        sa.Column("seen", MOMENT, nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_server"),
    )
    op.create_table(
        "job",
        sa.Column("number", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("id", NAME, nullable=False),
        sa.Column("team", NAME, nullable=False),
        sa.Column("key_id", NAME),
        sa.Column("verb", NAME, nullable=False),
        sa.Column("question", sa.String(), nullable=False),
        sa.Column("answer_key", NAME, nullable=False),
        sa.Column("idempotency_key", NAME),
        sa.Column("budget_seconds", sa.Float()),
        sa.Column("status", sa.String(10), nullable=False),
        sa.Column("created", MOMENT, nullable=False),
        sa.Column("started", MOMENT),
        sa.Column("finished", MOMENT),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("losses", sa.Integer(), nullable=False),
        sa.Column("progress", sa.String()),
        sa.Column("best", sa.LargeBinary()),
        sa.Column("problem", sa.String()),
        sa.Column("revision", sa.Integer(), nullable=False),
        sa.Column("owner", NAME),
        sa.Column("token", sa.String(32)),
        sa.Column("lease_until", MOMENT),
        sa.Column("asked_by", NAME),
        sa.Column("part", sa.Boolean(), nullable=False, server_default=sa.false()),
        sa.Column("tried", sa.Boolean(), nullable=False, server_default=sa.false()),
        sa.Column("work_seconds", sa.Float(), nullable=False, server_default="0"),
        sa.Column("size_bytes", sa.Integer(), nullable=False, server_default="0"),
        sa.Column("name", NAME),
        sa.Column("headline", NAME),
        sa.ForeignKeyConstraint(["key_id"], ["api_key.id"], name="fk_job_key_id"),
        sa.PrimaryKeyConstraint("number", name="pk_job"),
        sa.UniqueConstraint("id", name="uq_job_id"),
        sa.UniqueConstraint("team", "idempotency_key", name="uq_job_team_idempotency_key"),
    )
    op.create_index("ix_job_status_number", "job", ["status", "number"])
    op.create_index("ix_job_team_number", "job", ["team", "number"])
    op.create_index("ix_job_key_id_created", "job", ["key_id", "created"])
    op.create_index("ix_job_answer_key", "job", ["answer_key"])
    op.create_index("ix_job_finished", "job", ["finished"])
