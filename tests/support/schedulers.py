"""The schedulers that can run on this machine, each behind the same small bench."""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

from aitne.adapters.schedulers.local import LocalScheduler
from aitne.core.layout import job_dir, log_name
from aitne.core.models.node import Node
from aitne.core.models.resources import Resources
from aitne.core.ports.scheduler import Run, Scheduler, SchedulerJob, SubmitRequest
from aitne.core.settings import LocalSettings, load_settings
from aitne.core.states import JobState

MEMORY = 4 << 30
Factory = Callable[[Path], Scheduler]


def local(data_dir: Path) -> Scheduler:
    """Two pretended nodes with 2 CPUs, 4 GiB and 2 GPUs each."""
    settings = load_settings(
        data_dir, local=LocalSettings(nodes=2, cpus=2, memory=MEMORY, gpus="a100:2")
    )
    return LocalScheduler(settings, grace_s=1.0)


SCHEDULERS: dict[str, Factory] = {"local": local}


class Bench:
    """A started scheduler and what tests do with it."""

    def __init__(self, factory: Factory, data_dir: Path) -> None:
        self._factory = factory
        self.data_dir = data_dir
        self.scheduler = factory(data_dir)
        self._submitted: dict[str, SubmitRequest] = {}

    async def restart(self) -> None:
        """Drop the scheduler and make a new one, as a restart of the platform does."""
        await self.scheduler.close()
        self.scheduler = self._factory(self.data_dir)
        await self.scheduler.start()

    def request(self, script: str, **changes: Any) -> SubmitRequest:
        """A small job."""
        job_id = changes.pop("job_id", None) or uuid4()
        wants = {"nodes": 1, "cpu": 1, "memory_bytes": 1 << 28} | changes.pop("resources", {})
        facts: dict[str, Any] = {
            "job_id": job_id,
            "attempt": 1,
            "owner": "ada",
            "project": "engines",
            "name": "test",
            "script": f"#!/bin/bash\n{script}\n",
            "job_dir": str(job_dir(self.data_dir / "jobs", job_id, changes.get("attempt", 1))),
            "resources": Resources(**wants),
            "time_limit_s": 60,
        }
        return SubmitRequest(**(facts | changes))

    async def submit(self, script: str, **changes: Any) -> tuple[str, SubmitRequest]:
        """Submit; id and request."""
        request = self.request(script, **changes)
        scheduler_id = await self.scheduler.submit(request)
        self._submitted[scheduler_id] = request
        return scheduler_id, request

    def run(self, scheduler_id: str) -> Run:
        """What was submitted here under that id, or one task of it."""
        request = self._submitted[scheduler_id.partition("_")[0]]
        return Run(
            job_id=request.job_id,
            attempt=request.attempt,
            account=request.account,
            scheduler_id=scheduler_id,
        )

    async def cancel(self, scheduler_id: str) -> None:
        """End what was submitted here."""
        await self.scheduler.cancel(self.run(scheduler_id))

    async def extend(self, scheduler_id: str, time_limit_s: int) -> None:
        """Give what was submitted here another time limit."""
        await self.scheduler.extend(self.run(scheduler_id), time_limit_s)

    async def find(self, job_id: UUID, attempt: int = 1) -> Sequence[SchedulerJob]:
        """All that the scheduler holds for one attempt."""
        return await self.scheduler.find([Run(job_id=job_id, attempt=attempt)])

    async def nodes(self) -> Sequence[Node]:
        """The nodes as they are now."""
        return (await self.scheduler.cluster()).nodes

    async def rows(self, scheduler_id: str) -> list[SchedulerJob]:
        """What the poll says of a job and its tasks."""
        return [
            row
            for row in await self.scheduler.poll()
            if row.scheduler_id.partition("_")[0] == scheduler_id
        ]

    async def until(
        self, scheduler_id: str, ok: Callable[[list[SchedulerJob]], bool], timeout_s: float = 10
    ) -> list[SchedulerJob]:
        """Poll at every change until ``ok``."""
        async with asyncio.timeout(timeout_s):
            while not ok(rows := await self.rows(scheduler_id)):
                await self.scheduler.changed()
        return rows

    async def ended(self, scheduler_id: str, timeout_s: float = 10) -> SchedulerJob:
        """The one row of a job once it has ended."""
        rows = await self.until(
            scheduler_id, lambda rows: all(row.state.terminal for row in rows), timeout_s
        )
        return rows[0]

    async def running(self, scheduler_id: str) -> SchedulerJob:
        """The row of a job once it runs."""
        return (
            await self.until(
                scheduler_id, lambda rows: all(row.state is JobState.RUNNING for row in rows)
            )
        )[0]

    def log(self, request: SubmitRequest, task: int | None = None) -> str:
        """What the job wrote."""
        path = Path(request.job_dir) / log_name(task)
        return path.read_text() if path.exists() else ""

    async def log_says(self, request: SubmitRequest, text: str, task: int | None = None) -> str:
        """The log once ``text`` is in it."""
        async with asyncio.timeout(10):
            while text not in (log := self.log(request, task)):
                await asyncio.sleep(0.01)
        return log


@asynccontextmanager
async def opened(factory: Factory, data_dir: Path) -> AsyncIterator[Bench]:
    """A started scheduler; in the end its jobs are ended and it is closed."""
    bench = Bench(factory, data_dir)
    await bench.scheduler.start()
    yield bench
    for row in await bench.scheduler.poll():
        await bench.scheduler.cancel(
            Run(
                job_id=row.job_id,
                attempt=row.attempt,
                account=row.account,
                scheduler_id=row.scheduler_id,
            )
        )
    async with asyncio.timeout(20):
        while not all(row.state.terminal for row in await bench.scheduler.poll()):
            await bench.scheduler.changed()
    await bench.scheduler.close()


def alive(pid: int) -> bool:
    """Whether a process runs (a zombie does not)."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


def mode(path: Path) -> int:
    return stat.S_IMODE(os.stat(path).st_mode)
