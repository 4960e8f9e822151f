"""Latency of nine users while a tenth one floods a route of the API."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import sys
import threading
import time
from collections.abc import Iterator, Sequence

from benchmarks.fairness_flood import FLOODS
from benchmarks.figures import Figure, Row
from benchmarks.processes import BenchmarkError, Http, eventually, running
from benchmarks.stats import Estimate, quantile_estimate, quantile_ratio
from benchmarks.whole import Whole, platform

NAME = "fairness"
TARGET = 2.0
USERS = 9
BLOCK_S = 5.0
BLOCKS = 3
"""The number of blocks without and with a flood, for each route."""
PAUSE_S = 0.25
"""The pause between two requests of one user."""
_SETTLE_S = 1.0


def measure(*, quick: bool) -> Figure:
    """Measure blocks without and with a flood in turn, for each route."""
    blocks = 1 if quick else BLOCKS
    rows: list[Row] = []
    with platform(trusted_users="true") as ours:
        others = [_OrdinaryUser(ours, *_user(ours, f"user{number}")) for number in range(USERS)]
        _, token = _user(ours, "flooder")
        _fill_machine(ours)
        _block(others, _SETTLE_S)
        for route in FLOODS:
            taken: list[tuple[float, float]] = []
            for _ in range(blocks):
                quiet = _block(others, BLOCK_S)
                with _flood(ours, route, token):
                    time.sleep(_SETTLE_S)
                    flooded = _block(others, BLOCK_S)
                time.sleep(_SETTLE_S)
                taken += list(zip(_even(flooded, quiet), _even(quiet, flooded), strict=True))
            flooded, quiet = [pair[0] for pair in taken], [pair[1] for pair in taken]
            rows += [
                Row(f"{route}: p95 over quiet p95", "x", quantile_ratio(taken, 0.95), TARGET),
                Row(f"{route}: p95", "ms", _ms(quantile_estimate(flooded, 0.95))),
                Row(f"{route}: p95 while quiet", "ms", _ms(quantile_estimate(quiet, 0.95))),
            ]
    return Figure(
        NAME,
        "Requests of nine users while a tenth floods",
        rows,
        [
            f"Nine users make a request every {PAUSE_S:g} s each: their page of jobs, a job, the account, a "
            "submission. The tenth has 16 connections that ask without a pause and ignore refusals.",
            "The platform with SQLite and the local scheduler, on which no job starts: one has all processors. Both kinds of clients run on its machine and "
            "take processor time from it.",
        ],
    )


def _user(ours: Whole, name: str) -> tuple[str, str]:
    """Create a user; the name and a token."""
    admin = ours.http()
    admin.post("/api/v1/users", {"name": name})
    body = {"name": "benchmark", "user": name, "scopes": ["read", "write"]}
    return name, str(admin.post("/api/v1/tokens", body)["token"])


def _fill_machine(ours: Whole) -> None:
    """Take all processors, so that no job of the benchmark runs and takes time from what is measured."""
    body = {
        "name": "benchmark",
        "commands": ["sleep 3600"],
        "resources": {"cpu": os.cpu_count(), "memory": "16M"},
    }
    job = ours.http().post("/api/v1/jobs", body)["id"]

    def runs() -> bool:
        return bool(json.loads(ours.http().get(f"/api/v1/jobs/{job}")[1])["state"] == "RUNNING")

    eventually("a job that takes all processors", runs)


@contextlib.contextmanager
def _flood(ours: Whole, route: str, token: str) -> Iterator[None]:
    argv = [sys.executable, "-m", "benchmarks.fairness_flood", route, str(ours.port)]
    with running(argv, ours.folder / "flood.log", {"FLOOD_TOKEN": token}) as process:
        yield
        if process.poll() is not None:
            raise BenchmarkError(
                f"the flood of {route} ended: {(ours.folder / 'flood.log').read_text()[-500:]}"
            )


class _OrdinaryUser:
    """A user with ordinary requests."""

    def __init__(self, ours: Whole, name: str, token: str) -> None:
        self._http = Http(ours.port, {"Authorization": f"Bearer {token}"})
        job = self._submit()
        self._requests = itertools.cycle(
            [
                lambda: self._get("/api/v1/jobs?limit=50"),
                lambda: self._get(f"/api/v1/jobs/{job}"),
                lambda: self._get("/api/v1/me"),
                self._submit,
            ]
        )

    def work(self, until: float, times: list[float]) -> None:
        """Make requests and note how long each took, in seconds."""
        while time.monotonic() < until:
            began = time.perf_counter()
            next(self._requests)()
            times.append(time.perf_counter() - began)
            time.sleep(PAUSE_S)

    def _get(self, path: str) -> None:
        self._http.time_get(path)

    def _submit(self) -> str:
        body = {"name": "benchmark", "commands": ["true"], "resources": {"memory": "16M"}}
        return str(self._http.post("/api/v1/jobs", body)["id"])


def _block(others: Sequence[_OrdinaryUser], seconds: float) -> list[float]:
    """Let all of them work; the times of all of their requests."""
    times: list[list[float]] = [[] for _ in others]
    until = time.monotonic() + seconds
    threads = [
        threading.Thread(target=other.work, args=(until, mine))
        for other, mine in zip(others, times, strict=True)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [each for mine in times for each in mine]


def _even(values: list[float], other: list[float]) -> list[float]:
    return values[: min(len(values), len(other))]


def _ms(seconds: Estimate) -> Estimate:
    return Estimate(seconds.value * 1e3, seconds.low * 1e3, seconds.high * 1e3, seconds.count)
