"""Hold more connections to a platform than its API may have open files, none with a whole header; then send many uploads
slowly. Meanwhile the administrator and the health check ask for an answer.

    python -m tests.fault.half_open --connections 25000 --uploads 400 [--tls]
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

from aitne.local_system import hung_restart_records
from tests.fault.half_open_clients import ADDRESSES
from tests.support.platform import RunningPlatform, run_platform
from tests.support.waiting import eventually

MOST_OF_A_PROCESS = 6_250
"""Maximum number of connections of one process of clients."""
CHECKS = 10
PAUSE_S = 6.0
WITHIN_S = 5.0
_OPEN_WITHIN_S = 180.0


@dataclass(frozen=True, slots=True)
class Answers:
    """Numbers of requests that were answered in time while the clients held their connections."""

    health: int
    signed_in: int
    slowest_s: float


@contextmanager
def clients(
    kind: str, port: int, count: int, environment: Mapping[str, str] | None = None
) -> Iterator[None]:
    """Hold ``count`` connections of a kind to the API at ``port`` while the block runs."""
    first = 1
    argv = [sys.executable, "-m", "tests.fault.half_open_clients", kind, str(port)]
    with ExitStack() as running:
        processes = []
        while count:
            number = min(count, MOST_OF_A_PROCESS)
            process = subprocess.Popen(
                [*argv, str(number), str(first)],
                env={**os.environ, **(environment or {})},
                stdout=subprocess.PIPE,
            )
            running.enter_context(process)
            running.callback(process.kill)
            processes.append(process)
            count, first = count - number, first + ADDRESSES
        for process in processes:
            assert process.stdout is not None
            assert process.stdout.readline() == b"open\n"
        yield


def ask(url: str, token: str, *, pause_s: float = 0.0) -> Answers:
    """Ask for the health and for a page of jobs several times, each on a connection of its own."""
    health = signed_in = 0
    slowest_s = 0.0
    for _ in range(CHECKS):
        for path, headers in (
            ("/healthz", {}),
            ("/api/v1/jobs", {"Authorization": f"Bearer {token}"}),
        ):
            began = time.monotonic()
            try:
                answer = httpx.get(
                    url + path, headers=headers, timeout=WITHIN_S, trust_env=False, verify=False
                )
            except httpx.TransportError:
                continue
            slowest_s = max(slowest_s, time.monotonic() - began)
            health += path == "/healthz" and answer.status_code == 200
            signed_in += path != "/healthz" and answer.status_code == 200
        time.sleep(pause_s)
    return Answers(health, signed_in, slowest_s)


def token_of_other_user(url: str, token: str) -> str:
    """Create a user whose uploads are slow, as the administrator of ``token``; return a token of the user."""
    headers = {"Authorization": f"Bearer {token}"}
    with httpx.Client(base_url=url, headers=headers, trust_env=False, verify=False) as admin:
        admin.post("/api/v1/users", json={"name": "slow"}).raise_for_status()
        body = {"name": "slow", "user": "slow", "scopes": ["read", "write"]}
        answer = admin.post("/api/v1/tokens", json=body).raise_for_status()
    return str(answer.json()["token"])


def resident_bytes(pid: int) -> int:
    """Return the resident set size of a process."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:")) << 10


def descriptors(pid: int) -> int:
    """Return the number of open files of a process."""
    return len(os.listdir(f"/proc/{pid}/fd"))


def main() -> None:
    """Run both parts on a new platform, and print the figures."""
    parser = argparse.ArgumentParser(prog="python -m tests.fault.half_open", description=__doc__)
    parser.add_argument("--connections", type=int, default=25_000)
    parser.add_argument("--uploads", type=int, default=400)
    parser.add_argument("--tls", action="store_true", help="connections without a TLS handshake")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="aitne-half-open-") as root:
        platform = RunningPlatform(Path(root), "[tls]\nenabled = true\n" if arguments.tls else "")
        with run_platform(platform):
            kind = "handshakes" if arguments.tls else "headers"
            _run(kind, platform, arguments.connections)
            if not arguments.tls:
                eventually("the platform is ready", platform.ready, _OPEN_WITHIN_S)
                _run("uploads", platform, arguments.uploads)


def _run(kind: str, platform: RunningPlatform, count: int) -> None:
    pid = platform.pids()["api"]
    before = resident_bytes(pid)
    token = token_of_other_user(platform.url, platform.token) if kind == "uploads" else ""
    with clients(kind, platform.port, count, {"TOKEN": token}):
        answers = ask(platform.url, platform.token, pause_s=PAUSE_S)
        after = platform.pids().get("api")
        same = after == pid
        grown = (resident_bytes(pid) - before) / 2**20 if same else float("nan")
        files = descriptors(pid) if same else 0
    restarts = hung_restart_records.read_restart_counts(platform.data_dir / "run").get("api", 0)
    sys.stdout.write(
        f"{count} {kind}: {answers.health} of {CHECKS} health checks and {answers.signed_in} of "
        f"{CHECKS} signed-in requests answered, the slowest in {answers.slowest_s:.2f} s; the API "
        f"{'runs on' if same else 'was restarted'}, {restarts} restarts as hung so far, "
        f"{files} open files, {grown:+.0f} MiB\n"
    )
    sys.stdout.flush()


if __name__ == "__main__":
    main()
