"""Time from `POST /sessions` to a ready JupyterLab, compared with the same server started by hand."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from http.client import HTTPException
from pathlib import Path
from typing import Any
from uuid import UUID

from tests.support.ports import reserve_ports

import aitne
from aitne.core.sessions.entry_points import server_name
from aitne.supervisor import software_environments
from benchmarks.figures import Figure, Row
from benchmarks.processes import BenchmarkError, Http, stop
from benchmarks.stats import median, median_ratio, quantile
from benchmarks.whole import Whole, platform

NAME = "session"
MOST, AIM = 1.25, 1.15
LOOK_EVERY_S = 0.025
"""The interval of the requests that follow the session; shorter ones would take CPU time from it."""
START_S = 60.0
LAUNCHER = Path(aitne.__file__).parent / "session_server" / "launcher.py"
STAGES = (
    ("POST answered, job stored", "posted", "created_at"),
    ("until the controller takes it", "created_at", "submitted_at"),
    ("until the scheduler has started it", "submitted_at", "allocated_at"),
    ("until the agent reports", "allocated_at", "started_at"),
    ("until JupyterLab answers through the proxy", "started_at", "answered"),
    ("then, until the portal says READY", "answered", "ready_at"),
)
"""The label of each stage with the times at which it begins and ends."""


@dataclass(frozen=True, slots=True)
class SessionTimes:
    """One session: the time it took, and the times in it."""

    seconds: float
    times: dict[str, float]


def measure(*, quick: bool) -> Figure:
    """Measure a session of the platform and a server that is started by hand, in turn."""
    pairs = 6 if quick else 30
    with platform(local__cpus="8", local__gpus="none") as whole:
        http = whole.http()
        owner = json.loads(http.get("/api/v1/me")[1])["user"]["name"]
        run_session(whole, http, owner, cpus=os.cpu_count())
        _by_hand(whole, owner, _launcher())
        ours: list[SessionTimes] = []
        taken: list[tuple[float, float]] = []
        stock: list[float] = []
        for number in range(pairs):
            if number % 2:
                ours.append(run_session(whole, http, owner, cpus=os.cpu_count()))
                taken.append((ours[-1].seconds, _by_hand(whole, owner, _launcher())))
            else:
                bare = _by_hand(whole, owner, _launcher())
                ours.append(run_session(whole, http, owner, cpus=os.cpu_count()))
                taken.append((ours[-1].seconds, bare))
            if number % 3 == 0:
                stock.append(_by_hand(whole, owner, _stock()))
    return Figure(
        NAME,
        "Session start over the raw start of the same server",
        _rows(ours, taken, stock),
        [
            "By hand: the session environment's own launcher with the same options and with its "
            "hand-over ready from the start, until its port answers. No queue, no agent, no Hub, no proxy.",
            "The session has asked for all CPUs of the machine: a job is held to what it asked for, and the "
            "start by hand is held to nothing.",
            "Without shortcuts: `jupyterhub-singleuser` with the same options, its imports as they are.",
            f"Both are asked for `api` every {LOOK_EVERY_S * 1e3:.0f} ms, the session through the "
            f"public proxy. The aim is {AIM}.",
        ],
    )


def _rows(
    ours: list[SessionTimes], taken: list[tuple[float, float]], stock: list[float]
) -> list[Row]:
    stages = [
        Row(name, "ms", median([(each.times[end] - each.times[begin]) * 1e3 for each in ours]))
        for name, begin, end in STAGES
    ]
    over_stock = [each.seconds / quantile(stock, 0.5) for each in ours]
    return [
        Row("session over raw start", "x", median_ratio(taken), MOST),
        Row("session", "ms", median([mine * 1e3 for mine, _ in taken])),
        Row("raw start", "ms", median([bare * 1e3 for _, bare in taken])),
        *stages,
        Row("raw start without shortcuts", "ms", median([each * 1e3 for each in stock])),
        Row("session over raw start without shortcuts", "x", median(over_stock)),
    ]


def run_session(
    whole: Whole, http: Http, owner: str, image: str | None = None, *, cpus: int | None = None
) -> SessionTimes:
    """Start a session, in an image or on the node as it is; wait until it answers, end it.

    ``cpus`` None: as many as the template asks for."""
    sessions = Http(whole.port + 1)
    began, posted = time.perf_counter(), time.time()
    body: dict[str, Any] = {
        "template": "jupyterlab",
        **({"resources": {"cpu": cpus}} if cpus else {}),
        **({"image": image} if image else {}),
    }
    job = http.post("/api/v1/sessions", body)
    path = f"/user/{owner}/{server_name(UUID(job['id']))}/api"
    _until_it_answers(sessions, path, lambda: None)
    seconds, answered = time.perf_counter() - began, time.time()
    try:
        ready = _until(http, job["id"], lambda view: view["state"] == "READY")
    finally:
        http.post(f"/api/v1/sessions/{job['id']}/stop", {})
        _until(http, job["id"], lambda view: view["ended_at"] is not None)
    times = {
        name: datetime.fromisoformat(ready[name]).timestamp()
        for name in ("created_at", "submitted_at", "allocated_at", "started_at", "ready_at")
    }
    return SessionTimes(seconds, {**times, "posted": posted, "answered": answered})


def _by_hand(whole: Whole, owner: str, argv: list[str]) -> float:
    """Start the server as the platform does, wait until it answers, end it."""
    port, prefix = reserve_ports(), f"/user/{owner}/by-hand/"
    hub = f"http://127.0.0.1:{whole.port + 2}/hub"
    env = {
        "JUPYTERHUB_API_TOKEN": whole.secret("hub_api_token"),
        "JUPYTERHUB_API_URL": f"{hub}/api",
        "JUPYTERHUB_ACTIVITY_URL": f"{hub}/api/users/{owner}/activity",
        "JUPYTERHUB_BASE_URL": "/",
        "JUPYTERHUB_CLIENT_ID": "jupyterhub-user-by-hand",
        "JUPYTERHUB_OAUTH_CALLBACK_URL": f"{prefix}oauth_callback",
        "JUPYTERHUB_SERVER_NAME": "by-hand",
        "JUPYTERHUB_SERVICE_PREFIX": prefix,
        "JUPYTERHUB_SERVICE_URL": f"http://127.0.0.1:{port}{prefix}",
        "JUPYTERHUB_USER": owner,
    }
    home = whole.env["HOME"]
    log = whole.folder / "by-hand.log"
    began = time.perf_counter()
    with log.open("ab") as output:
        process = subprocess.Popen(
            argv,
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=output,
            cwd=home,
            env={"PATH": os.environ["PATH"], "HOME": home, **env},
        )
    try:
        assert process.stdin is not None
        process.stdin.write(json.dumps({"env": env, "args": []}).encode() + b"\n")
        process.stdin.close()
        _until_it_answers(Http(port), f"{prefix}api", process.poll)
        return time.perf_counter() - began
    finally:
        stop(process)


def _launcher() -> list[str]:
    return [str(software_environments.session_env_dir() / "bin/python"), str(LAUNCHER)]


def _stock() -> list[str]:
    """Return the command of the server with the launcher's options, but without the launcher."""
    program = (
        "import os, runpy, sys; sys.stdin.read(); "
        "slim = runpy.run_path(sys.argv[1])['SLIM']; "
        "os.environ['JUPYTERHUB_SINGLEUSER_EXTENSION'] = '1'; "
        "root = ['--allow-root'] if os.geteuid() == 0 else []; "
        "sys.argv[1:] = [*slim, '--ServerApp.root_dir=' + os.getcwd(), *root]; "
        "from jupyterhub.singleuser import main; main()"
    )
    python = str(software_environments.session_env_dir() / "bin/python")
    return [python, "-c", program, str(LAUNCHER)]


def _until_it_answers(server: Http, path: str, ended: Callable[[], int | None]) -> None:
    give_up = time.monotonic() + START_S
    while time.monotonic() < give_up:
        try:
            status, body = server.get(path)
            if status == 200 and b'"version"' in body:
                return
        except (OSError, HTTPException):
            server.close()
        if ended() is not None:
            raise BenchmarkError("the server ended before it answered")
        time.sleep(LOOK_EVERY_S)
    raise BenchmarkError(f"{path} did not answer within {START_S:.0f} s")


def _until(http: Http, job_id: str, reached: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """Wait until ``reached`` accepts the session; return it."""
    give_up = time.monotonic() + START_S
    while time.monotonic() < give_up:
        view: dict[str, Any] = json.loads(http.get(f"/api/v1/sessions/{job_id}")[1])
        if reached(view):
            return view
        if view["ended_at"] is not None:
            raise BenchmarkError(f"session {job_id} ended: {view['message']}")
        time.sleep(0.05)
    raise BenchmarkError(f"session {job_id} stayed {view['state']}")
