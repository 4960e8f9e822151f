"""The embedded scheduler in the broker: jobs of anna and ben, who are strangers to each other and to root."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from aitne.adapters.area_folders import check_only_root_writes
from aitne.adapters.broker_scheduler import BrokerScheduler
from aitne.adapters.schedulers._local import runner_launcher
from aitne.core.errors import NotAllowed, SchedulerRejected, SetupError
from aitne.core.jobs.job_folder_layout import log_file_name
from aitne.core.jobs.states import JobState, TerminationReason
from aitne.core.models.limits import HeldLimit, HeldLimits, Limits
from aitne.core.ports.scheduler import Run, SchedulerJob, SubmitRequest
from tests.support import realtime
from tests.support.accounts import AccountsBench, accounts_bench
from tests.support.alive import alive
from tests.support.broker import as_uid
from tests.support.schedulers import POLL_S

pytestmark = realtime.PROCESSES

PATIENCE_S = 60.0
SECRET = b"a word that only anna may read"


@pytest.fixture(scope="module")
def bench() -> Iterator[AccountsBench]:
    with accounts_bench() as bench:
        yield bench


@pytest.fixture
async def scheduler(bench: AccountsBench) -> AsyncIterator[BrokerScheduler]:
    found = bench.scheduler()
    await found.start()
    yield found
    for job in await found.poll():
        if not job.state.is_terminal:
            await found.cancel(
                Run(
                    job_id=job.job_id,
                    attempt=job.attempt,
                    account=job.account,
                    scheduler_id=job.scheduler_id,
                )
            )
    await found.close()


def job_of(bench: AccountsBench, user: str, script: str, **changes: Any) -> SubmitRequest:
    request = bench.request(user, script=f"#!/bin/bash\n{script}\n", **changes)
    small = request.resources.model_copy(update={"memory_bytes": 200 << 20})
    return request.model_copy(update={"resources": small})


def run_of(request: SubmitRequest, scheduler_id: str) -> Run:
    return Run(job_id=request.job_id, attempt=1, account=request.account, scheduler_id=scheduler_id)


async def seen(scheduler: BrokerScheduler, number: str, *states: JobState) -> SchedulerJob:
    """Wait until the job is in one of the states, or has ended; return its record."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            for row in await scheduler.poll():
                ended = not states and row.state.is_terminal
                if row.scheduler_id == number and (ended or row.state in states):
                    return row
            await asyncio.sleep(POLL_S)


async def log_says(request: SubmitRequest, text: str) -> str:
    path = Path(request.job_dir, log_file_name(None))
    async with asyncio.timeout(PATIENCE_S):
        while not path.exists() or text not in path.read_text():
            await asyncio.sleep(0.02)
    return path.read_text()


def runner_of(bench: AccountsBench, number: str, run: int = 0) -> runner_launcher.ProcessIdentity:
    identity = runner_launcher.read_identity(bench.run_dir(number, run))
    assert identity is not None
    return identity


async def test_job_runs_as_its_user_without_any_right_of_root(
    bench: AccountsBench, scheduler: BrokerScheduler
) -> None:
    look = (
        "id -u; id -g; id -G; echo $HOME $USER $LOGNAME; "
        "grep -E '^(Cap|NoNewPrivs)' /proc/self/status; ls -l /proc/self/fd; "
        "ls /proc/$PPID/fd; env | grep -c '^AITNE_'"
    )
    for user, name in bench.users.items():
        request = job_of(bench, user, look)
        row = await seen(scheduler, await scheduler.submit(request))
        assert (row.state, row.account) == (JobState.COMPLETED, name)
        log = Path(request.job_dir, log_file_name(None))
        assert (log.owner(), log.stat().st_mode & 0o777) == (name, 0o600)
        uid, gid, groups, account, *rest = log.read_text().splitlines()
        assert (uid, gid, groups) == (str(bench.uid(user)), str(bench.gid(user)), gid)
        assert account == f"/home/{name} {name} {name}"
        facts = dict(line.split(":\t") for line in rest if ":\t" in line)
        assert facts.pop("NoNewPrivs") == "1"
        assert set(facts.values()) == {"0000000000000000"}
        opened = {line.rpartition(" -> ")[2] for line in rest if " -> " in line}
        assert {path for path in opened if "/" in path} - {"/dev/null", str(log)} == {
            path for path in opened if path.startswith("/proc/")
        }
        assert "Permission denied" in log.read_text()  # the descriptors of its runner
        assert rest[-1] == "1"


