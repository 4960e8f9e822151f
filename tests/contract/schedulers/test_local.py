"""Tests of the local scheduler alone: exact limits, messages, memory limits without cgroups."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from aitne.adapters.schedulers.local import LocalScheduler
from aitne.agent import cgroup_enforcement
from aitne.core.errors import SchedulerRejected
from aitne.core.jobs.states import JobState, TerminationReason
from aitne.core.models.cluster import Holder
from aitne.core.models.limits import HeldLimit, HeldLimits, Limits
from aitne.core.models.resources import GpuRequest
from tests.support import realtime
from tests.support.alive import alive
from tests.support.schedulers import Bench

pytestmark = realtime.PROCESSES


async def test_job_finds_its_number_of_tasks(local: Bench) -> None:
    resources = {"cpu": 2, "tasks_per_node": 2, "cpus_per_task": 1}
    command = "echo $SLURM_NTASKS $SLURM_NTASKS_PER_NODE $SLURM_CPUS_PER_TASK $SLURM_TASKS_PER_NODE"
    number, request = await local.submit(command, resources=resources)
    await local.wait_ended(number)
    assert local.log(request) == "2 2 1 2\n"


async def test_a_running_job_outlives_its_old_limit(local: Bench) -> None:
    number, request = await local.submit(
        "echo up; while ! [ -e done ]; do sleep .02; done; echo bye", time_limit_s=2
    )
    await local.log_says(request, "up")
    await local.extend(number, 60)
    row = await local.running(number)
    assert row.time_limit_s == 60
    started = row.started_at
    assert started is not None
    while (datetime.now(UTC) - started).total_seconds() < 2.4:
        await asyncio.sleep(0.05)  # the old limit has to pass: this is what is tested
    (Path(request.job_dir) / "done").touch()
    assert (await local.wait_ended(number)).state is JobState.COMPLETED


async def test_a_job_that_ignores_sigterm_is_killed(local: Bench) -> None:
    number, request = await local.submit("trap '' TERM; echo up; while :; do sleep .05; done")
    await local.log_says(request, "up")
    started = time.monotonic()
    await local.cancel(number)
    row = await local.wait_ended(number)
    assert row.state is JobState.CANCELLED
    assert row.signal == 9
    assert time.monotonic() - started >= 0.9


async def test_background_processes_end_with_job_script(local: Bench) -> None:
    number, request = await local.submit("(setsid sleep 60 & echo $! >pid); exit 0")
    row = await local.wait_ended(number)
    assert row.state is JobState.COMPLETED
    assert not alive(int((Path(request.job_dir) / "pid").read_text()))


async def test_the_time_limit_ends_a_job(local: Bench) -> None:
    number, request = await local.submit("echo up; sleep 60", time_limit_s=1)
    row = await local.wait_ended(number)
    assert (row.state, row.reason) == (JobState.TIMED_OUT, TerminationReason.TIMED_OUT)
    assert "time limit" in local.log(request)


async def test_too_much_memory_ends_a_job(local: Bench) -> None:
    number, request = await local.submit(
        "python3 -c 'x = b\"x\" * (300 << 20); input()' < <(sleep 60); true",
        resources={"memory_bytes": 100 << 20},
    )
    row = await local.wait_ended(number)
    assert (row.state, row.reason) == (JobState.OUT_OF_MEMORY, TerminationReason.OUT_OF_MEMORY)
    assert "of memory and may use 100" in local.log(request)


async def test_cluster_reports_which_holder_enforces_limits(local: Bench) -> None:
    cluster = await local.scheduler.read_cluster()
    assert cluster.memory_held_by is Holder.SAMPLING
    assert cluster.cpus_held_by is Holder.NOBODY
    assert cluster.agent_cgroups is not None
    assert set(cluster.agent_cgroups) == set(cgroup_enforcement.probe_controllers())


async def test_memory_that_processes_share_counts_once(local: Bench) -> None:
    program = (
        "import os,mmap,time; m = mmap.mmap(-1, 60<<20); m.write(b'x' * (60<<20))\n"
        "for _ in range(3):\n  if os.fork() == 0: sum(m[::4096]); time.sleep(1.2); os._exit(0)\n"
        "time.sleep(1.2)"
    )
    number, _ = await local.submit(
        f'exec python3 -I -S -c "{program}"', resources={"memory_bytes": 150 << 20}
    )
    assert (await local.wait_ended(number)).state is JobState.COMPLETED


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"resources": {"cpu": 3}}, "resources.cpu: 3 is too much; the largest node has 2."),
        ({"resources": {"nodes": 3}}, "resources.nodes: 3 is too much; the cluster has 2."),
        (
            {"resources": {"memory_bytes": 5 << 30}},
            "resources.memory: 5 GiB is too much; the largest node has 4 GiB.",
        ),
        (
            {"resources": {"gpu": {"count": 3, "type": None}}},
            "resources.gpu: 3 is too much; the largest node has 2.",
        ),
        (
            {"resources": {"gpu": {"count": 1, "type": "h100"}}},
            "resources.gpu: 1 of type h100 is too much; the largest node has 0.",
        ),
        ({"after": ("4711",)}, "after: job 4711 is not known"),
        ({"array": "9-1"}, "array: '9-1' is not an array"),
        ({"files": {"../x": b""}}, "files: '../x' is not a plain file name"),
    ],
)
async def test_job_that_can_never_run_is_rejected(
    local: Bench, changes: dict[str, object], message: str
) -> None:
    request = local.request("true", **changes)
    with pytest.raises(SchedulerRejected) as caught:
        await local.scheduler.submit(request)
    assert message in str(caught.value)
    assert not await local.find(request.job_id, 1)


async def test_waiting_jobs_know_why_and_until_when(local: Bench) -> None:
    first, _ = await local.submit("sleep 60", resources={"nodes": 2, "cpu": 2}, time_limit_s=600)
    await local.running(first)
    jobs = [(await local.submit("true", time_limit_s=60))[0] for _ in range(3)]
    rows = [(await local.rows(job))[0] for job in jobs]
    assert [row.pending_reason for row in rows] == [
        "Waits for 1 CPU on one node: 0 of 2 are free.",
        "Waits behind 1 job.",
        "Waits behind 2 jobs.",
    ]
    expected = rows[0].expected_start_at
    assert expected is not None
    assert 590 < (expected - datetime.now(UTC)).total_seconds() < 620


async def test_holds_task_limits_and_start_times_outlive_a_restart(local: Bench) -> None:
    held, _ = await local.submit("true", hold=True)
    free, _ = await local.submit("true", hold=True)
    array, _ = await local.submit("sleep 60", array="0-2%1")
    begin_at = datetime.now(UTC) + timedelta(seconds=1.5)
    early, _ = await local.submit("true", begin_at=begin_at)
    await local.scheduler.hold(local.run(f"{array}_1"))
    await local.scheduler.throttle(local.run(array), 2)
    await local.scheduler.release(local.run(free))
    await local.restart()
    assert (await local.wait_ended(free)).state is JobState.COMPLETED
    row = await local.wait_ended(early)
    assert row.started_at is not None
    assert row.started_at >= begin_at
    assert [row.pending_reason for row in await local.rows(held)] == [
        "Is held; it starts after a release."
    ]
    states = [JobState.RUNNING, JobState.QUEUED, JobState.RUNNING]
    await local.until(array, lambda rows: [row.state for row in rows] == states)


async def test_a_change_wakes_who_waits(local: Bench) -> None:
    waiter = asyncio.ensure_future(local.scheduler.wait_for_change())
    number, _ = await local.submit("true")
    await asyncio.wait_for(waiter, local.stand.patience_s)
    await local.wait_ended(number)


def _held(limits: Limits, user: str | None = None, gpu_s: int = 0) -> HeldLimits:
    return HeldLimits(
        entries=(HeldLimit(project="engines", user=user, limits=limits, gpu_s=gpu_s),)
    )


async def test_job_above_limit_waits_with_its_reason_until_there_is_room(local: Bench) -> None:
    scheduler = local.scheduler
    assert isinstance(scheduler, LocalScheduler)
    await scheduler.set_limits(_held(Limits(max_cpus=1)))
    first, request = await local.submit("echo up; while ! [ -e done ]; do sleep .02; done")
    await local.running(first)
    second, _ = await local.submit("true", owner="bob")
    other, _ = await local.submit("true", project="speech")
    assert (await local.wait_ended(other)).state is JobState.COMPLETED
    waiting = (await local.rows(second))[0]
    assert (waiting.state, waiting.pending_reason) == (
        JobState.QUEUED,
        "Waits for the limit of project engines: 1 of 1 CPUs in use by ada 1.",
    )
    await local.restart()
    assert isinstance(local.scheduler, LocalScheduler)
    assert (await local.rows(second))[0].state is JobState.QUEUED
    usage = await local.scheduler.set_limits(_held(Limits(max_cpus=2)))
    assert (await local.wait_ended(second)).state is JobState.COMPLETED
    project = usage.find_association("engines")
    assert project is not None
    assert project.tres["cpu"].limit == 2
    (Path(request.job_dir) / "done").touch()
    assert (await local.wait_ended(first)).state is JobState.COMPLETED


async def test_job_that_could_never_run_within_limits_is_rejected(local: Bench) -> None:
    scheduler = local.scheduler
    assert isinstance(scheduler, LocalScheduler)
    for limits, changes, text in (
        (Limits(max_cpus=1), {"resources": {"cpu": 2}}, "project engines may use 1 at once"),
        (Limits(max_wall_s=60), {"time_limit_s": 61}, "max_duration: it is longer"),
        (Limits(max_jobs=0), {}, "may run no jobs"),
        (Limits(max_submitted=0), {}, "at most 0 are accepted at a time"),
        (Limits(gpu_hours=1), GPUS_FOR_AN_HOUR, "it may take 2 GPU-hours"),
        (Limits(max_gpus_by_type={"a100": 1}), GPUS_FOR_AN_HOUR, "as many a100 GPUs at once"),
    ):
        await scheduler.set_limits(_held(limits))
        with pytest.raises(SchedulerRejected, match=text):
            await local.submit("true", **changes)
    await scheduler.set_limits(_held(Limits(max_cpus=0), user="bob"))
    number, _ = await local.submit("true")
    assert (await local.wait_ended(number)).state is JobState.COMPLETED


GPUS_FOR_AN_HOUR = {
    "resources": {"gpu": GpuRequest(count=2)},
    "time_limit_s": 3600,
}


async def test_extension_above_limits_is_rejected(local: Bench) -> None:
    scheduler = local.scheduler
    assert isinstance(scheduler, LocalScheduler)
    await scheduler.set_limits(_held(Limits(max_wall_s=120, gpu_hours=1), gpu_s=3400))
    number, _ = await local.submit(
        "echo up; sleep 60", resources={"gpu": GpuRequest(count=1)}, time_limit_s=60
    )
    await local.running(number)
    with pytest.raises(SchedulerRejected, match="may run a job for 2m at most"):
        await local.extend(number, 121)
    await scheduler.set_limits(_held(Limits(gpu_hours=1), gpu_s=3400))
    with pytest.raises(SchedulerRejected, match="The GPU-hours of project engines do not suffice"):
        await local.extend(number, 600)


async def test_waiting_job_above_a_lowered_limit_names_the_limit(local: Bench) -> None:
    scheduler = local.scheduler
    assert isinstance(scheduler, LocalScheduler)
    await scheduler.set_limits(_held(Limits(max_jobs=1)))
    first, _ = await local.submit("sleep 60")
    await local.running(first)
    second, _ = await local.submit("true", resources={"cpu": 2})
    assert (await local.rows(second))[0].pending_reason == (
        "Waits for the limit of project engines: 1 of 1 jobs run."
    )
    await scheduler.set_limits(_held(Limits(max_cpus=1)))
    assert (await local.rows(second))[0].pending_reason == (
        "Can start only if a limit is raised: it asks for 2 CPUs, and project engines may use 1 at once."
    )
