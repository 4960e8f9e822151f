"""Import of Slurm's users, accounts and associations as portal users, projects and memberships."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from datetime import datetime

from pydantic import TypeAdapter, ValidationError

from aitne.core.errors import AitneError, NotSupported, SchedulerRejected, Unavailable
from aitne.core.models.base import ProjectName, UserName
from aitne.core.models.user import Project, User
from aitne.core.ports.accounting import ROOT, Accounting, Associations
from aitne.core.ports.store import Store
from aitne.services.sync import UnixName, all_users

log = logging.getLogger(__name__)

ACTOR = "import"
"""Author of the changes in events; no user's name, unless a user chooses it."""
_PROJECT: TypeAdapter[str] = TypeAdapter(ProjectName)
_USER: TypeAdapter[str] = TypeAdapter(UserName)


class AccountImport:
    """Import of missing entries. It never removes or changes existing ones."""

    def __init__(
        self,
        store: Store,
        accounting: Accounting,
        unix: UnixName,
        clock: Callable[[], datetime],
        *,
        map_: Mapping[str, str],
        operators: frozenset[str],
    ) -> None:
        """Store the dependencies.

        ``map_`` is ``[accounts] map``: user to Unix account where they differ.
        """
        self._store = store
        self._accounting = accounting
        self._unix = unix
        self._clock = clock
        self._users = {account: user for user, account in map_.items()}
        self._operators = operators

    async def run(self) -> None:
        """Import; if accounting does not answer, log that and leave it to the next start."""
        try:
            found = await self._accounting.read()
        except (Unavailable, NotSupported, SchedulerRejected) as error:
            log.warning("No user was imported from Slurm: %s", error.message)
            return
        people = self._people(found)
        projects = await self._projects(found)
        present = {(each.project, each.user) for each in await self._store.memberships()}
        await self._make_users(found, people, projects)
        await self._make_members(found, people, projects, present)

    def _people(self, found: Associations) -> dict[str, str]:
        """Return portal users by Unix account, for accounts that may have one."""
        people = {}
        for each in found.users:
            if each.privileged or each.name in self._operators:
                log.info("Slurm user %s is not imported: an operator.", each.name)
                continue
            name = self._users.get(each.name, each.name)
            try:
                _USER.validate_python(name)
                if self._unix(name) != each.name:
                    raise ValueError("accounts.map gives this name another Unix account")
            except (AitneError, ValidationError, ValueError) as error:
                log.info("Slurm user %s is not imported: %s", each.name, _first_line(error))
                continue
            people[each.name] = name
        return people

    async def _projects(self, found: Associations) -> set[str]:
        known = {each.name for each in await self._store.list_projects(visible_to=None)}
        usable = set()
        for each in found.accounts:
            if each.account == ROOT:
                continue
            try:
                _PROJECT.validate_python(each.account)
            except ValidationError:
                log.info(
                    "Slurm account %s is not imported: no project can have that name.", each.account
                )
                continue
            usable.add(each.account)
            if each.account not in known:
                project = Project(name=each.account, created_at=self._clock())
                await self._store.create_project(project, each.limits, actor=ACTOR)
                log.info("Project %s was made of the Slurm account.", each.account)
        return usable

    async def _make_users(
        self, found: Associations, people: Mapping[str, str], projects: set[str]
    ) -> None:
        known = {user.name for user in await all_users(self._store)}
        defaults = {each.name: each.default_account for each in found.users}
        own = {(each.user, each.account) for each in found.members}
        for account, name in people.items():
            if name in known:
                continue
            default = defaults.get(account)
            if default not in projects or (account, default) not in own:
                log.info(
                    "Slurm user %s is not imported: the default account %s is no project.",
                    account,
                    default,
                )
                continue
            now = self._clock()
            user = User(name=name, default_project=default, created_at=now)
            await self._store.create_user(user, None, Project(name=default, created_at=now))
            log.info("Account %s was made of the Slurm user %s.", name, account)

    async def _make_members(
        self,
        found: Associations,
        people: Mapping[str, str],
        projects: set[str],
        present: set[tuple[str, str]],
    ) -> None:
        """Add missing memberships.

        Those in ``present`` stay unchanged: their limits are managed on the platform.
        """
        known = {user.name for user in await all_users(self._store)}
        for each in found.members:
            user = people.get(each.user or "")
            if user is None or user not in known or each.account not in projects:
                continue
            if (each.account, user) not in present:
                await self._store.put_member(each.account, user, limits=each.limits, actor=ACTOR)


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0]
