"""Projects beside their name: roles, the states of their life, budgets, invitations."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field

from aitne.core.errors import IllegalTransition
from aitne.core.models.base import Frozen, ProjectName, Strict, UserName, UtcTime

MONTH = r"^2[0-9]{3}-(0[1-9]|1[0-2])$"
MonthName = Annotated[str, Field(pattern=MONTH, examples=["2026-03"])]
"""A month of UTC's calendar."""
_Hours = Annotated[int, Field(strict=True, ge=0, le=1 << 40)]


class ProjectRole(StrEnum):
    """Role of a member in a project."""

    MEMBER = "member"
    MANAGER = "manager"


class ProjectState(StrEnum):
    """State of a project in its life cycle. Only an active one takes new jobs."""

    REQUESTED = "requested"
    ACTIVE = "active"
    EXPIRED = "expired"
    CLOSED = "closed"


class Step(StrEnum):
    """Transition of a project from one state to another."""

    APPROVE = "approve"
    DECLINE = "decline"
    CLOSE = "close"
    REOPEN = "reopen"
    EXPIRE = "expire"
    RENEW = "renew"
    """Another end, or none."""


_S = ProjectState
STEPS: dict[Step, dict[ProjectState, ProjectState]] = {
    Step.APPROVE: {_S.REQUESTED: _S.ACTIVE},
    Step.DECLINE: {_S.REQUESTED: _S.CLOSED},
    Step.CLOSE: {_S.ACTIVE: _S.CLOSED, _S.EXPIRED: _S.CLOSED},
    Step.REOPEN: {_S.CLOSED: _S.ACTIVE},
    Step.EXPIRE: {_S.ACTIVE: _S.EXPIRED},
    Step.RENEW: {_S.ACTIVE: _S.ACTIVE, _S.EXPIRED: _S.ACTIVE, _S.CLOSED: _S.CLOSED},
}
"""Every legal step; there are no others."""


def after(step: Step, state: ProjectState, name: str) -> ProjectState:
    """Return the state that a step leads to. Raises ``IllegalTransition``, which names ``name``."""
    found = STEPS[step].get(state)
    if found is None:
        legal = ", ".join(sorted(STEPS[step]))
        raise IllegalTransition(
            f"Project {name} is {state}: {step} is for a project that is {legal}. "
            "Look at it again; somebody may have changed it."
        )
    return found


class Budget(Strict):
    """Hours that a project may use, monthly or in total. An omitted value is not limited."""

    gpu_hours: _Hours | None = Field(
        None, description="GPU-hours; two GPUs for an hour are two.", examples=[500]
    )
    cpu_hours: _Hours | None = Field(None, description="CPU-hours.", examples=[20_000])
    period: Literal["month", "total"] = Field(
        "month", description="`month`: so much each month, in UTC; `total`: so much in all."
    )
    since: MonthName | None = Field(
        None,
        description="The first month that a budget in all counts; unset: the one it is set in.",
    )

    @property
    def empty(self) -> bool:
        """Return whether no limit is set."""
        return self.gpu_hours is None and self.cpu_hours is None


class ExtensionRequest(Frozen):
    """Request of a manager for a later end."""

    until: UtcTime = Field(description="The end that is asked for.")
    reason: str = Field("", description="Why, in the manager's words.")
    by: UserName = Field(description="Who asks.")
    at: UtcTime = Field(description="Since when it waits for an answer.")


class Invitation(Frozen):
    """Link that makes any user who opens it a member. Its secret is shown once and stored
    hashed."""

    id: str = Field(description="Names the invitation; it is no secret.")
    project: ProjectName = Field(description="The project that it leads to.")
    role: ProjectRole = Field(description="What those who join will be.")
    created_by: UserName = Field(description="Who invites.")
    created_at: UtcTime = Field(description="When it was made.")
    expires_at: UtcTime = Field(description="It works until then.")
    uses: int = Field(description="How many have joined by it.")
    max_uses: int = Field(description="How many may join by it.")
    revoked_at: UtcTime | None = Field(None, description="When it was taken back.")

    def open_at(self, now: UtcTime) -> bool:
        """Return whether it can still be accepted at ``now``."""
        return self.revoked_at is None and self.expires_at > now and self.uses < self.max_uses


class Standing(Frozen):
    """Facts that decide whether a project takes new jobs."""

    name: str
    state: ProjectState
    note: str | None = None
    expires_at: UtcTime | None = None
    budget: Budget | None = None
