"""Mapping of identities that an identity source has confirmed to accounts of the platform: an
account is found, created or refused.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from datetime import datetime
from itertools import chain, count
from typing import Any

from pydantic import TypeAdapter, ValidationError

from aitne.core.errors import Conflict, NotAuthenticated, NotFound, Unavailable
from aitne.core.models.base import NAME_RULES, USER_NAME, UserName
from aitne.core.models.project import Project
from aitne.core.models.user import Role, User
from aitne.core.ports.identity_source import (
    FormSource,
    Identity,
    IdentitySource,
    LoginDenied,
    RedirectSource,
)
from aitne.core.settings import Settings
from aitne.core.users.user_names import get_account_name, identity_key
from aitne.services.users.shared_account_restriction import check_another_user
from aitne.store import Store
from aitne.store.user_project_search import DirectoryStore

log = logging.getLogger(__name__)

OWN = "password"
"""Name of the identity source for passwords that the platform itself stores."""
_TYPED = frozenset({OWN, "pam"})
"""Sources whose rule for names applies to what the user types, because that is the account's name."""
WRONG = "The name or the password is wrong."
_NAME: TypeAdapter[str] = TypeAdapter(UserName)


class IdentityUnavailable(Unavailable):
    """The identity source of this account does not answer, so the password was not checked."""


