"""Spawner that starts no process: it represents a job that the platform has already started as a
named server of JupyterHub.

Runs inside JupyterHub, in its environment: it may import only the standard library, JupyterHub,
Tornado and cryptography, which JupyterHub requires anyway. It uses three internal calls of the
platform: ``GET /jobs/{id}``, ``PUT /jobs/{id}/handover``, ``GET /live``.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import time
from typing import Any
from uuid import UUID

from cryptography.fernet import Fernet, InvalidToken
from jupyterhub.orm import APIToken
from jupyterhub.spawner import Spawner, SpawnException
from tornado.httpclient import AsyncHTTPClient, HTTPClientError, HTTPRequest
from traitlets import Bool, Unicode

ANSWER_WITHIN_S = 5.0
PATIENCE_S = 45.0
LIVE_FOR_S = 4.0
"""Seconds for which one response of the platform is used for the polls of all servers."""
LOOK_EVERY_S = 0.05
ASK_EVERY_S = 1.0

_Failed = (HTTPClientError, OSError, ValueError, KeyError, TypeError)


class LiveJobsQuery:
    """Query of the platform's live jobs, which all servers share."""

    def __init__(self) -> None:
        self._jobs: frozenset[str] = frozenset()
        self._asked_at = float("-inf")
        self._asking = asyncio.Lock()

    async def has_reported_end(self, spawner: AdoptSpawner) -> bool:
        """Return True if the platform has said, since the spawner's server started, that the job of
        the server has ended. Return False also if the platform does not answer.
        """
        async with self._asking:
            fresh = self._asked_at > max(time.monotonic() - LIVE_FOR_S, spawner.adopted_at)
            if not fresh:
                began = time.monotonic()
                try:
                    answer = await spawner.send_request("GET", "/live")
                    self._jobs = frozenset(answer["job_ids"])
                except _Failed as error:
                    # No answer from the platform proves nothing about a job.
                    spawner.log.warning("The platform does not say which jobs are live: %s", error)
                    return False
                self._asked_at = began
        return spawner.job_id not in self._jobs


