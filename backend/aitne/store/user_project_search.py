"""Store of the lists of users and projects, with search, sort orders and pages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import ColumnElement, and_, func, literal, or_, select

from aitne.core.models.project import Project, ProjectState
from aitne.core.models.user_project_search import ProjectSearch, UserListItem, UserSearch, UserSort
from aitne.store import paging, tables
from aitne.store.column_types import UtcDateTime
from aitne.store.paging import Page
from aitne.store.project_rows import project_of
from aitne.store.store_part import StorePart

_users = tables.users
_projects = tables.projects
_members = tables.members
_NEVER = datetime(1970, 1, 1, tzinfo=UTC)
_SORT_COLUMNS: Mapping[UserSort, ColumnElement[Any]] = {
    UserSort.NAME: _users.c.name,
    UserSort.CREATED: _users.c.created_at,
    UserSort.LAST_LOGIN: func.coalesce(
        _users.c.last_login_at, literal(_NEVER, UtcDateTime()), type_=UtcDateTime()
    ),
}


class DirectoryStore(StorePart):
    """Queries of the lists of users and projects."""

    async def list_users(
        self,
        search: UserSearch | None = None,
        *,
        sort: UserSort = UserSort.NAME,
        descending: bool = False,
        cursor: str | None = None,
        limit: int = 100,
    ) -> Page[UserListItem]:
        """Return one page of all users, or of those that match ``search``."""
        conditions = _user_conditions(search or UserSearch())
        column = _SORT_COLUMNS[sort]
        kind = f"users {sort} {'desc' if descending else 'asc'}"
        columns = [_users.c[name] for name in UserListItem.model_fields]
        query = select(*columns, column.label("sort_key")).where(*conditions)
        if cursor is not None:
            query = query.where(
                _make_after_condition(column, sort, kind, cursor, descending=descending)
            )
        order = [column, _users.c.name]
        query = query.order_by(*(each.desc() if descending else each for each in order))
        async with self._db.read() as connection:
            count = select(func.count()).select_from(_users).where(*conditions)
            total = (await connection.execute(count)).scalar_one()
            rows = (await connection.execute(query.limit(limit + 1))).mappings().all()
        return Page(
            items=tuple(
                UserListItem.model_validate({name: row[name] for name in UserListItem.model_fields})
                for row in rows[:limit]
            ),
            next_cursor=_encode_cursor(kind, rows[limit - 1]) if len(rows) > limit else None,
            total=total,
        )

    async def list_projects(self, *, visible_to: str | None) -> Sequence[Project]:
        """List projects by name: all, or with ``visible_to`` only the projects of which that user
        is a member."""
        return list((await self.search_projects(ProjectSearch(), visible_to=visible_to)).items)

    async def search_projects(
        self,
        search: ProjectSearch,
        *,
        visible_to: str | None,
        cursor: str | None = None,
        limit: int | None = None,
    ) -> Page[Project]:
        """Return a page of the projects that match ``search``, sorted by name; all of them if
        ``limit`` is None.
        """
        conditions = _project_conditions(search)
        if visible_to is not None:
            own = select(_members.c.project).where(_members.c.user_name == visible_to)
            conditions.append(_projects.c.name.in_(own))
        query = select(_projects).where(*conditions).order_by(_projects.c.name)
        if cursor is not None:
            (after,) = paging.decode_cursor("projects", cursor, 1)
            query = query.where(_projects.c.name > after)
        if limit is not None:
            query = query.limit(limit + 1)
        async with self._db.read() as connection:
            count = select(func.count()).select_from(_projects).where(*conditions)
            total = (await connection.execute(count)).scalar_one()
            rows = (await connection.execute(query)).mappings().all()
            more = limit is not None and len(rows) > limit
            rows = rows[:limit]
            names = select(_projects.c.name).where(*conditions)
            listed = names if limit is None else [row["name"] for row in rows]
            columns = (_members.c.project, _members.c.user_name, _members.c.role)
            members = select(*columns).where(_members.c.project.in_(listed))
            people: dict[str, list[tuple[str, str]]] = {}
            for member in await connection.execute(members):
                people.setdefault(member.project, []).append((member.user_name, member.role))
        return Page(
            items=tuple(project_of(row, people.get(row["name"], ())) for row in rows),
            next_cursor=paging.encode_cursor("projects", rows[-1]["name"]) if more else None,
            total=total,
        )


def _make_contains_condition(
    columns: Sequence[ColumnElement[Any]], text: str
) -> ColumnElement[bool]:
    return or_(*(func.lower(each).contains(text.lower(), autoescape=True) for each in columns))


def _user_conditions(search: UserSearch) -> list[ColumnElement[bool]]:
    conditions = []
    if search.q is not None:
        conditions.append(
            _make_contains_condition(
                (_users.c.name, _users.c.display_name, _users.c.mail), search.q
            )
        )
    if search.role is not None:
        conditions.append(_users.c.role == search.role)
    if search.disabled is not None:
        conditions.append(_users.c.disabled.is_(search.disabled))
    return conditions


def _make_after_condition(
    column: ColumnElement[Any], sort: UserSort, kind: str, cursor: str, *, descending: bool
) -> ColumnElement[bool]:
    key, name = paging.decode_cursor(kind, cursor, 2)
    value: str | datetime = key
    if sort is not UserSort.NAME:
        try:
            value = paging.parse_time(key)
        except ValueError as error:
            raise paging.make_foreign_cursor_error(cursor) from error
    beyond = column < value if descending else column > value
    next_name = _users.c.name < name if descending else _users.c.name > name
    return or_(beyond, and_(column == value, next_name))


def _encode_cursor(kind: str, row: Mapping[Any, Any]) -> str:
    key = row["sort_key"]
    return paging.encode_cursor(
        kind, key.isoformat() if isinstance(key, datetime) else key, row["name"]
    )


def _project_conditions(search: ProjectSearch) -> list[ColumnElement[bool]]:
    conditions = []
    if search.q is not None:
        conditions.append(_make_contains_condition((_projects.c.name, _projects.c.title), search.q))
    if search.state is not None:
        conditions.append(_projects.c.state == search.state)
    if search.pending:
        conditions.append(
            or_(
                _projects.c.state == ProjectState.REQUESTED,
                _projects.c.extension.is_not(None),
            )
        )
    if search.personal is not None:
        personal = _projects.c.name.in_(_personal_projects())
        conditions.append(personal if search.personal else ~personal)
    return conditions


def _personal_projects() -> Any:
    """Return a query of the personal projects: those whose only member has the project as default
    project.
    """
    single = (
        select(_members.c.project).group_by(_members.c.project).having(func.count() == 1)
    ).scalar_subquery()
    return (
        select(_members.c.project)
        .join(_users, _users.c.name == _members.c.user_name)
        .where(_users.c.default_project == _members.c.project, _members.c.project.in_(single))
    )
