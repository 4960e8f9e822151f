"""SIGSTOP of every process of the platform, while a notebook kernel and a batch job run."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import httpx
import pytest

from aitne.client import Client
from aitne.core.states import JobState
from tests.support import realtime
from tests.support.notebook import Notebook
from tests.support.platform import RunningPlatform
from tests.support.waiting import eventually

pytestmark = [
    pytest.mark.platform,
    pytest.mark.timeout(300),
    realtime.PLATFORM,
]

VICTIMS = ("api", "controller", "hub", "proxy")
RECOVERED_WITHIN_S = 45.0


@pytest.fixture
def client(platform: RunningPlatform) -> Iterator[Client]:
    """Ends what the test began."""
    client = Client(url=platform.url, token=platform.token)
    yield client
    for job in list(client.jobs.list()):
        if not job.ended:
            (client.sessions.stop if job.type == "session" else client.jobs.cancel)(job.id)


def test_hung_processes_are_killed_and_started_again(
    platform: RunningPlatform, client: Client
) -> None:
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

    headers = {"Authorization": f"Bearer {platform.token}"}
    with httpx.Client(base_url=platform.url, headers=headers, trust_env=False) as http:
        metrics = http.get("/metrics").text
        for name in VICTIMS:
            assert f'aitne_hung_process_restarts_total{{process="{name}"}} 1.0' in metrics

        def audited() -> set[str]:
            answer = http.get("/api/v1/admin/audit", params={"action": "restart_process"})
            return {entry["object"] for entry in answer.json()["items"]}

        eventually("all are in the audit log", lambda: audited() == set(VICTIMS))
