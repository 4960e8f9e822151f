"""A JupyterLab session as a browser uses it: through the portal's login, the Hub and the proxy."""

from __future__ import annotations

import json
import time
from contextlib import ExitStack
from types import TracebackType
from typing import Any, Protocol, Self
from urllib.parse import urlsplit
from uuid import uuid4

import httpx
from websockets.sync.client import ClientConnection, connect

from tests.support import local_names

ANSWER_WITHIN_S = 60.0


class Network(Protocol):
    """A browser's connections to a portal whose host names are not in DNS."""

    def browser(self) -> httpx.Client:
        """Return a client that follows redirects."""

    def websocket(self, url: str, *, origin: str, cookies: str = "") -> ClientConnection:
        """Open a WebSocket as a page of ``origin`` does."""


class Notebook:
    """One kernel of a session. ``execute`` returns what the code printed or evaluated to."""

    def __init__(
        self, portal_url: str, token: str, session_url: str, network: Network | None = None
    ) -> None:
        self._network = network or _Direct()
        self._http = self._network.browser()
        self._base = session_url.rsplit("/lab", 1)[0]
        self._kernel = ""
        self._socket: ClientConnection | None = None
        self._open = ExitStack()
        self._log_in(portal_url, token, session_url)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Leave the kernel running."""
        self._open.close()
        self._http.close()

    def start_kernel(self) -> None:
        """Start a kernel and connect to it."""
        answer = self._http.post(
            f"{self._base}/api/kernels", json={"name": "python3"}, headers=self._xsrf()
        )
        answer.raise_for_status()
        self._kernel = answer.json()["id"]
        self.connect()

    def shut_down(self) -> None:
        """End the whole server: File > Shut Down."""
        self._http.post(f"{self._base}/api/shutdown", headers=self._xsrf()).raise_for_status()

    def connect(self) -> None:
        """Open the kernel's websocket, anew if there was one: what a browser does by itself."""
        self._open.close()
        url = urlsplit(self._base)
        cookies = "; ".join(f"{c.name}={c.value}" for c in self._http.cookies.jar)
        self._socket = self._open.enter_context(
            self._network.websocket(
                f"{url.scheme.replace('http', 'ws')}://{url.netloc}{url.path}"
                f"/api/kernels/{self._kernel}/channels",
                origin=f"{url.scheme}://{url.netloc}",
                cookies=cookies,
            )
        )

    def execute(self, code: str) -> str:
        """Run ``code`` in the kernel."""
        if self._socket is None:
            raise AssertionError("there is no kernel yet")
        message_id = uuid4().hex
        self._socket.send(json.dumps(_execute_request(message_id, code)))
        printed = ""
        give_up = time.monotonic() + ANSWER_WITHIN_S
        while time.monotonic() < give_up:
            message = json.loads(self._socket.recv(timeout=ANSWER_WITHIN_S))
            if message.get("parent_header", {}).get("msg_id") != message_id:
                continue
            kind, content = message["msg_type"], message["content"]
            if kind == "stream":
                printed += content["text"]
            elif kind == "execute_result":
                printed += content["data"]["text/plain"]
            elif kind == "error":
                raise AssertionError(f"the kernel raised {content['ename']}: {content['evalue']}")
            elif kind == "status" and content["execution_state"] == "idle":
                return printed
        raise AssertionError("the kernel did not answer in time")

    def reachable(self) -> bool:
        """Return whether the single-user server answers through the proxy."""
        try:
            return self._http.get(f"{self._base}/api/status").status_code == 200
        except httpx.TransportError:
            return False

    def _log_in(self, portal_url: str, token: str, session_url: str) -> None:
        bearer = {"Authorization": f"Bearer {token}"}
        link = self._http.post(f"{portal_url}/api/v1/auth/login-links", headers=bearer)
        link.raise_for_status()
        secret = link.json()["url"].partition("#link=")[2]
        login = self._http.post(
            f"{portal_url}/api/v1/auth/login-link",
            json={"token": secret},
            headers={"Origin": portal_url},
        )
        login.raise_for_status()
        page = self._http.get(session_url)
        page.raise_for_status()
        if not str(page.url).startswith(self._base):
            raise AssertionError(f"the login led to {page.url}, not to {session_url}")

    def _xsrf(self) -> dict[str, str]:
        path = urlsplit(self._base).path
        values = [
            cookie.value or ""
            for cookie in self._http.cookies.jar
            if cookie.name == "_xsrf" and path.startswith(cookie.path.rstrip("/"))
        ]
        return {"X-XSRFToken": values[-1]}


class _Direct:
    """The network of this machine."""

    def browser(self) -> httpx.Client:
        return local_names.browser(trust_env=False)

    def websocket(self, url: str, *, origin: str, cookies: str = "") -> ClientConnection:
        parts = urlsplit(url)
        port = parts.port or (443 if parts.scheme == "wss" else 80)
        return connect(
            url,
            address=(local_names.address_of(parts.hostname or ""), port),
            additional_headers={"Cookie": cookies},
            origin=origin,  # type: ignore[arg-type]
            open_timeout=30,
            max_size=None,
            proxy=None,
        )


def _execute_request(message_id: str, code: str) -> dict[str, Any]:
    return {
        "header": {
            "msg_id": message_id,
            "username": "test",
            "session": uuid4().hex,
            "msg_type": "execute_request",
            "version": "5.3",
            "date": "2026-01-01T00:00:00Z",
        },
        "parent_header": {},
        "metadata": {},
        "content": {
            "code": code,
            "silent": False,
            "store_history": False,
            "user_expressions": {},
            "allow_stdin": False,
        },
        "channel": "shell",
        "buffers": [],
    }