class LoginService:
    """The identity sources of the site, which are tried in the order of the settings when a user
    logs in.
    """

    def __init__(
        self,
        store: Store,
        settings: Settings,
        clock: Callable[[], datetime],
        sources: Sequence[IdentitySource],
    ) -> None:
        self._store = store
        self._settings = settings
        self._clock = clock
        self._forms = [source for source in sources if isinstance(source, FormSource)]
        self._redirects = {
            source.name: source for source in sources if isinstance(source, RedirectSource)
        }

    @property
    def takes_passwords(self) -> bool:
        """Return whether any identity source takes a name and a password."""
        return bool(self._forms)

    @property
    def list_redirect_sources(self) -> Sequence[RedirectSource]:
        """List the identity sources that log in by a redirect; the portal shows a button for
        each.
        """
        return tuple(self._redirects.values())

    def get_redirect_source(self, name: str) -> RedirectSource:
        """Return the redirect source of this name. Raises ``NotFound``."""
        source = self._redirects.get(name)
        if source is None:
            raise NotFound("source of logins", name)
        return source

    async def login_by_form(self, username: str, password: str) -> tuple[User, str]:
        """Log in with a user name and a password. Returns the user, and the name of the identity
        source that confirmed them.

        Raises:
            NotAuthenticated: the name or the password is wrong, or the account is disabled.
            LoginDenied: both are correct, but the user may not use this platform.
            Unavailable: a source that may know the user does not answer; ``IdentityUnavailable`` if
                it is the account's own source.
        """
        user = await self.find(self._normalize_typed_name(OWN, username))
        own_source = None if user is None else (user.source or OWN)
        silent: Unavailable | None = None
        judged = False
        stored = None
        if user is not None and own_source == OWN:
            stored = await self._store.find_password_hash(user.name)
        # The account's own source comes first: other sources need not see the password.
        for source in sorted(self._forms, key=lambda form: form.name != own_source):
            try:
                typed = self._normalize_typed_name(source.name, username)
                identity = await source.authenticate(typed, password, stored)
            except Unavailable as error:
                log.warning("%s did not check a login: %s", source.name, error.message)
                silent = silent or error
                continue
            if identity is not None:
                return await self.get_or_create_user(source.name, identity), source.name
            judged = judged or source.name == own_source
        if silent is not None:
            raise silent if judged else IdentityUnavailable(silent.message)
        raise NotAuthenticated(WRONG)

    async def get_or_create_user(self, source: str, identity: Identity) -> User:
        """Return the account of an identity that ``source`` has confirmed. The account is created
        if it does not exist and the site permits that.

        Raises:
            NotAuthenticated: the account is disabled.
            LoginDenied: there is no account, or the account with this name belongs to another
                identity.
        """
        user = await self.find(identity.name) if source == OWN else None
        if source != OWN:
            user = await self._find_or_create_account(source, identity)
        if user is None or user.disabled:
            raise NotAuthenticated(WRONG)
        claims: dict[str, Any] = {
            "display_name": identity.display_name,
            # Users choose the address for notifications themselves.
            "mail": None if user.mail else identity.mail,
            "role": identity.role,
        }
        news = {
            field: value
            for field, value in claims.items()
            if value is not None and value != getattr(user, field)
        }
        if not news:
            return user
        try:
            return await self._store.update_user(user.name, **news)
        except Conflict as error:
            log.warning(
                "%s revokes the role of %s, which is kept: %s", source, user.name, error.message
            )
            return await self._store.update_user(user.name, **{**news, "role": None})

    async def find(self, name: str) -> User | None:
        """Return the account of that name; None if there is none or the name is invalid."""
        try:
            return await self._store.get_user(_NAME.validate_python(name))
        except (NotFound, ValidationError):
            return None

    async def find_user_ignoring_case(self, name: str) -> User | None:
        """Return the account whose name is ``name`` but for capital letters; None if there is none
        or the name is invalid.
        """
        try:
            return await self._store.find_user_ignoring_case(_NAME.validate_python(name))
        except ValidationError:
            return None

    def _normalize_typed_name(self, source: str, username: str) -> str:
        """Return the name with which to ask the source for a user who typed ``username``."""
        if source not in _TYPED:
            return username
        try:
            return self._settings.auth.names.get_rule(source).account_name(username)
        except ValueError:
            return username  # the source refuses it, in the time that it always takes

    def _make_account_name(self, source: str, identity: Identity) -> str:
        """Return the name of the account that the rule of the source gives an identity.

        Raises ``LoginDenied`` if there is none, or if the Unix account of that name is another
        user's.
        """
        try:
            name = identity.name
            if source not in _TYPED:
                name = self._settings.auth.names.get_rule(source).account_name(name)
            _NAME.validate_python(name)
            get_account_name(name, self._settings.accounts.map)
        except ValueError as error:
            reason = NAME_RULES[USER_NAME] if isinstance(error, ValidationError) else error
            raise LoginDenied(
                f"{source} reports your name as {identity.name[:200]!r}, which gives no account here: "
                f"{reason}. Ask an administrator, who can set a rule for names in "
                f"[auth.names.{source}].",
                "bad_name",
            ) from error
        return name

    async def _find_or_create_account(self, source: str, identity: Identity) -> User:
        subject = _get_subject(source, identity)
        if subject is not None:
            existing = await self._store.find_user_by_subject(source, subject)
            if existing is not None:
                return existing
        name = self._make_account_name(source, identity)
        user = await self._store.find_user_ignoring_case(name)
        if user is None:
            return await self._create_user(source, name, identity)
        if user.name != name:
            raise LoginDenied(
                f"{source} knows you as {name}, but {user.name} has an account here. Two names that "
                "differ only in capital letters are one name. Ask an administrator.",
                "name_taken",
            )
        if user.source != source:
            raise LoginDenied(
                f"{source} knows you as {name}, but the account {name} here is not {source}'s. If "
                "both are yours, an administrator can link them: "
                f"aitne admin user set {name} --source {source}",
                "name_taken",
            )
        return user if subject is None else await self._bind_identity(source, name, subject)

    async def _bind_identity(self, source: str, name: str, subject: str) -> User:
        """Bind the account to the identity, which is then the only one of the source that reaches
        it. Raises ``LoginDenied`` if it is bound to another one.
        """
        try:
            return await self._store.set_identity_source(name, source, subject)
        except Conflict as error:
            raise self._make_name_taken_error(source, name) from error

    def _make_name_taken_error(self, source: str, name: str) -> LoginDenied:
        return LoginDenied(
            f"The account {name} here belongs to another identity of {source}: one that had this name "
            "before, or one whose name becomes the same by the rule in "
            f"[auth.names.{source}]. Ask an administrator.",
            "name_taken",
        )

    async def _create_user(self, source: str, name: str, identity: Identity) -> User:
        if not self._settings.auth.create_users:
            raise LoginDenied(
                f"{source} knows you as {name}, but you have no account here. Ask an administrator "
                "for one.",
                "no_account",
            )
        try:
            await check_another_user(self._store, self._settings)
        except Conflict as error:
            raise LoginDenied(error.message, "single_user") from error
        now = self._clock()
        project = await find_unused_project_name(self._store, name)
        user = User(
            name=name,
            display_name=identity.display_name or "",
            role=identity.role or Role.USER,
            default_project=project,
            mail=identity.mail,
            source=source,
            created_at=now,
        )
        try:
            await self._store.create_user(user, None, Project(name=project, created_at=now))
        except Conflict:
            return await self._find_or_create_account(
                source, identity
            )  # created by a concurrent request
        subject = _get_subject(source, identity)
        return user if subject is None else await self._bind_identity(source, name, subject)


def _get_subject(source: str, identity: Identity) -> str | None:
    """Return the text that identifies the identity in its source; None if the name of its account
    does.
    """
    if identity.subject is not None or source in _TYPED:
        return identity.subject
    return identity_key(identity.name)


def make_default_project_name(name: str) -> str:
    """Return a project name for the user: the name of the user, in the characters that names of
    projects consist of, prefixed with ``u`` if it does not begin with a letter.
    """
    project = name.lower().replace("@", "-")[:64]
    return project if project[0].isalpha() else f"u{project}"[:64]


async def find_unused_project_name(store: DirectoryStore, user: str) -> str:
    """Return an unused name for the project of a new user.

    The project of an existing name is never used: the user must not become its member only because
    the names are equal.
    """
    wished = make_default_project_name(user)
    taken = {project.name for project in await store.list_projects(visible_to=None)}
    candidates = (f"{wished[:30]}-own{n or ''}" for n in count())
    return next(candidate for candidate in chain([wished], candidates) if candidate not in taken)
