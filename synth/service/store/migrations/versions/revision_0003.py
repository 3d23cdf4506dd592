"""Jobs: who asked, whether for a part of a page, tried in vain or not, their seconds and bytes.

With defaults, so that a server of the version before goes on while another has upgraded.
"""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Add the columns."""
    op.add_column("job", sa.Column("asked_by", sa.String(200)))
    for name in ("part", "tried"):
        op.add_column(
            "job", sa.Column(name, sa.Boolean(), nullable=False, server_default=sa.false())
        )
    op.add_column("job", sa.Column("work_seconds", sa.Float(), nullable=False, server_default="0"))
    op.add_column("job", sa.Column("size_bytes", sa.Integer(), nullable=False, server_default="0"))
