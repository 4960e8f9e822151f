"""Script that Alembic runs for a migration, on a connection that already holds the lock and the
transaction.
"""

from __future__ import annotations

from alembic import context

from aitne.store.tables import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    # SQLite cannot alter most properties of a table: such a revision copies it.
    render_as_batch=True,
)
with context.begin_transaction():
    context.run_migrations()
