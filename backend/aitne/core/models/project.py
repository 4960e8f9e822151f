"""Projects: roles of members, states of the life cycle, budgets and invitations."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field

from aitne.core.errors import IllegalTransition
from aitne.core.models.base import Frozen, KeepTime, ProjectName, Strict, UserName, UtcTime

MONTH = r"^2[0-9]{3}-(0[1-9]|1[0-2])$"
MonthName = Annotated[str, Field(pattern=MONTH, examples=["2026-03"])]
"""Month in UTC, such as ``2026-03``."""
_Hours = Annotated[int, Field(strict=True, ge=0, le=1 << 40)]


class ProjectRole(StrEnum):
    """Role of a member in a project."""

    MEMBER = "member"
    MANAGER = "manager"


class ProjectState(StrEnum):
    """State of a project in its life cycle. Only an active project accepts new jobs."""

    REQUESTED = "requested"
    ACTIVE = "active"
    EXPIRED = "expired"
    CLOSED = "closed"


class Step(StrEnum):
    """Step in the life cycle of a project, such as its approval."""

    APPROVE = "approve"
    DECLINE = "decline"
    CLOSE = "close"
    REOPEN = "reopen"
    EXPIRE = "expire"
    RENEW = "renew"
    """The end of the project is changed or removed."""


_S = ProjectState
STEPS: dict[Step, dict[ProjectState, ProjectState]] = {
    Step.APPROVE: {_S.REQUESTED: _S.ACTIVE},
    Step.DECLINE: {_S.REQUESTED: _S.CLOSED},
    Step.CLOSE: {_S.ACTIVE: _S.CLOSED, _S.EXPIRED: _S.CLOSED},
    Step.REOPEN: {_S.CLOSED: _S.ACTIVE},
    Step.EXPIRE: {_S.ACTIVE: _S.EXPIRED},
    Step.RENEW: {_S.ACTIVE: _S.ACTIVE, _S.EXPIRED: _S.ACTIVE, _S.CLOSED: _S.CLOSED},
}
"""State that each step leads to, by the state before; other steps are not permitted."""


def compute_next_state(step: Step, state: ProjectState, name: str) -> ProjectState:
    """Return the state after a step in the life cycle of the project ``name``.

    Raises ``IllegalTransition`` if the state does not permit the step.
    """
    target = STEPS[step].get(state)
    if target is None:
        legal = ", ".join(sorted(STEPS[step]))
        raise IllegalTransition(
            f"Project {name} is {state}: {step} is for a project that is {legal}. "
            "Check it again: another user may have changed it."
        )
    return target


class Budget(Strict):
    """Hours that a project may use, monthly or in total. An omitted value is not limited."""

    gpu_hours: _Hours | None = Field(
        None, description="GPU-hours; two GPUs for an hour are two.", examples=[500]
    )
    cpu_hours: _Hours | None = Field(None, description="CPU-hours.", examples=[20_000])
    period: Literal["month", "total"] = Field(
        "month", description="`month`: hours of each month, in UTC; `total`: hours in total."
    )
    since: MonthName | None = Field(
        None,
        description="First month that counts for a total budget; unset: the month in which it "
        "is set.",
    )

    @property
    def is_empty(self) -> bool:
        """Return whether no budget is set."""
        return self.gpu_hours is None and self.cpu_hours is None


class Retention(Strict):
    """Time for which a project keeps its ended jobs. For an omitted value, the site's setting
    applies.
    """

    keep_jobs: KeepTime | None = Field(
        None,
        description="How long ended jobs are kept, in seconds, or `forever`.",
        examples=["30d"],
    )
    keep_failed_jobs: KeepTime | None = Field(
        None,
        description="The same for jobs that failed, timed out or were lost; they are never kept "
        "shorter than others.",
        examples=["90d"],
    )

    @property
    def is_empty(self) -> bool:
        """Return whether no time is set."""
        return self.keep_jobs is None and self.keep_failed_jobs is None


class ExtensionRequest(Frozen):
    """Request of a project's manager to extend the project until a later end."""

    until: UtcTime = Field(description="The requested end.")
    reason: str = Field("", description="Reason, in the manager's words.")
    by: UserName = Field(description="The manager who requests it.")
    at: UtcTime = Field(description="Time of the request.")


class Project(Frozen):
    """Group of users whose jobs are accounted together; its members see each other's jobs."""

    name: ProjectName
    title: str = ""
    members: tuple[str, ...] = ()
    """User names of its members."""
    created_at: UtcTime
    managers: tuple[str, ...] = Field((), description="Members who administer the project.")
    description: str = Field("", description="Description of the project.")
    state: ProjectState = Field(
        ProjectState.ACTIVE, description="Only an active project takes new jobs."
    )
    note: str | None = Field(
        None,
        description="Reason why it was requested, closed or declined, in the words of that user.",
    )
    requested_by: str | None = Field(
        None, description="User who requested it; null: it was not requested."
    )
    closed_by: str | None = Field(
        None,
        description="`admin`: only an administrator reopens it; `manager`: its managers may too.",
    )
    expires_at: UtcTime | None = Field(
        None, description="Time from which it takes no new jobs; null: it has no end."
    )
    budget: Budget | None = Field(None, description="Hours that it may use; null: no budget.")
    extension: ExtensionRequest | None = Field(
        None, description="Request for a later end that is not yet decided."
    )
    retention: Retention | None = Field(
        None, description="How long its ended jobs are kept; null: as the site keeps them."
    )


class Invitation(Frozen):
    """Link that makes any user who opens it a member of a project. Its secret is shown once; only a
    hash is stored.
    """

    id: str = Field(description="Identifier of the invitation; it is not a secret.")
    project: ProjectName = Field(description="Project that users join by it.")
    role: ProjectRole = Field(description="Role of the users who join.")
    created_by: UserName = Field(description="The user who created it.")
    created_at: UtcTime = Field(description="Time of its creation.")
    expires_at: UtcTime = Field(description="Time of its expiry.")
    uses: int = Field(description="Number of users who have joined by it.")
    max_uses: int = Field(description="Maximum number of users who may join by it.")
    revoked_at: UtcTime | None = Field(
        None, description="Time of its revocation; null: it was not revoked."
    )

    def is_open_at(self, now: UtcTime) -> bool:
        """Return whether the invitation can still be accepted at ``now``."""
        return self.revoked_at is None and self.expires_at > now and self.uses < self.max_uses


class ProjectStatus(Frozen):
    """State, end and budget of a project, which determine whether it accepts new jobs."""

    name: str
    state: ProjectState
    note: str | None = None
    expires_at: UtcTime | None = None
    budget: Budget | None = None
