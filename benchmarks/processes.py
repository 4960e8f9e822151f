"""Processes, ports and requests of the benchmarks. Everything listens on loopback."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

START_S = 60.0
STOP_S = 15.0


class BenchmarkError(Exception):
    """A figure could not be taken; the text says why."""


@contextlib.contextmanager
def running(
    argv: Sequence[str], log: Path, env: Mapping[str, str] | None = None, **options: Any
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a process during the block; it is terminated in the end, and killed if it does not end."""
    with log.open("ab") as output:
        process = subprocess.Popen(
            argv, stdout=output, stderr=output, env={**os.environ, **(env or {})}, **options
        )
    try:
        yield process
    finally:
        stop(process)


def stop(process: subprocess.Popen[bytes]) -> None:
    """End a process and wait until it is gone."""
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
    process.wait()


def eventually(what: str, check: Callable[[], bool], within_s: float = START_S) -> None:
    """Wait for something that another process does. Raises ``BenchmarkError``."""
    give_up = time.monotonic() + within_s
    while not check():
        if time.monotonic() > give_up:
            raise BenchmarkError(f"{what} did not happen within {within_s:.0f} s")
        time.sleep(0.02)


def answers(port: int, path: str = "/healthz") -> bool:
    """Return whether the server at a port of loopback answers without an error status."""
    try:
        return Http(port).get(path)[0] < 400
    except (OSError, http.client.HTTPException):
        return False


class Http:
    """One kept-alive connection to a server on loopback: as little client as there can be."""

    def __init__(self, port: int, headers: Mapping[str, str] | None = None) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        self._headers = dict(headers or {})

    def get(self, path: str) -> tuple[int, bytes]:
        """Send a GET request; return status and body."""
        return self.request("GET", path)

    def post(self, path: str, body: object) -> Any:
        """Post JSON, return JSON. Raises ``BenchmarkError`` when it is refused."""
        status, answer = self.request("POST", path, json.dumps(body).encode())
        if status >= 300:
            raise BenchmarkError(f"POST {path} was answered {status}: {answer[:300]!r}")
        return json.loads(answer) if answer else None

    def request(self, method: str, path: str, body: bytes | None = None) -> tuple[int, bytes]:
        """Send one request; return status and body."""
        headers = self._headers | ({"Content-Type": "application/json"} if body else {})
        try:
            self._connection.request(method, path, body, headers)
            answer = self._connection.getresponse()
        except ConnectionError:
            # The server closes connections that were idle for long; the next request makes a new one.
            self._connection.close()
            self._connection.request(method, path, body, headers)
            answer = self._connection.getresponse()
        return answer.status, answer.read()

    def headers(self, path: str) -> Mapping[str, str]:
        """Request a path; return the answer's headers, with names in lower case."""
        self._connection.request("GET", path, None, self._headers)
        answer = self._connection.getresponse()
        answer.read()
        return {name.lower(): value for name, value in answer.getheaders()}

    def close(self) -> None:
        """Close the connection; the next request opens another."""
        self._connection.close()

    def time_get(self, path: str) -> float:
        """Return the seconds of one GET request.

        Raises:
            BenchmarkError: the status is not 200.
        """
        began = time.perf_counter()
        status, body = self.get(path)
        took = time.perf_counter() - began
        if status != 200:
            raise BenchmarkError(f"GET {path} was answered {status}: {body[:300]!r}")
        return took


def pss_bytes(pid: int) -> int:
    """Return the proportional set size (PSS) of a process in bytes."""
    text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    for line in text.splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024
    raise BenchmarkError(f"the kernel does not say what process {pid} uses")


def cpu_seconds(pid: int) -> float:
    """Return the CPU time of a process in seconds, user and kernel mode, all threads."""
    return sum(_stat(pid)[1:3]) / os.sysconf("SC_CLK_TCK")


def cpu_seconds_of_tree(root: int) -> float:
    """Return the CPU time of a process and all its descendants in seconds, ended ones included."""
    pids = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdecimal()]
    stats: dict[int, list[int]] = {}
    for pid in pids:
        with contextlib.suppress(OSError):
            stats[pid] = _stat(pid)
    tree, found = [root], 0
    while tree:
        pid = tree.pop()
        found += sum(stats[pid][1:]) if pid in stats else 0
        tree += [child for child, stat in stats.items() if stat[0] == pid]
    return found / os.sysconf("SC_CLK_TCK")


def _stat(pid: int) -> list[int]:
    """Return the parent of a process and four CPU times in ticks.

    These are its user and kernel time, and those of its children that have ended.
    """
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return [int(fields[number]) for number in (1, 11, 12, 13, 14)]
