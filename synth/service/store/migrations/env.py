"""What alembic runs: the migrations, in the transaction of whoever asks for them."""

from alembic import context

from synth.service.store.tables import METADATA

context.configure(connection=context.config.attributes["connection"], target_metadata=METADATA)
with context.begin_transaction():
    context.run_migrations()
