"""Load and lag of event streams with a thousand listeners."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.support.ports import reserve_ports

from aitne.core.settings import LocalSettings, Settings
from aitne.supervisor.plan_creation import make_settings_env
from aitne.supervisor.secret_files import ensure_secrets
from benchmarks import counting_scheduler
from benchmarks.figures import Figure, Row
from benchmarks.processes import BenchmarkError, Http, answers, eventually, running
from benchmarks.stats import Estimate, bootstrap, median, median_ratio, quantile

NAME = "sse"
CLIENTS = 1_000
INTERVAL_S = 2.0
MOST_LAG_S = INTERVAL_S + 0.5
JOB_EVERY_S = 1.0
SETTLE_S = 60.0
_RESAMPLES = 300
_PER_EVENT = 100


@dataclass
class PhaseQueries:
    """The measurements of one phase."""

    idle: float
    """Queries per interval while no job changed."""
    busy: float
    """Queries per interval while jobs came and went."""


@dataclass
class Deliveries:
    """The deliveries to all listeners in all phases: for each event, the lag of each delivery."""

    lags: list[list[float]] = field(default_factory=list)
    missing: int = 0


def measure(*, quick: bool) -> Figure:
    """Measure phases without and with listeners in turn."""
    rounds, phase_s = (2, 8.0) if quick else (8, 16.0)
    with TemporaryDirectory(prefix="aitne-bench-") as name:
        folder = Path(name)
        settings = Settings(
            data_dir=folder / "data",
            port=reserve_ports(4),
            poll_interval_s=INTERVAL_S,
            local=LocalSettings(gpus="none"),
        )
        env = make_settings_env(settings) | counting_scheduler.installed(folder)
        with _platform(settings, env, folder) as http:
            heard = Deliveries()
            pairs: list[tuple[PhaseQueries, PhaseQueries]] = []
            for number in range(rounds):
                phases: dict[int, PhaseQueries] = {}
                for count in (0, CLIENTS) if number % 2 else (CLIENTS, 0):
                    phases[count] = _phase(count, phase_s, settings, env, http, heard)
                pairs.append((phases[CLIENTS], phases[0]))
    return Figure(
        NAME,
        f"{CLIENTS} listeners on /api/v1/events at a poll interval of {INTERVAL_S:g} s",
        _rows(pairs, heard),
        [
            f"{rounds} rounds of a phase without and one with {CLIENTS} listeners, in turn; each "
            f"{phase_s:g} s idle, then {phase_s:g} s with a batch job every {JOB_EVERY_S:g} s.",
            "A query is one batched call of the scheduler. A job's changes make the controller ask at "
            "once, so there are more queries than intervals while jobs come and go.",
            "The lag is from the time in the event, which is taken before its commit, to the arrival "
            f"at each listener ({len(heard.lags)} events, {sum(map(len, heard.lags))} deliveries). "
            "The listeners share the machine with the platform and its jobs.",
        ],
    )


def _rows(pairs: list[tuple[PhaseQueries, PhaseQueries]], heard: Deliveries) -> list[Row]:
    idle = [(with_them.idle, without.idle) for with_them, without in pairs]
    busy = [(with_them.busy, without.busy) for with_them, without in pairs]
    missing = Estimate(heard.missing, heard.missing, heard.missing, len(heard.lags))
    return [
        Row("queries per interval, idle, no listener", "", median([b for _, b in idle])),
        Row(f"queries per interval, idle, {CLIENTS}", "", median([a for a, _ in idle])),
        Row("idle: with over without", "x", median_ratio(idle), 1.1),
        Row("queries per interval, jobs, no listener", "", median([b for _, b in busy])),
        Row(f"queries per interval, jobs, {CLIENTS}", "", median([a for a, _ in busy])),
        Row("jobs: with over without", "x", median_ratio(busy)),
        Row("lag p50", "ms", _lag(heard, 0.5)),
        Row("lag p99", "ms", _lag(heard, 0.99), MOST_LAG_S * 1e3),
        Row("deliveries that are missing", "", missing, 0),
    ]


def _lag(heard: Deliveries, q: float) -> Estimate:
    """Return the ``q`` quantile of the lag in ms over all deliveries.

    The interval comes from resampling whole events.
    """
    # A hundred of each event's thousand, evenly spread, say the same and are drawn faster.
    thinned = [sorted(lags)[:: max(1, len(lags) // _PER_EVENT)] for lags in heard.lags]
    return bootstrap(
        thinned,
        lambda events: quantile([lag * 1e3 for event in events for lag in event], q),
        resamples=_RESAMPLES,
    )


@contextmanager
def _platform(settings: Settings, env: dict[str, str], folder: Path) -> Iterator[Http]:
    """Run the API and the controller, which suffice for batch jobs."""
    ensure_secrets(settings.secrets_dir)
    settings.run_dir.mkdir()
    controller = [sys.executable, "-m", "aitne.controller"]
    with running([*controller, "init"], folder / "init.log", env) as init:
        if init.wait(60) != 0:
            raise BenchmarkError((folder / "init.log").read_text()[-500:])
    with (
        running([sys.executable, "-m", "aitne.api"], folder / "api.log", env),
        running([*controller, "run"], folder / "controller.log", env),
    ):
        eventually("the platform's start", lambda: answers(settings.port, "/readyz"))
        token = (settings.secrets_dir / "cli_token").read_text().strip()
        http = Http(settings.port, {"Authorization": f"Bearer {token}"})
        eventually("the first look at the nodes", lambda: bool(_get(http, "/cluster/nodes")))
        _submit(http)
        _settle(http)
        yield http


def _phase(
    count: int,
    seconds: float,
    settings: Settings,
    env: dict[str, str],
    http: Http,
    heard: Deliveries,
) -> PhaseQueries:
    with _listeners(count, settings, heard):
        began = time.time()
        time.sleep(seconds)
        calm = time.time()
        while time.time() < calm + seconds:
            _submit(http)
            time.sleep(JOB_EVERY_S)
        _settle(http)
        ended = time.time()
        asked = counting_scheduler.queries(env)
        return PhaseQueries(
            idle=_per_interval(asked, began, calm), busy=_per_interval(asked, calm, ended)
        )


def _per_interval(asked: list[float], begin: float, end: float) -> float:
    return sum(begin <= each < end for each in asked) / ((end - begin) / INTERVAL_S)


@contextmanager
def _listeners(count: int, settings: Settings, heard: Deliveries) -> Iterator[None]:
    if not count:
        yield
        return
    argv = [sys.executable, "-m", "benchmarks.sse_clients", str(settings.port), str(count)]
    with subprocess.Popen(
        argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write((settings.secrets_dir / "cli_token").read_text().strip() + "\n")
            process.stdin.flush()
            if process.stdout.readline().strip() != "ready":
                raise BenchmarkError("the listeners did not get their streams")
            yield
            time.sleep(MOST_LAG_S)
            answer, _ = process.communicate(timeout=60)
        finally:
            process.kill()
    _note(json.loads(answer), count, heard)


def _note(answer: dict[str, Any], count: int, heard: Deliveries) -> None:
    if answer["lost"]:
        raise BenchmarkError(f"{answer['lost']} of {count} streams ended early")
    heard.lags += answer["lags"].values()
    heard.missing += sum(count - len(lags) for lags in answer["lags"].values()) + answer["resets"]


def _submit(http: Http) -> None:
    http.post("/api/v1/jobs", {"name": "benchmark", "commands": ["true"], "workdir": "/tmp"})


def _settle(http: Http) -> None:
    live = "/jobs?limit=1&" + "&".join(
        f"state={state}"
        for state in ("PENDING_SUBMIT", "SUBMITTING", "QUEUED", "STARTING", "RUNNING", "COMPLETING")
    )
    eventually("the end of the jobs", lambda: not _get(http, live), SETTLE_S)


def _get(http: Http, path: str) -> list[Any]:
    status, body = http.get(f"/api/v1{path}")
    if status != 200:
        raise BenchmarkError(f"GET {path} was answered {status}: {body[:300]!r}")
    items: list[Any] = json.loads(body)["items"]
    return items