class AdoptSpawner(Spawner):  # type: ignore[misc]
    """Named server of JupyterHub that is a job of the platform, the one in
    ``user_options["job_id"]``.

    Its stored state contains the job's ID and the server's API token from before the token is
    passed to the job. If JupyterHub exits in between, it passes the same token again after its
    restart, because the job may have received it the first time. The token is encrypted in the
    state.
    """

    platform_url = Unicode(config=True, help="The platform's internal interface for the Hub.")
    platform_token = Unicode(config=True, help="The secret for that interface.")
    tls = Bool(False, config=True, help="Whether servers listen only with TLS.")

    api_token: str
    job_id = ""
    answered = False
    """True if the server has ever answered. Until then it counts as not started."""
    adopted_at = float("-inf")
    _live = LiveJobsQuery()

    def load_state(self, state: dict[str, Any]) -> None:
        """Load the state that an earlier process of JupyterHub stored."""
        super().load_state(state)
        self.job_id = state.get("job_id", "")
        self.answered = state.get("answered", False)
        self.api_token = self._decrypt_token(state) or self.api_token
        self.will_resume = bool(self.job_id) and not self.answered

    def get_state(self) -> dict[str, Any]:
        """Return the state to store: with a job, its ID and the server's encrypted API token."""
        state: dict[str, Any] = super().get_state()
        if self.job_id:
            state |= {
                "job_id": self.job_id,
                "api_token": self._make_fernet().encrypt(self.api_token.encode()).decode(),
                "answered": self.answered,
            }
        return state

    def clear_state(self) -> None:
        """Keep the state: a server always belongs to the same job and keeps its token."""

    async def start(self) -> str:
        """Pass the server's environment to the job, which waits for it; return the URL at which the
        server listens.

        Raises:
            SpawnException: the job does not belong to the user or has ended, or its server does not
                start.
        """
        job_id = self._get_requested_job_id()
        host, port = await self._find_address(job_id)
        state = self.orm_spawner.state or {}
        if state.get("job_id") == job_id:
            self.api_token = self._decrypt_token(state) or self.api_token
        self.job_id, self.ip, self.port = job_id, host, port
        self.answered, self.will_resume = False, True
        self.adopted_at = time.monotonic()
        self.orm_spawner.state = self.get_state()
        self.user.db.commit()

        env = {
            name: value
            for name, value in self.get_env().items()
            if name.startswith(("JUPYTERHUB_", "JPY_"))
        }
        handover = {"env": env, "args": self.get_args()}
        await self._send_until_answered("PUT", f"/jobs/{job_id}/handover", handover)
        await self._wait_until_listening(host, port)
        await self._wait_until_confirmed(job_id)
        self.answered, self.will_resume = True, False
        netloc = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        return f"{'https' if self.tls else 'http'}://{netloc}"

    async def poll(self) -> int | None:
        """Return None (running) while the job is live or its state is unknown.

        An exit status is returned only if the platform reports that the job has ended.
        """
        if self._start_pending:
            return None
        if not self.answered:
            return 0
        return 0 if await self._live.has_reported_end(self) else None

    async def stop(self, now: bool = False) -> None:
        """Do nothing: only the platform ends jobs."""

    def delete_forever(self) -> None:
        """Delete the API token, which ``clear_state`` keeps for further starts of the server."""
        db = self.user.db
        token = APIToken.find(db, self.api_token) if self.api_token else None
        if token is not None:
            db.delete(token)
            db.commit()

    def _make_fernet(self) -> Fernet:
        digest = hashlib.sha256(f"spawner state {self.platform_token}".encode()).digest()
        return Fernet(base64.urlsafe_b64encode(digest))

    def _decrypt_token(self, state: dict[str, Any]) -> str | None:
        """Return the decrypted token in a stored state; None if it has none. A token that an
        earlier release stored is not encrypted.
        """
        stored: str | None = state.get("api_token")
        try:
            return None if stored is None else self._make_fernet().decrypt(stored.encode()).decode()
        except InvalidToken:
            return stored

    async def send_request(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        """Send one request to the platform and return the JSON of its response. Raises an error in
        ``_Failed``.
        """
        request = HTTPRequest(
            self.platform_url + path,
            method=method,
            headers={
                "Authorization": f"Bearer {self.platform_token}",
                "Content-Type": "application/json",
            },
            body=None if body is None else json.dumps(body),
            connect_timeout=ANSWER_WITHIN_S,
            request_timeout=ANSWER_WITHIN_S,
            follow_redirects=False,
        )
        answer = await AsyncHTTPClient().fetch(request)
        return json.loads(answer.body) if answer.body else None

    def _get_requested_job_id(self) -> str:
        options = self.user_options or {}
        try:
            job_id = UUID(options["job_id"])
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise SpawnException(
                "Sessions are started in the portal.", reason="no_job", status_code=403
            ) from error
        if self.name != f"s-{job_id.hex[:12]}":
            raise SpawnException(
                f"Server {self.name} cannot belong to job {job_id}.", reason="name"
            )
        return str(job_id)

    async def _find_address(self, job_id: str) -> tuple[str, int]:
        job = await self._send_until_answered("GET", f"/jobs/{job_id}")
        if job["owner"] != self.user.name:
            raise SpawnException(
                f"Job {job_id} does not belong to {self.user.name}.",
                reason="owner",
                status_code=403,
            )
        if job.get("refused"):
            raise SpawnException(job["refused"], reason="address", status_code=403)
        if not job["live"] or not job["address"]:
            raise SpawnException(f"Job {job_id} is not running.", reason="not_live")
        host, _, port = job["address"].rpartition(":")
        return host.strip("[]"), int(port)

    async def _send_until_answered(
        self, method: str, path: str, body: dict[str, Any] | None = None
    ) -> Any:
        """Send a request to the platform; repeat it until there is a response, because the platform
        may be restarting.
        """
        give_up = time.monotonic() + PATIENCE_S
        while True:
            try:
                return await self.send_request(method, path, body)
            except _Failed as error:
                refused = isinstance(error, HTTPClientError) and 400 <= error.code < 500
                if refused:
                    raise SpawnException(
                        f"The platform rejected the request: {error}.",
                        reason="refused",
                        status_code=403,
                    ) from error
                if time.monotonic() > give_up:
                    raise SpawnException(
                        f"The platform did not answer for {PATIENCE_S:.0f} s.",
                        reason="silent",
                        status_code=503,
                    ) from error
            await asyncio.sleep(ASK_EVERY_S / 2)

    async def _wait_until_listening(self, host: str, port: int) -> None:
        # JupyterHub's own wait backs off to seconds; its start_timeout bounds this one.
        ask_again = time.monotonic() + ASK_EVERY_S
        while not await _is_listening(host, port):
            if time.monotonic() > ask_again:
                if await self._live.has_reported_end(self):
                    raise SpawnException(
                        "The job ended before its server answered; see its log.", reason="ended"
                    )
                ask_again = time.monotonic() + ASK_EVERY_S
            await asyncio.sleep(LOOK_EVERY_S)

    async def _wait_until_confirmed(self, job_id: str) -> None:
        # On a shared node, another user's process may answer on this port.
        while not (job := await self._send_until_answered("GET", f"/jobs/{job_id}")).get(
            "confirmed", True
        ):
            if not job["live"]:
                raise SpawnException(
                    "The job ended before its server answered; see its log.", reason="ended"
                )
            await asyncio.sleep(LOOK_EVERY_S)


async def _is_listening(host: str, port: int) -> bool:
    try:
        _, writer = await asyncio.wait_for(asyncio.open_connection(host, port), 2)
    except (OSError, TimeoutError):
        return False
    writer.close()
    return True
