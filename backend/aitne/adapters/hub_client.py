"""Client of JupyterHub's REST API, authenticated as the hub's service ``platform``."""

from __future__ import annotations

import asyncio
import json
from typing import Any
from urllib.parse import quote
from uuid import UUID

import httpx

from aitne.core.errors import Conflict, HubUnavailable

ANSWER_WITHIN_S = 10.0
SILENCE_S = 30.0
"""Seconds without data after which the connection counts as lost. The hub sends an empty line every
8 s while a server starts.
"""
PENDING_S = 0.25
REMOVED_WITHIN_S = 20.0


class HubClient:
    """Implementation of ``core.ports.hub.Hub`` with the REST API of JupyterHub at ``base_url``,
    such as ``http://127.0.0.1:8002``.
    """

    def __init__(
        self,
        base_url: str,
        api_token: str,
        *,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._http = httpx.AsyncClient(
            base_url=f"{base_url.rstrip('/')}/hub/api",
            headers={"Authorization": f"token {api_token}"},
            timeout=ANSWER_WITHIN_S,
            trust_env=False,
            transport=transport,
        )

    async def close(self) -> None:
        """Close the HTTP connections to the hub."""
        await self._http.aclose()

    async def start_server(self, owner: str, server: str, job_id: UUID, title: str) -> None:
        """Request that JupyterHub routes the user's named server to the running job; return when
        the route exists.
        """
        path = _server_path(owner, server)
        body = {"display_name": title, "user_options": {"job_id": str(job_id)}}
        while True:
            answer = await self._send_request("POST", path, body)
            if answer.status_code in (201, 202):
                break
            if answer.status_code == 404:
                await self._make_user(owner)
                continue
            message = _get_error_message(answer)
            if answer.status_code == 400 and "already running" in message:
                return
            if answer.status_code == 400 and "pending" in message:
                # It is stopping, or the hub has not checked it yet after its own restart.
                await asyncio.sleep(PENDING_S)
                continue
            raise Conflict(f"JupyterHub refused to start server {server}: {message}")
        await self._until_ready(path, server)

    async def remove_server(self, owner: str, server: str) -> None:
        """Request that JupyterHub removes the named server; return when requests are no longer
        routed to it.
        """
        path = _server_path(owner, server)
        for _ in range(int(REMOVED_WITHIN_S / PENDING_S)):
            answer = await self._send_request("DELETE", path, {"remove": True})
            if answer.status_code in (204, 404):
                return
            if answer.status_code not in (202, 400):
                raise HubUnavailable(
                    f"JupyterHub did not remove server {server}: {_get_error_message(answer)}"
                )
            await asyncio.sleep(PENDING_S)
        raise HubUnavailable(f"JupyterHub is still stopping server {server}.")

    async def _make_user(self, name: str) -> None:
        answer = await self._send_request("POST", f"/users/{quote(name, safe='')}")
        if answer.status_code not in (201, 409):
            raise Conflict(f"JupyterHub refused user {name}: {_get_error_message(answer)}")

    async def _until_ready(self, path: str, server: str) -> None:
        # Only the last event of the stream is of use; it ends early only if the hub does.
        timeout = httpx.Timeout(ANSWER_WITHIN_S, read=SILENCE_S)
        try:
            async with self._http.stream("GET", f"{path}/progress", timeout=timeout) as stream:
                if stream.is_error:
                    await stream.aread()
                    _raise_if_broken(stream)
                    raise HubUnavailable(
                        f"JupyterHub lost track of server {server}: {_get_error_message(stream)}"
                    )
                async for line in stream.aiter_lines():
                    event = _parse_event(line)
                    if event.get("ready"):
                        return
                    if event.get("failed"):
                        raise Conflict(str(event.get("message") or "The server did not start."))
        except httpx.HTTPError as error:
            raise _make_no_answer_error(error) from error
        raise HubUnavailable(f"JupyterHub stopped answering while server {server} started.")

    async def _send_request(
        self, method: str, path: str, body: dict[str, Any] | None = None
    ) -> httpx.Response:
        try:
            answer = await self._http.request(method, path, json=body)
        except httpx.HTTPError as error:
            raise _make_no_answer_error(error) from error
        _raise_if_broken(answer)
        return answer


def _raise_if_broken(answer: httpx.Response) -> None:
    if answer.status_code >= 500 or answer.status_code in (401, 429):
        raise HubUnavailable(
            f"JupyterHub answered {answer.status_code}: {_get_error_message(answer)}"
        )


def _make_no_answer_error(error: httpx.HTTPError) -> HubUnavailable:
    return HubUnavailable(f"JupyterHub does not answer: {error or type(error).__name__}.")


def _server_path(owner: str, server: str) -> str:
    return f"/users/{quote(owner, safe='')}/servers/{quote(server, safe='')}"


def _get_error_message(answer: httpx.Response) -> str:
    try:
        return str(answer.json()["message"])
    except (ValueError, KeyError, TypeError):
        return f"status {answer.status_code} {answer.reason_phrase}"


def _parse_event(line: str) -> dict[str, Any]:
    name, _, data = line.partition(":")
    if name != "data":
        return {}
    try:
        event = json.loads(data)
    except ValueError:
        return {}
    return event if isinstance(event, dict) else {}
