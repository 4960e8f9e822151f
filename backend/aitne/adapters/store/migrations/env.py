"""Run by Alembic for an upgrade. The connection comes with the lock and the transaction."""

from __future__ import annotations

from alembic import context

from aitne.adapters.store.tables import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    # SQLite cannot alter most of a table: a revision that does copies it.
    render_as_batch=True,
)
with context.begin_transaction():
    context.run_migrations()
