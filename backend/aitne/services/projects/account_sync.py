"""Synchronization of Slurm's accounts with the platform's projects: differences are shown, and
applied to Slurm on request.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Callable, Sequence
from typing import ClassVar

from aitne.core.byte_size_format import describe_bytes
from aitne.core.errors import AitneError, Conflict
from aitne.core.models.base import Frozen, deprecated_copy
from aitne.core.models.limits import Limits, ProjectLayers
from aitne.core.models.project import ProjectState
from aitne.core.models.user import Actor, User
from aitne.core.ports.accounting import (
    ROOT,
    Accounting,
    AddAccount,
    AddMember,
    Associations,
    Change,
    RemoveMember,
    SetDefault,
    SetGpuTypeLimit,
    SetLimit,
    SetQos,
)
from aitne.core.projects.limit_layers import cap_member_limits, combine_limits
from aitne.core.projects.slurm_account_changes import (
    SINGLE,
    AccountingTarget,
    list_changes,
    map_lowered_names,
)
from aitne.core.units import format_duration
from aitne.core.users.permissions import PolicyAction, require_permission
from aitne.store import Store

UnixName = Callable[[str], str]
"""Function that returns a user's Unix account; raises an ``AitneError`` with the reason if there is
none.
"""


class Difference(Frozen):
    """One difference between Slurm's accounting and the platform, described in words."""

    project: str
    """Name of the project, which is also the name of the Slurm account."""
    user: str | None
    """User of the Slurm association; None means the association of the account itself."""
    field: str
    """Name of the property that differs: ``project``, ``member``, ``default project``, ``QOS`` or
    the description of a limit.
    """
    slurm: str
    """Value in Slurm's accounting."""
    platform: str
    """Value on the platform, which Slurm gets when the differences are applied."""
    portal: ClassVar = deprecated_copy("platform", str)
    what: ClassVar = deprecated_copy("field", str)


class SyncReport(Frozen):
    """All differences between Slurm's accounting and the platform. ``digest`` identifies them, so
    that an administrator applies only those that were shown.
    """

    cluster: str
    differences: tuple[Difference, ...]
    """Differences between Slurm and the platform."""
    unmanaged: tuple[str, ...]
    """Entries that exist only in Slurm or only on the platform and are not changed, each with the
    reason.
    """
    digest: str
    """Digest of the differences, which ``apply`` takes."""
    applied: bool = False
    """Whether the differences were applied to Slurm."""
    left_alone: ClassVar = deprecated_copy("unmanaged", tuple[str, ...])


