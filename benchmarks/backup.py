"""Time of a backup with a long history, its effect on the API, and time of a restore until login."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.support.ports import reserve_ports

from aitne.core.errors import SetupError
from aitne.core.settings import Settings
from aitne.supervisor.secret_files import ensure_secrets
from benchmarks import jobs_table
from benchmarks.figures import Figure, Row
from benchmarks.processes import BenchmarkError, Http, answers, eventually, running
from benchmarks.stats import Estimate, median, quantile_estimate, quantile_ratio

NAME = "backup"
JOBS = 100_000
MOST_S, MOST_P95, LOGIN_S = 10.0, 1.05, 60.0
_PATHS = ("/api/v1/jobs?limit=50", "/api/v1/me", "/api/v1/jobs?limit=50&state=FAILED")
_PAUSE_S = 0.005
_AITNE = str(Path(sys.executable).parent / "aitne")


def measure(*, quick: bool) -> Figure:
    """Measure backups while a client sends requests, and requests without a backup in between."""
    rounds = 4 if quick else 12
    with TemporaryDirectory(prefix="aitne-bench-") as name:
        folder = Path(name)
        settings = Settings(data_dir=folder / "data", port=reserve_ports(5))
        settings.data_dir.mkdir()
        ensure_secrets(settings.secrets_dir)
        tokens = asyncio.run(jobs_table.fill(settings, ended=JOBS))
        env = {"AITNE_DATA_DIR": str(settings.data_dir), "AITNE_PORT": str(settings.port)}
        with running([sys.executable, "-m", "aitne.api"], folder / "api.log", env):
            eventually("the API's start", lambda: answers(settings.port))
            http = Http(settings.port, {"Authorization": f"Bearer {tokens[jobs_table.ADMIN]}"})
            _requests(http, lambda sent: sent < 100)
            took, pairs = _rounds(settings, folder / "backups", http, rounds)
        newest = max((folder / "backups").iterdir())
        login_s = _restored(newest, folder, reserve_ports(5))
        size = newest.stat().st_size / 1e6
    with_backup, without = ([pair[part] for pair in pairs] for part in (0, 1))
    return Figure(
        NAME,
        f"A backup of {JOBS} jobs, and its restoration",
        [
            Row("backup, the whole command", "s", median(took), MOST_S),
            Row(
                "API p95 during a backup: over p95 without",
                "x",
                quantile_ratio(pairs, 0.95),
                MOST_P95,
            ),
            Row("API p95 during a backup", "ms", _ms(quantile_estimate(with_backup, 0.95))),
            Row("API p95 without", "ms", _ms(quantile_estimate(without, 0.95))),
            Row("size of the backup", "MB", _exact(size)),
            Row("from the backup to a login", "s", _exact(login_s), LOGIN_S),
        ],
        [
            f"SQLite; {rounds} backups to the same disk. One reader sends requests (two lists of jobs and "
            f"`GET /me`) with {_PAUSE_S * 1e3:g} ms between them: during a backup, and as many directly "
            "before or after it, in turn.",
            "From the backup to a login: `aitne admin restore`, `aitne up --detach`, and a login by the "
            "link that it prints. The environments of JupyterHub and the proxy exist already.",
        ],
    )


def _rounds(
    settings: Settings, to: Path, http: Http, rounds: int
) -> tuple[list[float], list[tuple[float, float]]]:
    """Return the seconds of each backup, and pairs of latencies with and without a backup."""
    took: list[float] = []
    pairs: list[tuple[float, float]] = []
    command = [_AITNE, "admin", "backup", "--to", str(to), "--yes", "--keep", "2"]
    for number in range(rounds):
        before = _requests(http, lambda sent: sent < 150) if number % 2 else []
        began = time.monotonic()
        with subprocess.Popen(
            [*command, "--data-dir", str(settings.data_dir)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        ) as process:
            during = _requests(http, lambda _: process.poll() is None)
            took.append(time.monotonic() - began)
            if process.wait() != 0:
                assert process.stderr is not None
                raise BenchmarkError(f"the backup failed: {process.stderr.read()!r}")
        without = before or _requests(http, lambda sent: sent < len(during))  # noqa: B023
        pairs += zip(during, without, strict=False)
    return took, pairs


def _requests(http: Http, more: Callable[[int], bool]) -> list[float]:
    """Send requests while ``more`` permits another; return the seconds of each."""
    seconds: list[float] = []
    while more(len(seconds)):
        seconds.append(http.time_get(_PATHS[len(seconds) % len(_PATHS)]))
        time.sleep(_PAUSE_S)
    return seconds


def _restored(backup: Path, folder: Path, port: int) -> float:
    """Restore into a new directory, start the platform and log in; return the seconds."""
    data_dir = folder / "restored"
    env = {**os.environ, "XDG_STATE_HOME": str(folder / "state"), "AITNE_TRUSTED_USERS": "true"}
    where = ["--data-dir", str(data_dir)]
    began = time.monotonic()
    _run(["admin", "restore", str(backup), *where, "--yes"], env)
    try:
        printed = _run(["up", "--detach", "--port", str(port), "--json", *where], env)
        code = json.loads(printed)["login_url"].rpartition("link=")[2]
        Http(port).post("/api/v1/auth/login-link", {"token": code})
        return time.monotonic() - began
    finally:
        with suppress(SetupError, BenchmarkError):
            _run(["down", *where], env)


def _run(arguments: list[str], env: dict[str, str]) -> str:
    done = subprocess.run(
        [_AITNE, *arguments], env=env, capture_output=True, text=True, timeout=300, check=False
    )
    if done.returncode != 0:
        raise BenchmarkError(f"aitne {arguments[0]} failed: {done.stderr[-500:]}")
    return done.stdout


def _ms(seconds: Estimate) -> Estimate:
    return Estimate(seconds.value * 1e3, seconds.low * 1e3, seconds.high * 1e3, seconds.count)


def _exact(value: float) -> Estimate:
    return Estimate(value, value, value, 1)
