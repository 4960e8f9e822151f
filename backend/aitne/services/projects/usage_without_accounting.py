"""Usage computed from the platform's own records of jobs, for clusters whose scheduler has no
accounting.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime

from aitne.core.models.limits import Usage
from aitne.store.usage import JobTime, UsageStore


class JobUsage:
    """Usage by project and user, computed from the platform's own records of the last run of each
    job; for clusters without accounting.
    """

    def __init__(self, store: UsageStore, clock: Callable[[], datetime]) -> None:
        self._store = store
        self._clock = clock

    async def usage(self, start: datetime, end: datetime) -> Sequence[Usage]:
        """Return the usage between ``start`` and ``end``; a job that is still running counts until
        now.
        """
        until = min(end, self._clock())
        return sum_usage(await self._store.list_job_times(start, end), start, until)


def sum_usage(runs: Sequence[JobTime], start: datetime, end: datetime) -> list[Usage]:
    """Return the usage by project and user. Only the time of each run between ``start`` and ``end``
    counts.
    """
    usage_by_member: dict[tuple[str, str], Usage] = {}
    for run in runs:
        seconds = (min(run.ended_at or end, end) - max(run.started_at, start)).total_seconds()
        if seconds <= 0:
            continue
        usage = usage_by_member.get((run.project, run.user)) or Usage(
            account=run.project, user=run.user, cpu_s=0, gpu_s=0, jobs=0
        )
        gpu_s = round(seconds * run.nodes * run.gpus)
        types = dict(usage.gpu_s_by_type)
        if gpu_s and run.gpu_type is not None:
            types[run.gpu_type] = types.get(run.gpu_type, 0) + gpu_s
        usage_by_member[run.project, run.user] = usage.model_copy(
            update={
                "cpu_s": usage.cpu_s + round(seconds * run.nodes * run.cpus),
                "gpu_s": usage.gpu_s + gpu_s,
                "gpu_s_by_type": types,
                "jobs": usage.jobs + 1,
            }
        )
    return [usage_by_member[key] for key in sorted(usage_by_member)]
