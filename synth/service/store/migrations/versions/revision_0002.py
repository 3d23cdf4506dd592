"""Baselines: logs of measurements that a team keeps by machine and test."""

import sqlalchemy as sa
from alembic import op

revision = "v0002"
down_revision = "v0001"

NAME = sa.String(200)


def upgrade() -> None:
    """Create the table."""
    op.create_table(
        "baseline",
        sa.Column("team", NAME, nullable=False),
        sa.Column("machine", NAME, nullable=False),
        sa.Column("test", NAME, nullable=False),
        sa.Column("text", sa.String(), nullable=False),
        sa.Column("changed", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("team", "machine", "test", name="pk_baseline"),
    )
