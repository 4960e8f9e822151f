"""Part of the store for users, projects and credentials."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Protocol

from aitne.core.models.directory import ProjectSearch, UserListItem, UserSearch, UserSort
from aitne.core.models.user import Project, Role, Token, User
from aitne.core.ports.store.records import Check, Page


class UserStore(Protocol):
    """Storage of users, their projects, and their credentials (tokens and single-use secrets)."""

    async def create_user(self, user: User, password_hash: str | None, project: Project) -> User:
        """Create the user, and the project if it does not exist, and make the user its member.

        Raises ``Conflict`` if the user name is taken.
        """
        ...

    async def get_user(self, name: str) -> User:
        """Return the user with this name. Raises ``NotFound``."""
        ...

    async def user_alike(self, name: str) -> User | None:
        """Return the user whose name is ``name`` but for capital letters, of whom there is at most
        one; None if there is none.
        """
        ...

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
        ...

    async def update_user(
        self,
        name: str,
        *,
        display_name: str | None = None,
        role: Role | None = None,
        disabled: bool | None = None,
        password_hash: str | None = None,
        mail: str | None = None,
        source: str | None = None,
        check: Check[User] = None,
    ) -> User:
        """Change those fields of a user whose arguments are not None. Disabling the user or setting
        a password ends the user's sign-ins.

        ``source`` names the identity source that authenticates the user from now on, and deletes
        the password; ``""`` stands for the platform's own passwords. ``mail=""`` removes the
        address. Raises ``NotFound``, and ``Conflict`` if no enabled administrator would be left.
        """
        ...

    async def list_administrators(self) -> Sequence[User]:
        """Return the enabled administrators by name."""
        ...

    async def password_hash(self, name: str) -> str | None:
        """Return the hash of the user's password; None if there is no such user or the user has no
        password.
        """
        ...

    async def list_projects(self, *, visible_to: str | None) -> Sequence[Project]:
        """List projects by name: all, or with ``visible_to`` only the projects of which that user
        is a member."""
        ...

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
        ...

    async def create_token(self, token: Token, token_hash: str, *, notify: bool = False) -> None:
        """Store an access token with the hash of its secret; with ``notify``, its owner is
        notified.

        Raises ``NotFound`` if there is no such user, ``Conflict`` if the user has too many.
        """
        ...

    async def token_user(self, token_hash: str, now: datetime) -> tuple[User, Token] | None:
        """Return the user and the access token, and record the token's use (at most once a minute);
        None if the token is unknown or expired, or its user is disabled.
        """
        ...

    async def list_tokens(self, owner: str) -> Sequence[Token]:
        """List the owner's tokens, newest first."""
        ...

    async def delete_token(self, owner: str, token_id: str) -> Token:
        """Delete an access token and the sign-ins that were created with it, and return the token.
        Raises ``NotFound``.
        """
        ...

    async def put_secret(
        self, purpose: str, secret_hash: str, owner: str, expires_at: datetime, data: dict[str, Any]
    ) -> None:
        """Store a short-lived secret that can be used once. ``purpose`` tells its kind: a login
        link, an OAuth code or an OAuth access token.
        """
        ...

    async def take_secret(
        self, purpose: str, secret_hash: str, now: datetime
    ) -> tuple[str, dict[str, Any]] | None:
        """Delete a single-use secret and return its owner and data; None if it was taken before,
        has expired or does not exist.
        """
        ...

    async def note_attempt(self, key: str, now: datetime, *, window_s: float) -> int:
        """Count one event under ``key`` (such as an address from which passwords are sent).

        Returns the number of events under ``key`` in the last ``window_s`` seconds, including this
        one.
        """
        ...

    async def delete_last_attempt(self, key: str) -> None:
        """Delete the newest event that ``note_attempt`` counted under ``key``.

        Called after a successful login, which does not count toward the limit of its address.
        """
        ...

    async def clear_attempts(self, key: str) -> None:
        """Delete all events that ``note_attempt`` counted under ``key``."""
        ...
