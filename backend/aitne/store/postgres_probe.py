"""Test of a PostgreSQL database before the platform uses it. Nothing in it is changed."""

from __future__ import annotations

from aitne.core.errors import SetupError
from aitne.store.database_address import parse_address
from aitne.store.database_error_messages import convert_startup_errors

_WITHIN_S = 10.0


async def probe_postgres(url: str) -> str:
    """Connect to a database and return a sentence with its release.

    Raises:
        SetupError: the URL is invalid, or its user may not create tables.
        StoreUnavailable: the database does not answer.
    """
    import asyncpg

    address = parse_address(url)
    if address.path is not None:
        raise SetupError("The setting database is no URL of PostgreSQL.")
    with convert_startup_errors(address):
        try:
            connection = await asyncpg.connect(address.dsn, user=address.user, timeout=_WITHIN_S)
        except ValueError as error:
            raise SetupError(f"The setting database has an invalid option: {error}.") from error
        try:
            release = await connection.fetchval("SHOW server_version")
            creates = await connection.fetchval(
                "SELECT has_schema_privilege(current_schema(), 'CREATE')"
            )
        finally:
            await connection.close(timeout=_WITHIN_S)
    if not creates:
        raise SetupError(
            f"The user of {address.shown} may not create tables there. Make it the database's owner: "
            "ALTER DATABASE name OWNER TO user."
        )
    return f"PostgreSQL {release} answers at {address.shown}."
