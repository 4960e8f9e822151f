"""Interface of JupyterHub, as far as the platform controls it."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol
from uuid import UUID


class Hub(Protocol):
    """Port to JupyterHub, which creates and removes the named servers of sessions.

    All methods may raise ``HubUnavailable``; the state of the server is then unknown.
    """

    async def start_server(self, owner: str, server: str, job_id: UUID, title: str) -> None:
        """Create the user and the named server in JupyterHub if they do not exist, and connect the
        server to the running job. Repeated calls have no further effect.

        Returns when JupyterHub reports that the server is ready: it answers and its route exists.

        Raises:
            Conflict: JupyterHub refused, or the start failed; the message contains the reason.
        """
        ...

    async def remove_server(self, owner: str, server: str) -> None:
        """Remove the server and its route. An unknown server is not an error."""
        ...


class HubLogins(Protocol):
    """Port that ends the logins of browsers at JupyterHub and at the sessions behind it."""

    async def end_logins(self, owner: str, kept: Collection[str] = ()) -> None:
        """End the logins of the user ``owner``, which JupyterHub need not know, except those that
        were opened with the sign-ins whose IDs are ``kept``.

        Returns when these logins can no longer open a session. Raises ``HubUnavailable``.
        """
        ...
