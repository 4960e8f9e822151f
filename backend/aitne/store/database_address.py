"""Address of the database as the settings contain it: a URL of SQLAlchemy without the name of a
driver.
"""

from __future__ import annotations

import os
import pwd
import re
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import URL

from aitne.core.errors import SetupError

_SQLITE = "sqlite:///"
_POSTGRES = ("postgresql", "postgres")
_HOST = re.compile(r"(?:\[[0-9A-Fa-f:.%]+\]|[^\[\]:\s]*)(?::([0-9]{1,5}))?")
_HIGHEST_PORT = 65_535
_USER = re.compile(r"//[^/?#:@]+[^/?#]*@|[?&]user=")
_SECRET = re.compile(r"((?:ssl)?password=)[^&]*", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Address:
    """Address of the database: ``path`` for SQLite or ``dsn`` for PostgreSQL. ``shown`` is its form
    for messages.
    """

    shown: str
    """The address in messages, without the password."""
    path: Path | None = None
    dsn: str = ""

    @property
    def engine_url(self) -> URL:
        """Return the URL for SQLAlchemy with the name of the driver. asyncpg gets the DSN in
        libpq's syntax.
        """
        if self.path is not None:
            return URL.create("sqlite+aiosqlite", database=str(self.path))
        return URL.create("postgresql+asyncpg")

    @property
    def user(self) -> str | None:
        """Return the user for asyncpg if the address names none: the effective account of this process,
        as for libpq; asyncpg itself takes the account that logged in. None: asyncpg decides.
        """
        if os.environ.get("PGUSER") or _USER.search(self.dsn):
            return None
        try:
            return pwd.getpwuid(os.geteuid()).pw_name
        except KeyError:
            return None


def parse_address(url: str) -> Address:
    """Parse ``sqlite:////absolute/path`` or ``postgresql://user@host:5432,other:5432/name``.

    Raises:
        SetupError: the URL has neither form, or a host or port is invalid. The message contains no
            part of the URL, since an apparent port may be the end of a password.
    """
    if url.startswith(_SQLITE):
        # Split without a URL parser: a path may contain characters with a meaning in URLs.
        path = url.removeprefix(_SQLITE)
        if path and path != ":memory:":
            return Address(shown=path, path=Path(path).absolute())
    scheme, separator, rest = url.partition("://")
    if not separator or scheme not in _POSTGRES:
        raise SetupError(
            "The setting database is invalid: write postgresql://user@host/name or "
            "sqlite:////absolute/path/to/file, or omit it for SQLite in the data directory."
        )
    authority = re.split("[/?#]", rest, maxsplit=1)[0]
    user, at, hosts = authority.rpartition("@")
    if not all(map(_is_host, hosts.split(","))):
        raise SetupError(
            "The setting database has an invalid host or port: write "
            "postgresql://user@host:5432/name, with several hosts postgresql://user@host:5432,"
            "other:5432/name, and in a password %-codes for characters such as / : @ and ,."
        )
    account = f"{user.partition(':')[0]}:***" if ":" in user else user
    name = _SECRET.sub(r"\1***", rest.removeprefix(authority))
    return Address(shown=f"{scheme}://{account}{at}{hosts}{name}", dsn=url)


def _is_host(text: str) -> bool:
    """Return True if the text is a host with or without a port; the host may be empty."""
    match = _HOST.fullmatch(text)
    return match is not None and (match[1] is None or 0 < int(match[1]) <= _HIGHEST_PORT)