class SyncService:
    """Service with which administrators compare Slurm's accounting with the platform's projects,
    and update Slurm.
    """

    def __init__(
        self,
        store: Store,
        accounting: Accounting,
        unix: UnixName,
        *,
        operators: frozenset[str],
        runs_as: str | None,
    ) -> None:
        """Store the dependencies of the service.

        ``operators`` are Slurm users that are never removed. ``runs_as``: the Unix account that all
        jobs run as, if there is no broker.
        """
        self._store = store
        self._accounting = accounting
        self._unix = unix
        self._operators = operators
        self._runs_as = runs_as

    async def compare(self, actor: Actor) -> SyncReport:
        """Return the present differences between Slurm and the platform, without changing anything.

        Raises:
            NotAllowed: the actor is not an administrator.
            Unavailable: accounting does not answer.
            NotSupported: this cluster keeps no accounts.
        """
        require_permission(PolicyAction.ACCOUNTING_SYNC, actor, "cluster", "accounting")
        associations, changes, notes = await self._read_differences()
        return _make_sync_report(associations, changes, notes)

    async def apply(self, actor: Actor, digest: str) -> SyncReport:
        """Change Slurm's accounting to remove the differences that ``compare`` returned with this
        digest.

        Raises:
            NotAllowed, Unavailable, NotSupported: for the same reasons as ``compare``.
            Conflict: the differences have changed since they were shown.
            SchedulerRejected: accounting refused a change; those before it were applied.
        """
        require_permission(PolicyAction.ACCOUNTING_SYNC, actor, "cluster", "accounting")
        associations, changes, notes = await self._read_differences()
        report = _make_sync_report(associations, changes, notes)
        if report.digest != digest:
            raise Conflict(
                "The differences have changed since they were shown. Compare again, then apply those."
            )
        if changes:
            await self._accounting.apply_changes(changes)
            documents = [change.model_dump(mode="json") for change in changes]
            await self._store.append_accounting_sync_event(documents, actor=actor.name)
        return report.model_copy(update={"applied": True})

    async def _read_differences(self) -> tuple[Associations, Sequence[Change], list[str]]:
        associations = await self._accounting.read_associations()
        target, notes = await self._make_target(associations)
        slurm_accounts = {account.account for account in associations.accounts}
        notes += [
            f"account {account}: the platform has no project of this name"
            for account in sorted(slurm_accounts - target.accounts.keys() - {ROOT})
        ]
        notes += [
            f"user {user}: Slurm stores this name as {stored} and knows no such account; set "
            "SlurmdbdParameters=PreserveCaseUser in slurmdbd.conf and delete the Slurm user "
            f"{stored}"
            for stored, user in map_lowered_names(target, associations).items()
        ]
        return associations, list_changes(target, associations), notes

    async def _make_target(self, associations: Associations) -> tuple[AccountingTarget, list[str]]:
        notes: list[str] = []
        in_force, closed = await self._read_projects(notes)
        unix = {user.name: user for user in await list_all_users(self._store)}
        names: dict[str, str] = {}
        for name in sorted(unix):
            try:
                names[name] = await asyncio.to_thread(self._unix, name)
            except AitneError as error:
                notes.append(f"user {name}: {error.message}")
        members: dict[tuple[str, str], Limits] = {}
        for membership in await self._store.list_memberships():
            if membership.project in in_force and membership.user in names:
                # Slurm lets a member's time limit and QOS override those of the account.
                limits = cap_member_limits(in_force[membership.project], membership.limits)
                members.setdefault((membership.project, names[membership.user]), limits)
        # Slurm then accepts no new jobs either; waiting and running ones stay.
        accounts = in_force | {
            name: in_force[name].model_copy(update={"max_submitted": 0}) for name in closed
        }
        for account in accounts if self._runs_as is not None else ():
            members.setdefault((account, self._runs_as or ""), Limits())
        defaults = {
            names[name]: user.default_project
            for name, user in unix.items()
            if name in names and (user.default_project, names[name]) in members
        }
        untouched = {
            slurm_user.name for slurm_user in associations.users if slurm_user.is_privileged
        } | self._operators
        known = {name for unix_name in names.values() for name in (unix_name, unix_name.lower())}
        for association in associations.members:
            user = association.user or ""
            if association.account in accounts and user not in known | untouched:
                try:
                    await asyncio.to_thread(self._unix, user)
                except AitneError as error:
                    untouched.add(user)
                    notes.append(f"user {user} in account {association.account}: {error.message}")
        return AccountingTarget(accounts, members, defaults, frozenset(untouched)), notes

    async def _read_projects(self, notes: list[str]) -> tuple[dict[str, Limits], set[str]]:
        """Return the limits in force by project name, and the names of the projects that are not
        active. Adds notes about projects that are not synchronized to ``notes``.
        """
        in_force, closed = {}, set()
        layers = await self._store.list_limit_layers()
        for project in await self._store.list_projects(visible_to=None):
            if project.name == ROOT:
                notes.append("project root: Slurm's account root is the parent of all others")
            elif project.state is ProjectState.REQUESTED:
                notes.append(f"project {project.name}: it waits for its approval")
            else:
                layer = layers.get(project.name, ProjectLayers())
                in_force[project.name] = combine_limits(layer.granted, layer.own)
                if project.state is not ProjectState.ACTIVE:
                    closed.add(project.name)
        return in_force, closed


async def list_all_users(store: Store) -> Sequence[User]:
    """Return every account of the platform."""
    users: list[User] = []
    cursor: str | None = None
    while True:
        page = await store.list_users(cursor=cursor, limit=500)
        users += page.items
        if (cursor := page.next_cursor) is None:
            return users


def _make_sync_report(
    associations: Associations, changes: Sequence[Change], notes: Sequence[str]
) -> SyncReport:
    text = json.dumps([change.model_dump(mode="json") for change in changes], sort_keys=True)
    return SyncReport(
        cluster=associations.cluster,
        differences=tuple(map(_describe_change, changes)),
        unmanaged=tuple(notes),
        digest=hashlib.sha256(f"{associations.cluster}\0{text}".encode()).hexdigest()[:16],
    )


def _describe_change(change: Change) -> Difference:
    user = getattr(change, "user", None)
    match change:
        case AddAccount():
            field, slurm, platform = "project", "missing", "present"
        case AddMember():
            field, slurm, platform = "member", "missing", "present"
        case RemoveMember():
            field, slurm, platform = "member", "present", "missing"
        case SetDefault():
            field, slurm, platform = "default project", change.before or "none", change.account
        case SetLimit():
            field = LIMIT_WORDS[change.limit]
            slurm, platform = (
                _format_limit(change.limit, change.before),
                _format_limit(change.limit, change.after),
            )
        case SetGpuTypeLimit():
            field = f"{change.type} GPUs at once"
            slurm, platform = (
                _format_limit("max_gpus", change.before),
                _format_limit("max_gpus", change.after),
            )
        case SetQos():
            field = "QOS"
            slurm, platform = (
                ",".join(qos_names) or "inherited" for qos_names in (change.before, change.after)
            )
    return Difference(
        project=change.account, user=user, field=field, slurm=slurm, platform=platform
    )


LIMIT_WORDS = dict(
    zip(
        SINGLE,
        (
            *("GPUs at once", "CPUs at once", "memory at once", "nodes at once"),
            *("running jobs", "waiting and running jobs", "time limit of a job", "GPU-hours"),
        ),
        strict=True,
    )
)


def _format_limit(limit: str, value: int | None) -> str:
    if value is None:
        return "no limit"
    if limit == "max_memory_bytes":
        return describe_bytes(value)
    return format_duration(value) if limit == "max_wall_s" else str(value)
