"""Conversion between the database rows of projects and their model, and the events of their
changes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel
from sqlalchemy import RowMapping, select

from aitne.core.errors import NotFound
from aitne.core.models.limits import Limits
from aitne.core.models.project import Project, ProjectRole
from aitne.local_system.state_file_reader import parse_state_document
from aitne.store import tables
from aitne.store.database import Transaction

_projects = tables.projects
_members = tables.members

CHANGED = "project.changed"
REQUESTED = "project.requested"
WHOLE = ""
"""User name in the table ``limits`` of limits of the whole project that administrators set."""
MANAGERS = "@"
"""User name in the table ``limits`` of limits of the whole project that the project's managers set.
"""


def columns_of(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Convert fields of a project to values of its columns. A new end date resets the record of
    sent reminders.
    """
    values = {
        name: value.model_dump(mode="json") if isinstance(value, BaseModel) else value
        for name, value in fields.items()
    }
    return values | ({"reminded_days": None} if "expires_at" in values else {})


def project_row(project: Project) -> dict[str, Any]:
    """Return the columns of a project's row."""
    return columns_of({name: getattr(project, name) for name in _COLUMNS})


_COLUMNS = [name for name in Project.model_fields if name not in ("members", "managers")]


def append_project_event(
    tx: Transaction, project: str, actor: str, what: str, **about: Any
) -> None:
    """Append the event ``project.changed``, which says that ``actor`` made the change ``what``."""
    # An event with an owner is only for the project's members and administrators.
    tx.append_event(CHANGED, {"actor": actor, "what": what, **about}, owner=actor, project=project)


async def lock_project(tx: Transaction, name: str) -> Project:
    """Read the project without its members and lock it until the commit. Raises ``NotFound``."""
    query = select(_projects).where(_projects.c.name == name).with_for_update()
    row = (await tx.execute(query)).mappings().first()
    if row is None:
        raise NotFound("project", name)
    return Project.model_validate(dict(row), extra="ignore")


async def read_project(tx: Transaction, name: str) -> Project:
    """Return the project with its members, as visible in this transaction."""
    row = (await tx.execute(select(_projects).where(_projects.c.name == name))).mappings().one()
    query = select(_members.c.user_name, _members.c.role).where(_members.c.project == name)
    return project_of(row, [(member.user_name, member.role) for member in await tx.execute(query)])


def project_of(row: Mapping[str, Any] | RowMapping, members: Sequence[tuple[str, str]]) -> Project:
    """Return a project with its members from its row and pairs of user and role. The order of
    members does not depend on the database's locale.
    """
    return Project.model_validate(
        {
            **row,
            "members": sorted(user for user, _ in members),
            "managers": sorted(user for user, role in members if role == ProjectRole.MANAGER),
        },
        extra="ignore",
    )


def read_limits(data: Mapping[str, Any] | None) -> Limits:
    """Return the stored limits, without what only a later release knows; None: there are none."""
    return parse_state_document(Limits, data or {})


def dump_limits(limits: Limits) -> dict[str, Any]:
    """Return the limits as a JSON object without those that are not set."""
    return limits.model_dump(mode="json", exclude_defaults=True)
