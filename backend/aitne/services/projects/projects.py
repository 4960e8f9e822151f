"""Projects: their members, limits and use."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import ClassVar

from pydantic import Field

from aitne.core.errors import Conflict, InvalidInput
from aitne.core.models.base import Frozen, UtcTime, deprecated_copy
from aitne.core.models.limits import (
    GPU_TRES,
    MIB,
    AssociationUse,
    Limits,
    LimitUsage,
    Membership,
)
from aitne.core.models.project import Project, ProjectRole, ProjectState
from aitne.core.models.user import Actor
from aitne.core.projects.limit_check import summarize_use
from aitne.core.projects.limit_layers import combine_limits, list_limit_problems
from aitne.core.users.permissions import PolicyAction, require_permission
from aitne.services.projects.limit_checks import LimitSupport
from aitne.store import Store
from aitne.store.store_part import Check

_BY_TRES = {GPU_TRES: "max_gpus", "cpu": "max_cpus", "node": "max_nodes", "mem": "max_memory_bytes"}


class LimitUse(Frozen):
    """Current use of one limit, in total and by user, as the scheduler counts it."""

    limit: str
    """Name of a field of ``Limits``; for a GPU type, ``max_gpus_by_type.<type>``."""
    used: int
    maximum: int | None
    """Limit that the scheduler enforces; it may differ from the project's limit until the next
    synchronization.
    """
    by_user: dict[str, int]
    """Use of the limit by each member, by name of the Unix account."""
    summary: str | None
    """Text about the use, such as ``project vision: 6 of 8 GPUs in use by alice 4, bob 2``."""
    by: ClassVar = deprecated_copy("by_user", dict[str, int])
    most: ClassVar = deprecated_copy("maximum", int | None)


class ProjectLimits(Frozen):
    """Limits of a project and its members, and how much of each limit is in use."""

    project: str = Field(description="The project.")
    limits: Limits = Field(description="Limits in force: the lower of granted and own.")
    granted: Limits = Field(Limits(), description="Limits that an administrator granted.")
    own: Limits = Field(
        Limits(), description="Limits that its managers set, within the granted ones."
    )
    members: tuple[Membership, ...] = Field(description="Members with their own limits.")
    use: tuple[LimitUse, ...] = Field(
        description="Use of each limit; empty if the scheduler has no account of this name."
    )
    as_of: UtcTime | None = Field(description="When the scheduler was last polled.")


class Member(Membership):
    """Member of a project with the limits that apply, and whether the membership exists in
    Slurm.
    """

    effective: Limits = Field(
        Limits(),
        description="Limits in force for the member: the lower of its own and the project's.",
    )
    in_slurm: bool | None = Field(
        description="Whether Slurm lets the member use the account; false: only after an administrator "
        "synchronizes the two; null: the scheduler keeps no accounts."
    )


class ProjectService:
    """Service for projects: members may read them, managers and administrators change them."""

    def __init__(
        self,
        store: Store,
        clock: Callable[[], datetime],
        support: LimitSupport,
        accounts: Mapping[str, str] | None = None,
    ) -> None:
        """Store the dependencies of the service.

        ``accounts``: Unix account by user name, where the names differ; None means that all jobs
        run as one account. ``support``: the limits that the scheduler can enforce.
        """
        self._store = store
        self.support = support
        self._clock = clock
        self._accounts = accounts

    async def get(self, actor: Actor, name: str) -> Project:
        """Return the project of this name. Raises ``NotFound``."""
        require_permission(PolicyAction.PROJECT_READ, actor, "project", name, project=name)
        return await self._store.get_project(name)

    async def members(self, actor: Actor, name: str) -> Sequence[Member]:
        """List the members of the project with the limits of each. Raises ``NotFound``."""
        await self.get(actor, name)
        look, within = await self._store.find_limit_usage(), await self._in_force(name)
        return [
            self._make_member(membership, look, within)
            for membership in await self._store.list_memberships(name)
        ]

    async def set_member(
        self,
        actor: Actor,
        name: str,
        user: str,
        *,
        limits: Limits | None,
        role: ProjectRole | None,
        default: bool,
    ) -> Member:
        """Add a member to the project, or change the member's limits and role.

        Args:
            limits: limits of the member; None: unchanged.
            role: role of the member; None: unchanged.
            default: whether the project becomes the user's default project.

        Raises:
            NotFound: there is no such project or user.
            NotAllowed: the actor does not manage the project, or sets ``default`` and is not an
                administrator.
            InvalidInput: a manager sets higher limits for a member than the project was granted.
            Conflict: the project accepts no members yet, or would have no manager left.
        """
        require_permission(PolicyAction.PROJECT_MANAGE, actor, "project", name, project=name)
        if default:
            require_permission(
                PolicyAction.PROJECT_ADMINISTER, actor, "project", name, project=name
            )
        project = await self._store.get_project(name)
        if project.state is ProjectState.REQUESTED:
            raise Conflict(
                f"{name} waits for an administrator to approve it; add members after that."
            )
        if limits is not None:
            self.support.check(limits, "limits.")
            if not actor.is_admin:
                _check_within(limits, await self._in_force(name), "limits.")
        made = await self._store.save_member(
            name, user, limits=limits, default=default, actor=actor.name
        )
        if role is not None and role is not made.role:
            made = await self._store.set_member_role(name, user, role, actor=actor.name)
        return self._make_member(
            made, await self._store.find_limit_usage(), await self._in_force(name)
        )

    async def remove_member(self, actor: Actor, name: str, user: str) -> None:
        """Remove a member; a user may also leave a project in this way.

        Raises ``NotFound``, ``NotAllowed``, or ``Conflict`` for the user's default project and for
        the only manager.
        """
        leaves = user == actor.name and name in actor.projects
        action = PolicyAction.PROJECT_LEAVE if leaves else PolicyAction.PROJECT_MANAGE
        require_permission(action, actor, "project", name, project=name)
        await self._store.remove_member(name, user, actor=actor.name)

    async def set_limits(
        self, actor: Actor, name: str, limits: Limits, *, check: Check[Limits] = None
    ) -> ProjectLimits:
        """Replace the limits granted to the project, which take effect at the time described by
        ``support.applied``.

        Raises:
            NotFound: there is no such project.
            NotAllowed: the actor is not an administrator.
            InvalidInput: the scheduler cannot enforce the limits.
        """
        require_permission(PolicyAction.PROJECT_ADMINISTER, actor, "project", name, project=name)
        self.support.check(limits)
        await self._store.set_limits(name, limits, actor=actor.name, check=check)
        return await self.limits(actor, name)

    async def set_own_limits(self, actor: Actor, name: str, limits: Limits) -> ProjectLimits:
        """Set the limits that a manager imposes on the project, which may not exceed the granted
        ones.

        Raises:
            NotFound: there is no such project.
            NotAllowed: the actor does not manage the project.
            InvalidInput: a limit exceeds the granted one, or the scheduler cannot enforce it.
        """
        require_permission(PolicyAction.PROJECT_MANAGE, actor, "project", name, project=name)
        self.support.check(limits)
        _check_within(limits, await self._store.get_limits(name), "")
        await self._store.set_own_limits(name, limits, actor=actor.name)
        return await self.limits(actor, name)

    async def limits(self, actor: Actor, name: str) -> ProjectLimits:
        """Return the limits and their use. Raises ``NotFound``."""
        await self.get(actor, name)
        look = await self._store.find_limit_usage()
        granted = await self._store.get_limits(name)
        own_limits = await self._store.get_own_limits(name)
        return ProjectLimits(
            project=name,
            limits=combine_limits(granted, own_limits),
            granted=granted,
            own=own_limits,
            members=tuple(await self._store.list_memberships(name)),
            use=() if look is None else list_limit_use(name, look[0]),
            as_of=None if look is None else look[1],
        )

    async def _in_force(self, name: str) -> Limits:
        granted = await self._store.get_limits(name)
        return combine_limits(granted, await self._store.get_own_limits(name))

    def _make_member(
        self, membership: Membership, usage: tuple[LimitUsage, datetime] | None, within: Limits
    ) -> Member:
        in_slurm: bool | None = None
        if usage is not None and usage[0].enforced and self._accounts is not None:
            account = self._accounts.get(membership.user, membership.user)
            in_slurm = usage[0].find_association(membership.project, account) is not None
        effective = combine_limits(within, membership.limits)
        return Member(**dict(membership), in_slurm=in_slurm, effective=effective)


def _check_within(limits: Limits, granted: Limits, prefix: str) -> None:
    problems = [
        replace(problem, field=prefix + problem.field)
        for problem in list_limit_problems(limits, granted)
    ]
    if problems:
        raise InvalidInput(
            f"{problems[0].field}: {problems[0].message}. Only an administrator can grant more.",
            problems,
        )


def list_limit_use(account: str, usage: LimitUsage) -> tuple[LimitUse, ...]:
    """Return the current use of each limit of a Slurm account. GPUs are included even if they are
    not limited.

    Args:
        account: name of the account.
        usage: limits and their current use.
    """
    association = usage.find_association(account)
    if association is None:
        return ()
    users = usage.list_members(account)
    uses = [
        LimitUse(
            limit=_limit_name(tres),
            used=gauge.used * _get_tres_unit(tres),
            maximum=None if gauge.limit is None else gauge.limit * _get_tres_unit(tres),
            by_user=_get_use_by_user(users, tres),
            summary=summarize_use(association, tres, usage),
        )
        for tres, gauge in sorted(association.tres.items())
        if tres in _BY_TRES or tres.startswith(f"{GPU_TRES}:")
    ]
    jobs = {one.user or "": one.grp_jobs.used for one in users if one.grp_jobs.used}
    waiting = {one.user or "": one.grp_submitted.used for one in users if one.grp_submitted.used}
    uses += [
        _make_count_limit_use("max_jobs", association, jobs),
        _make_count_limit_use("max_submitted", association, waiting),
    ]
    budget = association.tres_minutes.get(GPU_TRES)
    if budget is not None and budget.limit is not None:
        used, limit = budget.used // 60, budget.limit // 60
        uses.append(LimitUse(limit="gpu_hours", used=used, maximum=limit, by_user={}, summary=None))
    return tuple(uses)


def _make_count_limit_use(
    name: str, association: AssociationUse, by: Mapping[str, int]
) -> LimitUse:
    gauge = association.grp_jobs if name == "max_jobs" else association.grp_submitted
    return LimitUse(
        limit=name, used=gauge.used, maximum=gauge.limit, by_user=dict(by), summary=None
    )


def _limit_name(tres: str) -> str:
    name = _BY_TRES.get(tres)
    return name or f"max_gpus_by_type.{tres.removeprefix(f'{GPU_TRES}:')}"


def _get_tres_unit(tres: str) -> int:
    return MIB if tres == "mem" else 1


def _get_use_by_user(users: Sequence[AssociationUse], tres: str) -> dict[str, int]:
    return {
        association.user or "": association.tres[tres].used * _get_tres_unit(tres)
        for association in users
        if tres in association.tres and association.tres[tres].used
    }
