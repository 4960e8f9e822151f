"""Store of requests for projects, of their managers, and of invitations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import bindparam, insert, select, update
from sqlalchemy.exc import IntegrityError
from typing_extensions import override

from aitne.adapters.store import tables
from aitne.adapters.store.base import StorePart, require_epoch
from aitne.adapters.store.engine import Transaction
from aitne.adapters.store.group_tables import invitations
from aitne.adapters.store.portable import insert_if_absent, upsert
from aitne.adapters.store.project_rows import (
    MANAGERS,
    REQUESTED,
    dump_limits,
    lock_project,
    note,
    project_row,
    read_limits,
    read_project,
    stored,
)
from aitne.core.errors import Conflict, NotFound
from aitne.core.models.limits import Limits, Membership
from aitne.core.models.project import (
    ExtensionRequest,
    Invitation,
    ProjectRole,
    ProjectState,
    ProjectStatus,
    Step,
    after,
)
from aitne.core.models.user import Project
from aitne.core.ports.store import Check, GroupStore
from aitne.core.ports.store.groups import ProjectChange

_projects = tables.projects
_members = tables.members
_limits = tables.limits
_COLUMNS = [invitations.c[name] for name in Invitation.model_fields]
INVITED = "project.invited"
EXPIRING = "project.expiring"


_ROLES_OF = select(_members.c.project, _members.c.role).where(
    _members.c.user_name == bindparam("user")
)
_STANDING = select(*(_projects.c[name] for name in ProjectStatus.model_fields)).where(
    _projects.c.name == bindparam("project")
)


class Groups(StorePart, GroupStore):
    """Part of ``GroupStore`` about requests for projects, and projects' managers."""

    @override
    async def request_project(self, project: Project, *, actor: str) -> None:
        kind = REQUESTED if project.state is ProjectState.REQUESTED else None
        try:
            async with self._db.write() as tx:
                await tx.execute(insert(_projects), project_row(project))
                row = {"user_name": actor, "project": project.name, "role": ProjectRole.MANAGER}
                await tx.execute(insert(_members), row)
                note(tx, project.name, actor, "created", state=project.state)
                if kind is not None:
                    about = {"title": project.title, "reason": project.note}
                    tx.append_event(
                        kind, {"actor": actor, **about}, owner=actor, project=project.name
                    )
        except IntegrityError as error:
            raise Conflict(
                f"The project {project.name} already exists. Choose another name."
            ) from error

    @override
    async def roles_of(self, user: str) -> Mapping[str, ProjectRole]:
        async with self._db.read(brief=True) as connection:
            rows = await connection.execute(_ROLES_OF, {"user": user})
            return {row.project: ProjectRole(row.role) for row in rows}

    @override
    async def standing(self, name: str) -> ProjectStatus | None:
        async with self._db.read(brief=True) as connection:
            row = (await connection.execute(_STANDING, {"project": name})).mappings().first()
        return None if row is None else ProjectStatus.model_validate(dict(row), extra="ignore")

    @override
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
        async with self._db.write() as tx:
            await require_epoch(tx, epoch)
            present = await lock_project(tx, name)
            if check is not None:
                check(await read_project(tx, name))
            if due is not None and (present.expires_at is None or present.expires_at > due):
                return await read_project(tx, name)
            state = after(step, present.state, name)
            values = {"state": state, **stored(fields or {})}
            await tx.execute(update(_projects).where(_projects.c.name == name).values(values))
            if limits is not None:
                await _put_limits(tx, name, "", limits)
            note(
                tx,
                name,
                actor,
                step.value,
                state=state,
                note=values.get("note"),
                requested_by=present.requested_by,
            )
            return await read_project(tx, name)

    @override
    async def change_project(
        self, name: str, change: ProjectChange, *, actor: str, check: Check[Project] = None
    ) -> Project:
        async with self._db.write() as tx:
            present = await lock_project(tx, name)
            if check is not None:
                check(await read_project(tx, name))
            if any(getattr(present, field) != value for field, value in change.fields.items()):
                values = stored(change.fields)
                await tx.execute(update(_projects).where(_projects.c.name == name).values(values))
                note(tx, name, actor, change.what)
            return await read_project(tx, name)

    @override
    async def ask_for_time(self, name: str, wish: ExtensionRequest) -> Project:
        values = stored({"extension": wish})
        about = {"what": "extension", "reason": wish.reason, "until": wish.until.isoformat()}
        async with self._db.write() as tx:
            await lock_project(tx, name)
            await tx.execute(update(_projects).where(_projects.c.name == name).values(values))
            note(tx, name, wish.by, "extension asked for")
            tx.append_event(REQUESTED, {"actor": wish.by, **about}, owner=wish.by, project=name)
            return await read_project(tx, name)

    @override
    async def set_role(self, name: str, user: str, role: ProjectRole, *, actor: str) -> Membership:
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
                    await keep_a_manager(tx, name, user)
                    await revoke_invitations_of(tx, name, user, self._clock())
                await tx.execute(update(_members).where(condition).values(role=role))
                note(tx, name, actor, "role", user=user, role=role)
            limits = read_limits((await tx.execute(limits_query)).scalar())
        return Membership(project=name, user=user, limits=limits, role=role)

    @override
    async def own_limits_of(self, project: str) -> Limits:
        query = select(_limits.c.data).where(
            _limits.c.project == project, _limits.c.user_name == MANAGERS
        )
        async with self._db.read() as connection:
            return read_limits((await connection.execute(query)).scalar())

    @override
    async def set_own_limits(self, project: str, limits: Limits, *, actor: str) -> None:
        async with self._db.write() as tx:
            await lock_project(tx, project)
            await _put_limits(tx, project, MANAGERS, limits)
            note(tx, project, actor, "own limits", limits=dump_limits(limits))

    @override
    async def ending_projects(self, before: datetime) -> Sequence[Project]:
        query = select(_projects).where(
            _projects.c.state == ProjectState.ACTIVE, _projects.c.expires_at <= before
        )
        async with self._db.read() as connection:
            rows = (await connection.execute(query.order_by(_projects.c.name))).mappings()
            return [Project.model_validate(dict(row), extra="ignore") for row in rows]

    @override
    async def remind(self, name: str, ends: datetime, days: int, *, epoch: int) -> bool:
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


