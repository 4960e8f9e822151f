"""Schema revisions of Alembic: one file for each change of the schema, never edited after its
release.
"""

HEAD = "0035"
"""Newest revision. It is stored here so that Alembic is not imported if no migration is necessary.
"""
