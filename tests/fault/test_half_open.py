"""Clients that hold connections and uploads open; ``half_open`` is the big form on a whole platform."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from dataclasses import dataclass

import httpx
import pytest

from aitne.local_system.http_status_client import PROBE_SOCKET
from tests.fault.half_open import CHECKS, ask, clients, resident_bytes, token_of_other_user
from tests.support import realtime
from tests.support.api_server import Server

pytestmark = realtime.PROCESSES

MOST_FILES = 512


@dataclass(frozen=True)
class Running:
    """The API, which may open few files."""

    server: Server
    process: subprocess.Popen[bytes]


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    server = Server(tmp_path_factory.mktemp("api"), AITNE_TRUSTED_USERS="true")
    server.prepare()
    process = server.start(most_files=MOST_FILES)
    try:
        server.wait(process)
        yield Running(server, process)
    finally:
        process.kill()
        process.communicate()


def test_more_half_open_connections_than_open_files_stop_nobody(api: Running) -> None:
    with clients("headers", api.server.port, 2 * MOST_FILES):
        answers = ask(api.server.url, api.server.token)
        socket = api.server.folder / "run" / PROBE_SOCKET
        assert socket.stat().st_mode & 0o777 == 0o600
        with httpx.Client(transport=httpx.HTTPTransport(uds=str(socket))) as supervisor:
            assert supervisor.get("http://localhost/healthz").status_code == 200
    assert (answers.health, answers.signed_in) == (CHECKS, CHECKS)
    assert api.process.poll() is None


def test_slow_uploads_of_one_user_take_little_memory(api: Running) -> None:
    before = resident_bytes(api.process.pid)
    token = token_of_other_user(api.server.url, api.server.token)
    with clients("uploads", api.server.port, 50, {"TOKEN": token}):
        assert resident_bytes(api.process.pid) - before < 50 << 20
        assert ask(api.server.url, api.server.token).signed_in == CHECKS
