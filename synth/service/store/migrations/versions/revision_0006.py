"""What came of jobs, in a few words, so that a list need not read their answers.

Without a default: of what was there before a list says nothing.
"""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    """Add the column."""
    op.add_column("job", sa.Column("headline", sa.String(200)))
