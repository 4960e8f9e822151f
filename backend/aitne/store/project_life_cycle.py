"""Store of the life cycle of projects: requests, states, extensions and managers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import bindparam, insert, select, update
from sqlalchemy.exc import IntegrityError

from aitne.core.errors import Conflict, NotFound
from aitne.core.models.limits import Limits, Membership
from aitne.core.models.project import (
    ExtensionRequest,
    Project,
    ProjectRole,
    ProjectState,
    ProjectStatus,
    Step,
    compute_next_state,
)
from aitne.store import tables
from aitne.store.database import Transaction
from aitne.store.portable_sql import upsert
from aitne.store.project_invitations import revoke_invitations_by
from aitne.store.project_rows import (
    MANAGERS,
    REQUESTED,
    append_project_event,
    columns_of,
    dump_limits,
    lock_project,
    project_row,
    read_limits,
    read_project,
)
from aitne.store.store_part import Check, StorePart, require_epoch

_projects = tables.projects
_members = tables.members
_limits = tables.limits
INVITED = "project.invited"
EXPIRING = "project.expiring"


_ROLES_OF = select(_members.c.project, _members.c.role).where(
    _members.c.user_name == bindparam("user")
)
_STANDING = select(*(_projects.c[name] for name in ProjectStatus.model_fields)).where(
    _projects.c.name == bindparam("project")
)


@dataclass(frozen=True, slots=True)
class ProjectChange:
    """Change of some fields of a project, by the names of the fields in ``Project``."""

    what: str
    """Description of the change in the event, such as ``title`` or ``budget``."""
    fields: Mapping[str, Any]


class ProjectLifeCycleStore(StorePart):
    """Storage of the life cycle of projects: requests for them, their terms and their managers."""

    async def request_project(self, project: Project, *, actor: str) -> None:
        """Create the project with the actor as its manager. Raises ``Conflict`` if the name is
        taken."""
        kind = REQUESTED if project.state is ProjectState.REQUESTED else None
        try:
            async with self._db.write() as tx:
                await tx.execute(insert(_projects), project_row(project))
                row = {"user_name": actor, "project": project.name, "role": ProjectRole.MANAGER}
                await tx.execute(insert(_members), row)
                append_project_event(tx, project.name, actor, "created", state=project.state)
                if kind is not None:
                    about = {"title": project.title, "reason": project.note}
                    tx.append_event(
                        kind, {"actor": actor, **about}, owner=actor, project=project.name
                    )
        except IntegrityError as error:
            raise Conflict(
                f"The project {project.name} already exists. Choose another name."
            ) from error

    async def list_user_roles(self, user: str) -> Mapping[str, ProjectRole]:
        """Return the user's projects, with the user's role in each."""
        async with self._db.read(brief=True) as connection:
            rows = await connection.execute(_ROLES_OF, {"user": user})
            return {row.project: ProjectRole(row.role) for row in rows}

    async def find_project_status(self, name: str) -> ProjectStatus | None:
        """Return the state, end and budget of the project, which determine whether it accepts jobs;
        None if there is no such project.
        """
        async with self._db.read(brief=True) as connection:
            row = (await connection.execute(_STANDING, {"project": name})).mappings().first()
        return None if row is None else ProjectStatus.model_validate(dict(row), extra="ignore")

    async def apply_project_step(
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
        async with self._db.write() as tx:
            await require_epoch(tx, epoch)
            present = await lock_project(tx, name)
            if check is not None:
                check(await read_project(tx, name))
            if due is not None and (present.expires_at is None or present.expires_at > due):
                return await read_project(tx, name)
            state = compute_next_state(step, present.state, name)
            values = {"state": state, **columns_of(fields or {})}
            await tx.execute(update(_projects).where(_projects.c.name == name).values(values))
            if limits is not None:
                await _save_limits(tx, name, "", limits)
            append_project_event(
                tx,
                name,
                actor,
                step.value,
                state=state,
                note=values.get("note"),
                requested_by=present.requested_by,
            )
            return await read_project(tx, name)

    async def update_project(
        self, name: str, change: ProjectChange, *, actor: str, check: Check[Project] = None
    ) -> Project:
        """Set fields of the project without changing its state; add an event if a field changed.

        Raises ``NotFound``.
        """
        async with self._db.write() as tx:
            present = await lock_project(tx, name)
            if check is not None:
                check(await read_project(tx, name))
            if any(getattr(present, field) != value for field, value in change.fields.items()):
                values = columns_of(change.fields)
                await tx.execute(update(_projects).where(_projects.c.name == name).values(values))
                append_project_event(tx, name, actor, change.what)
            return await read_project(tx, name)

    async def request_project_extension(self, name: str, request: ExtensionRequest) -> Project:
        """Store a manager's request to extend the project. Raises ``NotFound``."""
        values = columns_of({"extension": request})
        about = {"what": "extension", "reason": request.reason, "until": request.until.isoformat()}
        async with self._db.write() as tx:
            await lock_project(tx, name)
            await tx.execute(update(_projects).where(_projects.c.name == name).values(values))
            append_project_event(tx, name, request.by, "extension asked for")
            tx.append_event(
                REQUESTED, {"actor": request.by, **about}, owner=request.by, project=name
            )
            return await read_project(tx, name)

    async def set_member_role(
        self, name: str, user: str, role: ProjectRole, *, actor: str
    ) -> Membership:
        """Set the role of a member. If a manager loses that role, the manager's open invitations
        are revoked.

        Raises:
            NotFound: there is no such member.
            Conflict: the project would have no manager left.
        """
        condition = (_members.c.project == name) & (_members.c.user_name == user)
        limits_query = select(_limits.c.data).where(
            _limits.c.project == name, _limits.c.user_name == user
        )
        async with self._db.write() as tx:
            await lock_project(tx, name)
            present = (await tx.execute(select(_members.c.role).where(condition))).scalar()
            if present is None:
                raise NotFound("member", f"{user} of project {name}")
            if present != role:
                if role is ProjectRole.MEMBER:
                    await check_manager_remains(tx, name, user)
                    await revoke_invitations_by(tx, name, user, self._clock())
                await tx.execute(update(_members).where(condition).values(role=role))
                append_project_event(tx, name, actor, "role", user=user, role=role)
            limits = read_limits((await tx.execute(limits_query)).scalar())
        return Membership(project=name, user=user, limits=limits, role=role)

    async def get_own_limits(self, project: str) -> Limits:
        """Return the limits that the project's managers have set, which do not exceed those that
        administrators granted.
        """
        query = select(_limits.c.data).where(
            _limits.c.project == project, _limits.c.user_name == MANAGERS
        )
        async with self._db.read() as connection:
            return read_limits((await connection.execute(query)).scalar())

    async def set_own_limits(self, project: str, limits: Limits, *, actor: str) -> None:
        """Replace the limits that the project's managers set. Raises ``NotFound``."""
        async with self._db.write() as tx:
            await lock_project(tx, project)
            await _save_limits(tx, project, MANAGERS, limits)
            append_project_event(tx, project, actor, "own limits", limits=dump_limits(limits))

    async def list_ending_projects(self, before: datetime) -> Sequence[Project]:
        """List the active projects that end by ``before``, without their members."""
        query = select(_projects).where(
            _projects.c.state == ProjectState.ACTIVE, _projects.c.expires_at <= before
        )
        async with self._db.read() as connection:
            rows = (await connection.execute(query.order_by(_projects.c.name))).mappings()
            return [Project.model_validate(dict(row), extra="ignore") for row in rows]

    async def record_project_reminder(
        self, name: str, ends: datetime, days: int, *, epoch: int
    ) -> bool:
        """Record that the reminder ``days`` days before the project's end ``ends`` was sent.

        Returns False if this reminder or a later one was recorded before. Raises ``StaleEpoch`` if
        another controller is the leader.
        """
        async with self._db.write() as tx:
            await require_epoch(tx, epoch)
            statement = (
                update(_projects)
                .where(
                    _projects.c.name == name,
                    _projects.c.expires_at == ends,
                    _projects.c.reminded_days.is_(None) | (_projects.c.reminded_days > days),
                )
                .values(reminded_days=days)
            )
            if not (await tx.execute(statement)).rowcount:
                return False
            data = {"days": days, "expires_at": ends.isoformat()}
            # An empty owner limits the event to the members of the project.
            tx.append_event(EXPIRING, data, owner="", project=name)
            return True


async def check_manager_remains(tx: Transaction, project: str, user: str) -> None:
    """Check that ``user`` may cease to be a manager of the project: another manager remains, or the
    project has no other members.

    Raises:
        Conflict: ``user`` is the only manager, and the project has other members.
    """
    query = select(_members.c.user_name, _members.c.role).where(_members.c.project == project)
    roles = {row.user_name: row.role for row in await tx.execute(query)}
    managers = {name for name, role in roles.items() if role == ProjectRole.MANAGER}
    if managers == {user} and len(roles) > 1:
        raise Conflict(
            f"{user} is the only manager of {project}. Make another member its manager first."
        )


async def _save_limits(tx: Transaction, project: str, user: str, limits: Limits) -> None:
    values = {"project": project, "user_name": user, "data": dump_limits(limits)}
    await tx.execute(upsert(tx.dialect, _limits, values, ["project", "user_name"]))
