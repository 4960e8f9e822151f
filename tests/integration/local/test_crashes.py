"""Tests of the local scheduler after crashes: its own, of a runner, of the machine."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest

from aitne.adapters.schedulers._local import job_records, procfs, runner_launcher
from aitne.adapters.schedulers.local import LocalScheduler
from aitne.core.errors import SchedulerRejected, SchedulerUnavailable, SetupError
from aitne.core.jobs.states import JobState, TerminationReason
from aitne.core.settings import LocalSettings
from aitne.local_system.settings_loader import load_settings
from tests.support import realtime
from tests.support.alive import alive
from tests.support.schedulers import Bench, local, opened

pytestmark = realtime.PROCESSES

COUNT = "echo start $SLURM_RESTART_COUNT; while ! [ -e go ]; do sleep .02; done"


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    async with opened(local, tmp_path) as bench:
        yield bench


def run_dir(bench: Bench, number: str, run: int = 0) -> Path:
    return bench.data_dir / "local" / "jobs" / number / "task" / f"run-{run}"


def runner_of(bench: Bench, number: str, run: int = 0) -> runner_launcher.ProcessIdentity:
    identity = runner_launcher.read_identity(run_dir(bench, number, run))
    assert identity is not None
    return identity


async def test_a_killed_runner_takes_its_orphans_along_and_the_job_starts_again(
    bench: Bench,
) -> None:
    number, request = await bench.submit(
        f"setsid sleep 300 & echo $! >orphan; trap '' TERM; {COUNT}", max_requeues=1
    )
    await bench.log_says(request, "start 0")
    orphan = int((Path(request.job_dir) / "orphan").read_text())
    leader = runner_of(bench, number).leader
    os.kill(runner_of(bench, number).pid, signal.SIGKILL)
    await bench.log_says(request, "start 1")
    assert not alive(orphan)
    assert not alive(leader)
    assert (await bench.running(number)).restart_count == 1
    os.kill(runner_of(bench, number, 1).pid, signal.SIGKILL)
    row = await bench.wait_ended(number)
    assert (row.state, row.reason) == (JobState.NODE_FAILED, TerminationReason.NODE_FAILED)
    assert not alive(int((Path(request.job_dir) / "orphan").read_text()))


async def test_a_runner_killed_while_nobody_looks(bench: Bench) -> None:
    number, request = await bench.submit(COUNT, max_requeues=3)
    await bench.log_says(request, "start 0")
    identity = runner_of(bench, number)
    await bench.scheduler.close()
    os.kill(identity.pid, signal.SIGKILL)
    await bench.restart()
    await bench.log_says(request, "start 1")
    assert not alive(identity.leader)
    await bench.restart()
    (Path(request.job_dir) / "go").touch()
    row = await bench.wait_ended(number)
    assert (row.state, row.restart_count) == (JobState.COMPLETED, 1)


async def test_a_cancelled_job_whose_runner_dies_is_cancelled(bench: Bench) -> None:
    number, request = await bench.submit(f"trap '' TERM; {COUNT}", max_requeues=3)
    await bench.log_says(request, "start 0")
    await bench.cancel(number)
    os.kill(runner_of(bench, number).pid, signal.SIGKILL)
    assert (await bench.wait_ended(number)).state is JobState.CANCELLED


async def test_a_machine_that_goes_down_fails_its_jobs(bench: Bench) -> None:
    number, request = await bench.submit(COUNT)
    await bench.running(number)
    await bench.log_says(request, "start 0")
    os.kill(runner_of(bench, number).pid, signal.SIGTERM)
    row = await bench.wait_ended(number)
    assert row.state is JobState.NODE_FAILED
    assert "its node shuts down" in bench.log(request)


async def test_after_a_reboot_nothing_is_signalled(bench: Bench) -> None:
    """The ids in the record belong to others by then: here, to this very test's child."""
    number, request = await bench.submit(COUNT, max_requeues=1)
    await bench.log_says(request, "start 0")
    await bench.cancel(number)
    await bench.wait_ended(number)
    await bench.scheduler.close()
    stranger = subprocess.Popen(["sleep", "60"])
    try:
        folder = run_dir(bench, number)
        (folder / "exit.json").unlink()
        (folder / "control.json").unlink()
        (folder.parent / "state.json").unlink()
        facts = json.loads((folder / "runner.json").read_text())
        start = procfs.start_time(stranger.pid)
        facts |= {"pid": stranger.pid, "leader": stranger.pid, "start": start}
        facts |= {"leader_start": start, "boot": "another"}
        (folder / "runner.json").write_text(json.dumps(facts))
        await bench.restart()
        await bench.log_says(request, "start 1")
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


