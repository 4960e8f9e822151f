"""Accounts, projects and personal access tokens."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

from aitne.core.errors import Conflict, InvalidInput, NotAllowed, RateLimited
from aitne.core.models.access_token import Scope, Token
from aitne.core.models.job import JobType
from aitne.core.models.project import Project
from aitne.core.models.user import Actor, Role, User
from aitne.core.models.user_project_search import ProjectSearch, UserListItem, UserSearch, UserSort
from aitne.core.ports.identity_source import PasswordHasher
from aitne.core.settings import Settings
from aitne.core.users.permissions import (
    PolicyAction,
    require_full_login,
    require_permission,
    require_portal_login,
    require_recent_authentication,
)
from aitne.core.users.user_names import get_account_name
from aitne.services.platform.shared_secrets import hash_secret, new_secret
from aitne.services.users.authentication_service import TOKEN_PREFIX
from aitne.services.users.login_service import OWN, find_unused_project_name
from aitne.services.users.password_rules import check_new_password
from aitne.services.users.shared_account_restriction import check_another_user
from aitne.store import Store
from aitne.store.paging import Page
from aitne.store.store_part import Check

MOST_GUESSES, GUESSES_WITHIN_S = 10, 300.0
"""Maximum number of attempts at the current password, and the period in seconds in which they are
counted.

