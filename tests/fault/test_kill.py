"""``kill -9`` of every process of the platform, while a notebook kernel and a batch job run."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import UUID

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


@pytest.fixture(scope="module")
def platform(separate_platform: RunningPlatform) -> RunningPlatform:
    """A platform of the module's own: tests kill its processes."""
    return separate_platform


@pytest.fixture
def client(platform: RunningPlatform) -> Iterator[Client]:
    """A client; remaining jobs are ended after the test, so that they hold no processor."""
    client = Client(url=platform.url, token=platform.token)
    yield client
    for job in list(client.jobs.list()):
        if not job.ended:
            (client.sessions.stop if job.type == "session" else client.jobs.cancel)(job.id)
            client.jobs.wait(job.id, timeout_s=60)


def test_session_and_job_survive_death_of_every_process(
    platform: RunningPlatform, client: Client, kill_rounds: int
) -> None:
    session = client.sessions.start("jupyterlab")
    ready = client.sessions.wait_ready(session.id, timeout_s=120)
    assert ready.url is not None
    batch = client.jobs.create(
        {
            "type": "job",
            "name": "counts",
            "commands": ["i=0; while :; do i=$((i+1)); echo $i; sleep 0.2; done"],
            "resources": {"cpu": 1, "memory": "256M"},
        }
    )
    eventually("the batch job runs", lambda: _state(client, batch.id) == JobState.RUNNING)

    with Notebook(platform.url, platform.token, ready.url) as notebook:
        notebook.start_kernel()
        notebook.execute("secret = 6 * 7; import os; kernel_pid = os.getpid()")
        pid = notebook.execute("kernel_pid")
        for round_number in range(kill_rounds):
            for victim in VICTIMS:
                where = f"round {round_number + 1}, {victim}"
                before = platform.pids()
                log_size = _log_size(client, batch.id)
                platform.kill(victim)
                eventually(
                    f"{where} is started again",
                    lambda v=victim, b=before: platform.pids().get(v) not in (None, b[v]),
                )
                eventually(f"{where}: the platform is ready", platform.ready)
                eventually(f"{where}: the route is back", notebook.reachable)
                notebook.connect()
                assert notebook.execute("secret") == "42", where
                assert notebook.execute("kernel_pid") == pid, where
                eventually(
                    f"{where}: the batch job still writes",
                    lambda size=log_size: _log_size(client, batch.id) > size,
                )
                assert _state(client, session.id) == JobState.READY, where
                assert _state(client, batch.id) == JobState.RUNNING, where

    # The controller that leads now still knows both, and can end them.
    client.sessions.stop(session.id)
    client.jobs.cancel(batch.id)
    for job_id in (session.id, batch.id):
        eventually("it ends", lambda i=job_id: _state(client, i) == JobState.CANCELLED, 30)


def _state(client: Client, job_id: UUID) -> JobState:
    return client.jobs.get(job_id).state


def _log_size(client: Client, job_id: UUID) -> int:
    return sum(len(part) for part in client.jobs.logs(str(job_id)))