async def test_a_reused_pid_is_not_taken_for_a_runner(bench: Bench) -> None:
    stranger = subprocess.Popen(["sleep", "60"])
    try:
        start = procfs.start_time(stranger.pid)
        assert start is not None
        right = runner_launcher.ProcessIdentity(
            stranger.pid, start, procfs.boot_id(), stranger.pid, start
        )
        handle = right.open_pidfd()
        assert handle is not None
        os.close(handle)
        wrong = runner_launcher.ProcessIdentity(
            stranger.pid, start - 1, procfs.boot_id(), stranger.pid, start - 1
        )
        assert wrong.open_pidfd() is None
        await asyncio.to_thread(runner_launcher.terminate_orphans, bench.data_dir / "run-0", wrong)
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


async def test_a_run_that_nobody_claimed_waits_again(bench: Bench) -> None:
    """The controller died between writing the run and starting its runner."""
    number, request = await bench.submit("echo ran", resources={"nodes": 2, "cpu": 2})
    await bench.wait_ended(number)
    await bench.scheduler.close()
    task = run_dir(bench, number).parent
    (task / "state.json").unlink()
    for name in ("exit.json", "runner.json"):
        (task / "run-0" / name).unlink()
    await bench.restart()
    row = await bench.wait_ended(number)
    assert (row.state, row.restart_count) == (JobState.COMPLETED, 0)
    assert bench.log(request) == "ran\nran\n"


