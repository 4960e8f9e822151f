"""Life cycle of a project: requested, approved, closed, reopened or extended."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

from aitne.core.errors import Conflict, InvalidInput, NotAllowed, NotFound
from aitne.core.models.limits import Limits
from aitne.core.models.project import (
    Budget,
    ExtensionRequest,
    Project,
    ProjectState,
    Retention,
    Step,
)
from aitne.core.models.user import Actor
from aitne.core.projects.settings import ProjectSettings
from aitne.core.retention import RetentionSettings, list_retention_problems
from aitne.core.users.permissions import PolicyAction, require_permission
from aitne.services.projects.limit_checks import LimitSupport
from aitne.services.projects.project_balance import month_of
from aitne.store import Store
from aitne.store.project_life_cycle import ProjectChange
from aitne.store.store_part import Check

MOST_REQUESTS = 5
"""Maximum number of requested projects of one user that are not approved or declined yet."""
ADMIN, MANAGER = "admin", "manager"


class ProjectLife:
    """Service for the life cycle of projects: creation, approval, closing, and changes of end date,
    title and budget.
    """

    def __init__(
        self,
        store: Store,
        settings: ProjectSettings,
        support: LimitSupport,
        clock: Callable[[], datetime],
        retention: RetentionSettings | None = None,
    ) -> None:
        self._store = store
        self._retention = retention or RetentionSettings()
        self._support = support
        self._settings = settings
        self._clock = clock

    async def create(
        self,
        actor: Actor,
        *,
        name: str,
        title: str = "",
        description: str = "",
        reason: str | None = None,
        limits: Limits | None = None,
        budget: Budget | None = None,
        expires_at: datetime | None = None,
        manager: str | None = None,
    ) -> Project:
        """Create a project; if the site requires approval, the project is created in the state
        requested.

        If an administrator creates it, ``manager`` becomes its only member (None: it has no
        members); any other user becomes its manager.

        Raises:
            InvalidInput: ``manager`` is not a user.
            NotAllowed: only administrators may create projects on this site, or set limits and
                budgets.
            Conflict: the name is taken, or the actor has too many open requests.
        """
        require_permission(PolicyAction.PROJECT_REQUEST, actor, "project", name)
        self._check_end(expires_at)
        self._support.check(limits, "limits.")
        project = Project(
            name=name,
            title=title,
            description=description,
            note=reason,
            expires_at=expires_at,
            created_at=self._clock(),
        )
        if actor.is_admin:
            fields = {"budget": self._with_start_month(budget)}
            made = project.model_copy(update=fields)
            if manager is not None:
                await self._check_user(manager)
            await self._store.create_project(
                made, limits or Limits(), actor=actor.name, manager=manager
            )
            return await self._store.get_project(name)
        if self._settings.creation == "admins":
            raise NotAllowed("Only administrators can create projects here. Ask an administrator.")
        if manager not in (None, actor.name):
            raise NotAllowed("You become the manager of a project that you create.")
        if limits not in (None, Limits()) or budget is not None:
            raise NotAllowed("Limits and budgets are granted by an administrator: leave them out.")
        asks = self._settings.creation == "approval"
        if asks:
            await self._check_few_requests(actor)
        project = project.model_copy(
            update={
                "requested_by": actor.name,
                "state": ProjectState.REQUESTED if asks else ProjectState.ACTIVE,
            }
        )
        await self._store.request_project(project, actor=actor.name)
        return await self._store.get_project(name)

    async def _check_user(self, manager: str) -> None:
        try:
            await self._store.get_user(manager)
        except NotFound as error:
            raise InvalidInput.field("manager", "there is no such user", value=manager) from error

    async def update_description(
        self,
        actor: Actor,
        name: str,
        *,
        title: str | None,
        description: str | None,
        check: Check[Project] = None,
    ) -> Project:
        """Change title or description of the project; None leaves a value unchanged.

        Raises ``NotFound`` if there is no such project that the actor may see, and ``NotAllowed``
        if the actor is neither its manager nor an administrator.
        """
        require_permission(PolicyAction.PROJECT_MANAGE, actor, "project", name, project=name)
        values = {"title": title, "description": description}
        fields = {field: value for field, value in values.items() if value is not None}
        change = ProjectChange(" and ".join(fields), fields)
        return await self._store.update_project(name, change, actor=actor.name, check=check)

    async def approve(
        self,
        actor: Actor,
        name: str,
        *,
        expires_at: datetime | None,
        budget: Budget | None,
        limits: Limits | None,
    ) -> Project:
        """Approve a requested project, with the given budget and limits.

        ``expires_at`` None keeps the requested end date.

        Raises:
            NotFound: there is no such project.
            NotAllowed: the actor is not an administrator.
            IllegalTransition: the project is not in the state requested.
        """
        require_permission(PolicyAction.PROJECT_ADMINISTER, actor, "project", name, project=name)
        self._check_end(expires_at)
        self._support.check(limits, "limits.")
        fields: dict[str, Any] = {"note": None}
        if expires_at is not None:
            fields["expires_at"] = expires_at
        if budget is not None:
            fields["budget"] = self._with_start_month(budget)
        return await self._store.apply_project_step(
            name, Step.APPROVE, actor=actor.name, fields=fields, limits=limits
        )

    async def decline(self, actor: Actor, name: str, reason: str) -> Project:
        """Decline a requested project, or an active project's request for a later end date.

        Raises:
            NotFound: there is no such project.
            NotAllowed: the actor is not an administrator.
            IllegalTransition: there is no open request.
        """
        require_permission(PolicyAction.PROJECT_ADMINISTER, actor, "project", name, project=name)
        project = await self._store.get_project(name)
        if project.state is not ProjectState.REQUESTED and project.extension is not None:
            change = ProjectChange("extension declined", {"extension": None})
            return await self._store.update_project(name, change, actor=actor.name)
        fields = {"note": reason, "closed_by": ADMIN}
        return await self._store.apply_project_step(
            name, Step.DECLINE, actor=actor.name, fields=fields
        )

    async def close(self, actor: Actor, name: str, reason: str) -> Project:
        """Close the project to new jobs; pending and running jobs continue.

        Raises:
            NotFound: there is no such project that the actor may see.
            NotAllowed: the actor is neither a manager of the project nor an administrator.
            IllegalTransition: the project is not active.
        """
        require_permission(PolicyAction.PROJECT_MANAGE, actor, "project", name, project=name)
        fields = {"note": reason or None, "closed_by": ADMIN if actor.is_admin else MANAGER}
        return await self._store.apply_project_step(
            name, Step.CLOSE, actor=actor.name, fields=fields
        )

    async def reopen(self, actor: Actor, name: str) -> Project:
        """Reopen the closed project for new jobs.

        Raises:
            NotFound: there is no such project.
            IllegalTransition: the project is not closed.
            NotAllowed: an administrator closed it, so only an administrator can reopen it.
            Conflict: the project has expired.
        """
        require_permission(PolicyAction.PROJECT_MANAGE, actor, "project", name, project=name)
        project = await self._store.get_project(name)
        if project.closed_by == ADMIN and not actor.is_admin:
            raise NotAllowed(
                f"An administrator closed {name}, so only an administrator can reopen it."
            )
        if project.expires_at is not None and project.expires_at <= self._clock():
            raise Conflict(f"{name} has expired. Set a later end, then reopen it.")
        fields = {"note": None, "closed_by": None}
        return await self._store.apply_project_step(
            name, Step.REOPEN, actor=actor.name, fields=fields
        )

    async def set_end(
        self, actor: Actor, name: str, expires_at: datetime | None, *, check: Check[Project] = None
    ) -> Project:
        """Set the end of the project to ``expires_at`` (None: no end); this also closes an open
        request for a later end.

        Raises:
            NotFound: there is no such project.
            NotAllowed: the actor is not an administrator.
            IllegalTransition: the project's state does not permit it.
            InvalidInput: the end is in the past.
        """
        require_permission(PolicyAction.PROJECT_ADMINISTER, actor, "project", name, project=name)
        self._check_end(expires_at)
        fields = {"expires_at": expires_at, "extension": None}
        return await self._store.apply_project_step(
            name, Step.RENEW, actor=actor.name, fields=fields, check=check
        )

    async def request_extension(
        self, actor: Actor, name: str, until: datetime, reason: str
    ) -> Project:
        """Request from the administrators that the project ends later, at ``until``.

        Raises:
            NotFound: there is no such project that the actor may see.
            NotAllowed: the actor is neither a manager of the project nor an administrator.
            InvalidInput: ``until`` is not later than the current end.
            Conflict: the project is neither active nor expired.
        """
        require_permission(PolicyAction.PROJECT_MANAGE, actor, "project", name, project=name)
        project = await self._store.get_project(name)
        if project.state not in (ProjectState.ACTIVE, ProjectState.EXPIRED):
            raise Conflict(
                f"{name} is {project.state}: only active and expired ones can be extended."
            )
        self._check_end(until)
        if project.expires_at is None or until <= project.expires_at:
            ends = "none" if project.expires_at is None else f"later than {project.expires_at:%F}"
            raise InvalidInput.field(
                "until", "is not a later end", value=f"{until:%F}", allowed=ends
            )
        wish = ExtensionRequest(until=until, reason=reason, by=actor.name, at=self._clock())
        return await self._store.request_project_extension(name, wish)

    async def set_budget(
        self, actor: Actor, name: str, budget: Budget, *, check: Check[Project] = None
    ) -> Project:
        """Set the budget of the project; an empty budget removes it.

        Raises ``NotFound`` if there is no such project, and ``NotAllowed`` if the actor is not an
        administrator.
        """
        require_permission(PolicyAction.PROJECT_ADMINISTER, actor, "project", name, project=name)
        change = ProjectChange("budget", {"budget": self._with_start_month(budget)})
        return await self._store.update_project(name, change, actor=actor.name, check=check)

    async def set_retention(
        self, actor: Actor, name: str, retention: Retention, *, check: Check[Project] = None
    ) -> Project:
        """Set how long the project keeps its ended jobs; an empty value means that the site's
        setting applies.

        Raises:
            NotFound: there is no such project that the actor may see.
            NotAllowed: the actor is neither a manager of the project nor an administrator.
            InvalidInput: the site does not permit the time.
        """
        require_permission(PolicyAction.PROJECT_MANAGE, actor, "project", name, project=name)
        problems = list(list_retention_problems(retention, self._retention))
        if problems:
            raise InvalidInput(f"{problems[0].field}: it {problems[0].message}.", problems)
        value = None if retention.is_empty else retention
        change = ProjectChange("retention", {"retention": value})
        return await self._store.update_project(name, change, actor=actor.name, check=check)

    def _with_start_month(self, budget: Budget | None) -> Budget | None:
        if budget is None or budget.is_empty:
            return None
        month = month_of(self._clock())
        if budget.since is not None and budget.since > month:
            raise InvalidInput.field(
                "since", "has not begun", value=budget.since, allowed=f"{month} or before"
            )
        since = (budget.since or month) if budget.period == "total" else None
        return budget.model_copy(update={"since": since})

    def _check_end(self, end: datetime | None) -> None:
        now = self._clock()
        if end is not None and end <= now:
            raise InvalidInput.field(
                "expires_at", "has passed", value=f"{end:%F}", allowed=f"after {now:%F}"
            )

    async def _check_few_requests(self, actor: Actor) -> None:
        projects = await self._store.list_projects(visible_to=actor.name)
        waiting = [
            project
            for project in projects
            if project.state is ProjectState.REQUESTED and project.requested_by == actor.name
        ]
        if len(waiting) >= MOST_REQUESTS:
            raise Conflict(
                f"{len(waiting)} projects that you requested wait for an administrator. Wait for an "
                "answer before you request more."
            )
