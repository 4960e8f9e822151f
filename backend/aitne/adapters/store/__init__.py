"""The store: SQLAlchemy on SQLite and PostgreSQL."""
