"""Remaining budget of a project."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import ClassVar

from pydantic import Field

from aitne.core.models.base import Frozen, UtcTime, deprecated_copy
from aitne.core.models.project import Budget, ProjectState, ProjectStatus
from aitne.store import Store
from aitne.store.usage import StoredMonth

MOST_MONTHS = 240
"""Maximum number of months that a total budget counts."""


class Share(Frozen):
    """Budgeted, used and remaining hours of one kind: GPU-hours or CPU-hours."""

    budget: int | None = Field(description="Hours that may be used; null: no limit.")
    used: float | None = Field(description="Hours that were used; null: not known yet.")
    remaining: float | None = Field(
        description="Remaining hours, never below zero; null: no budget."
    )
    left: ClassVar = deprecated_copy("remaining", float | None)


class Balance(Frozen):
    """Budget of a project, and how much of it is used in the present period."""

    project: str = Field(description="The project.")
    period: str = Field(description="`month`: from its first day, in UTC; `total`: from `since`.")
    since: UtcTime = Field(description="Time from which usage is counted.")
    until: UtcTime | None = Field(description="When a monthly budget resets; null: never.")
    as_of: UtcTime | None = Field(description="When usage was last read; null: not yet.")
    gpu_hours: Share = Field(description="GPU-hours; two GPUs for one hour count as two.")
    cpu_hours: Share = Field(description="CPU-hours.")
    exhausted: bool = Field(
        description="Whether new jobs are refused because the budget is used up."
    )
    spent: ClassVar = deprecated_copy("exhausted", bool)


def month_of(moment: datetime) -> str:
    """Return the month of ``moment`` in UTC, such as ``2026-03``."""
    return f"{moment.astimezone(UTC):%Y-%m}"


def get_month_bounds(month: str) -> tuple[datetime, datetime]:
    """Return the first moment of the month and the first moment of the next one."""
    year, number = int(month[:4]), int(month[5:])
    following = (year + 1, 1) if number == 12 else (year, number + 1)
    return datetime(year, number, 1, tzinfo=UTC), datetime(*following, 1, tzinfo=UTC)


def months_between(first: str, last: str) -> list[str]:
    """List the months from ``first`` to ``last``, both included, as texts such as ``2026-03``;
    empty if ``first`` is later than ``last``.
    """
    months: list[str] = []
    month = first
    while month <= last and len(months) < MOST_MONTHS:
        months.append(month)
        month = month_of(get_month_bounds(month)[1])
    return months


def counted_months(budget: Budget | None, now: datetime) -> list[str]:
    """List the months (``YYYY-MM``) whose usage counts toward the budget."""
    present = month_of(now)
    if budget is None or budget.period == "month" or budget.since is None:
        return [present]
    return months_between(budget.since, present)


def balance_of(
    name: str, budget: Budget | None, stored_months: Mapping[str, StoredMonth], now: datetime
) -> Balance:
    """Return the balance of the project ``name`` from the stored usage of its months.

    Has no side effects.
    """
    months = counted_months(budget, now)
    # For a total, months that are not stored yet can only add to the stored ones.
    counted = [stored_months[month] for month in months if month in stored_months]
    rows = [row for month in counted for row in month.rows if row.account == name]
    gpu_s, cpu_s = sum(row.gpu_s for row in rows), sum(row.cpu_s for row in rows)
    monthly = budget is None or budget.period == "month"
    has_usage = bool(counted)
    gpu = _compute_share(budget.gpu_hours if budget else None, gpu_s, has_usage=has_usage)
    cpu = _compute_share(budget.cpu_hours if budget else None, cpu_s, has_usage=has_usage)
    start, end = get_month_bounds(months[0] if months else month_of(now))
    return Balance(
        project=name,
        period="month" if monthly else "total",
        since=start,
        until=end if monthly else None,
        as_of=counted[-1].taken_at if counted else None,
        gpu_hours=gpu,
        cpu_hours=cpu,
        exhausted=any(share.remaining is not None and share.remaining <= 0 for share in (gpu, cpu)),
    )


def _compute_share(budget: int | None, seconds: int, *, has_usage: bool) -> Share:
    used = round(seconds / 3_600, 4)
    if not has_usage:
        return Share(budget=budget, used=None, remaining=None)
    remaining = None if budget is None else round(max(0.0, budget - used), 4)
    return Share(budget=budget, used=used, remaining=remaining)


class ProjectGate:
    """Component that decides whether a project accepts new jobs: it must be active and have budget
    left.
    """

    def __init__(self, store: Store) -> None:
        self._store = store

    async def refusal(self, project: str, now: datetime, *, gpus: bool) -> str | None:
        """Return why the project accepts no new jobs; None if it accepts them, or if there is no
        such project.

        Args:
            gpus: whether the job requests GPUs. If not, a used-up budget of GPU-hours is ignored.
        """
        standing = await self._store.find_project_status(project)
        if standing is None:
            return None
        refused = find_closure_reason(standing, now)
        if refused is not None or standing.budget is None or standing.budget.is_empty:
            return refused
        stored_months = await self._store.list_usage_months(counted_months(standing.budget, now))
        balance = balance_of(project, standing.budget, stored_months, now)
        return find_budget_refusal(balance, gpus=gpus)


def find_closure_reason(standing: ProjectStatus, now: datetime) -> str | None:
    """Return why a project with this status accepts no new jobs; None if it accepts them."""
    name, ends = standing.name, standing.expires_at
    if standing.state is ProjectState.REQUESTED:
        return f"{name} waits for an administrator to approve it"
    if standing.state is ProjectState.CLOSED:
        note = f": {standing.note.rstrip('.')}" if standing.note else ""
        return f"{name} is closed{note}; a manager or an administrator can reopen it"
    # The controller records the end within a minute; until then the clock decides.
    if standing.state is ProjectState.EXPIRED or (ends is not None and ends <= now):
        when = "" if ends is None else f" on {ends.astimezone(UTC):%Y-%m-%d}"
        return f"{name} expired{when}; its manager can ask for more time"
    return None


def find_budget_refusal(balance: Balance, *, gpus: bool) -> str | None:
    """Return why the remaining budget permits no new jobs; None if it permits them.

    Args:
        gpus: whether the job requests GPUs. If not, the budget of GPU-hours is ignored.
    """
    shares = [("CPU", balance.cpu_hours)] + ([("GPU", balance.gpu_hours)] if gpus else [])
    for unit, share in shares:
        if share.remaining is not None and share.remaining <= 0:
            reset = ""
            if balance.until is not None:
                reset = f"; it resets on {balance.until:%Y-%m-%d}"
            return (
                f"the budget of {balance.project} is used up: {share.used:g} of {share.budget} "
                f"{unit}-hours{reset}; an administrator can raise it"
            )
    return None