The limit prevents misuse of a browser that was left logged in.
"""


class UserService:
    """Service for accounts and access tokens: administrators manage all accounts, other users their
    own.
    """

    def __init__(
        self,
        store: Store,
        settings: Settings,
        clock: Callable[[], datetime],
        accounts: PasswordHasher,
    ) -> None:
        self._settings = settings
        self._store = store
        self._clock = clock
        self._accounts = accounts

    async def list(
        self,
        actor: Actor,
        search: UserSearch,
        *,
        sort: UserSort = UserSort.NAME,
        descending: bool = False,
        cursor: str | None,
        limit: int,
    ) -> Page[UserListItem]:
        """List the accounts that match ``search``.

        Raises ``NotAllowed`` unless the actor is an administrator.
        """
        _require_administrator(actor)
        return await self._store.list_users(
            search, sort=sort, descending=descending, cursor=cursor, limit=limit
        )

    async def get(self, actor: Actor, name: str) -> User:
        """Return one account. Raises ``NotFound``, also for one that the actor may not see."""
        require_permission(PolicyAction.USER_READ, actor, "user", name, owner=name)
        return await self._store.get_user(name)

    async def create(
        self,
        actor: Actor,
        *,
        name: str,
        password: str | None = None,
        display_name: str = "",
        mail: str | None = None,
        role: Role = Role.USER,
        default_project: str | None = None,
    ) -> User:
        """Create an account, and its default project if that does not exist.

        Without ``default_project``, the user gets a new project.

        Raises:
            NotAllowed: the actor is not an administrator.
            Conflict: the name is taken, or the platform permits only one user.
        """
        _require_administrator(actor)
        await check_another_user(self._store, self._settings)
        try:
            get_account_name(name, self._settings.accounts.map)
        except ValueError as error:
            raise Conflict(f"{error}. Choose another name.") from error
        now = self._clock()
        user = User(
            name=name,
            display_name=display_name,
            mail=mail,
            role=role,
            default_project=default_project or await find_unused_project_name(self._store, name),
            created_at=now,
        )
        project = Project(name=user.default_project, created_at=now)
        password_hash = None
        if password is not None:
            check_new_password(password, user)
            password_hash = await self._accounts.hash(password)
        return await self._store.create_user(user, password_hash, project)

    async def update(
        self,
        actor: Actor,
        name: str,
        *,
        display_name: str | None = None,
        role: Role | None = None,
        disabled: bool | None = None,
        password: str | None = None,
        current_password: str | None = None,
        source: str | None = None,
        check: Check[User] = None,
    ) -> User:
        """Change the fields of an account that are given; None leaves a field unchanged.

        Raises:
            NotFound: there is no such account that the actor may see.
            NotAllowed: the actor is not an administrator and changes ``role`` or ``disabled``, or the
                current password is wrong.
            Conflict: no enabled administrator would be left.
        """
        require_permission(PolicyAction.USER_EDIT, actor, "user", name, owner=name)
        if role is not None or disabled is not None or source is not None:
            _require_administrator(actor)
        user = await self._store.get_user(name)
        keeper = user.source if source is None else None if source == OWN else source
        password_hash = None
        if password is not None:
            if keeper is not None:
                raise Conflict(f"{keeper} manages the password of {name}; change it there.")
            if not actor.is_admin or actor.name == name:
                await self._check_password(actor, name, current_password)
            check_new_password(password, user)
            password_hash = await self._accounts.hash(password)
        changed = await self._store.update_user(
            name,
            display_name=display_name,
            role=role,
            disabled=disabled,
            password_hash=password_hash,
            # The user's name at a source is only cleared when another source takes over.
            source=None if keeper == user.source else keeper or "",
            check=check,
        )
        if disabled:
            await self._end_sessions(name)
        return changed

    async def _end_sessions(self, name: str) -> None:
        """End the sessions of a disabled account, which would otherwise continue without a login at
        the portal.
        """
        for job in await self._store.list_live_jobs(owner=name):
            if job.type is JobType.SESSION:
                await self._store.request_cancel(
                    job.id, self._clock(), f"Ended because the account {name} was disabled."
                )

    async def projects(
        self,
        actor: Actor,
        search: ProjectSearch,
        *,
        cursor: str | None = None,
        limit: int | None = None,
    ) -> Page[Project]:
        """List the actor's projects that match ``search``; for an administrator, all projects that
        match. Without ``limit``, one page contains all of them.
        """
        visible_to = None if actor.is_admin else actor.name
        return await self._store.search_projects(
            search, visible_to=visible_to, cursor=cursor, limit=limit
        )

    async def list_tokens(self, actor: Actor, *, owner: str | None = None) -> Sequence[Token]:
        """List the access tokens of the actor or, for an administrator, of the user ``owner``."""
        name = owner or actor.name
        require_permission(PolicyAction.TOKEN_READ, actor, "user", name, owner=name)
        return await self._store.list_tokens((await self._store.get_user(name)).name)

    async def create_token(
        self,
        actor: Actor,
        *,
        name: str,
        scopes: frozenset[Scope],
        lifetime_s: int | None,
        owner: str | None = None,
        notify: bool = True,
    ) -> tuple[Token, str]:
        """Create an access token and return it with its secret, which is not stored.

        The owner is notified, unless ``notify`` is False. Raises the same errors as
        ``check_token``.
        """
        whose = owner or actor.name
        expires_at = await self.check_token(
            actor, scopes=scopes, lifetime_s=lifetime_s, owner=whose
        )
        return await self.issue_token(
            owner=whose,
            name=name,
            scopes=scopes,
            expires_at=expires_at,
            created_by=actor.token_created_by if whose == actor.name else actor.name,
            notify=notify,
        )

    async def check_token(
        self,
        actor: Actor,
        *,
        scopes: frozenset[Scope],
        lifetime_s: int | None,
        owner: str | None = None,
    ) -> datetime | None:
        """Check that the actor may create an access token, and return the time at which it will
        expire; None if it does not expire.

        Raises:
            NotFound: the actor may not see ``owner``.
            NotAllowed: the token would have more permissions than the credential in use.
            ReauthenticationRequired: the user logged in too long ago.
            InvalidInput: the scopes exceed the permissions of the token's owner.
        """
        whose = owner or actor.name
        require_permission(PolicyAction.TOKEN_WRITE, actor, "user", whose, owner=whose)
        require_portal_login(actor, "Creating a token")
        require_recent_authentication(actor, self._clock())
        user = await self._store.get_user(whose)
        if excess := scopes - actor.scopes:
            raise NotAllowed(
                f"The token in use lacks the scope {', '.join(sorted(excess))}: a token cannot "
                "create one with more scopes."
            )
        if Scope.ADMIN in scopes and user.role is not Role.ADMIN:
            raise InvalidInput.field(
                "scopes",
                f"{whose} is no administrator",
                value=Scope.ADMIN,
                allowed=f"{Scope.READ}, {Scope.WRITE}",
            )
        now = self._clock()
        expires_at = None if lifetime_s is None else now + timedelta(seconds=lifetime_s)
        if actor.until is not None and (expires_at is None or expires_at > actor.until):
            raise NotAllowed(
                f"The token in use ends at {actor.until:%Y-%m-%d %H:%M} UTC: a token cannot create one "
                "that is valid for longer."
            )
        return expires_at

    async def issue_token(
        self,
        *,
        owner: str,
        name: str,
        scopes: frozenset[Scope],
        expires_at: datetime | None,
        created_by: str | None,
        notify: bool = True,
    ) -> tuple[Token, str]:
        """Create an access token after ``check_token`` permitted it, and return it with its secret.

        Raises ``NotFound`` if the owner no longer exists.
        """
        secret = new_secret(TOKEN_PREFIX)
        token = Token(
            id=secrets.token_hex(8),
            owner=owner,
            name=name,
            scopes=scopes,
            created_at=self._clock(),
            expires_at=expires_at,
            created_by=created_by,
        )
        await self._store.create_token(token, hash_secret(secret), notify=notify)
        return token, secret

    async def delete_token(self, actor: Actor, token_id: str, *, owner: str | None = None) -> Token:
        """Revoke an access token of the actor or, for an administrator, of the user ``owner``.
        Return the token.

        Raises ``NotFound`` if there is no such token, and ``NotAllowed`` if another token than the
        one in use is to be revoked without a login of the portal.
        """
        whose = owner or actor.name
        require_permission(PolicyAction.TOKEN_WRITE, actor, "user", whose, owner=whose)
        if actor.sign_in_id is not None or token_id != actor.token_id:
            require_portal_login(actor, "Revoking another token")
        return await self._store.delete_token(whose, token_id)

    async def _check_password(self, actor: Actor, name: str, current: str | None) -> None:
        stored = await self._store.find_password_hash(name)
        if stored is None:  # a user who logged in by a link has no password yet
            require_full_login(actor, "A first password")
            require_portal_login(actor, "A first password")
            return
        key = f"password:{name}"
        guesses = await self._store.record_attempt(key, self._clock(), window_s=GUESSES_WITHIN_S)
        if guesses > MOST_GUESSES:
            raise RateLimited(
                f"Too many wrong passwords. Wait {GUESSES_WITHIN_S:.0f} seconds.", GUESSES_WITHIN_S
            )
        if current is None or not await self._accounts.verify(name, current, stored):
            raise NotAllowed("Setting your own password requires the current one, and it is wrong.")
        await self._store.delete_attempts(key)


def _require_administrator(actor: Actor) -> None:
    if not actor.is_admin:
        raise NotAllowed("Only an administrator may do this, with a token of the scope admin.")
