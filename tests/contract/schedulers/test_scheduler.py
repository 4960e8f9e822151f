"""The contract of the scheduler port, tested with every scheduler."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import uuid4

import pytest

from aitne.core.errors import SchedulerRejected
from aitne.core.jobs.states import JobState, TerminationReason
from aitne.core.models.cluster import NodeState
from aitne.services.controller.leader import Leader
from aitne.services.controller.outbox_actions import OutboxActions
from aitne.store import Store
from aitne_train.topology.hostlist import expand_hostlist
from tests.support import realtime
from tests.support.alive import alive
from tests.support.jobs import make_array
from tests.support.schedulers import Bench, mode

pytestmark = realtime.SLURM


@pytest.mark.parametrize(
    ("script", "state", "code", "signal"),
    [
        ("true", JobState.COMPLETED, 0, None),
        ("exit 7", JobState.FAILED, 7, None),
        ("exit 200", JobState.FAILED, 200, None),
        ("kill -SEGV $$", JobState.FAILED, None, 11),
    ],
)
async def test_the_end_of_the_script_is_the_end_of_the_job(
    bench: Bench, script: str, state: JobState, code: int | None, signal: int | None
) -> None:
    before = datetime.now(UTC).replace(microsecond=0)  # Slurm counts whole seconds
    number, request = await bench.submit(script)
    row = await bench.wait_ended(number)
    assert (row.state, row.exit_code, row.signal) == (state, code, signal)
    assert row.reason == (
        TerminationReason.COMPLETED if state is JobState.COMPLETED else TerminationReason.FAILED
    )
    assert (row.job_id, row.attempt, row.array_task_id) == (request.job_id, 1, None)
    assert row.submitted_at is not None
    assert row.started_at is not None
    assert row.ended_at is not None
    assert before <= row.submitted_at <= row.ended_at
    assert row.started_at <= row.ended_at <= datetime.now(UTC)
    assert len(row.nodes) == 1


async def test_the_log_holds_both_streams_and_the_files_are_private(bench: Bench) -> None:
    files = {"secret": b"hidden\n", "slurm_script": b"#!/bin/sh\necho executable\n"}
    number, request = await bench.submit(
        "echo out; echo err >&2; cat secret; ./slurm_script", files=files
    )
    await bench.wait_ended(number)
    assert bench.log(request) == "out\nerr\nhidden\nexecutable\n"
    folder = Path(request.job_dir)
    assert mode(folder) == 0o700
    assert {mode(folder / name) for name in ("secret", "script.sh")} == {0o600}
    assert mode(folder / "slurm_script") == 0o700


async def test_hostile_names_are_data(bench: Bench) -> None:
    trap = bench.stand.jobs / "trap"
    name = f"\"'$(touch {trap})`touch {trap}`\n#SBATCH --nodes=9\n;touch {trap} 🪤 \0 %j"
    number, request = await bench.submit("""printf %s "$SLURM_JOB_NAME" """, name=name)
    assert (await bench.wait_ended(number)).state is JobState.COMPLETED
    assert bench.log(request) == bench.stand.name_of(request)
    assert not trap.exists()


async def test_a_script_knows_its_allocation(bench: Bench) -> None:
    gpu = {"count": 1, "type": bench.stand.gpu_type}
    number, request = await bench.submit("env", resources={"nodes": 2, "cpu": 2, "gpu": gpu})
    row = await bench.wait_ended(number)
    env = dict(line.split("=", 1) for line in bench.log(request).splitlines() if "=" in line)
    assert env["SLURM_JOB_ID"] == number
    assert env.get("SLURM_RESTART_COUNT", "0") == "0"
    assert env["SLURM_JOB_NUM_NODES"] == "2"
    assert env["SLURM_CPUS_ON_NODE"] == "2"
    assert tuple(expand_hostlist(env["SLURM_JOB_NODELIST"])) == row.nodes
    assert row.nodes == bench.stand.nodes[:2]
    assert env["SLURM_MEM_PER_NODE"] == "256"
    assert env["CUDA_VISIBLE_DEVICES"] == "0"
    assert "SLURM_ARRAY_TASK_ID" not in env


async def test_job_runs_on_the_nodes_that_it_names_and_not_on_others(bench: Bench) -> None:
    first, second = bench.stand.nodes[:2]
    for fields, expected in (({"nodes": (second,)}, second), ({"exclude": (first,)}, second)):
        number, _ = await bench.submit("true", **fields)
        assert (await bench.wait_ended(number)).nodes[:1] == (expected,)


async def test_concurrent_jobs_have_gpus_of_their_own(bench: Bench) -> None:
    script = "echo $CUDA_VISIBLE_DEVICES; sleep 60"
    gpus = {"gpu": {"count": 1, "type": None}}
    jobs = [await bench.submit(script, resources=gpus) for _ in range(4)]
    seen = [await bench.log_says(request, "\n") for _, request in jobs]
    assert sorted(seen) == ["0\n", "1\n", "2\n", "3\n"]
    await bench.cancel(jobs[0][0])
    without, request = await bench.submit("echo [$CUDA_VISIBLE_DEVICES]")
    await bench.wait_ended(without)
    assert bench.log(request) == "[]\n"


async def test_cancel_a_running_job_and_all_it_started(bench: Bench) -> None:
    number, request = await bench.submit(
        "setsid bash -c 'trap \"\" TERM; echo $BASHPID >&3; while :; do sleep 60; done' 3>pid &\n"
        "while ! [ -s pid ]; do :; done; echo up; trap 'exit 0' TERM; while :; do sleep .05; done"
    )
    await bench.log_says(request, "up")
    grandchild = int((Path(request.job_dir) / "pid").read_text())
    assert alive(grandchild)
    await bench.cancel(number)
    row = await bench.wait_ended(number)
    assert (row.state, row.reason) == (JobState.CANCELLED, TerminationReason.CANCELLED)
    if bench.stand.tracks:
        assert not alive(grandchild)
    elif alive(grandchild):
        os.kill(grandchild, signal.SIGKILL)


async def test_cancel_a_waiting_job_and_one_that_nobody_knows(bench: Bench) -> None:
    first, _ = await bench.submit("sleep 60", resources=bench.stand.all_resources)
    await bench.running(first)
    second, request = await bench.submit("echo never")
    await bench.cancel(second)
    row = await bench.wait_ended(second)
    assert (row.state, row.started_at) == (JobState.CANCELLED, None)
    assert bench.log(request) == ""
    for unknown in ("99", "99_3", f"{second}_1", "", "; rm", "1" * 400, second):
        await bench.scheduler.cancel(bench.run(second).model_copy(update={"scheduler_id": unknown}))
    assert (await bench.rows(first))[0].state.is_active


async def test_a_running_job_gets_more_time(bench: Bench) -> None:
    number, request = await bench.submit(
        "echo up; while ! [ -e done ]; do sleep .02; done; echo bye"
    )
    await bench.log_says(request, "up")
    await bench.extend(number, 120)
    assert (await bench.running(number)).time_limit_s == 120
    (Path(request.job_dir) / "done").touch()
    assert (await bench.wait_ended(number)).state is JobState.COMPLETED
    with pytest.raises(SchedulerRejected, match="does not run"):
        await bench.extend(number, 180)


async def test_an_extension_into_the_past_is_refused(bench: Bench) -> None:
    number, request = await bench.submit("echo up; sleep 60")
    await bench.log_says(request, "up")
    await bench.running(number)
    with pytest.raises(SchedulerRejected, match="past"):
        await bench.extend(number, 0)


async def test_an_array_has_a_row_and_a_log_per_task(bench: Bench) -> None:
    number, request = await bench.submit(
        "echo $SLURM_ARRAY_JOB_ID $SLURM_ARRAY_TASK_ID; exit $((SLURM_ARRAY_TASK_ID % 2))",
        array="1-3,7",
    )
    rows = await bench.until(number, lambda rows: all(row.state.is_terminal for row in rows))
    assert [row.scheduler_id for row in rows] == [f"{number}_{i}" for i in (1, 2, 3, 7)]
    assert [row.array_task_id for row in rows] == [1, 2, 3, 7]
    assert [row.exit_code for row in rows] == [1, 0, 1, 1]
    assert {row.job_id for row in rows} == {request.job_id}
    assert [bench.log(request, i) for i in (1, 2, 3, 7)] == [
        f"{number} {i}\n" for i in (1, 2, 3, 7)
    ]
    following, _ = await bench.submit("true")
    assert following not in {row.scheduler_id for row in rows}


async def test_an_arrays_throttle_and_the_end_of_one_task(bench: Bench) -> None:
    number, request = await bench.submit("echo up; sleep 60", array="0-2%1")
    await bench.log_says(request, "up", 0)
    rows = await bench.rows(number)
    assert [row.state for row in rows][1:] == [JobState.QUEUED] * 2
    assert all((row.pending_reason or "").startswith("Waits for its array") for row in rows[1:])
    await bench.cancel(f"{number}_0")
    states = [JobState.CANCELLED, JobState.RUNNING, JobState.QUEUED]
    await bench.until(number, lambda rows: [row.state for row in rows] == states)
    await bench.scheduler.throttle(bench.run(number), 2)
    await bench.until(number, lambda rows: rows[2].state is JobState.RUNNING)
    await bench.cancel(number)
    rows = await bench.until(number, lambda rows: all(row.state.is_terminal for row in rows))
    assert {row.state for row in rows} == {JobState.CANCELLED}


async def test_after_waits_for_success(bench: Bench) -> None:
    first, one = await bench.submit("while ! [ -e go ]; do sleep .02; done; echo one")
    second, _ = await bench.submit("test -e ../../*/1/go", after=(first,))
    assert (await bench.rows(second))[0].pending_reason == f"Waits for job {first} to complete."
    third, _ = await bench.submit("exit 1", after=(second,))
    fourth, request = await bench.submit("echo no", after=(first, third))
    (Path(one.job_dir) / "go").touch()
    assert (await bench.wait_ended(second)).state is JobState.COMPLETED
    row = await bench.wait_ended(fourth)
    assert (row.state, row.reason) == (JobState.CANCELLED, TerminationReason.DEPENDENCY_FAILED)
    assert bench.log(request) == ""


@pytest.mark.parametrize("ok", [True, False])
async def test_dependencies_are_satisfied_by_their_kind_of_end(bench: Bench, ok: bool) -> None:
    first, _ = await bench.submit("sleep 60" if not ok else "sleep 0.5; true")
    kinds = ("after", "afterany", "afternotok")
    numbers = [(await bench.submit("true", **{kind: (first,)}))[0] for kind in kinds]
    if not ok:
        await bench.running(first)
        await bench.cancel(first)
    states = [(await bench.wait_ended(number)).state for number in numbers]
    done, never = JobState.COMPLETED, JobState.CANCELLED
    assert states == ([done, done, never] if ok else [never, done, done])


async def test_task_starts_after_the_corresponding_task(bench: Bench) -> None:
    first, _ = await bench.submit('test "$SLURM_ARRAY_TASK_ID" = 1', array="0-1")
    second, _ = await bench.submit("true", array="0-1", aftercorr=(first,))
    rows = await bench.until(second, lambda rows: all(row.state.is_terminal for row in rows))
    assert [row.state for row in rows] == [JobState.CANCELLED, JobState.COMPLETED]


async def test_job_waits_for_its_time_and_for_its_release(bench: Bench) -> None:
    begin_at = datetime.now(UTC) + timedelta(seconds=4)
    early, _ = await bench.submit("true", begin_at=begin_at)
    held, _ = await bench.submit("true", hold=True)
    array, _ = await bench.submit("true", array="0-1")
    waits, _ = await bench.submit("true", begin_at=datetime.now(UTC) + timedelta(hours=1))
    for number in (held, waits):
        [row] = await bench.until(number, lambda rows: bool(rows[0].pending_reason))
        assert row.state is JobState.QUEUED
    await bench.until(array, lambda rows: all(row.state.is_terminal for row in rows))
    with pytest.raises(SchedulerRejected):
        await bench.scheduler.hold(bench.run(array))
    ended = await bench.wait_ended(early)
    assert ended.started_at is not None
    assert ended.started_at >= begin_at - timedelta(seconds=1)
    assert [row.state for row in await bench.rows(held)] == [JobState.QUEUED]
    await bench.scheduler.hold(bench.run(held))
    await bench.scheduler.release(bench.run(held))
    assert (await bench.wait_ended(held)).state is JobState.COMPLETED
    await bench.cancel(waits)


async def test_find_by_uuid_and_attempt(bench: Bench) -> None:
    number, request = await bench.submit("true")
    again, _ = await bench.submit("true", job_id=request.job_id, attempt=2)
    await bench.wait_ended(again)
    assert [r.scheduler_id for r in await bench.find(request.job_id, 1)] == [number]
    assert [r.scheduler_id for r in await bench.find(request.job_id, 2)] == [again]
    assert not await bench.find(uuid4(), 1)


async def test_nodes_show_what_is_in_use(bench: Bench) -> None:
    stand = bench.stand
    all_idle = [NodeState.IDLE] * len(stand.nodes)
    await bench.nodes_until(lambda nodes: [node.state for node in nodes] == all_idle)
    number, request = await bench.submit(
        "echo up; sleep 60", resources={"cpu": stand.cpus, "gpu": {"count": 1, "type": None}}
    )
    await bench.log_says(request, "up")
    nodes = await bench.nodes_until(lambda nodes: nodes[0].state is NodeState.ALLOCATED)
    first, second = nodes[:2]
    assert second.state is NodeState.IDLE
    assert (first.cpu_used, first.cpu_total) == (stand.cpus, stand.cpus)
    assert first.memory_used_bytes == 1 << 28
    assert first.memory_total_bytes == stand.memory_bytes
    expected = [(stand.gpu_type, stand.gpus, 1)]
    assert [(gpu.type, gpu.total, gpu.used) for gpu in first.gpus] == expected
    await bench.cancel(number)
    await bench.wait_ended(number)
    await bench.nodes_until(lambda nodes: [node.state for node in nodes] == all_idle)


async def test_running_and_ended_jobs_outlive_a_restart(bench: Bench) -> None:
    over, _ = await bench.submit("exit 5")
    await bench.wait_ended(over)
    array, tasks = await bench.submit("echo up; sleep 60", array="0-1")
    number, request = await bench.submit("echo up; while ! [ -e go ]; do sleep .02; done; exit 3")
    waiting, later = await bench.submit("echo later", resources=bench.stand.all_resources)
    await bench.log_says(request, "up")
    for task in (0, 1):
        await bench.log_says(tasks, "up", task)
    await bench.restart()
    assert (await bench.rows(over))[0].exit_code == 5
    assert {row.state for row in await bench.rows(array)} == {JobState.RUNNING}
    assert (await bench.rows(waiting))[0].state is JobState.QUEUED
    await bench.nodes_until(lambda nodes: sum(node.cpu_used for node in nodes) == 3)
    (Path(request.job_dir) / "go").touch()
    assert (await bench.wait_ended(number)).exit_code == 3
    await bench.cancel(array)
    assert (await bench.wait_ended(waiting)).state is JobState.COMPLETED
    assert bench.log(later) == "later\n"
    new, _ = await bench.submit("true")
    assert int(new) > int(waiting)


async def test_exit_code_of_job_ended_during_outage_is_known_after_restart(bench: Bench) -> None:
    number, request = await bench.submit("echo up; while ! [ -e go ]; do sleep .02; done; exit 3")
    await bench.log_says(request, "up")
    await bench.scheduler.close()
    (Path(request.job_dir) / "go").touch()
    async with asyncio.timeout(bench.stand.patience_s):
        while any(
            str(request.job_id).encode() in path.read_bytes()
            for path in Path("/proc").glob("[0-9]*/environ")
            if _readable(path)
        ):
            await asyncio.sleep(0.02)
    await bench.restart()
    assert (await bench.wait_ended(number)).exit_code == 3


def _readable(path: Path) -> bool:
    try:
        path.read_bytes()
    except OSError:
        return False
    return True


async def test_rows_survive_json(bench: Bench) -> None:
    number, _ = await bench.submit("true")
    row = await bench.wait_ended(number)
    assert type(row).model_validate(json.loads(row.model_dump_json())) == row


async def test_no_task_of_a_cancelled_array_starts_meanwhile(bench: Bench, tmp_path: Path) -> None:
    """With the platform's one order for all of its tasks."""
    fit, wants = len(bench.stand.nodes), {"cpu": bench.stand.cpus}
    number, request = await bench.submit("echo up; sleep 60", array="0-99", resources=wants)
    await bench.until(number, lambda rows: sum(r.state is JobState.RUNNING for r in rows) == fit)
    facts = {"id": request.job_id, "account": request.account, "state": JobState.QUEUED}
    array, tasks = make_array("0-99", **facts)
    store = Store(f"sqlite:///{tmp_path}/orders.db")
    await store.start()
    try:
        leader = Leader(store, "test")
        await leader.acquire()
        array = array.model_copy(update={"scheduler_id": number})
        await store.create_job(array, tasks)
        [submit] = await store.lease_outbox_items(epoch=leader.epoch, limit=9, lease_s=60)
        await store.finish_outbox_items(submit.id, epoch=leader.epoch)
        await store.request_cancel(array.id, datetime.now(UTC))
        assert (await store.get_outbox_depth())[0] == 1, "one order"
        await OutboxActions(
            store, bench.scheduler, leader, lambda: datetime.now(UTC)
        ).process_due_items()
    finally:
        await store.close()
    rows = await bench.until(number, lambda rows: all(row.state.is_terminal for row in rows))
    assert {row.state for row in rows} == {JobState.CANCELLED}
    assert [row.array_task_id for row in rows if row.started_at] == list(range(fit))
    assert len(list(Path(request.job_dir).glob("output-*.log"))) == fit
