"""The database's address as the settings spell it: SQLAlchemy's form, without a driver."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import URL

from aitne.core.errors import SetupError

_SQLITE = "sqlite:///"
_POSTGRES = ("postgresql", "postgres")
_HOST = re.compile(r"(?:\[[0-9A-Fa-f:.%]+\]|[^\[\]:\s]*)(?::([0-9]{1,5}))?")
_HIGHEST_PORT = 65_535
_SECRET = re.compile(r"((?:ssl)?password=)[^&]*", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Address:
    """Location of the database. ``path`` is SQLite's; PostgreSQL has a ``dsn`` instead."""

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
    """Read ``sqlite:////absolute/path`` or ``postgresql://user@host:5432,other:5432/name``.

    Raises:
        SetupError: it is neither, or one of its hosts or ports cannot be one. The message repeats
            nothing of it, for what looks like a port may be the end of a password.
    """
    if url.startswith(_SQLITE):
        # Cut by hand: a path may hold characters that mean something in a URL.
        path = url.removeprefix(_SQLITE)
        if path and path != ":memory:":
            return Address(shown=path, path=Path(path).absolute())
    scheme, separator, rest = url.partition("://")
    if not separator or scheme not in _POSTGRES:
        raise SetupError(
            "The setting database is not one the platform knows: write postgresql://user@host/name, "
            "or sqlite:////absolute/path/to/file, or leave it out for SQLite in the data directory."
        )
    authority = re.split("[/?#]", rest, maxsplit=1)[0]
    user, at, hosts = authority.rpartition("@")
    if not all(map(_is_host, hosts.split(","))):
        raise SetupError(
            "The setting database has a host or port that cannot be one: write "
            "postgresql://user@host:5432/name, with several hosts postgresql://user@host:5432,"
            "other:5432/name, and in a password %-codes for characters such as / : @ and ,."
        )
    account = f"{user.partition(':')[0]}:***" if ":" in user else user
    name = _SECRET.sub(r"\1***", rest.removeprefix(authority))
    return Address(shown=f"{scheme}://{account}{at}{hosts}{name}", dsn=url)


def _is_host(text: str) -> bool:
    """Tell whether the text is a host, which may be left out, with or without a port."""
    match = _HOST.fullmatch(text)
    return match is not None and (match[1] is None or 0 < int(match[1]) <= _HIGHEST_PORT)
