"""Usage by project, user and month."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import datetime

from pydantic import Field

from aitne.core.errors import FieldProblem, InvalidInput
from aitne.core.models.base import Frozen, UtcTime
from aitne.core.models.limits import Usage
from aitne.core.models.project import MONTH
from aitne.core.models.user import Actor
from aitne.core.users.permissions import PolicyAction, decide_access, require_permission
from aitne.services.projects.monthly_usage import UsageMonths
from aitne.services.projects.project_balance import (
    Balance,
    balance_of,
    counted_months,
    get_month_bounds,
    month_of,
    months_between,
)
from aitne.store import Store

_MONTH = re.compile(MONTH)
_CSV_MONTHS = 36


class UsageRow(Frozen):
    """Usage in one month by one user's jobs in one project."""

    project: str = Field(description="The project.")
    user: str = Field(
        description="The Unix account that the jobs ran as; without Slurm's accounting their owner."
    )
    jobs: int = Field(description="Jobs that ran, each counted once however often it was requeued.")
    cpu_hours: float = Field(description="CPU-hours.")
    gpu_hours: float = Field(description="GPU-hours; two GPUs for one hour count as two.")
    gpu_hours_by_type: dict[str, float] = Field(description="GPU-hours by GPU type.")
    energy_j: int | None = Field(
        None,
        description="Energy of the nodes of the jobs that ended in the month, by Slurm's energy "
        "plugin; null: not measured.",
    )


class UsageReport(Frozen):
    """Usage of one month, which begins and ends at midnight UTC, by project and user.

    The current month is counted until ``as_of``.
    """

    month: str = Field(description="The month, such as 2026-03.")
    starts_at: UtcTime = Field(description="Start of the month.")
    ends_at: UtcTime = Field(description="Start of the next month.")
    as_of: UtcTime = Field(description="Time up to which usage is counted.")
    rows: tuple[UsageRow, ...] = Field(description="One for each user of each project.")


class UsageService:
    """Service that reports the usage of projects: to members for their own projects, to
    administrators for all projects.
    """

    def __init__(self, store: Store, months: UsageMonths, clock: Callable[[], datetime]) -> None:
        self._store = store
        self._months = months
        self._clock = clock

    async def report(self, actor: Actor, project: str | None, month: str | None) -> UsageReport:
        """Return the usage in ``month`` (``YYYY-MM``; None: the current one) of one project or, if
        ``project`` is None, of all projects that the actor may see.

        Raises:
            NotFound: there is no such project that the actor may see.
            InvalidInput: ``month`` is not a month.
            Unavailable: accounting does not answer.
        """
        if project is not None:
            require_permission(
                PolicyAction.PROJECT_READ, actor, "project", project, project=project
            )
            await self._store.get_project(project)
        chosen = checked_month("month", month) or month_of(self._clock())
        start, end = get_month_bounds(chosen)
        month_usage = await self._months.month(chosen)
        return UsageReport(
            month=chosen,
            starts_at=start,
            ends_at=end,
            as_of=min(month_usage.taken_at, end),
            rows=tuple(
                to_usage_row(row)
                for row in month_usage.rows
                if (project is None or row.account == project)
                and decide_access(PolicyAction.PROJECT_READ, actor, project=row.account).allowed
            ),
        )

    async def reports(
        self, actor: Actor, project: str, since: str | None, month: str | None
    ) -> Sequence[UsageReport]:
        """Return one usage report of the project for each month from ``since`` to ``month``, both
        ``YYYY-MM``.

        Raises the same errors as ``report``.
        """
        last = checked_month("month", month) or month_of(self._clock())
        months = months_between(checked_month("since", since) or last, last)
        if not 1 <= len(months) <= _CSV_MONTHS:
            raise InvalidInput.field(
                "since",
                f"must not be later than {last}, nor {_CSV_MONTHS} months or more before it",
                value=since,
            )
        return [await self.report(actor, project, year_month) for year_month in months]

    async def balance(self, actor: Actor, project: str) -> Balance:
        """Return the remaining budget of the project, computed from the usage stored in the
        database.

        Raises ``NotFound``.
        """
        require_permission(PolicyAction.PROJECT_READ, actor, "project", project, project=project)
        budget = (await self._store.get_project(project)).budget
        now = self._clock()
        stored_months = await self._store.list_usage_months(counted_months(budget, now))
        return balance_of(project, budget, stored_months, now)


def checked_month(field: str, month: str | None) -> str | None:
    """Return ``month`` unchanged if it is None or has the form ``YYYY-MM``.

    Raises ``InvalidInput`` for the field ``field`` otherwise.
    """
    if month is not None and _MONTH.fullmatch(month) is None:
        shown = month[:20]
        raise InvalidInput(
            f"{shown} is not a month: write YYYY-MM, such as 2026-03.",
            [FieldProblem(field, "is not a month", shown, "YYYY-MM, such as 2026-03")],
        )
    return month


def to_usage_row(used: Usage) -> UsageRow:
    """Return the usage as a ``UsageRow``, with seconds converted to hours."""
    return UsageRow(
        project=used.account,
        user=used.user,
        jobs=used.jobs,
        cpu_hours=_convert_to_hours(used.cpu_s),
        gpu_hours=_convert_to_hours(used.gpu_s),
        gpu_hours_by_type={
            name: _convert_to_hours(spent) for name, spent in used.gpu_s_by_type.items()
        },
        energy_j=used.energy_j,
    )


def _convert_to_hours(seconds: int) -> float:
    return round(seconds / 3_600, 4)
