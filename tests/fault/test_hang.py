"""SIGSTOP of every process of the platform, while a notebook kernel and a batch job run."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator

import httpx
import pytest

from aitne.client import Client
from aitne.core.jobs.states import JobState
from tests.support import realtime
from tests.support.notebook import Notebook
from tests.support.platform import RunningPlatform
from tests.support.waiting import eventually

pytestmark = [
    pytest.mark.platform,
    pytest.mark.timeout(600),
    realtime.PLATFORM,
]

VICTIMS = ("api", "controller", "hub", "proxy")
RECOVERED_WITHIN_S = 180.0
"""A hung process is killed after 30 s; the rest is for a busy machine to start all of them."""


@pytest.fixture(scope="module")
def platform(separate_platform: RunningPlatform) -> RunningPlatform:
    """A platform of the module's own: tests stop its processes."""
    return separate_platform


@pytest.fixture
def client(platform: RunningPlatform) -> Iterator[Client]:
    """A client of a ready platform; remaining jobs are ended after the test."""
    eventually("the platform is ready", platform.ready, RECOVERED_WITHIN_S)
    client = Client(url=platform.url, token=platform.token)
    yield client
    eventually("the platform is ready", platform.ready, RECOVERED_WITHIN_S)
    for job in list(client.jobs.list()):
        if not job.ended:
            (client.sessions.stop if job.type == "session" else client.jobs.cancel)(job.id)


def test_hung_processes_are_killed_and_started_again(
    platform: RunningPlatform, client: Client
) -> None:
    restarts = hung_restarts(platform)
    session = client.sessions.start("jupyterlab")
    batch = client.jobs.create(
        {
            "commands": ["i=0; while :; do i=$((i+1)); echo $i; sleep 0.2; done"],
            "resources": {"cpu": 1, "memory": "64M"},
        }
    )
    ready = client.sessions.wait_ready(session.id, timeout_s=120)
    assert ready.url is not None
    with Notebook(platform.url, platform.token, ready.url) as notebook:
        notebook.start_kernel()
        notebook.execute("secret = 6 * 7")
        before = platform.pids()
        for victim in VICTIMS:
            os.kill(before[victim], signal.SIGSTOP)

        def recovered() -> bool:
            pids = platform.pids()
            return platform.ready() and all(pids[name] != before[name] for name in VICTIMS)

        eventually("all are started again", recovered, RECOVERED_WITHIN_S)
        eventually("the route is back", notebook.reachable)
        notebook.connect()
        assert notebook.execute("secret") == "42"

    def written() -> int:
        return sum(len(part) for part in client.jobs.logs(str(batch.id)))

    size = written()
    eventually("the batch job still writes", lambda: written() > size)
    assert client.jobs.get(session.id).state == JobState.READY
    assert client.jobs.get(batch.id).state == JobState.RUNNING

    assert hung_restarts(platform) == {name: restarts.get(name, 0) + 1 for name in VICTIMS}

    def audited() -> set[str]:
        answer = get(platform, "/api/v1/admin/audit", action="restart_process")
        return {entry["object"] for entry in answer.json()["items"]}

    eventually("all are in the audit log", lambda: audited() == set(VICTIMS))


def get(platform: RunningPlatform, path: str, **query: str) -> httpx.Response:
    """Send a request of the administrator."""
    headers = {"Authorization": f"Bearer {platform.token}"}
    return httpx.get(platform.url + path, params=query, headers=headers, trust_env=False)


def hung_restarts(platform: RunningPlatform) -> dict[str, int]:
    """Return how often each process was restarted because it was hung, as the metrics show it."""
    pattern = r'^aitne_hung_process_restarts_total\{process="(\w+)"\} (\d+)\.0$'
    metrics = get(platform, "/metrics").text
    return {name: int(count) for name, count in re.findall(pattern, metrics, re.MULTILINE)}
