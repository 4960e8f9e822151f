"""JupyterHub, as far as the platform drives it."""

from __future__ import annotations

from typing import Protocol
from uuid import UUID


class Hub(Protocol):
    """Interface to JupyterHub. All methods may raise ``HubUnavailable``: then nothing is known
    about the server."""

    async def start_server(self, owner: str, server: str, job_id: UUID, title: str) -> None:
        """Make user and named server exist and start it on the running job. Idempotent.

        Returns when the Hub reports that the server is ready: it answers and its route is there.

        Raises:
            Conflict: the Hub refused or the start failed; the message gives the reason.
        """
        ...

    async def remove_server(self, owner: str, server: str) -> None:
        """Stop routing to the server and remove it. An unknown server is not an error."""
        ...


class HubLogins(Protocol):
    """Logins of browsers at JupyterHub and at the sessions behind it."""

    async def end_logins(self, owner: str) -> None:
        """End all logins of one user; one that the Hub does not know has none.

        Returns when no new session can be opened by them. Raises ``HubUnavailable``."""
        ...
