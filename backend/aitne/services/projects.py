"""Projects: who is a member, what they may use, and how much of it is in use."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime

from aitne.core.models.base import Frozen, UtcTime
from aitne.core.models.limits import MIB, AssociationUse, InUse, Limits, Membership
from aitne.core.models.user import Actor, Project
from aitne.core.policy import Action, require
from aitne.core.ports.store import Store
from aitne.services.limits import GPU, summary

_BY_TRES = {GPU: "max_gpus", "cpu": "max_cpus", "node": "max_nodes", "mem": "max_memory_bytes"}


class Use(Frozen):
    """How much of one limit is in use, as the scheduler counts."""

    limit: str
    """A field of ``Limits``; of a GPU type ``max_gpus_by_type.<type>``."""
    used: int
    most: int | None
    """What the scheduler holds to, which may be another number than the project's until a sync."""
    by: dict[str, int]
    """What each member uses of it, by Unix account."""
    summary: str | None
    """``project vision: 6 of 8 GPUs in use by alice 4, bob 2``."""


class ProjectLimits(Frozen):
    """A project's limits, those of its members, and what is in use."""

    project: str
    limits: Limits
    members: tuple[Membership, ...]
    use: tuple[Use, ...]
    """Empty where the scheduler keeps no accounts, or has no account of this name."""
    as_of: UtcTime | None


class ProjectService:
    """What members may see and administrators change."""

    def __init__(self, store: Store, clock: Callable[[], datetime]) -> None:
        self._store = store
        self._clock = clock

    async def get(self, actor: Actor, name: str) -> Project:
        """Raises ``NotFound``."""
        require(Action.PROJECT_READ, actor, "project", name, project=name)
        return await self._store.get_project(name)

    async def create(
        self, actor: Actor, *, name: str, title: str = "", limits: Limits | None = None
    ) -> Project:
        """Make a project without members. Raises ``NotAllowed``, ``NotFound``, ``Conflict``."""
        require(Action.PROJECT_ADMINISTER, actor, "project", name, project=name)
        project = Project(name=name, title=title, created_at=self._clock())
        await self._store.create_project(project, limits or Limits(), actor=actor.name)
        return project

    async def rename(self, actor: Actor, name: str, title: str) -> Project:
        """Give it another title. Raises ``NotFound``, ``NotAllowed``."""
        require(Action.PROJECT_ADMINISTER, actor, "project", name, project=name)
        await self._store.rename_project(name, title, actor=actor.name)
        return await self._store.get_project(name)

    async def members(self, actor: Actor, name: str) -> Sequence[Membership]:
        """Who works in it, with the limits of each. Raises ``NotFound``."""
        await self.get(actor, name)
        return await self._store.memberships(name)

    async def put_member(
        self, actor: Actor, name: str, user: str, *, limits: Limits | None, default: bool
    ) -> Membership:
        """Make somebody a member, or change a member's limits. ``limits`` None leaves them.

        Raises ``NotFound``, ``NotAllowed``."""
        require(Action.PROJECT_ADMINISTER, actor, "project", name, project=name)
        return await self._store.put_member(
            name, user, limits=limits, default=default, actor=actor.name
        )

    async def remove_member(self, actor: Actor, name: str, user: str) -> None:
        """Raises ``NotFound``; ``NotAllowed``; ``Conflict`` for the user's default project."""
        require(Action.PROJECT_ADMINISTER, actor, "project", name, project=name)
        await self._store.remove_member(name, user, actor=actor.name)

    async def set_limits(self, actor: Actor, name: str, limits: Limits) -> ProjectLimits:
        """Replace the project's limits; Slurm has them after the next sync.

        Raises ``NotFound``, ``NotAllowed``."""
        require(Action.PROJECT_ADMINISTER, actor, "project", name, project=name)
        await self._store.set_limits(name, limits, actor=actor.name)
        return await self.limits(actor, name)

    async def limits(self, actor: Actor, name: str) -> ProjectLimits:
        """Limits and what is in use of them. Raises ``NotFound``."""
        await self.get(actor, name)
        look = await self._store.in_use()
        return ProjectLimits(
            project=name,
            limits=await self._store.limits_of(name),
            members=tuple(await self._store.memberships(name)),
            use=() if look is None else use_of(name, look[0]),
            as_of=None if look is None else look[1],
        )


def use_of(account: str, look: InUse) -> tuple[Use, ...]:
    """What is in use of an account's limits; GPUs also where they are not limited."""
    each = look.of(account)
    if each is None:
        return ()
    users = look.users_of(account)
    found = [
        Use(
            limit=_limit_name(tres),
            used=gauge.used * _unit(tres),
            most=None if gauge.limit is None else gauge.limit * _unit(tres),
            by=_by(users, tres),
            summary=summary(each, tres, look),
        )
        for tres, gauge in sorted(each.tres.items())
        if tres in _BY_TRES or tres.startswith(f"{GPU}:")
    ]
    jobs = {one.user or "": one.grp_jobs.used for one in users if one.grp_jobs.used}
    waiting = {one.user or "": one.grp_submitted.used for one in users if one.grp_submitted.used}
    found += [_counted("max_jobs", each, jobs), _counted("max_submitted", each, waiting)]
    budget = each.tres_minutes.get(GPU)
    if budget is not None and budget.limit is not None:
        used, most = budget.used // 60, budget.limit // 60
        found.append(Use(limit="gpu_hours", used=used, most=most, by={}, summary=None))
    return tuple(found)


def _counted(name: str, each: AssociationUse, by: Mapping[str, int]) -> Use:
    gauge = each.grp_jobs if name == "max_jobs" else each.grp_submitted
    return Use(limit=name, used=gauge.used, most=gauge.limit, by=dict(by), summary=None)


def _limit_name(tres: str) -> str:
    known = _BY_TRES.get(tres)
    return known or f"max_gpus_by_type.{tres.removeprefix(f'{GPU}:')}"


def _unit(tres: str) -> int:
    return MIB if tres == "mem" else 1


def _by(users: Sequence[AssociationUse], tres: str) -> dict[str, int]:
    return {
        each.user or "": each.tres[tres].used * _unit(tres)
        for each in users
        if tres in each.tres and each.tres[tres].used
    }