class Invitations(StorePart, GroupStore):
    """Part of ``GroupStore`` about invitations."""

    @override
    async def create_invitation(self, invitation: Invitation, token_hash: str) -> None:
        async with self._db.write() as tx:
            await lock_project(tx, invitation.project)
            row = {**invitation.model_dump(), "token_hash": token_hash}
            await tx.execute(insert(invitations), row)
            note(
                tx,
                invitation.project,
                invitation.created_by,
                "invitation made",
                role=invitation.role,
            )

    @override
    async def invitations(self, project: str) -> Sequence[Invitation]:
        query = (
            select(*_COLUMNS)
            .where(invitations.c.project == project)
            .order_by(invitations.c.created_at.desc(), invitations.c.id)
        )
        async with self._db.read() as connection:
            rows = (await connection.execute(query)).mappings()
            return [Invitation.model_validate(dict(row)) for row in rows]

    @override
    async def revoke_invitation(self, project: str, id_: str, now: datetime, *, actor: str) -> None:
        condition = (invitations.c.project == project) & (invitations.c.id == id_)
        async with self._db.write() as tx:
            if (await tx.execute(select(invitations.c.id).where(condition))).first() is None:
                raise NotFound("invitation", id_)
            open_ = condition & invitations.c.revoked_at.is_(None)
            result = await tx.execute(update(invitations).where(open_).values(revoked_at=now))
            if result.rowcount:
                note(tx, project, actor, "invitation revoked")

    @override
    async def invitation_of(self, token_hash: str) -> Invitation | None:
        query = select(*_COLUMNS).where(invitations.c.token_hash == token_hash)
        async with self._db.read() as connection:
            row = (await connection.execute(query)).mappings().first()
        return None if row is None else Invitation.model_validate(dict(row))

    @override
    async def accept_invitation(self, token_hash: str, user: str, now: datetime) -> Membership:
        query = select(*_COLUMNS).where(invitations.c.token_hash == token_hash)
        async with self._db.write() as tx:
            # Two users who accept concurrently must not both get the last place.
            row = (await tx.execute(query.with_for_update())).mappings().first()
            if row is None:
                raise NotFound("invitation", "of this link", "No invitation has this link.")
            invitation = Invitation.model_validate(dict(row))
            project = await lock_project(tx, invitation.project)
            if project.state is not ProjectState.ACTIVE:
                raise Conflict(
                    f"Project {invitation.project} is {project.state}: it accepts no new members now."
                )
            condition = (_members.c.project == invitation.project) & (_members.c.user_name == user)
            present = (await tx.execute(select(_members.c.role).where(condition))).scalar()
            role = ProjectRole(present) if present is not None else None
            if role is None or (
                role is ProjectRole.MEMBER and invitation.role is ProjectRole.MANAGER
            ):
                if not invitation.open_at(now):
                    raise Conflict(
                        "This invitation is no longer valid: it was used up, has expired or was revoked. "
                        f"Ask {invitation.created_by} for a new one."
                    )
                await self._join(tx, invitation, user, joined=role is not None)
                role = invitation.role
        return Membership(project=invitation.project, user=user, role=role)

    async def _join(
        self, tx: Transaction, invitation: Invitation, user: str, *, joined: bool
    ) -> None:
        if joined:
            condition = (_members.c.project == invitation.project) & (_members.c.user_name == user)
            await tx.execute(update(_members).where(condition).values(role=invitation.role))
        else:
            statement = insert_if_absent(tx.dialect, _members)
            row = {"user_name": user, "project": invitation.project, "role": invitation.role}
            await tx.execute(statement.values(row))
        used = update(invitations).where(invitations.c.id == invitation.id)
        await tx.execute(used.values(uses=invitations.c.uses + 1))
        about = {"user": user, "role": invitation.role, "invited_by": invitation.created_by}
        note(tx, invitation.project, user, "role" if joined else "member added", **about)


async def keep_a_manager(tx: Transaction, project: str, user: str) -> None:
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


async def revoke_invitations_of(tx: Transaction, project: str, user: str, now: datetime) -> None:
    """Revoke the invitations that a former manager of the project created."""
    theirs = (
        (invitations.c.project == project)
        & (invitations.c.created_by == user)
        & invitations.c.revoked_at.is_(None)
    )
    await tx.execute(update(invitations).where(theirs).values(revoked_at=now))


async def _put_limits(tx: Transaction, project: str, whose: str, limits: Limits) -> None:
    values = {"project": project, "user_name": whose, "data": dump_limits(limits)}
    await tx.execute(upsert(tx.dialect, _limits, values, ["project", "user_name"]))
