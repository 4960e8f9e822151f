"""Store of projects, memberships and limits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import delete, insert, select, update
from sqlalchemy.exc import IntegrityError

from aitne.core.errors import Conflict, NotFound
from aitne.core.models.limits import Limits, LimitUsage, Membership, ProjectLayers
from aitne.core.models.project import Project, ProjectRole
from aitne.store import tables
from aitne.store.database import Transaction
from aitne.store.portable_sql import insert_if_absent, upsert
from aitne.store.project_invitations import revoke_invitations_by
from aitne.store.project_life_cycle import INVITED, check_manager_remains
from aitne.store.project_rows import (
    MANAGERS,
    WHOLE,
    append_project_event,
    dump_limits,
    lock_project,
    project_of,
    project_row,
    read_limits,
)
from aitne.store.store_part import Check, StorePart, require_epoch

_users = tables.users
_projects = tables.projects
_members = tables.members
_limits = tables.limits
_in_use = tables.in_use

CLUSTER = "local"
"""Name of the one cluster in ``in_use``."""
SYNCED = "accounting.synced"


class ProjectStore(StorePart):
    """Storage of projects, their members and limits, and the last known use of the limits."""

    async def create_project(
        self, project: Project, limits: Limits, *, actor: str, manager: str | None = None
    ) -> None:
        """Create the project, with ``manager`` as its only member or without members.

        Raises ``Conflict`` if the name is taken."""
        try:
            async with self._db.write() as tx:
                await tx.execute(insert(_projects), project_row(project))
                if not limits.is_empty:
                    await _save_limits(tx, project.name, WHOLE, limits)
                if manager is not None:
                    row = {"user_name": manager, "project": project.name}
                    await tx.execute(insert(_members), {**row, "role": ProjectRole.MANAGER})
                append_project_event(tx, project.name, actor, "created")
        except IntegrityError as error:
            raise Conflict(
                f"The project {project.name} already exists. Choose another name."
            ) from error

    async def get_project(self, name: str) -> Project:
        """Return the project with its members. Raises ``NotFound``."""
        query = (
            select(_projects, _members.c.user_name, _members.c.role)
            .outerjoin(_members, _members.c.project == _projects.c.name)
            .where(_projects.c.name == name)
        )
        async with self._db.read() as connection:
            rows = (await connection.execute(query)).mappings().all()
        if not rows:
            raise NotFound("project", name)
        people = [(row["user_name"], row["role"]) for row in rows if row["user_name"] is not None]
        return project_of(rows[0], people)

    async def save_member(
        self,
        project: str,
        user: str,
        *,
        limits: Limits | None = None,
        default: bool = False,
        actor: str,
    ) -> Membership:
        """Make the user a member of the project if that is not the case; set the user's limits in
        it unless ``limits`` is None; with ``default``, make it the user's default project.

        A call that changes nothing adds no event.

        Raises:
            NotFound: there is no such project or user.
        """
        async with self._db.write() as tx:
            await _require_project(tx, project)
            row = (await tx.execute(select(_users).where(_users.c.name == user))).first()
            if row is None:
                raise NotFound("user", user)
            statement = insert_if_absent(tx.dialect, _members)
            added = (
                await tx.execute(statement.values(user_name=user, project=project))
            ).rowcount > 0
            if added:
                append_project_event(tx, project, actor, "member added", user=user)
                if actor != user:
                    tx.append_event(INVITED, {"actor": actor}, owner=user, project=project)
            present = await _read_limits(tx, project, user)
            if limits is not None and limits != present:
                await _save_limits(tx, project, user, limits)
                append_project_event(
                    tx, project, actor, "limits", user=user, limits=dump_limits(limits)
                )
            if default and row.default_project != project:
                changed = update(_users).where(_users.c.name == user)
                await tx.execute(changed.values(default_project=project))
                append_project_event(tx, project, actor, "default project", user=user)
            condition = (_members.c.project == project) & (_members.c.user_name == user)
            role = (await tx.execute(select(_members.c.role).where(condition))).scalar_one()
        return Membership(project=project, user=user, limits=limits or present, role=role)

    async def remove_member(self, project: str, user: str, *, actor: str) -> None:
        """Remove the member and the limits that were set for this member.

        Raises:
            NotFound: there is no such member.
            Conflict: the project is the user's default project.
        """
        member_deletion = delete(_members).where(
            _members.c.project == project, _members.c.user_name == user
        )
        limit_deletion = delete(_limits).where(
            _limits.c.project == project, _limits.c.user_name == user
        )
        default = select(_users.c.default_project).where(_users.c.name == user)
        async with self._db.write() as tx:
            # Two managers who remove each other concurrently must not both succeed.
            await lock_project(tx, project)
            await check_manager_remains(tx, project, user)
            if not (await tx.execute(member_deletion)).rowcount:
                raise NotFound("member", f"{user} of project {project}")
            if (await tx.execute(default)).scalar() == project:
                raise Conflict(
                    f"{project} is the default project of {user}. Set another default project first: "
                    f"`aitne admin member add PROJECT {user} --default`."
                )
            await tx.execute(limit_deletion)
            await revoke_invitations_by(tx, project, user, self._clock())
            append_project_event(tx, project, actor, "member removed", user=user)

    async def set_limits(
        self, project: str, limits: Limits, *, actor: str, check: Check[Limits] = None
    ) -> None:
        """Set the limits of the project as a whole. Raises ``NotFound``."""
        async with self._db.write() as tx:
            await lock_project(tx, project)
            present = await _read_limits(tx, project, WHOLE)
            if check is not None:
                check(present)
            if limits != present:
                await _save_limits(tx, project, WHOLE, limits)
                append_project_event(tx, project, actor, "limits", limits=dump_limits(limits))

    async def get_limits(self, project: str) -> Limits:
        """Return the limits of the project as a whole; no limits if none were set."""
        query = select(_limits.c.data).where(
            _limits.c.project == project, _limits.c.user_name == WHOLE
        )
        async with self._db.read() as connection:
            return read_limits((await connection.execute(query)).scalar())

    async def list_limit_layers(self) -> Mapping[str, ProjectLayers]:
        """Return all limits that are set, by project; projects without limits are omitted."""
        layers: dict[str, dict[str, Limits]] = {}
        async with self._db.read() as connection:
            for row in await connection.execute(select(_limits)):
                limits = read_limits(row.data)
                if not limits.is_empty:
                    layers.setdefault(row.project, {})[row.user_name] = limits
        return {
            project: ProjectLayers(
                granted=by_user.pop(WHOLE, Limits()),
                own=by_user.pop(MANAGERS, Limits()),
                members=by_user,
            )
            for project, by_user in layers.items()
        }

    async def list_memberships(self, project: str | None = None) -> Sequence[Membership]:
        """List the memberships of one project, or of all, by project and user."""
        same = (_limits.c.project == _members.c.project) & (
            _limits.c.user_name == _members.c.user_name
        )
        query = (
            select(_members, _limits.c.data)
            .outerjoin(_limits, same)
            .order_by(_members.c.project, _members.c.user_name)
        )
        if project is not None:
            query = query.where(_members.c.project == project)
        async with self._db.read() as connection:
            return [
                Membership(
                    project=row.project,
                    user=row.user_name,
                    limits=read_limits(row.data),
                    role=row.role,
                )
                for row in await connection.execute(query)
            ]

    async def append_accounting_sync_event(
        self, changes: Sequence[Mapping[str, Any]], *, actor: str
    ) -> None:
        """Add the event ``accounting.synced`` for administrators, with the changes that were made
        in Slurm.
        """
        async with self._db.write() as tx:
            tx.append_event(SYNCED, {"actor": actor, "changes": list(changes)}, owner=actor)

    async def save_limit_usage(self, in_use: LimitUsage, taken_at: datetime, *, epoch: int) -> None:
        """Replace the stored use of all limits by ``in_use``, which accounting reported at
        ``taken_at``.

        Raises ``StaleEpoch`` if another controller is the leader.
        """
        data = in_use.model_dump(mode="json", exclude_defaults=True)
        values = {"cluster": CLUSTER, "taken_at": taken_at, "data": data}
        async with self._db.write() as tx:
            await require_epoch(tx, epoch)
            await tx.execute(upsert(tx.dialect, _in_use, values, ["cluster"]))

    async def find_limit_usage(self) -> tuple[LimitUsage, datetime] | None:
        """Return the stored use of all limits and the time at which accounting reported it; None if
        none was stored yet.
        """
        query = select(_in_use.c.data, _in_use.c.taken_at).where(_in_use.c.cluster == CLUSTER)
        async with self._db.read(brief=True) as connection:
            row = (await connection.execute(query)).first()
        return None if row is None else (LimitUsage.model_validate(row.data), row.taken_at)


async def _require_project(tx: Transaction, project: str) -> None:
    if (await tx.execute(select(_projects.c.name).where(_projects.c.name == project))).first():
        return
    raise NotFound("project", project)


async def _read_limits(tx: Transaction, project: str, user: str) -> Limits:
    query = select(_limits.c.data).where(_limits.c.project == project, _limits.c.user_name == user)
    return read_limits((await tx.execute(query)).scalar())


async def _save_limits(tx: Transaction, project: str, user: str, limits: Limits) -> None:
    values = {"project": project, "user_name": user, "data": dump_limits(limits)}
    await tx.execute(upsert(tx.dialect, _limits, values, ["project", "user_name"]))
