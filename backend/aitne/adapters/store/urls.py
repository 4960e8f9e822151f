"""The database's address as the settings spell it: SQLAlchemy's form, without a driver."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError

from aitne.core.errors import SetupError

_SQLITE = "sqlite:///"
_POSTGRES = ("postgresql", "postgres")


@dataclass(frozen=True, slots=True)
class Address:
    """Where the database is. ``path`` is SQLite's; PostgreSQL has a ``dsn`` instead."""

    shown: str
    """For messages: without the password."""
    path: Path | None = None
    dsn: str = ""

    @property
    def engine_url(self) -> URL:
        """For SQLAlchemy, driver included. asyncpg gets the DSN itself, in libpq's full syntax."""
        if self.path is not None:
            return URL.create("sqlite+aiosqlite", database=str(self.path))
        return URL.create("postgresql+asyncpg")


def parse(url: str) -> Address:
    """Read ``sqlite:////absolute/path`` or ``postgresql://user@host/name``.

    Raises:
        SetupError: it is neither.
    """
    if url.startswith(_SQLITE):
        # Cut by hand: a path may hold characters that mean something in a URL.
        path = url.removeprefix(_SQLITE)
        if path and path != ":memory:":
            return Address(shown=path, path=Path(path).absolute())
    try:
        parsed = make_url(url)
    except ArgumentError:
        parsed = None
    if parsed is not None and parsed.drivername in _POSTGRES:
        return Address(shown=parsed.render_as_string(hide_password=True), dsn=url)
    raise SetupError(
        "The setting database is not one the platform knows: write postgresql://user@host/name, or "
        "sqlite:////absolute/path/to/file, or leave it out for SQLite in the data directory."
    )
