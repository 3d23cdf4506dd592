"""Jobs by name, so that a list need not read their questions; and the bytes of whole answers.

Without defaults: of what was there before the question says the name, and the body the bytes.
"""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Add the columns."""
    op.add_column("job", sa.Column("name", sa.String(200)))
    op.add_column("answer", sa.Column("size_bytes", sa.Integer()))
