"""Indexes to find old jobs and answers, and references to an answer, without a full scan."""

from alembic import op

revision = "0002"
down_revision = "0001"

COLUMNS = (("answer", "created"), ("seen", "key"), ("job", "answer_key"), ("job", "finished"))


def upgrade() -> None:
    """Make the indexes."""
    for table, column in COLUMNS:
        op.create_index(f"ix_{table}_{column}", table, [column])
