"""The store's part about the life of projects, invitations to them, and what was used in a month.

Every change appends an event ``project.changed`` as ``ProjectStore`` says; beside it there are
``project.requested`` (one waits for an administrator), ``project.expiring`` (``days`` before its
end) and ``project.invited`` (to the user who was made a member by somebody else).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple, Protocol

from aitne.core.models.limits import Limits, Membership, Usage
from aitne.core.models.project import (
    ExtensionRequest,
    Invitation,
    ProjectRole,
    Standing,
    Step,
)
from aitne.core.models.user import Project
from aitne.core.ports.store.records import Check


@dataclass(frozen=True, slots=True)
class ProjectChange:
    """What is to be changed of a project; ``fields`` are those of ``Project`` by name."""

    what: str
    """In the event: ``title``, ``budget`` …"""
    fields: Mapping[str, Any]


class KeptMonth(NamedTuple):
    """What was used in a month, as of ``taken_at``, by the records of ``source``."""

    taken_at: datetime
    source: str
    rows: Sequence[Usage]


class JobTime(NamedTuple):
    """One run on nodes: what it took and for how long."""

    project: str
    user: str
    nodes: int
    cpus: int
    gpus: int
    gpu_type: str | None
    """CPUs and GPUs are those of each node."""
    started_at: datetime
    ended_at: datetime | None


class Wait(NamedTuple):
    """How long one job waited before it got its nodes."""

    user: str
    seconds: float


class GroupStore(Protocol):
    """Life, leaders, invitations and usage of projects."""

    async def request_project(self, project: Project, *, actor: str) -> None:
        """Make it with the actor as its manager. Raises ``Conflict`` if the name is taken."""
        ...

    async def roles_of(self, user: str) -> Mapping[str, ProjectRole]:
        """The user's projects, and what the user is in each."""
        ...

    async def standing(self, name: str) -> Standing | None:
        """Whether it takes jobs; None: there is no such project."""
        ...

    async def step_project(
        self,
        name: str,
        step: Step,
        *,
        actor: str,
        fields: Mapping[str, Any] | None = None,
        limits: Limits | None = None,
        epoch: int | None = None,
        due: datetime | None = None,
        check: Check[Project] = None,
    ) -> Project:
        """Take the step and set ``fields``; ``due``: only if its end is not later than that.

        Raises:
            NotFound: no such project.
            IllegalTransition: it is not in a state from which the step leads.
            StaleEpoch: another controller leads.
        """
        ...

    async def change_project(
        self, name: str, change: ProjectChange, *, actor: str, check: Check[Project] = None
    ) -> Project:
        """Set fields, its state untouched. What changes nothing writes no event. Raises ``NotFound``."""
        ...

    async def ask_for_time(self, name: str, wish: ExtensionRequest) -> Project:
        """Note that a later end is wished. Raises ``NotFound``."""
        ...

    async def set_role(self, name: str, user: str, role: ProjectRole, *, actor: str) -> Membership:
        """Of a member. Who is a manager no more has no open invitations either.

        Raises:
            NotFound: no such member.
            Conflict: nobody would be left to manage it.
        """
        ...

    async def own_limits_of(self, project: str) -> Limits:
        """What its managers hold it to, within what was granted."""
        ...

    async def set_own_limits(self, project: str, limits: Limits, *, actor: str) -> None:
        """Replace those. Raises ``NotFound``."""
        ...

    async def ending_projects(self, before: datetime) -> Sequence[Project]:
        """The active ones that end by then, without their members."""
        ...

    async def remind(self, name: str, ends: datetime, days: int, *, epoch: int) -> bool:
        """Say that it ends in so many days, unless that or less was said of this end before."""
        ...

    async def create_invitation(self, invitation: Invitation, token_hash: str) -> None:
        """Raises ``NotFound``: no such project."""
        ...

    async def invitations(self, project: str) -> Sequence[Invitation]:
        """Newest first, those that are over too."""
        ...

    async def revoke_invitation(self, project: str, id_: str, now: datetime, *, actor: str) -> None:
        """Take it back; twice is no error. Raises ``NotFound``."""
        ...

    async def invitation_of(self, token_hash: str) -> Invitation | None:
        """The invitation of a link, however it stands."""
        ...

    async def accept_invitation(self, token_hash: str, user: str, now: datetime) -> Membership:
        """Make the user a member, or more of one. What changes nothing uses nothing up.

        Raises:
            NotFound: no such invitation.
            Conflict: it is over, or the project takes nobody.
        """
        ...

    async def usage_months(self, months: Sequence[str]) -> Mapping[str, KeptMonth]:
        """Those of the months that are kept."""
        ...

    async def keep_usage(self, month: str, found: KeptMonth) -> None:
        """Replace what is kept of the month."""
        ...

    async def job_times(self, start: datetime, end: datetime) -> Sequence[JobTime]:
        """The runs of the platform's own jobs that fall into that time, at least in part."""
        ...

    async def waits(self, project: str, start: datetime, end: datetime) -> Sequence[Wait]:
        """Of the project's jobs that got their nodes in that time."""
        ...

    async def outcomes(self, project: str, start: datetime, end: datetime) -> Mapping[str, int]:
        """How many of the project's jobs ended in that time in each state."""
        ...
