"""Part of the store for the life cycle of projects, invitations to them, and monthly usage.

Every change adds an event ``project.changed`` as defined by ``ProjectStore``. There are also the
events ``project.requested`` (a project waits for approval), ``project.expiring`` (``days`` before
its end) and ``project.invited`` (for a user whom another user made a member).
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
    ProjectStatus,
    Step,
)
from aitne.core.models.user import Project
from aitne.core.ports.accounting import JobEnergy
from aitne.core.ports.store.records import Check


@dataclass(frozen=True, slots=True)
class ProjectChange:
    """Change of some fields of a project, by the names of the fields in ``Project``."""

    what: str
    """Description of the change in the event, such as ``title`` or ``budget``."""
    fields: Mapping[str, Any]


class StoredMonth(NamedTuple):
    """Usage of one month by project and user."""

    taken_at: datetime
    """Time at which the source reported the usage."""
    source: str
    """Source of the figures, such as Slurm's accounting."""
    rows: Sequence[Usage]


class JobTime(NamedTuple):
    """Period in which a job had an allocation. ``cpus`` and ``gpus`` are the numbers on each
    node.
    """

    project: str
    user: str
    nodes: int
    cpus: int
    gpus: int
    gpu_type: str | None
    """GPU type of the job; None: it requested no type."""
    started_at: datetime
    ended_at: datetime | None
    """End of the allocation; None: the job is still running."""


class WaitTime(NamedTuple):
    """Seconds that one job of ``user`` was pending before it got its nodes."""

    user: str
    seconds: float


class GroupStore(Protocol):
    """Storage of the life cycle, managers, invitations and usage of projects."""

    async def request_project(self, project: Project, *, actor: str) -> None:
        """Create the project with the actor as its manager. Raises ``Conflict`` if the name is
        taken."""
        ...

    async def roles_of(self, user: str) -> Mapping[str, ProjectRole]:
        """Return the user's projects, with the user's role in each."""
        ...

    async def standing(self, name: str) -> ProjectStatus | None:
        """Return the state, end and budget of the project, which determine whether it accepts jobs;
        None if there is no such project.
        """
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
        """Perform a step of the project's life cycle, such as its approval, and set ``fields`` and
        ``limits``.

        With ``due``, this is done only if the project's end is not later than ``due``.

        Raises:
            NotFound: there is no such project.
            IllegalTransition: the project's state does not permit the step.
            StaleEpoch: another controller is the leader.
        """
        ...

    async def change_project(
        self, name: str, change: ProjectChange, *, actor: str, check: Check[Project] = None
    ) -> Project:
        """Set fields of the project without changing its state; add an event if a field changed.

        Raises ``NotFound``.
        """
        ...

    async def ask_for_time(self, name: str, wish: ExtensionRequest) -> Project:
        """Store a manager's request to extend the project. Raises ``NotFound``."""
        ...

    async def set_role(self, name: str, user: str, role: ProjectRole, *, actor: str) -> Membership:
        """Set the role of a member. If a manager loses that role, the manager's open invitations
        are revoked.

        Raises:
            NotFound: there is no such member.
            Conflict: the project would have no manager left.
        """
        ...

    async def own_limits_of(self, project: str) -> Limits:
        """Return the limits that the project's managers have set, which do not exceed those that
        administrators granted.
        """
        ...

    async def set_own_limits(self, project: str, limits: Limits, *, actor: str) -> None:
        """Replace the limits that the project's managers set. Raises ``NotFound``."""
        ...

    async def ending_projects(self, before: datetime) -> Sequence[Project]:
        """List the active projects that end by ``before``, without their members."""
        ...

    async def remind(self, name: str, ends: datetime, days: int, *, epoch: int) -> bool:
        """Record that the reminder ``days`` days before the project's end ``ends`` was sent.

        Returns False if this reminder or a later one was recorded before. Raises ``StaleEpoch`` if
        another controller is the leader.
        """
        ...

    async def create_invitation(self, invitation: Invitation, token_hash: str) -> None:
        """Store the invitation. Raises ``NotFound`` if there is no such project."""
        ...

    async def invitations(self, project: str) -> Sequence[Invitation]:
        """List the project's invitations, newest first, including those that are no longer
        valid."""
        ...

    async def revoke_invitation(self, project: str, id_: str, now: datetime, *, actor: str) -> None:
        """Revoke the invitation; a repeated call has no further effect. Raises ``NotFound``."""
        ...

    async def invitation_of(self, token_hash: str) -> Invitation | None:
        """Return the invitation whose link has the token with this hash, valid or not; None if
        there is none.
        """
        ...

    async def accept_invitation(self, token_hash: str, user: str, now: datetime) -> Membership:
        """Make ``user`` a member of the invitation's project, or give the member the higher role of
        the invitation.

        A call that changes nothing does not count as a use of the invitation.

        Raises:
            NotFound: there is no such invitation.
            Conflict: the invitation is no longer valid, or the project accepts no new members.
        """
        ...

    async def usage_months(self, months: Sequence[str]) -> Mapping[str, StoredMonth]:
        """Return the stored usage of these months by month (``YYYY-MM``); months without stored
        usage are missing.
        """
        ...

    async def keep_usage(self, month: str, found: StoredMonth) -> None:
        """Replace the stored usage of the month (``YYYY-MM``) by ``found``."""
        ...

    async def job_times(self, start: datetime, end: datetime) -> Sequence[JobTime]:
        """Return the periods in which jobs of the platform had allocations, as far as they overlap
        with the time from ``start`` to ``end``.
        """
        ...

    async def waits(self, project: str, start: datetime, end: datetime) -> Sequence[WaitTime]:
        """List the waiting times of those jobs of the project that got their nodes between
        ``start`` and ``end``.
        """
        ...

    async def outcomes(self, project: str, start: datetime, end: datetime) -> Mapping[str, int]:
        """Count the project's jobs that ended between ``start`` and ``end``, by state."""
        ...

    async def save_energy(self, found: Sequence[JobEnergy], *, epoch: int) -> None:
        """Store the energy of ended jobs. Raises ``StaleEpoch`` if another controller is the
        leader.
        """
        ...
