"""The scheduler, the rendered script and the agent together: limits, signals, requeues."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from aitne.adapters.job_files import OwnFiles
from aitne.adapters.schedulers._local import runner_launcher
from aitne.agent.main import DUPLICATE
from aitne.core.errors import Unavailable
from aitne.core.jobs.agent_protocol import AgentSpec
from aitne.core.jobs.job_folder_layout import log_file_name
from aitne.core.jobs.states import JobState
from aitne.core.models.resources import Resources
from aitne.core.ports.job_files import JobLocation
from aitne.core.ports.scheduler import SubmitRequest
from tests.support import realtime
from tests.support.attaching import with_agent
from tests.support.schedulers import Bench, local, opened

pytestmark = realtime.PROCESSES


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    async with opened(local, tmp_path) as bench:
        yield bench


async def submit(bench: Bench, *commands: str, **changes: Any) -> tuple[str, SubmitRequest]:
    """Submit a job as the platform does; return its id and the request."""
    request = bench.request("", **({"time_limit_s": 60} | changes))
    spec = AgentSpec(
        job_id=request.job_id,
        attempt=request.attempt,
        platform_url=None,
        commands=tuple(("bash", "-c", command) for command in commands),
        workdir=request.job_dir,
    )
    request = with_agent(request, spec, (sys.executable, "-I", "-m", "aitne.agent"))
    return await bench.scheduler.submit(request), request


async def test_the_memory_limit_counts_the_program_and_not_the_agent(bench: Bench) -> None:
    limit = Resources(memory_bytes=8 << 20)
    assert _agent_memory() > limit.memory_bytes
    number, request = await submit(bench, "sleep 1.2; echo done", resources=limit.model_dump())
    row = await bench.wait_ended(number)
    assert (row.state, bench.log(request)) == (JobState.COMPLETED, "done\n")


def _agent_memory() -> int:
    """Return the memory in bytes that the agent's Python uses at least.

    The test is meaningful only if its job uses more.
    """
    code = "import os; print(open('/proc/self/statm').read().split()[1])"
    pages = int(subprocess.check_output([sys.executable, "-I", "-c", code]))
    return pages * os.sysconf("SC_PAGE_SIZE")


async def test_the_programs_memory_counts_wherever_it_hides(bench: Bench) -> None:
    program = "x = b'x' * (200 << 20); import time; time.sleep(60)"
    number, _ = await submit(
        bench,
        f'setsid {sys.executable} -I -S -c "{program}" & wait',
        resources={"memory_bytes": 64 << 20},
    )
    assert (await bench.wait_ended(number)).state is JobState.OUT_OF_MEMORY


async def test_a_program_may_save_its_work_when_time_is_up(bench: Bench) -> None:
    number, request = await submit(
        bench,
        "trap 'echo saved; exit 0' TERM; echo up; while :; do sleep .02; done",
        "echo never",
        time_limit_s=1,
    )
    row = await bench.wait_ended(number)
    assert row.state is JobState.TIMED_OUT
    assert "saved" in bench.log(request)
    assert "never" not in bench.log(request)


async def test_a_requeued_job_passes_its_own_fence(bench: Bench) -> None:
    number, request = await submit(
        bench,
        "echo start $SLURM_RESTART_COUNT; while ! [ -e go ]; do sleep .02; done",
        max_requeues=1,
    )
    await bench.running(number)
    await bench.log_says(request, "start 0")
    run = bench.data_dir / "local" / "jobs" / number / "task" / "run-0"
    identity = runner_launcher.read_identity(run)
    assert identity is not None
    os.kill(identity.pid, signal.SIGKILL)
    await bench.log_says(request, "start 1")
    (Path(request.job_dir) / "go").touch()
    assert (await bench.wait_ended(number)).state is JobState.COMPLETED


async def test_the_same_attempt_submitted_twice_runs_once(bench: Bench) -> None:
    first, request = await submit(bench, "echo ran")
    await bench.wait_ended(first)
    second = await bench.scheduler.submit(request)
    row = await bench.wait_ended(second)
    assert (row.state, row.exit_code) == (JobState.FAILED, DUPLICATE)
    assert bench.log(request).count("ran\n") == 1


def place(request: SubmitRequest) -> JobLocation:
    """Return the location of a submitted attempt's files."""
    folder = str(Path(request.job_dir).parent)
    return JobLocation(job_id=request.job_id, attempt=request.attempt, folder=folder)


async def test_tasks_have_fences_and_logs_of_their_own(bench: Bench) -> None:
    number, request = await submit(bench, "echo $SLURM_ARRAY_TASK_ID", array="0-2")
    rows = await bench.until(number, lambda rows: all(row.state.is_terminal for row in rows))
    assert {row.state for row in rows} == {JobState.COMPLETED}
    for task in range(3):
        chunk = await OwnFiles().read_log(place(request), task, offset=0, limit=100)
        assert chunk.data == f"{task}\n".encode()


async def test_a_log_is_read_in_pieces(bench: Bench, tmp_path: Path) -> None:
    number, request = await bench.submit("printf 0123456789")
    await bench.wait_ended(number)
    for offset, limit, data, start in (
        (0, 4, b"0123", 0),
        (4, 100, b"456789", 4),
        (-3, 2, b"78", 7),
        (-100, 1, b"0", 0),
        (50, 10, b"", 10),
        (0, 0, b"", 0),
    ):
        chunk = await OwnFiles().read_log(place(request), None, offset=offset, limit=limit)
        assert (chunk.data, chunk.offset, chunk.size) == (data, start, 10)
    nothing = await OwnFiles().read_log(place(bench.request("true")), None, offset=0, limit=10)
    assert (nothing.data, nothing.size) == (b"", 0)


async def test_a_log_that_leads_elsewhere_is_not_read(bench: Bench, tmp_path: Path) -> None:
    number, request = await bench.submit("true")
    await bench.wait_ended(number)
    secret = tmp_path / "secret"
    secret.write_text("secret")
    log = Path(request.job_dir) / log_file_name(None)
    log.unlink()
    log.symlink_to(secret)
    with pytest.raises(Unavailable, match="cannot be read"):
        await OwnFiles().read_log(place(request), None, offset=0, limit=10)
    log.unlink()
    os.mkfifo(log)
    assert (await OwnFiles().read_log(place(request), None, offset=0, limit=10)).size == 0
