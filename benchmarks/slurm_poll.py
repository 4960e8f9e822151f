"""Time of a poll of a long queue, compared with the bare squeue that it runs."""

from __future__ import annotations

import asyncio
import resource
import subprocess
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from uuid import UUID, uuid4

from sqlalchemy import insert

from aitne.adapters.broker_scheduler import BrokerFiles, BrokerScheduler
from aitne.adapters.command.local import LocalCommand
from aitne.adapters.job_files import OwnFiles
from aitne.adapters.schedulers._slurm import squeue_parser
from aitne.adapters.schedulers.slurm_cli import SlurmCliScheduler
from aitne.adapters.unix_account_mapping import UnixAccounts
from aitne.core.jobs.states import JobState
from aitne.core.models.job import Job, JobSpec, JobType
from aitne.core.ports.job_files import JobLocation
from aitne.core.ports.scheduler_dependencies import Tools
from aitne.core.settings import Settings
from aitne.local_system.settings_loader import load_settings
from aitne.services.controller.controller_counters import ControllerCounters
from aitne.services.controller.leader import Leader
from aitne.services.controller.live_jobs import LiveJobs
from aitne.services.controller.poller import Poller
from aitne.services.controller.restored_jobs import RestoredJobs
from aitne.store import Store, tables
from aitne.store.rows import row_of
from benchmarks.figures import Figure, Row
from benchmarks.processes import BenchmarkError
from benchmarks.slurm import USER, Slurm, cluster
from benchmarks.slurm_raw import Raw, spread
from benchmarks.stats import Estimate, median, median_ratio

NAME = "slurm_poll"
JOBS = 10_000
CHANGED = 100
TARGET = 1.3
FOREIGN_ARRAYS, FOREIGN_TASKS = 20, 10_000
FEW_JOBS = 100
FOREIGN_TARGET_PERCENT = 5.0
_FRESH_S = 0.55
"""The broker gives the same answer twice within half a second."""

Poll = Callable[[], Awaitable[object]]


class _LookingOn(LocalCommand):
    """Slurm commands as the broker runs them: for the jobs of all users."""

    alone = False


@dataclass(frozen=True, slots=True)
class Way:
    """Something that polls, and whether its answers are the broker's."""

    name: str
    poll: Poll
    by_broker: bool
    target: float | None


def measure(*, quick: bool) -> Figure:
    """Measure each way and the bare command in turn, with a static queue and with a changing one."""
    jobs, rounds = (2_000, 8) if quick else (JOBS, 40)
    with cluster() as slurm, TemporaryDirectory(prefix="aitne-bench-") as folder:
        settings = load_settings(
            Path(folder), scheduler="slurm", slurm={"dev_cluster": slurm.about.name}
        )
        fill(slurm, FEW_JOBS)
        foreign = asyncio.run(_beside_foreign_arrays(slurm, settings, rounds))
        slurm.cancel_all()
        ids = fill(slurm, jobs)
        rows = [*foreign, *asyncio.run(_compare(slurm, settings, ids, rounds))]
        release = slurm.about.slurm_release
    return Figure(
        NAME,
        f"A poll with {jobs} jobs queued over the bare squeue",
        rows,
        [
            f"{jobs} jobs queued, Slurm {release}. Bare: `squeue --noheader --states=all` with the very same "
            "`--Format`, its output read and thrown away.",
            f"Beside array tasks of others: {FOREIGN_ARRAYS} arrays of {FOREIGN_TASKS} waiting tasks each, submitted by "
            f"another user with sbatch, and {FEW_JOBS} jobs of the platform. User and kernel time of the adapter and of "
            "squeue, a poll every `poll_interval_s`.",
            f"Unchanged: nothing differs from the poll before. Changed: {jobs * CHANGED // JOBS} jobs "
            "were put on hold or released since.",
            "Adapter: `SlurmCliScheduler.poll`. Through the broker: the same adapter in the broker's "
            "process. Controller: `Poller.poll` on top of that, with every job in its database; where "
            "jobs have changed it writes their rows and looks at the nodes too.",
        ],
    )


def fill(slurm: Slurm, jobs: int) -> Sequence[UUID]:
    """Queue so many of ours, each by itself; the ids that they carry."""
    ids = [uuid4() for _ in range(jobs)]
    left = iter(ids)
    raw = Raw(slurm)
    spread(jobs, lambda: raw.rest(lambda: next(left)))
    return ids


async def _beside_foreign_arrays(slurm: Slurm, settings: Settings, rounds: int) -> list[Row]:
    """Return the CPU use of polls beside large arrays that other users have submitted by sbatch."""
    user = next(user for user in slurm.about.users if user.name != USER)
    array = ("sbatch", f"--account={user.account}", f"--array=0-{FOREIGN_TASKS - 1}", "--mem=64M")
    for _ in range(FOREIGN_ARRAYS):
        slurm.run_as(user.name, (*array, "--chdir=/tmp", "--output=/dev/null"), "#!/bin/sh\ntrue\n")
    adapter = SlurmCliScheduler(settings, Tools(_LookingOn(), OwnFiles()))
    await adapter.start()
    shares: list[float] = []
    for number in range(rounds + 1):
        before = _cpu_seconds()
        jobs = await adapter.poll()
        if len(jobs) != FEW_JOBS:
            raise BenchmarkError(f"the poll shows {len(jobs)} of {FEW_JOBS} jobs")
        if number:
            shares.append((_cpu_seconds() - before) / settings.poll_interval_s * 100)
    slurm.run("scancel", f"--user={user.name}")
    tasks = FOREIGN_ARRAYS * FOREIGN_TASKS
    what = f"polls beside {tasks} array tasks of others, of one CPU"
    return [Row(what, "%", median(shares), FOREIGN_TARGET_PERCENT)]


