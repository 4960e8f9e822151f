"""The socket into a run: its runner starts the job before it opens the socket."""

from __future__ import annotations

import asyncio
import os
import socket
from datetime import UTC, datetime
from pathlib import Path

import pytest

from aitne.adapters.schedulers._local import runner
from aitne.adapters.schedulers._local.job_records import LocalJobRecord, Records
from aitne.adapters.schedulers._local.local_attacher import LocalAttacher
from aitne.core.errors import SchedulerRejected
from aitne.core.ports.attacher import AttachTarget
from aitne.core.ports.job_files import JobLocation
from aitne.core.ports.scheduler import Run
from aitne.local_system.settings_loader import load_settings
from tests.support import realtime
from tests.support.jobs import make_request

pytestmark = realtime.PROCESSES


@pytest.fixture
def started(tmp_path: Path) -> AttachTarget:
    """A job that the scheduler has just started, without a runner."""
    request = make_request(job_dir=str(tmp_path / "jobs" / "1"))
    records = Records(tmp_path / "local")
    records.prepare()
    records.create(LocalJobRecord(number=1, submitted_at=datetime.now(UTC), request=request))
    run_of(tmp_path).mkdir(parents=True)
    return AttachTarget(
        run=Run(job_id=request.job_id, attempt=1, scheduler_id="1"),
        place=JobLocation(job_id=request.job_id, attempt=1, folder=str(tmp_path / "jobs")),
        node="node01",
        agent=("aitne.agent",),
    )


def run_of(data_dir: Path) -> Path:
    return data_dir / "local" / "jobs" / "1" / "task" / "run-1"


async def test_a_door_that_is_opened_in_a_moment_is_waited_for(
    tmp_path: Path, started: AttachTarget
) -> None:
    asking = asyncio.create_task(LocalAttacher(load_settings(tmp_path)).attach(started))
    done, _ = await asyncio.wait({asking}, timeout=0.3)
    assert not done
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as door:
        place = os.open(run_of(tmp_path), os.O_PATH | os.O_DIRECTORY)
        door.bind(f"/proc/self/fd/{place}/{runner.DOOR}")
        os.close(place)
        door.listen()
        (await asking).close()


async def test_terminal_of_ended_attempt_is_rejected_without_waiting(
    tmp_path: Path, started: AttachTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aitne.adapters.schedulers._local.local_attacher._CONNECT_WITHIN_S", 3_600)
    (run_of(tmp_path) / runner.EXIT).write_text("{}")
    async with asyncio.timeout(60):
        with pytest.raises(SchedulerRejected, match="no longer runs"):
            await LocalAttacher(load_settings(tmp_path)).attach(started)
