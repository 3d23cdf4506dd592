"""Alembic's entry point: runs the migrations in the caller's transaction."""

from alembic import context

from synth.service.store.tables import METADATA

context.configure(connection=context.config.attributes["connection"], target_metadata=METADATA)
with context.begin_transaction():
    context.run_migrations()
