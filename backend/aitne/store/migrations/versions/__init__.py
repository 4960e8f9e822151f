"""Revisions of the schema, oldest first by name."""
