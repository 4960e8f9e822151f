"""Limits that the platform passed to the ``local`` scheduler, their usage by its tasks, and the
pending reasons of tasks for which a limit has no room.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path

from aitne.adapters.schedulers._local.job_index import LocalJob, LocalTask
from aitne.adapters.schedulers._local.job_records import write_atomically
from aitne.adapters.schedulers._local.limit_ledger import (
    GPU_SECONDS,
    JOBS,
    Cap,
    CapKey,
    LimitBlock,
    LimitLedger,
    cap_of,
    keys_of,
)
from aitne.adapters.schedulers._local.node_resources import FreeResources, NodeCapacity
from aitne.core.models.limits import (
    GPU_TRES,
    MIB,
    AssociationUse,
    Gauge,
    HeldLimit,
    HeldLimits,
    Limits,
    LimitUsage,
)
from aitne.core.ports.scheduler import SubmitRequest
from aitne.core.projects.limit_check import (
    LimitRequest,
    compare_with_limits,
    describe_association,
    format_hours,
    format_job_count,
    summarize_use,
)
from aitne.core.units import format_duration
from aitne.local_system.state_file_reader import DamagedState, read_state

_log = logging.getLogger(__name__)

ENFORCED = frozenset({"limits", "safe"})
"""Values of Slurm's AccountingStorageEnforce that describe this scheduler. ``safe``: a job starts
only if the remaining GPU-hours suffice until its time limit.
"""


class TaskLimits:
    """Limits of projects and members for the tasks of the ``local`` scheduler. They are stored in a
    file, so that they apply from the first start of a task after a restart.
    """

    def __init__(self, path: Path, nodes: Sequence[NodeCapacity], *, grace_s: float) -> None:
        self._path = path
        self._nodes = nodes
        self._grace_s = grace_s
        self.held = HeldLimits()

    def load(self) -> None:
        """Read the stored limits from the file; a missing or invalid file means no limits. Raises
        ``OSError`` if it cannot be read.
        """
        try:
            self.held = read_state(HeldLimits, self._path)
        except FileNotFoundError:
            return
        except DamagedState as error:
            _log.error("%s; it is replaced.", error)

    def save(self, limits: HeldLimits) -> None:
        """Write limits to the file, before the caller lets them apply. Raises ``OSError``."""
        write_atomically(self._path, limits.model_dump_json().encode(), sync=True)

    def caps(self, tasks: Iterable[LocalTask], now: datetime) -> dict[CapKey, Cap]:
        """Return the limits of projects and members, with the GPU-seconds used until now."""
        counted = {
            (entry.project, entry.user): float(entry.gpu_s)
            for entry in self.held.entries
            if entry.limits.gpu_hours is not None
        }
        for task in tasks if counted else ():
            if seconds := self._gpu_seconds(task, now):
                for key in keys_of(task.job.owner):
                    if key in counted:
                        counted[key] += seconds
        return {
            (entry.project, entry.user): cap_of(
                entry.limits, counted.get((entry.project, entry.user), 0.0)
            )
            for entry in self.held.entries
        }

    def _gpu_seconds(self, task: LocalTask, now: datetime) -> float:
        """Return those GPU-seconds of the task that are not included in the usage that the platform
        reported with the limits.
        """
        gpus = task.job.demand.nodes * task.job.demand.gpus
        start = task.started_at if task.ending is None else task.ending.started_at
        if not gpus or start is None:
            return 0.0
        if self.held.used_until is not None:
            start = max(start, self.held.used_until)
        end = now if task.ending is None else task.ending.ended_at
        return max(0.0, (end - start).total_seconds()) * gpus

    def usage(self, tasks: Iterable[LocalTask], now: datetime) -> LimitUsage:
        """Return all limits with their current usage. The GPU-hours of running tasks are counted
        until their time limits.
        """
        tasks = list(tasks)
        live = [task for task in tasks if not task.has_ended]
        submitted = Counter(key for task in live for key in keys_of(task.job.owner))
        held = {(entry.project, entry.user): entry for entry in self.held.entries}
        caps = {key: Cap() for key in submitted} | self.caps(tasks, now)
        running = [task.to_running_task(now, self._grace_s) for task in live if task.holds_slots]
        ledger = LimitLedger(caps, self._nodes, running, now.timestamp())
        return LimitUsage(
            enforced=ENFORCED,
            associations=tuple(
                _make_association_use(
                    key, caps[key], held.get(key), ledger.get_usage(key), submitted[key]
                )
                for key in sorted(caps, key=lambda key: (key[0], key[1] or ""))
            ),
        )

    def problem(
        self, request: SubmitRequest, tasks: Iterable[LocalTask], job: LocalJob, now: datetime
    ) -> str | None:
        """Return why ``request`` is rejected, as a sentence: the job could never run within the
        limits, or the maximum number of jobs has been submitted. None if it is accepted. ``job`` is
        the job that would be created.
        """
        if not any((entry.project == request.project) for entry in self.held.entries):
            return None
        verdict = compare_with_limits(_to_limit_request(request), self.usage(tasks, now))
        if verdict.problems:
            return f"{verdict.problems[0].field}: {verdict.problems[0].message}."
        empty = {(e.project, e.user): cap_of(e.limits, 0.0) for e in self.held.entries}
        ledger = LimitLedger(empty, self._nodes, (), now.timestamp())
        _, block = ledger.check_start(job.tasks[0].to_waiting_task(now), FreeResources(self._nodes))
        if block is None:
            return None
        kind = block.resource.rpartition(":")[2]
        return (
            f"resources.gpu: project {request.project} may not use as many {kind} GPUs at once, and "
            "the nodes have no others for it."
        )

    def extension_problem(
        self,
        running: Sequence[LocalTask],
        tasks: Iterable[LocalTask],
        time_limit_s: int,
        now: datetime,
    ) -> str | None:
        """Return why the limits do not permit the new time limit of the running tasks of a job, as
        a sentence; None if they permit it.
        """
        job = running[0].job
        gpus = job.demand.nodes * job.demand.gpus
        more = sum(gpus * max(0, time_limit_s - task.time_limit_s) for task in running)
        usage = self.usage(tasks, now)
        for association in usage.list_association_chain(*job.owner):
            max_wall_s = association.max_wall_s
            if max_wall_s is not None and time_limit_s > max_wall_s:
                duration = format_duration(max_wall_s)
                return f"{describe_association(association)} may run a job for {duration} at most."
            hours = association.tres_minutes.get(GPU_TRES)
            if not more or hours is None or hours.limit is None:
                continue
            if hours.used * 60 + more > hours.limit * 60:
                return f"The GPU-hours of {describe_association(association)} do not suffice."
        return None

    def reasons(
        self,
        blocks: Mapping[int, LimitBlock],
        waiting: Mapping[int, LocalTask],
        tasks: Iterable[LocalTask],
        now: datetime,
    ) -> dict[int, str]:
        """Return the pending reason of each task in ``blocks`` (the limits that have no room, by
        task number), as a sentence without its full stop.
        """
        usage = self.usage(tasks, now) if blocks else LimitUsage()
        texts: dict[tuple[LimitBlock, int], str] = {}
        reasons: dict[int, str] = {}
        for number, block in blocks.items():
            job = waiting[number].job
            key = block, job.record.number
            if key not in texts:
                texts[key] = _make_pending_reason(block, job, usage)
            reasons[number] = texts[key]
        return reasons


def _to_limit_request(request: SubmitRequest) -> LimitRequest:
    return LimitRequest(
        project=request.project,
        user=request.owner,
        resources=request.resources,
        time_limit_s=request.time_limit_s,
        array=request.array,
    )


def _make_pending_reason(block: LimitBlock, job: LocalJob, usage: LimitUsage) -> str:
    association = usage.find_association(*block.key) or AssociationUse(
        account=block.key[0], user=block.key[1]
    )
    request = _to_limit_request(job.record.request.model_copy(update={"array": None}))
    unsubmitted = association.model_copy(
        update={"grp_submitted": _NO_LIMIT, "max_submitted": _NO_LIMIT}
    )
    alone = usage.model_copy(update={"associations": (unsubmitted,)})
    never = compare_with_limits(request, alone).problems
    if never:
        # The limit was lowered after the job was accepted.
        return f"Can start only if a limit is raised: {never[0].message}"
    if block.resource == GPU_SECONDS:
        text = f"{describe_association(association)}: {format_hours(GPU_TRES, association.tres_minutes[GPU_TRES])}"
    elif block.resource == JOBS:
        gauge = association.grp_jobs if association.user is None else association.max_jobs
        text = f"{describe_association(association)}: {format_job_count(gauge)}"
    else:
        text = summarize_use(association, block.resource, usage) or describe_association(
            association
        )
    if block.behind:
        return f"Waits behind an earlier job for the limit of {text}"
    return f"Waits for the limit of {text}"


_NO_LIMIT = Gauge(limit=None, used=0)


def _make_association_use(
    key: CapKey, cap: Cap, entry: HeldLimit | None, used: Mapping[str, float], submitted: int
) -> AssociationUse:
    limits = Limits() if entry is None else entry.limits
    jobs = int(used.get(JOBS, 0))
    names = (cap.maximum.keys() | used.keys()) - {JOBS, GPU_SECONDS}
    minutes = cap.maximum.get(GPU_SECONDS)
    none, count = Gauge(limit=None, used=jobs), Gauge(limit=limits.max_jobs, used=jobs)
    waiting = Gauge(limit=None, used=submitted)
    accepted = Gauge(limit=limits.max_submitted, used=submitted)
    project = key[1] is None
    return AssociationUse(
        account=key[0],
        user=key[1],
        tres={name: _make_gauge(name, cap, used) for name in sorted(names)},
        tres_minutes={}
        if minutes is None
        else {GPU_TRES: Gauge(limit=minutes // 60, used=int(used.get(GPU_SECONDS, 0)) // 60)},
        grp_jobs=count if project else none,
        max_jobs=_NO_LIMIT if project else count,
        grp_submitted=accepted if project else waiting,
        max_submitted=_NO_LIMIT if project else accepted,
        max_wall_s=limits.max_wall_s,
    )


def _make_gauge(name: str, cap: Cap, used: Mapping[str, float]) -> Gauge:
    unit = MIB if name == "mem" else 1
    maximum = cap.maximum.get(name)
    return Gauge(
        limit=None if maximum is None else maximum // unit, used=-(-int(used.get(name, 0)) // unit)
    )
