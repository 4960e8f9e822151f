"""Connections to the proxy of the sessions whose clients owe the rest of a request."""

from __future__ import annotations

import socket
import subprocess
from contextlib import ExitStack

import httpx

from aitne.supervisor import software_environments
from aitne.supervisor.plan_creation import HUB
from tests.support import realtime
from tests.support.platform import environments_or_skip
from tests.support.ports import reserve_ports
from tests.support.waiting import eventually

pytestmark = realtime.PROCESSES

MOST_FILES = 256
HALF = b"GET / HTTP/1.1\r\nHost: a\r\n"


def test_half_open_connections_keep_nobody_out() -> None:
    environments_or_skip()
    port = reserve_ports(2)
    proxy = ["prlimit", f"--nofile={MOST_FILES}", *_proxy()]
    with (
        subprocess.Popen(
            [*proxy, "--ip", "127.0.0.1", "--port", str(port), "--api-port", str(port + 1)],
            env={"CONFIGPROXY_AUTH_TOKEN": "secret"},
        ) as process,
        ExitStack() as clients,
    ):
        clients.callback(process.kill)

        def answers() -> bool:
            try:
                return httpx.get(f"http://127.0.0.1:{port}/").status_code == 404
            except httpx.TransportError:
                return False

        eventually("the proxy answers", answers)
        waiting = clients.enter_context(httpx.Client())
        for _ in range(2 * MOST_FILES):
            half = clients.enter_context(socket.create_connection(("127.0.0.1", port)))
            half.sendall(HALF)
        assert answers()
        routes = waiting.get(
            f"http://127.0.0.1:{port + 1}/api/routes", headers={"Authorization": "token secret"}
        )
        assert routes.status_code == 200
        # The newest one has room and time for the rest.
        half.sendall(b"\r\n")
        assert half.recv(100).startswith(b"HTTP/1.1 404 ")


def _proxy() -> list[str]:
    node, *script = software_environments.proxy_command(None)
    return [node, "--require", str(HUB / "proxy_connections.cjs"), *script]