async def test_two_schedulers_do_not_share_a_folder(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aitne.adapters.schedulers.local._LOCK_WAIT_S", 0.2)
    with pytest.raises(SetupError, match="one platform has one controller"):
        await local(bench.data_dir).start()


async def test_numbers_are_never_used_twice(tmp_path: Path) -> None:
    now = datetime.now(UTC)
    settings = load_settings(tmp_path, local=LocalSettings(cpus=2, gpus="none"))

    def later(_: Path) -> LocalScheduler:
        return LocalScheduler(settings, clock=lambda: now, grace_s=1.0)

    async with opened(later, tmp_path) as bench:
        first, request = await bench.submit("true")
        array, _ = await bench.submit("true", array="0-4")
        await bench.until(array, lambda rows: all(row.state.is_terminal for row in rows))
        await bench.wait_ended(first)
        now += timedelta(minutes=59)
        assert len(await bench.scheduler.poll()) == 6
        held, _ = await bench.submit("sleep 60", after=(first,), resources={"cpu": 2})
        now += timedelta(hours=2)
        kept = {row.scheduler_id for row in await bench.scheduler.poll()}
        assert kept == {first, held}, "what a live job depends on stays"
        now = datetime.now(UTC)
        await bench.cancel(held)
        await bench.wait_ended(held)
        now += timedelta(hours=2)
        assert await bench.scheduler.poll() == []
        assert not await bench.find(request.job_id, 1)
        await bench.restart()
        assert int((await bench.submit("true"))[0]) == int(held) + 1
        with pytest.raises(SchedulerRejected, match="removes a job 1h after its end"):
            await bench.submit("true", after=(first,))


async def test_job_that_ended_during_outage_is_reported_for_limited_time(tmp_path: Path) -> None:
    now = datetime.now(UTC)
    settings = load_settings(tmp_path, local=LocalSettings(cpus=2, gpus="none"))

    def later(_: Path) -> LocalScheduler:
        return LocalScheduler(settings, clock=lambda: now, grace_s=1.0)

    async with opened(later, tmp_path) as bench:
        number, request = await bench.submit("sleep .1; exit 3")
        now += timedelta(hours=12)
        await bench.restart()
        assert (await bench.wait_ended(number)).exit_code == 3
        now += timedelta(minutes=59)
        assert await bench.find(request.job_id, 1)
        assert len(await bench.scheduler.poll()) == 1
        now += timedelta(minutes=2)
        assert await bench.scheduler.poll() == []


CONTROLLER = """
import asyncio, sys
from pathlib import Path
from uuid import UUID
from aitne.adapters.schedulers._local import job_records
from tests.support.schedulers import local, Bench

async def main():
    bench = Bench(local, Path(sys.argv[1]))
    await bench.scheduler.start()
    if sys.argv[3] == "recorded":
        create = job_records.Records.create
        def stop(self, record):
            create(self, record)
            print("recorded", flush=True)
            sys.stdin.read()
        job_records.Records.create = stop
    await bench.submit(sys.argv[4], job_id=UUID(sys.argv[2]))
    await asyncio.sleep(60)

asyncio.run(main())
"""


async def test_jobs_outlive_a_killed_controller(tmp_path: Path) -> None:
    job_id = uuid4()
    script = (
        "echo up; ls -l /proc/$$/fd; echo runner; ls -l /proc/$PPID/fd;"
        " while ! [ -e go ]; do sleep .02; done"
    )
    controller = _controller(tmp_path, job_id, "started", script)
    log = tmp_path / "jobs" / str(job_id) / "1" / "output.log"
    try:
        async with asyncio.timeout(60):
            while not (log.exists() and log.read_text().startswith("up\n")):
                await asyncio.sleep(0.02)
    finally:
        controller.kill()
        controller.communicate()
    async with opened(local, tmp_path) as bench:
        row = (await bench.find(job_id, 1))[0]
        assert row.state is JobState.RUNNING
        (log.parent / "go").touch()
        assert (await bench.wait_ended(row.scheduler_id)).state is JobState.COMPLETED
    held, _, by_runner = log.read_text().partition("\nrunner\n")
    assert by_runner
    assert str(tmp_path / "local" / "lock") not in held + by_runner
    assert "socket:" not in held
    assert by_runner.count("socket:") <= 1  # its own, to which those connect who attach


async def test_a_submission_that_was_not_answered_is_found(tmp_path: Path) -> None:
    job_id = uuid4()
    controller = _controller(tmp_path, job_id, "recorded", "echo ran")
    try:
        assert controller.stdout is not None
        assert await asyncio.to_thread(controller.stdout.readline) == b"recorded\n"
    finally:
        controller.kill()
        controller.communicate()
    async with opened(local, tmp_path) as bench:
        (row,) = await bench.find(job_id, 1)
        assert (await bench.wait_ended(row.scheduler_id)).state is JobState.COMPLETED


def _controller(data_dir: Path, job_id: UUID, until: str, script: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", CONTROLLER, str(data_dir), str(job_id), until, script],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=Path(__file__).parents[3],
    )


async def test_cancelled_submission_call_still_starts_job(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The caller gives up while the record is being written: the job is there all the same."""
    request = bench.request("true")
    submission = asyncio.ensure_future(bench.scheduler.submit(request))
    await asyncio.sleep(0)
    submission.cancel()
    with pytest.raises(asyncio.CancelledError):
        await submission
    async with asyncio.timeout(60):
        while not (rows := await bench.find(request.job_id, 1)):
            await bench.scheduler.wait_for_change()
    assert (await bench.wait_ended(rows[0].scheduler_id)).state is JobState.COMPLETED


async def test_a_full_disk_is_no_answer_and_leaves_nothing(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = job_records.write_atomically

    def full(path: Path, content: bytes, **options: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    request = bench.request("echo ran")
    with monkeypatch.context() as patch:
        patch.setattr(job_records, "write_atomically", full)
        with pytest.raises(SchedulerUnavailable, match=r"No space left.*The job was not queued"):
            await bench.scheduler.submit(request)
    assert not await bench.find(request.job_id, 1)

    # Room for the record, none for the start: it waits, says why, and starts when there is room.
    monkeypatch.setattr("aitne.adapters.schedulers._local.scheduling_engine.RETRY_S", 0.2)

    def no_run(path: Path, content: bytes, **options: Any) -> None:
        if path.name == "launch.json":
            full(path, content)
        real(path, content, **options)

    with monkeypatch.context() as patch:
        patch.setattr(job_records, "write_atomically", no_run)
        number = await bench.scheduler.submit(request)
        rows = await bench.until(number, lambda rows: "No space" in (rows[0].pending_reason or ""))
        assert rows[0].state is JobState.QUEUED
    assert (await bench.wait_ended(number)).state is JobState.COMPLETED
    assert bench.log(request) == "ran\n"


async def test_a_job_whose_folder_is_gone_fails(bench: Bench) -> None:
    blocker, _ = await bench.submit("sleep 60", resources={"nodes": 2, "cpu": 2})
    await bench.running(blocker)
    number, request = await bench.submit("true")
    for path in Path(request.job_dir).iterdir():
        path.unlink()
    Path(request.job_dir).rmdir()
    await bench.cancel(blocker)
    row = await bench.wait_ended(number)
    assert (row.state, row.reason) == (JobState.FAILED, TerminationReason.START_FAILED)


async def test_a_read_only_data_directory_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "local").write_text("a file is in the way")
    with pytest.raises(SetupError, match="Make the data directory writable"):
        await local(tmp_path).start()


async def test_platform_variables_do_not_reach_job(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AITNE_TOKEN", "CONFIGPROXY_AUTH_TOKEN", "PYTHONPATH", "VIRTUAL_ENV", "ANYTHING"):
        monkeypatch.setenv(name, "of the platform")
    number, request = await bench.submit("env -0 | cut -z -d= -f1 | tr '\\0' '\\n'")
    await bench.wait_ended(number)
    names = {name for name in bench.log(request).split() if not name.startswith(("SLURM", "LC_"))}
    assert names <= {
        *("HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "PATH", "TMPDIR"),
        *("LD_LIBRARY_PATH", "XDG_RUNTIME_DIR", "CUDA_VISIBLE_DEVICES"),
        *("AITNE_RUNNER_ID", "MASTER_ADDR", "PWD", "SHLVL", "_"),
    }


async def test_signals_that_the_platform_ignores_reach_jobs(bench: Bench) -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        number, _ = await bench.submit("kill -INT $$; sleep 60")
        row = await bench.wait_ended(number)
    finally:
        signal.signal(signal.SIGINT, before)
    assert row.signal == signal.SIGINT
