"""Alembic's revisions: one file per change of the schema, never edited once released."""

HEAD = "0021"
"""Newest revision. It is stored here so that a start without a migration need not load Alembic."""
