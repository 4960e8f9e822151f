"""Usage report of a project for one month, and the list of its pending jobs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from statistics import median
from typing import ClassVar

from pydantic import Field

from aitne.core.jobs.states import JobState
from aitne.core.models.base import Frozen, UtcTime, deprecated_copy
from aitne.core.models.job import Job, JobFilter
from aitne.core.models.user import Actor
from aitne.core.users.permissions import PolicyAction, require_permission
from aitne.services.projects.project_balance import (
    Balance,
    get_month_bounds,
    month_of,
    months_between,
)
from aitne.services.projects.usage import UsageReport, UsageRow, UsageService
from aitne.store import Store
from aitne.store.paging import Page
from aitne.store.usage import StoredMonth, WaitTime

WAITING = frozenset(
    {JobState.PENDING_SUBMIT, JobState.SUBMITTING, JobState.UNCERTAIN, JobState.QUEUED}
)
_MONTHS_BACK = 12


class UserWait(Frozen):
    """Statistics of the time in the queue of one user's jobs that started in the month."""

    user: str = Field(description="Owner of the jobs.")
    jobs: int = Field(description="Number of jobs that started in the month.")
    median_s: float = Field(description="Median of the waiting times in seconds.")
    p90_s: float = Field(description="90th percentile of the waiting times in seconds.")
    max_s: float = Field(description="Longest waiting time in seconds.")
    slow_s: ClassVar = deprecated_copy("p90_s", float)
    longest_s: ClassVar = deprecated_copy("max_s", float)


class MonthSum(Frozen):
    """Usage of a project in one month, summed over all its members."""

    month: str = Field(description="The month, such as 2026-03.")
    jobs: int = Field(description="Number of jobs that ran.")
    cpu_hours: float = Field(description="CPU-hours.")
    gpu_hours: float = Field(description="GPU-hours.")


class ProjectReport(UsageReport):
    """Usage report of one project for a month: usage by user, waiting times, and how jobs ended."""

    project: str = Field(description="The project.")
    title: str = Field(description="Title of the project.")
    source: str = Field(
        description="`scheduler`: all jobs, by its accounting; `platform`: the platform's jobs."
    )
    total: UsageRow = Field(description="Sum of all rows.")
    waits: tuple[UserWait, ...] = Field(
        description="Waiting times of the platform's jobs, by user."
    )
    outcomes: dict[str, int] = Field(description="Number of jobs that ended in each state.")
    months: tuple[MonthSum, ...] = Field(description="The twelve months up to this one.")
    balance: Balance = Field(description="Present budget and its use.")


class WaitingJob(Frozen):
    """Queued job of the project, with its pending reason."""

    id: str = Field(description="ID of the job.")
    name: str = Field(description="Name of the job.")
    array_task_id: int | None = Field(
        description="Number of the task; null: the job is not a task of an array."
    )
    owner: str = Field(description="Owner of the job.")
    resources: str = Field(description="Requested resources, such as `2 × 4 a100, 32 CPUs`.")
    pending_since: UtcTime = Field(description="When it was submitted.")
    reason: str | None = Field(description="Pending reason, in plain words.")
    expected_start_at: UtcTime | None = Field(description="Start that the scheduler expects.")
    asks_for: ClassVar = deprecated_copy("resources", str)
    waits_since: ClassVar = deprecated_copy("pending_since", UtcTime)


class WaitingPage(Frozen):
    """One page of the list of a project's queued jobs, those submitted last first."""

    items: list[WaitingJob] = Field(description="Jobs of this page.")
    next_cursor: str | None = Field(
        None, description="Cursor of the next page; null: this is the last page."
    )
    total: int = Field(description="Number of all waiting jobs.")


