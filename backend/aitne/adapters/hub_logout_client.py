"""Client that ends logins at JupyterHub. It uses HTTP from the standard library because the API's
process does not import httpx.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from http.client import HTTPConnection, HTTPException
from urllib.parse import quote, urlencode

from aitne.core.errors import HubUnavailable

ANSWER_WITHIN_S = 5.0


class HubLoginsClient:
    """Implementation of ``core.ports.hub.HubLogins`` with requests to JupyterHub's API on this
    machine.
    """

    def __init__(self, port: int, token: Callable[[], str]) -> None:
        """Create a client for JupyterHub at ``port`` of the loopback interface. ``token`` returns
        the secret with which the platform authenticates.
        """
        self._port = port
        self._token = token

    async def end_logins(self, owner: str, kept: Collection[str] = ()) -> None:
        """End the user's logins at JupyterHub, except those of the sign-ins ``kept``. Raises
        ``HubUnavailable`` if JupyterHub does not confirm it.
        """
        await asyncio.to_thread(self._delete_logins, owner, sorted(kept))

    def _delete_logins(self, owner: str, kept: Sequence[str]) -> None:
        headers = {"Authorization": f"token {self._token()}"}
        connection = HTTPConnection("127.0.0.1", self._port, timeout=ANSWER_WITHIN_S)
        path = f"/hub/api/platform/users/{quote(owner, safe='')}/logins"
        if kept:
            path = f"{path}?{urlencode([('keep', sign_in_id) for sign_in_id in kept])}"
        try:
            connection.request("DELETE", path, headers=headers)
            status = connection.getresponse().status
        except (OSError, HTTPException) as error:
            raise HubUnavailable(f"JupyterHub does not answer: {error}.") from error
        finally:
            connection.close()
        if status != 204:
            raise HubUnavailable(f"JupyterHub did not end the logins of {owner}: status {status}.")
