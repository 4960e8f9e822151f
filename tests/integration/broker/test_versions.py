"""Platform and broker of neighbouring releases, against the recorded wire of release 0.1.0."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import jsonschema
import pytest

from aitne.adapters.broker_attacher import BrokerAttacher
from aitne.adapters.broker_outside_jobs import BrokerOutside
from aitne.adapters.broker_scheduler import BrokerClient, BrokerFiles, BrokerScheduler
from aitne.core.broker.storage_area_verbs import AreasResult
from aitne.core.errors import NotSupported, SchedulerRejected, Unavailable
from aitne.core.models.resources import Resources
from aitne.core.ports.attacher import AttachTarget
from aitne.core.ports.job_files import JobLocation
from aitne.core.ports.scheduler import Run, SubmitRequest
from aitne.core.settings import Settings
from aitne.local_system.settings_loader import load_settings
from tests.support import realtime
from tests.support.broker import REPOSITORY, BrokerBench
from tests.support.older_broker import recording
from tests.support.waiting import eventually

pytestmark = realtime.PROCESSES

JOB = UUID("7f3d0f6e-6f0b-4b9e-9d0c-000000000001")
ANNA = "aitne-anna"


@pytest.fixture
def settings(tmp_path: Path) -> Iterator[Settings]:
    """The settings of a platform whose broker is of release 0.1.0."""
    socket = tmp_path / "broker.sock"
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.support.older_broker", str(socket)], cwd=REPOSITORY
    )
    try:
        eventually("the broker serves", socket.exists)
        yield load_settings(tmp_path / "platform", scheduler="slurm", broker={"socket": socket})
    finally:
        process.terminate()
        process.wait(10)


def request(**changes: Any) -> SubmitRequest:
    """Return a small job of anna; `changes` replace its fields."""
    facts: dict[str, Any] = {
        "job_id": JOB,
        "attempt": 1,
        "owner": "anna",
        "account": ANNA,
        "project": "engines",
        "name": "test",
        "script": "#!/bin/bash\ntrue\n",
        "files": {"agent.json": b"{}"},
        "job_dir": f"/home/anna/jobs/{JOB}/1",
        "resources": Resources(),
        "time_limit_s": 600,
    }
    return SubmitRequest(**(facts | changes))


async def test_platform_uses_what_an_older_broker_has(settings: Settings) -> None:
    scheduler = BrokerScheduler(settings.model_copy(update={"scheduler": "fake"}))
    files = BrokerFiles(settings)
    outside = BrokerOutside(settings)
    client = BrokerClient(settings)
    run = Run(job_id=JOB, attempt=1, account=ANNA, scheduler_id="1")
    place = JobLocation(job_id=JOB, attempt=1, folder=f"/home/anna/jobs/{JOB}", account=ANNA)
    target = AttachTarget(place=place, run=run, node="node01", agent=("python3", "agent.pyz"))
    try:
        await scheduler.start()
        assert await scheduler.submit(request()) == "1"
        assert await scheduler.forecast(request()) is None
        assert [job.job_id for job in await scheduler.find_records([run])] == [JOB]
        assert [job.job_id for job in await scheduler.poll()] == [JOB]
        assert [job.job_id for job in await scheduler.poll()] == [JOB]
        assert (await scheduler.read_cluster()).nodes
        await scheduler.extend(run, 1_200)
        await scheduler.cancel(run)
        fence = await files.close_fence(place, None)
        assert fence.owner == "platform"
        assert (await files.read_log(place, None, offset=0, limit=100)).size == 0
        area = {"name": "home", "kind": "user", "path": "/home/anna", "adapter": "posix"}
        areas = await client.call("areas", {"account": ANNA, "areas": [area]}, AreasResult)
        assert [facts.available for facts in areas.areas] == [True]

        with pytest.raises(SchedulerRejected, match="would not heed `tasks_per_node`"):
            await scheduler.submit(request(resources=Resources(tasks_per_node=2)))
        for call in (
            scheduler.hold(run),
            scheduler.throttle(run, 2),
            files.remove_unneeded_files(place),
        ):
            with pytest.raises(NotSupported, match=r"0\.1\.0"):
                await call
        with pytest.raises(NotSupported, match="Update the broker"):
            await outside.list_jobs([ANNA])
        # The recording has no answer with a socket: the broker understands the request.
        with pytest.raises(Unavailable, match="without a connection to the job"):
            await BrokerAttacher(settings).attach(target)
    finally:
        for each in (scheduler, files, outside, client):
            await each.close()


async def test_broker_serves_the_platform_of_the_previous_release(
    shared_bench: BrokerBench,
) -> None:
    recorded = recording()
    lines = [
        json.dumps(line["sent"])
        .replace("{root}", str(shared_bench.root))
        .replace("{anna}", shared_bench.users["anna"])
        .encode()
        + b"\n"
        for line in recorded["transcript"]
    ]
    welcome, *answers = [
        answer
        for number in range(1, len(lines))
        for answer in (await shared_bench.lines(lines[0], lines[number], hello=False))[number > 1 :]
    ]

    assert welcome["protocol"] == 1
    assert len(answers) == len(lines) - 1
    for line, answer in zip(recorded["transcript"][1:], answers, strict=True):
        verb = line["sent"]["verb"]
        assert "ok" in answer, f"{verb}: {answer}"
        jsonschema.validate(answer["ok"], recorded["verbs"][verb]["answer"])


@pytest.mark.parametrize("hello", [{"protocol": 99, "oldest": 98}, {"protocol": 99}])
async def test_sides_without_a_common_protocol_are_told_which_is_older(
    shared_bench: BrokerBench, hello: dict[str, Any]
) -> None:
    hello["release"] = "9.0"
    (answer,) = await shared_bench.lines(json.dumps(hello).encode() + b"\n", hello=False)
    assert answer["error"]["code"] == "setup_error"
    assert "update the broker" in answer["error"]["message"]