def _cpu_seconds() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


async def _compare(slurm: Slurm, settings: Settings, ids: Sequence[UUID], rounds: int) -> list[Row]:
    adapter = SlurmCliScheduler(settings, Tools(_LookingOn(), OwnFiles()))
    async with AsyncExitStack() as stack:
        await adapter.start()
        found = await adapter.poll()
        if len(found) < len(ids):
            raise BenchmarkError(f"squeue shows {len(found)} of {len(ids)} jobs")
        numbers = [job.scheduler_id for job in found if job.state is JobState.QUEUED]
        broker = await stack.enter_async_context(_broker(settings))
        beside = await stack.enter_async_context(_broker(settings))
        poller = await stack.enter_async_context(_poller(settings, beside, ids))
        ways = [
            Way("adapter", adapter.poll, by_broker=False, target=TARGET),
            Way("through the broker", broker.poll, by_broker=True, target=TARGET),
            Way("controller", poller.poll, by_broker=True, target=None),
        ]
        change = _changes(slurm, numbers)
        bare: list[float] = []
        rows: list[Row] = []
        for moving in (False, True):
            for way in ways:
                pairs = await _pairs(way, slurm, change if moving else None, rounds)
                bare += [each for _, each in pairs]
                what = f"{way.name}, {'1 % changed' if moving else 'unchanged'}"
                rows.append(Row(f"{what}: over squeue", "x", median_ratio(pairs), way.target))
                rows.append(Row(what, "ms", _ms([mine for mine, _ in pairs])))
        return [*rows, Row("bare squeue", "ms", _ms(bare))]


async def _pairs(
    way: Way, slurm: Slurm, change: Iterator[None] | None, rounds: int
) -> list[tuple[float, float]]:
    argv = bare_squeue()

    async def bare() -> None:
        await asyncio.to_thread(
            subprocess.run, argv, check=True, capture_output=True, env=slurm.environment
        )

    found = []
    for _ in range(3):
        await way.poll()
    for number in range(rounds):
        if change is not None:
            await asyncio.to_thread(next, change)
        if way.by_broker:
            await asyncio.sleep(_FRESH_S)
        if number % 2:
            mine = await _timed(way.poll)
            found.append((mine, await _timed(bare)))
        else:
            theirs = await _timed(bare)
            found.append((await _timed(way.poll), theirs))
    return found


def bare_squeue() -> list[str]:
    """Return the `squeue` command of a poll."""
    form = squeue_parser.format_option(squeue_parser.FIELDS, squeue_parser.new_mark())
    return ["squeue", "--noheader", "--states=all", f"--Format={form}"]


def _changes(slurm: Slurm, numbers: Sequence[str]) -> Iterator[None]:
    """Change the queue at each step: hold one job of a hundred, or release the held ones."""
    some = max(1, len(numbers) * CHANGED // JOBS)
    while True:
        for start in range(0, len(numbers) - some, some):
            chosen = ",".join(numbers[start : start + some])
            for verb in ("hold", "release"):
                slurm.run("scontrol", verb, chosen)
                yield


async def _timed(work: Poll) -> float:
    began = time.perf_counter()
    await work()
    return time.perf_counter() - began


@asynccontextmanager
async def _broker(settings: Settings) -> AsyncIterator[BrokerScheduler]:
    scheduler = BrokerScheduler(settings)
    try:
        await scheduler.start()
        yield scheduler
    finally:
        await scheduler.close()


@asynccontextmanager
async def _poller(
    settings: Settings, scheduler: BrokerScheduler, ids: Sequence[UUID]
) -> AsyncIterator[Poller]:
    """Run a controller's poller whose database has every job as submitted."""
    accounts = UnixAccounts(settings)
    folder = accounts.get_account(USER).folder
    store, files = Store(settings.database_url), BrokerFiles(settings)
    await store.start()
    try:
        found = {job.job_id: job.scheduler_id for job in await scheduler.poll()}
        rows = [row_of(_job(job_id, found[job_id], f"{folder}/{job_id}")) for job_id in ids]
        async with store._db.raw_write() as connection:
            await connection.execute(insert(tables.jobs), rows)
        leader = Leader(store, NAME)
        await leader.acquire()
        live = LiveJobs(store)
        await live.load()
        before = await store.get_last_event_id()

        def place(job: Job) -> JobLocation:
            return JobLocation(
                job_id=job.id, attempt=job.attempt, folder=str(job.folder), account=USER
            )

        restored = RestoredJobs(store)
        yield Poller(
            store, scheduler, files, place, leader, _now, ControllerCounters(), live, restored
        )
        if await store.get_last_event_id() - before < len(ids):
            raise BenchmarkError("the controller's polls have changed too little")
    finally:
        await files.close()
        await store.close()


def _job(job_id: UUID, scheduler_id: str, folder: str) -> Job:
    return Job(
        id=job_id,
        owner=USER,
        account=USER,
        folder=folder,
        project=USER,
        type=JobType.JOB,
        name="benchmark",
        spec=JobSpec(type=JobType.JOB, name="benchmark", project=USER, commands=("true",)),
        state=JobState.QUEUED,
        scheduler_id=scheduler_id,
        created_at=_now(),
        submitted_at=_now(),
    )


def _now() -> datetime:
    return datetime.now(UTC)


def _ms(seconds: Sequence[float]) -> Estimate:
    return median([each * 1e3 for each in seconds])