async def test_user_reads_nothing_of_other_users_or_of_the_scheduler(
    bench: AccountsBench, scheduler: BrokerScheduler
) -> None:
    request = job_of(bench, "anna", "echo up; sleep 300", files={"token": SECRET})
    number = await scheduler.submit(request)
    await log_says(request, "up")
    run_dir = bench.run_dir(number)
    leader = runner_of(bench, number).leader
    folder = Path(request.job_dir)
    paths = [
        *(folder, *folder.iterdir(), bench.state, bench.state / "jobs", run_dir),
        *(run_dir / name for name in ("runner.json", "launch.json", "door")),
        *(bench.state / name for name in ("lock", "limits.json")),
        bench.state / "jobs" / number / "job.json",
        *(Path("/proc", str(leader), name) for name in ("environ", "mem", "cwd", "fd")),
        *(Path("/proc", str(runner_of(bench, number).pid), name) for name in ("environ", "fd")),
    ]
    forbidden = [str(path) for path in paths]

    def readable(own: list[str]) -> list[str]:
        return [path for path in forbidden if path not in own and _opens(path)]

    assert as_uid(bench.uid("ben"), lambda: readable([])) == []
    own = [str(path) for path in (folder, *folder.iterdir())]
    own += [f"/proc/{leader}/{name}" for name in ("environ", "mem", "cwd", "fd")]
    assert as_uid(bench.uid("anna"), lambda: readable(own)) == []
    # Not even as arguments of processes, which each user sees.
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            assert SECRET not in path.read_bytes()
        except OSError:
            continue


def _opens(path: str) -> bool:
    try:
        os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK))
    except OSError:
        return False
    return True


async def test_user_cannot_end_or_command_the_runner(
    bench: AccountsBench, scheduler: BrokerScheduler
) -> None:
    request = job_of(bench, "anna", "echo up; sleep 300")
    number = await scheduler.submit(request)
    await log_says(request, "up")
    pid, run_dir = runner_of(bench, number).pid, bench.run_dir(number)

    def attack() -> list[str]:
        done = []
        for sent in (signal.SIGKILL, signal.SIGTERM, signal.SIGSTOP, signal.SIGUSR1):
            try:
                os.kill(pid, sent)
                done.append(f"signal {sent}")
            except PermissionError:
                continue
        for name in ("exit.json", "control.json", "outcome"):
            try:
                Path(run_dir, name).write_text('{"reason": "completed", "exit_code": 0}')
                done.append(name)
            except PermissionError:
                continue
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as door:
            try:
                door.connect(str(run_dir / "door"))
                done.append("door")
            except PermissionError:
                pass
        return done

    assert as_uid(bench.uid("anna"), attack) == []
    assert (await seen(scheduler, number, JobState.RUNNING)).state is JobState.RUNNING

    not_hers = run_of(request, number).model_copy(update={"account": bench.users["ben"]})
    await scheduler.cancel(not_hers)
    for refused in (scheduler.hold(not_hers), scheduler.extend(not_hers, 900)):
        with pytest.raises(SchedulerRejected):
            await refused
    assert not await scheduler.find_records([not_hers])
    assert (await scheduler.find_records([run_of(request, number)]))[0].state is JobState.RUNNING
    await scheduler.extend(run_of(request, number), 900)
    assert (await seen(scheduler, number, JobState.RUNNING)).time_limit_s == 900
    await scheduler.cancel(run_of(request, number))
    assert (await seen(scheduler, number)).state is JobState.CANCELLED


async def test_links_in_job_folder_do_not_make_root_write_elsewhere(
    bench: AccountsBench, scheduler: BrokerScheduler
) -> None:
    victim = bench.root / f"victim-{uuid4().hex}"
    victim.mkdir(mode=0o700)
    target = victim / "file"
    target.write_text("as it was")
    # While the job runs: the runner itself writes to the log why it ends a job.
    request = job_of(
        bench,
        "anna",
        f"echo up; ln -sf {target} output.log; "
        "rm -f *.json; ln -s /etc/shadow exit.json; exec sleep 300",
    )
    number = await scheduler.submit(request)
    async with asyncio.timeout(PATIENCE_S):
        while not Path(request.job_dir, "exit.json").is_symlink():
            await asyncio.sleep(0.02)
    await seen(scheduler, number, JobState.RUNNING)
    await scheduler.cancel(run_of(request, number))
    assert (await seen(scheduler, number)).state is JobState.CANCELLED

    # Before it starts: another place for its log, and for the whole folder.
    for name in ("log", "folder"):
        request = job_of(bench, "anna", "echo ran", hold=True)
        number = await scheduler.submit(request)
        folder = Path(request.job_dir)

        def plant(name: str = name, folder: Path = folder) -> None:
            if name == "log":
                os.symlink(target, folder / log_file_name(None))
            else:
                folder.rename(folder.with_name("moved"))
                os.symlink(victim, folder)

        as_uid(bench.uid("anna"), plant)
        await scheduler.release(run_of(request, number))
        row = await seen(scheduler, number)
        assert (row.state, row.reason) == (JobState.FAILED, TerminationReason.START_FAILED)
        assert row.pending_reason
    assert [path.name for path in victim.iterdir()] == ["file"]
    assert target.read_text() == "as it was"