class ReportService:
    """Service that returns usage reports and queued jobs of a project to its members and to
    administrators.
    """

    def __init__(self, store: Store, usage: UsageService, clock: Callable[[], datetime]) -> None:
        self._store = store
        self._usage = usage
        self._clock = clock

    async def report(self, actor: Actor, name: str, month: str | None) -> ProjectReport:
        """Return the usage report of the project for ``month`` (``YYYY-MM``); None: the current
        month until now.

        Raises the same errors as ``UsageService.report``.
        """
        usage = await self._usage.report(actor, name, month)
        project = await self._store.get_project(name)
        start, end = get_month_bounds(usage.month)
        stored_months = await self._store.list_usage_months(_list_year_months(usage.month))
        stored_month = stored_months.get(usage.month)
        return ProjectReport(
            **dict(usage),
            project=name,
            title=project.title,
            source="platform" if stored_month is None else stored_month.source,
            total=total_of(name, usage.rows),
            waits=summarize_waits(await self._store.list_wait_times(name, start, end)),
            outcomes=dict(await self._store.count_ended_jobs(name, start, end)),
            months=tuple(
                _compute_month_sum(year_month, stored_months.get(year_month), name)
                for year_month in _list_year_months(usage.month)
            ),
            balance=await self._usage.balance(actor, name),
        )

    async def list_waiting_jobs(
        self, actor: Actor, name: str, *, cursor: str | None, limit: int
    ) -> WaitingPage:
        """List the project's jobs that are queued now, with their pending reasons.

        Raises ``NotFound``, and ``InvalidInput`` for an invalid cursor.
        """
        require_permission(PolicyAction.PROJECT_READ, actor, "project", name, project=name)
        await self._store.get_project(name)
        job_filter = JobFilter(project=name, states=WAITING, array=False)
        page: Page[Job] = await self._store.list_jobs(
            job_filter, visible_to=None, cursor=cursor, limit=limit
        )
        return WaitingPage(
            items=[_to_waiting_job(job) for job in page.items],
            next_cursor=page.next_cursor,
            total=page.total,
        )


def total_of(project: str, rows: Sequence[UsageRow]) -> UsageRow:
    """Return the sum of the users' usage as one ``UsageRow`` without a user.

    Has no side effects.
    """
    types: dict[str, float] = {}
    for row in rows:
        for kind, hours in row.gpu_hours_by_type.items():
            types[kind] = round(types.get(kind, 0.0) + hours, 4)
    return UsageRow(
        project=project,
        user="",
        jobs=sum(row.jobs for row in rows),
        cpu_hours=round(sum(row.cpu_hours for row in rows), 4),
        gpu_hours=round(sum(row.gpu_hours for row in rows), 4),
        gpu_hours_by_type=types,
        energy_j=sum(row.energy_j or 0 for row in rows) or None,
    )


def summarize_waits(waits: Sequence[WaitTime]) -> tuple[UserWait, ...]:
    """Return statistics of the time in the queue for each user, the longest median first.

    Has no side effects.
    """
    by_user: dict[str, list[float]] = {}
    for wait in waits:
        by_user.setdefault(wait.user, []).append(wait.seconds)
    user_waits = []
    for user, seconds in by_user.items():
        seconds.sort()
        # The smallest wait that nine of ten do not exceed: the nearest-rank percentile.
        slow = seconds[-(-9 * len(seconds) // 10) - 1]
        user_waits.append(
            UserWait(
                user=user,
                jobs=len(seconds),
                median_s=round(median(seconds), 1),
                p90_s=round(slow, 1),
                max_s=round(seconds[-1], 1),
            )
        )
    return tuple(sorted(user_waits, key=lambda user_wait: (-user_wait.median_s, user_wait.user)))


def _list_year_months(month: str) -> list[str]:
    start = month
    for _ in range(_MONTHS_BACK - 1):
        start = month_of(get_month_bounds(start)[0] - timedelta(days=1))
    return months_between(start, month)


def _compute_month_sum(month: str, stored_month: StoredMonth | None, project: str) -> MonthSum:
    rows = (
        [] if stored_month is None else [row for row in stored_month.rows if row.account == project]
    )
    return MonthSum(
        month=month,
        jobs=sum(row.jobs for row in rows),
        cpu_hours=round(sum(row.cpu_s for row in rows) / 3_600, 4),
        gpu_hours=round(sum(row.gpu_s for row in rows) / 3_600, 4),
    )


def _to_waiting_job(job: Job) -> WaitingJob:
    wish = job.spec.resources
    parts = [] if not wish.gpu.count else [f"{wish.gpu.count} {wish.gpu.type or 'GPU'}"]
    parts.append(f"{wish.cpu} CPU{'s' * (wish.cpu != 1)}")
    per_node = ", ".join(parts)
    return WaitingJob(
        id=str(job.id),
        name=job.name,
        array_task_id=job.array_task_id,
        owner=job.owner,
        resources=per_node if wish.nodes == 1 else f"{wish.nodes} nodes with {per_node}",
        pending_since=job.submitted_at or job.created_at,
        reason=job.message,
        expected_start_at=job.expected_start_at,
    )
