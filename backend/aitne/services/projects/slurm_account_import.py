"""Import of Slurm's users, accounts and associations as portal users, projects and memberships."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from datetime import datetime

from pydantic import TypeAdapter, ValidationError

from aitne.core.errors import AitneError, Conflict, NotSupported, SchedulerRejected, Unavailable
from aitne.core.models.base import ProjectName, UserName
from aitne.core.models.project import Project
from aitne.core.models.user import User
from aitne.core.ports.accounting import ROOT, Accounting, Associations
from aitne.services.projects.account_sync import UnixName, list_all_users
from aitne.store import Store

log = logging.getLogger(__name__)

ACTOR = "import"
"""Name of the actor in events about imported objects; normally no user has this name."""
_PROJECT: TypeAdapter[str] = TypeAdapter(ProjectName)
_USER: TypeAdapter[str] = TypeAdapter(UserName)


class AccountImport:
    """Import of accounts and members from Slurm's accounting into the platform. It creates missing
    objects, and never removes or changes existing ones.
    """

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
        """Store the dependencies of the import.

        ``map_`` is the setting ``[accounts] map``: the Unix account by user name, where the names
        differ. ``operators`` are Unix accounts that the import ignores.
        """
        self._store = store
        self._accounting = accounting
        self._unix = unix
        self._clock = clock
        self._users = {account: user for user, account in map_.items()}
        self._operators = operators

    async def run(self) -> None:
        """Import accounts and members; if accounting does not answer, log that and wait for the
        next start.
        """
        try:
            associations = await self._accounting.read_associations()
        except (Unavailable, NotSupported, SchedulerRejected) as error:
            log.warning("No user was imported from Slurm: %s", error.message)
            return
        people = self._map_user_names(associations)
        projects = await self._import_projects(associations)
        present = {
            (membership.project, membership.user)
            for membership in await self._store.list_memberships()
        }
        await self._make_users(associations, people, projects)
        await self._make_members(associations, people, projects, present)

    def _map_user_names(self, associations: Associations) -> dict[str, str]:
        """Return the names of portal users by Unix account. Operators, and accounts whose names
        cannot be names of users, are omitted.
        """
        people = {}
        for slurm_user in associations.users:
            if slurm_user.is_privileged or slurm_user.name in self._operators:
                log.info("Slurm user %s is not imported: an operator.", slurm_user.name)
                continue
            name = self._users.get(slurm_user.name, slurm_user.name)
            try:
                _USER.validate_python(name)
                if self._unix(name) != slurm_user.name:
                    raise ValueError("accounts.map gives this name another Unix account")
            except (AitneError, ValidationError, ValueError) as error:
                log.info("Slurm user %s is not imported: %s", slurm_user.name, _first_line(error))
                continue
            people[slurm_user.name] = name
        return people

    async def _import_projects(self, associations: Associations) -> set[str]:
        existing = {row.name for row in await self._store.list_projects(visible_to=None)}
        usable = set()
        for account in associations.accounts:
            if account.account == ROOT:
                continue
            try:
                _PROJECT.validate_python(account.account)
            except ValidationError:
                log.info(
                    "Slurm account %s is not imported: no project can have that name.",
                    account.account,
                )
                continue
            usable.add(account.account)
            if account.account not in existing:
                project = Project(name=account.account, created_at=self._clock())
                await self._store.create_project(project, account.limits, actor=ACTOR)
                log.info("Project %s was created from the Slurm account.", account.account)
        return usable

    async def _make_users(
        self, associations: Associations, people: Mapping[str, str], projects: set[str]
    ) -> None:
        user_names = {user.name for user in await list_all_users(self._store)}
        defaults = {
            slurm_user.name: slurm_user.default_account for slurm_user in associations.users
        }
        associated = {(member.user, member.account) for member in associations.members}
        for account, name in people.items():
            if name in user_names:
                continue
            default = defaults.get(account)
            if default not in projects or (account, default) not in associated:
                log.info(
                    "Slurm user %s is not imported: the default account %s is not a project.",
                    account,
                    default,
                )
                continue
            now = self._clock()
            user = User(name=name, default_project=default, created_at=now)
            try:
                await self._store.create_user(user, None, Project(name=default, created_at=now))
            except Conflict as error:
                log.warning("Slurm user %s is not imported: %s", account, error.message)
                continue
            log.info("Account %s was created from the Slurm user %s.", name, account)

    async def _make_members(
        self,
        associations: Associations,
        people: Mapping[str, str],
        projects: set[str],
        present: set[tuple[str, str]],
    ) -> None:
        """Add the missing memberships of imported users.

        Memberships in ``present`` exist already and stay unchanged, because their limits are
        managed on the platform.
        """
        user_names = {user.name for user in await list_all_users(self._store)}
        for member in associations.members:
            user = people.get(member.user or "")
            if user is None or user not in user_names or member.account not in projects:
                continue
            if (member.account, user) not in present:
                await self._store.save_member(
                    member.account, user, limits=member.limits, actor=ACTOR
                )


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0]
