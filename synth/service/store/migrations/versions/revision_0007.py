"""Sessions of people whom a proxy has signed in: they have no key, but a name, team and scopes.

A server of the version before goes on while another has upgraded: it does not know those sessions.
"""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"

NAME = sa.String(200)


def upgrade() -> None:
    """Let sessions be without a key, and add the columns."""
    with op.batch_alter_table("session") as session:
        session.alter_column("key_id", existing_type=NAME, nullable=True)
        for name in ("person", "team", "scopes"):
            session.add_column(sa.Column(name, NAME))
