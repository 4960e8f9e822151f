"""The API as a process of its own."""

from __future__ import annotations

import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.support import realtime
from tests.support.api_server import Server

pytestmark = realtime.PROCESSES


@pytest.fixture
def server(tmp_path: Path) -> Server:
    server = Server(tmp_path)
    server.prepare()
    return server


@pytest.fixture
def running(server: Server) -> Iterator[subprocess.Popen[bytes]]:
    process = server.start()
    try:
        server.wait(process)
        yield process
    finally:
        process.kill()
        process.communicate()


def test_server_stops_at_once_with_open_streams(
    server: Server, running: subprocess.Popen[bytes]
) -> None:
    with httpx.Client(base_url=server.url, headers=server.headers(), timeout=10) as client:
        job = client.post("/api/v1/jobs", json={"commands": ["true"]}).json()
        with (
            client.stream("GET", "/api/v1/events") as events,
            client.stream("GET", f"/api/v1/jobs/{job['id']}/logs?follow=true") as log,
        ):
            assert (events.status_code, log.status_code) == (200, 200)
            told = events.iter_bytes()
            assert b"event: hello" in next(told)
            running.send_signal(signal.SIGTERM)
            # Both end in good order: a stream that breaks off would raise here.
            for _ in told:
                pass
            assert log.read() == b""
            assert running.wait(60) in (0, -signal.SIGTERM)
    error = running.stderr.read() if running.stderr else b""
    assert b"Traceback" not in error
    assert b"timeout graceful shutdown exceeded" not in error


def test_a_second_one_on_the_same_port_says_what_to_do(
    server: Server, running: subprocess.Popen[bytes]
) -> None:
    second = server.start()
    _, said = second.communicate(timeout=60)
    assert second.returncode == 1
    assert b"is in use" in said
    assert b"--port" in said
    assert b"Traceback" not in said


def test_settings_that_are_wrong_are_a_sentence(server: Server) -> None:
    server.environment["AITNE_POLL_INTERVAL_S"] = "often"
    process = server.start()
    _, said = process.communicate(timeout=60)
    assert process.returncode == 1
    assert b"poll_interval_s" in said
    assert b"Traceback" not in said


def test_a_body_that_never_ends_is_cut_off(
    server: Server, running: subprocess.Popen[bytes]
) -> None:
    def endless() -> Iterator[bytes]:
        for _ in range(4):
            yield b" " * (1 << 19)

    answer = httpx.post(
        f"{server.url}/api/v1/jobs",
        content=endless(),
        headers={**server.headers(), "Content-Type": "application/json"},
    )
    assert answer.status_code == 413
    assert answer.json()["code"] == "too_large"


def test_only_the_proxys_socket_tells_addresses_of_clients(server: Server, tmp_path: Path) -> None:
    path = tmp_path / "portal.sock"
    server.environment |= {"AITNE_PROXY_SOCKET": str(path), "AITNE_PUBLIC_URL": server.url}
    with socket.socket(socket.AF_UNIX) as killed:
        killed.bind(str(path))
    process = server.start()
    try:
        server.wait(process)
        assert path.stat().st_mode & 0o777 == 0o660
        forwarded = {"X-Forwarded-For": "198.51.100.1, 203.0.113.7", "Origin": server.url}
        wrong = {"username": "nobody-known", "password": "not this one"}
        with httpx.Client(transport=httpx.HTTPTransport(uds=str(path))) as proxy:
            login = proxy.post(f"{server.url}/api/v1/auth/login", json=wrong, headers=forwarded)
        direct = httpx.post(f"{server.url}/api/v1/auth/login", json=wrong, headers=forwarded)
        assert (login.status_code, direct.status_code) == (401, 401)
        audit = httpx.get(
            f"{server.url}/api/v1/admin/audit", headers=server.headers(), params={"action": "login"}
        ).json()
        assert {entry["address"] for entry in audit["items"]} == {"203.0.113.7", "127.0.0.1"}
    finally:
        process.kill()
        process.communicate()
