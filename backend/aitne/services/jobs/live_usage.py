"""Resource usage of live jobs, as their agents last reported it.

It is kept in memory for the metrics: the reports arrive in this process, so a scrape reads no
database. After a restart of the process a job is missing until its agent's next report.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from aitne.core.jobs.agent_protocol import AgentSample
from aitne.core.models.job import Job

MOST_JOBS = 10_000
"""Maximum number of jobs whose usage is kept; further jobs are only counted."""
MOST_GPUS_PER_NODE = 64
_MOST = 1e18
"""Upper bound of all numbers, which the job's own program could send."""
_STALE_AFTER_S = 300.0
_MISSED_REPORTS = 3
"""Number of reports that an agent may miss before its job is left out: a report says how the job
is, not how it was.
"""


@dataclass(frozen=True, slots=True)
class LiveJobUsage:
    """Resource usage of one live job on all its nodes. None: not measured."""

    jobid: str
    """ID of the job in the scheduler."""
    cpus_allocated: int
    memory_allocated_bytes: int
    gpus_allocated: int
    cpus: float
    memory_bytes: int
    processes: int
    gpu_utilization: float | None
    gpu_memory_bytes: float | None
    gpu_power_w: float | None
    gpu_energy_j: float | None
    read_bytes: int | None
    written_bytes: int | None
    communication: float | None
    """Share of the training steps in which a collective ran."""


@dataclass(slots=True)
class _Entry:
    job: Job
    nodes: dict[str, AgentSample] = field(default_factory=dict)
    reported_at: float = 0.0
    between_s: float = 0.0
    communication: float | None = None
    usage: LiveJobUsage | None = None

    def stale(self, now: float) -> bool:
        return now - self.reported_at > max(_STALE_AFTER_S, _MISSED_REPORTS * self.between_s)


class LiveUsage:
    """Registry of the resource usage of live jobs."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._jobs: dict[UUID, _Entry] = {}
        self._left_out: dict[UUID, float] = {}
        self._ecc_errors: dict[tuple[str, int], int] = {}

    @property
    def left_out(self) -> int:
        """Return the number of jobs whose agents report, and which have no usage here because there
        are too many.
        """
        return len(self._left_out)

    def note(self, job: Job, samples: Sequence[AgentSample]) -> None:
        """Store the newest sample of each node of the job; ``job`` is its present row."""
        now = self._clock()
        entry = self._jobs.get(job.id)
        if entry is None:
            if len(self._jobs) >= MOST_JOBS:
                self._forget_stale(now)
            if len(self._jobs) >= MOST_JOBS:
                # A bound for this too: its number matters, and no longer grows from there on.
                if len(self._left_out) < 10 * MOST_JOBS:
                    self._left_out[job.id] = now
                return
            entry = self._jobs[job.id] = _Entry(job, reported_at=now)
        self._left_out.pop(job.id, None)
        if entry.job.attempt != job.attempt or entry.job.restart_count != job.restart_count:
            entry.nodes, entry.communication = {}, None
        entry.job, entry.usage = job, None
        entry.between_s, entry.reported_at = now - entry.reported_at, now
        for sample in samples:
            # The job's own program could name any node in a report.
            if sample.node in job.nodes:
                entry.nodes[sample.node] = sample
                self._note_errors(sample)

    def note_communication(self, job_id: UUID, share: float | None) -> None:
        """Store the share of the training steps in which a collective ran."""
        entry = self._jobs.get(job_id)
        if entry is not None:
            entry.communication, entry.usage = share, None

    def forget(self, job_ids: Iterable[UUID]) -> None:
        """Remove the usage of jobs that have ended."""
        for job_id in job_ids:
            self._jobs.pop(job_id, None)
            self._left_out.pop(job_id, None)

    def usages(self) -> Sequence[LiveJobUsage]:
        """Return the usage of each live job whose agent still reports."""
        self._forget_stale(self._clock())
        found = []
        for entry in self._jobs.values():
            if entry.usage is None:
                entry.usage = _usage(entry)
            if entry.usage is not None:
                found.append(entry.usage)
        return found

    def ecc_errors(self) -> Mapping[tuple[str, int], int]:
        """Return the uncorrected ECC errors of each GPU, by node and index, as the last job on it
        reported.
        """
        return self._ecc_errors

    def _note_errors(self, sample: AgentSample) -> None:
        for gpu in sample.gpu:
            match gpu:
                case {"index": int(index), "ecc_errors": int(errors)} if (
                    0 <= index < MOST_GPUS_PER_NODE and errors >= 0
                ):
                    self._ecc_errors[sample.node, index] = min(errors, 1 << 62)

    def _forget_stale(self, now: float) -> None:
        stale = [job_id for job_id, entry in self._jobs.items() if entry.stale(now)]
        stale += [job_id for job_id, at in self._left_out.items() if now - at > _STALE_AFTER_S]
        self.forget(stale)


def _usage(entry: _Entry) -> LiveJobUsage | None:
    job, samples = entry.job, [*entry.nodes.values()]
    if job.scheduler_id is None or not samples:
        return None
    resources = job.spec.resources
    utilizations = _numbers(samples, "utilization")
    return LiveJobUsage(
        jobid=job.scheduler_id,
        cpus_allocated=resources.nodes * resources.cpu,
        memory_allocated_bytes=resources.nodes * resources.memory_bytes,
        gpus_allocated=resources.nodes * resources.gpu.count,
        cpus=min(_MOST, sum(sample.cpu for sample in samples)),
        memory_bytes=sum(sample.memory_bytes for sample in samples),
        processes=sum(sample.processes for sample in samples),
        gpu_utilization=sum(utilizations) / len(utilizations) if utilizations else None,
        gpu_memory_bytes=_sum(_numbers(samples, "memory_bytes")),
        gpu_power_w=_sum(_numbers(samples, "power_w")),
        gpu_energy_j=_sum(_numbers(samples, "energy_j")),
        read_bytes=_total([sample.read_bytes for sample in samples]),
        written_bytes=_total([sample.written_bytes for sample in samples]),
        communication=entry.communication,
    )


def _numbers(samples: Iterable[AgentSample], name: str) -> list[float]:
    """Return the numbers that the GPUs report under ``name``; other values are ignored, since the
    job's own program could send them.
    """
    values = (gpu.get(name) for sample in samples for gpu in sample.gpu[:MOST_GPUS_PER_NODE])
    return [
        float(value)
        for value in values
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < _MOST
    ]


def _sum(numbers: Sequence[float]) -> float | None:
    return sum(numbers) if numbers else None


def _total(counts: Sequence[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if known else None
