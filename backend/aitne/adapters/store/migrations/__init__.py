"""Alembic's revisions: one file per change of the schema, never edited once released."""

HEAD = "0018"
"""The newest revision. Kept here so that a start that has nothing to migrate need not load Alembic."""
