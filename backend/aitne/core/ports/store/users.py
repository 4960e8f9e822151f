"""The store's part about people, projects and credentials."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Protocol

from aitne.core.models.user import Project, Role, Token, User
from aitne.core.ports.store.records import Check, Page


class UserStore(Protocol):
    """People, projects, credentials."""

    async def create_user(self, user: User, password_hash: str | None, project: Project) -> User:
        """Also creates the project if it is missing and makes the user its member.

        Raises ``Conflict`` if the name is taken."""
        ...

    async def get_user(self, name: str) -> User:
        """Raises ``NotFound``."""
        ...

    async def list_users(
        self, *, search: str | None = None, cursor: str | None = None, limit: int = 100
    ) -> Page[User]:
        """All users by name, or those with ``search`` in their name, full name or mail address."""
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
        """Disabling or a new password ends the user's web sessions. An empty ``mail`` is none.

        ``source`` vouches for the user from now on, under any name; with one the password is forgotten. An
        empty one is the platform itself. Raises ``NotFound``, and ``Conflict`` if no enabled
        administrator would be left."""
        ...

    async def list_administrators(self) -> Sequence[User]:
        """The enabled administrators by name."""
        ...

    async def password_hash(self, name: str) -> str | None:
        """None: no such user, or one without a password."""
        ...

    async def projects_of(self, name: str) -> frozenset[str]:
        """The names of the projects that the user is a member of."""
        ...

    async def list_projects(self, *, visible_to: str | None) -> Sequence[Project]:
        """By name. ``visible_to`` None: all; else those the user is a member of."""
        ...

    async def create_token(self, token: Token, token_hash: str, *, notify: bool = False) -> None:
        """Store a personal access token with its secret's hash; ``notify`` notifies its owner.

        Raises ``NotFound`` if there is no such user, ``Conflict`` if the user has too many."""
        ...

    async def token_user(self, token_hash: str, now: datetime) -> tuple[User, Token] | None:
        """Also notes the use (at most once a minute). None: unknown, expired, user disabled."""
        ...

    async def list_tokens(self, owner: str) -> Sequence[Token]:
        """The owner's tokens, newest first."""
        ...

    async def delete_token(self, owner: str, token_id: str) -> None:
        """Delete a token and the sign-ins that came from it. Raises ``NotFound``."""
        ...

    async def put_secret(
        self, purpose: str, secret_hash: str, owner: str, expires_at: datetime, data: dict[str, Any]
    ) -> None:
        """A short-lived single-use secret: a login link, an OAuth code, an OAuth access token."""
        ...

    async def take_secret(
        self, purpose: str, secret_hash: str, now: datetime
    ) -> tuple[str, dict[str, Any]] | None:
        """Owner and data, once: the second taker and anyone after the expiry get None."""
        ...

    async def note_attempt(self, key: str, now: datetime, *, window_s: float) -> int:
        """Count one attempt under ``key`` (a name, an address) and return how many fall into the window."""
        ...

    async def take_back_noted(self, key: str) -> None:
        """Count the last attempt under ``key`` no more."""
        ...

    async def clear_attempts(self, key: str) -> None:
        """Forget what was counted under ``key``."""
        ...
