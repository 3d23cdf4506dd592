"""Servers that live; keys with an end, scopes and last use; sessions of the page.

With defaults, so that a server of the version before goes on while another has upgraded.
"""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"

NAME = sa.String(200)
MOMENT = sa.DateTime(timezone=True)


def upgrade() -> None:
    """Make the tables, and add the columns."""
    op.create_table(
        "server",
        sa.Column("name", NAME, nullable=False),
        sa.Column("seen", MOMENT, nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_server"),
    )
    op.create_table(
        "session",
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("key_id", NAME, nullable=False),
        sa.Column("expires", MOMENT, nullable=False),
        sa.ForeignKeyConstraint(["key_id"], ["api_key.id"], name="fk_session_key_id"),
        sa.PrimaryKeyConstraint("digest", name="pk_session"),
    )
    op.create_index("ix_session_expires", "session", ["expires"])
    op.add_column("api_key", sa.Column("expires", MOMENT))
    op.add_column("api_key", sa.Column("last_used", MOMENT))
    scopes = sa.Column("scopes", NAME, nullable=False, server_default="ask keep")
    op.add_column("api_key", scopes)