async def test_limits_of_time_and_memory_end_jobs_that_pretend_to_be_agents(
    bench: AccountsBench, scheduler: BrokerScheduler
) -> None:
    hog = "x = b'x' * (300 << 20); input()"
    memory = job_of(
        bench, "anna", f'exec -a aitne.agent python3 -I -S -c "{hog}" < <(sleep 300); true'
    )
    number = await scheduler.submit(memory)
    row = await seen(scheduler, number)
    assert (row.state, row.reason) == (JobState.OUT_OF_MEMORY, TerminationReason.OUT_OF_MEMORY)
    assert "of memory and may use 200" in await log_says(memory, "aitne:")
    late = job_of(bench, "ben", "echo up; exec sleep 300", time_limit_s=1)
    row = await seen(scheduler, await scheduler.submit(late))
    assert row.state is JobState.TIMED_OUT
    log = Path(late.job_dir, log_file_name(None))
    assert "time limit" in log.read_text()
    assert log.owner() == bench.users["ben"]


async def test_limits_of_projects_are_held_and_forged_ones_refused(
    bench: AccountsBench, scheduler: BrokerScheduler
) -> None:
    limits = HeldLimits(entries=(HeldLimit(project="engines", limits=Limits(max_jobs=0)),))
    usage = await scheduler.set_limits(limits)
    assert usage.find_association("engines") is not None
    with pytest.raises(SchedulerRejected, match="may run no jobs"):
        await scheduler.submit(job_of(bench, "anna", "true"))
    await scheduler.set_limits(HeldLimits())
    row = await seen(scheduler, await scheduler.submit(job_of(bench, "anna", "true")))
    assert row.state is JobState.COMPLETED
    with pytest.raises(SchedulerRejected, match="uid 0"):
        await scheduler.submit(bench.request("anna", account="root"))
    with pytest.raises(NotAllowed):
        await scheduler.cancel(Run(job_id=uuid4(), attempt=1, scheduler_id="1"))


async def test_jobs_outlive_killed_broker_and_none_runs_twice(
    bench: AccountsBench, scheduler: BrokerScheduler
) -> None:
    wait = "echo start $SLURM_RESTART_COUNT; while ! [ -e go ]; do sleep .02; done; exit 3"
    requests = {user: job_of(bench, user, wait) for user in bench.users}
    numbers = {user: await scheduler.submit(request) for user, request in requests.items()}
    lost = job_of(bench, "anna", f"setsid sleep 300 & {wait}", max_requeues=1)
    lost_number = await scheduler.submit(lost)
    waiting = job_of(bench, "ben", "echo ran", afterany=(numbers["ben"],))
    waiting_number = await scheduler.submit(waiting)
    for request in (*requests.values(), lost):
        await log_says(request, "start 0")
    orphan = runner_of(bench, lost_number).leader

    bench.kill()
    os.kill(runner_of(bench, lost_number).pid, signal.SIGKILL)
    for user in bench.users:
        as_uid(bench.uid(user), lambda user=user: Path(requests[user].job_dir, "go").touch())
    bench.start()

    for user, number in numbers.items():
        row = await seen(scheduler, number)
        assert (row.state, row.exit_code, row.restart_count) == (JobState.FAILED, 3, 0)
        assert Path(requests[user].job_dir, log_file_name(None)).read_text() == "start 0\n"
    assert (await seen(scheduler, waiting_number)).state is JobState.COMPLETED
    await log_says(lost, "start 1")
    assert not alive(orphan)
    as_uid(bench.uid("anna"), lambda: Path(lost.job_dir, "go").touch())
    assert (await seen(scheduler, lost_number)).restart_count == 1
    assert json.loads((bench.run_dir(lost_number, 1) / "exit.json").read_text())["exit_code"] == 3


@pytest.mark.parametrize("how", ["owner", "mode", "link", "missing"])
async def test_state_folder_that_others_could_replace_is_refused(
    bench: AccountsBench, how: str
) -> None:
    above = bench.root / f"above-{uuid4().hex}"
    above.mkdir(mode=0o755)
    if how == "owner":
        os.chown(above, bench.uid("anna"), -1)
    elif how == "mode":
        above.chmod(0o775)
    elif how == "link":
        (above / "state").symlink_to(bench.state.parent)
    if how == "missing":
        check_only_root_writes(above / "state" / "local")
        return
    with pytest.raises(SetupError, match=r"could replace|is a link"):
        check_only_root_writes(above / "state" / "local")
