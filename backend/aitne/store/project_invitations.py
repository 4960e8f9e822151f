"""Store of invitations to projects."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import insert, select, update

from aitne.core.errors import Conflict, NotFound
from aitne.core.models.limits import Membership
from aitne.core.models.project import Invitation, ProjectRole, ProjectState
from aitne.store import tables
from aitne.store.database import Transaction
from aitne.store.invitation_usage_tables import invitations
from aitne.store.portable_sql import insert_if_absent
from aitne.store.project_rows import append_project_event, lock_project
from aitne.store.store_part import StorePart

_projects = tables.projects
_members = tables.members
_COLUMNS = [invitations.c[name] for name in Invitation.model_fields]


class InvitationStore(StorePart):
    """Storage of invitations to projects."""

    async def create_invitation(self, invitation: Invitation, token_hash: str) -> None:
        """Store the invitation. Raises ``NotFound`` if there is no such project."""
        async with self._db.write() as tx:
            await lock_project(tx, invitation.project)
            row = {**invitation.model_dump(), "token_hash": token_hash}
            await tx.execute(insert(invitations), row)
            append_project_event(
                tx,
                invitation.project,
                invitation.created_by,
                "invitation made",
                role=invitation.role,
            )

    async def list_invitations(self, project: str) -> Sequence[Invitation]:
        """List the project's invitations, newest first, including those that are no longer
        valid."""
        query = (
            select(*_COLUMNS)
            .where(invitations.c.project == project)
            .order_by(invitations.c.created_at.desc(), invitations.c.id)
        )
        async with self._db.read() as connection:
            rows = (await connection.execute(query)).mappings()
            return [Invitation.model_validate(dict(row)) for row in rows]

    async def revoke_invitation(self, project: str, id_: str, now: datetime, *, actor: str) -> None:
        """Revoke the invitation; a repeated call has no further effect. Raises ``NotFound``."""
        condition = (invitations.c.project == project) & (invitations.c.id == id_)
        async with self._db.write() as tx:
            if (await tx.execute(select(invitations.c.id).where(condition))).first() is None:
                raise NotFound("invitation", id_)
            open_ = condition & invitations.c.revoked_at.is_(None)
            result = await tx.execute(update(invitations).where(open_).values(revoked_at=now))
            if result.rowcount:
                append_project_event(tx, project, actor, "invitation revoked")

    async def find_invitation(self, token_hash: str) -> Invitation | None:
        """Return the invitation whose link has the token with this hash, valid or not; None if
        there is none.
        """
        query = select(*_COLUMNS).where(invitations.c.token_hash == token_hash)
        async with self._db.read() as connection:
            row = (await connection.execute(query)).mappings().first()
        return None if row is None else Invitation.model_validate(dict(row))

    async def accept_invitation(self, token_hash: str, user: str, now: datetime) -> Membership:
        """Make ``user`` a member of the invitation's project, or give the member the higher role of
        the invitation.

        A call that changes nothing does not count as a use of the invitation.

        Raises:
            NotFound: there is no such invitation.
            Conflict: the invitation is no longer valid, or the project accepts no new members.
        """
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
                if not invitation.is_open_at(now):
                    raise Conflict(
                        "This invitation is no longer valid: it was used up, has expired or was revoked. "
                        f"Ask {invitation.created_by} for a new one."
                    )
                await self._save_membership(tx, invitation, user, joined=role is not None)
                role = invitation.role
        return Membership(project=invitation.project, user=user, role=role)

    async def _save_membership(
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
        append_project_event(
            tx, invitation.project, user, "role" if joined else "member added", **about
        )


async def revoke_invitations_by(tx: Transaction, project: str, user: str, now: datetime) -> None:
    """Revoke the invitations that a former manager of the project created."""
    theirs = (
        (invitations.c.project == project)
        & (invitations.c.created_by == user)
        & invitations.c.revoked_at.is_(None)
    )
    await tx.execute(update(invitations).where(theirs).values(revoked_at=now))
