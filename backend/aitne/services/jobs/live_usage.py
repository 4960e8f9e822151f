"""Resource usage of live jobs, as their agents last reported it.

It is kept in memory for the metrics: the reports arrive in this process, so a scrape reads no
database. After a restart of the process a job is missing until its agent's next report.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple
from uuid import UUID

from aitne.core.jobs.agent_protocol import AgentSample
from aitne.core.jobs.usage_sample_values import SAMPLE_VALUES, SampleValue
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
    values: tuple[float | None, ...]
    """Number of each of ``SAMPLE_VALUES``."""
    communication: float | None
    """Share of the training steps in which a collective ran."""


class _Combined(NamedTuple):
    """Combination of several numbers of one value."""

    number: float
    """Their sum, or the greatest of them."""
    amount: int
    """How many there are."""


@dataclass(frozen=True, slots=True)
class _NodeUsage:
    """Values of one sample, in less memory than the sample."""

    cpus: float
    memory_bytes: int
    processes: int
    cpu_power_w: float | None
    """Power of the whole node's CPUs and memory."""
    values: tuple[_Combined | None, ...]
    """For each of ``SAMPLE_VALUES``, what its numbers give."""


@dataclass(slots=True)
class _Entry:
    jobid: str | None
    run: tuple[int, int]
    """Attempt and restart count of the job."""
    allocated: tuple[int, int, int]
    """CPUs, bytes of memory and GPUs."""
    reported_at: float
    between_s: float = 0.0
    communication: float | None = None
    nodes: dict[str, _NodeUsage] = field(default_factory=dict)
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
    def left_out_count(self) -> int:
        """Return the number of jobs whose agents report, and which have no usage here because there
        are too many.
        """
        return len(self._left_out)

    def add_samples(self, job: Job, samples: Sequence[AgentSample]) -> None:
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
            entry = self._jobs[job.id] = _Entry(None, _run_key(job), _sum_allocated(job), now)
        self._left_out.pop(job.id, None)
        if entry.run != _run_key(job):
            entry.run, entry.nodes, entry.communication = _run_key(job), {}, None
        entry.jobid, entry.usage = job.scheduler_id, None
        entry.between_s, entry.reported_at = now - entry.reported_at, now
        for sample in samples:
            # The job's own program could name any node in a report.
            if sample.node in job.nodes:
                entry.nodes[sample.node] = _node_usage(sample)
                self._store_ecc_errors(sample)

    def set_communication_share(self, job_id: UUID, share: float | None) -> None:
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
                entry.usage = _make_job_usage(entry)
            if entry.usage is not None:
                found.append(entry.usage)
        return found

    def cpu_power_w(self) -> Mapping[str, float]:
        """Return the power of the CPUs and memory of each node on which a live job measures it."""
        self._forget_stale(self._clock())
        return {
            name: usage.cpu_power_w
            for entry in self._jobs.values()
            for name, usage in entry.nodes.items()
            if usage.cpu_power_w is not None
        }

    def ecc_errors(self) -> Mapping[tuple[str, int], int]:
        """Return the uncorrected ECC errors of each GPU, by node and index, as the last job on it
        reported.
        """
        return self._ecc_errors

    def keep_ecc_errors_of_nodes(self, names: Collection[str]) -> None:
        """Remove the ECC errors of all nodes except ``names``."""
        self._ecc_errors = {
            key: count for key, count in self._ecc_errors.items() if key[0] in names
        }

    def _store_ecc_errors(self, sample: AgentSample) -> None:
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


def _run_key(job: Job) -> tuple[int, int]:
    return job.attempt, job.restart_count


def _sum_allocated(job: Job) -> tuple[int, int, int]:
    each = job.spec.resources
    return each.nodes * each.cpu, each.nodes * each.memory_bytes, each.nodes * each.gpu.count


def _node_usage(sample: AgentSample) -> _NodeUsage:
    return _NodeUsage(
        cpus=min(_MOST, sample.cpu),
        memory_bytes=sample.memory_bytes,
        processes=sample.processes,
        cpu_power_w=sample.node_cpu_power_w,
        values=tuple(
            _combine_parts(value, [_Combined(number, 1) for number in _read_numbers(sample, value)])
            for value in SAMPLE_VALUES
        ),
    )


def _make_job_usage(entry: _Entry) -> LiveJobUsage | None:
    nodes = [*entry.nodes.values()]
    if entry.jobid is None or not nodes:
        return None
    cpus, memory_bytes, gpus = entry.allocated
    return LiveJobUsage(
        jobid=entry.jobid,
        cpus_allocated=cpus,
        memory_allocated_bytes=memory_bytes,
        gpus_allocated=gpus,
        cpus=sum(node.cpus for node in nodes),
        memory_bytes=sum(node.memory_bytes for node in nodes),
        processes=sum(node.processes for node in nodes),
        values=tuple(
            _combine_nodes(value, [node.values[index] for node in nodes])
            for index, value in enumerate(SAMPLE_VALUES)
        ),
        communication=entry.communication,
    )


def _read_numbers(sample: AgentSample, value: SampleValue) -> list[float]:
    """Return the numbers of the value that the sample contains: one for each GPU that measures it, or
    one. Others of GPUs are ignored, since the job's own program could send them.
    """
    if value.source == "node":
        number: float | None = getattr(sample, value.name)
        return [] if number is None else [number]
    found = (gpu.get(value.name) for gpu in sample.gpu[:MOST_GPUS_PER_NODE])
    return [
        float(number)
        for number in found
        if isinstance(number, int | float) and not isinstance(number, bool) and 0 <= number < _MOST
    ]


def _combine_parts(value: SampleValue, parts: Iterable[_Combined | None]) -> _Combined | None:
    """Return what the parts give together; None if there are none."""
    known = [part for part in parts if part is not None]
    if not known:
        return None
    combine = max if value.combination == "max" else sum
    return _Combined(combine(part.number for part in known), sum(part.amount for part in known))


def _combine_nodes(value: SampleValue, nodes: Iterable[_Combined | None]) -> float | None:
    """Return the number of the job whose nodes have these; None: not measured."""
    total = _combine_parts(value, nodes)
    if total is None:
        return None
    mean = value.combination == "mean"
    return total.number / total.amount if mean else total.number
