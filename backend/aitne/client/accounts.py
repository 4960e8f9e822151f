"""People and their tokens."""

from __future__ import annotations

from aitne.client.records import LoginLink, Token, User
from aitne.client.session import segment

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from aitne.client.session import Session


class Tokens:
    """``client.tokens``: personal access tokens."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def list(self, *, user: str | None = None) -> list[Token]:
        """One's own; for administrators, those of ``user``."""
        found = self._session.json("GET", "/tokens", query={"user": user})
        return [Token(item) for item in found["items"]]

    def create(
        self,
        name: str,
        *,
        scopes: Sequence[str] = ("read", "write"),
        expires_in: str | None = "30d",
        user: str | None = None,
    ) -> Token:
        """Make one. Its secret is in ``token``, this once. None never expires."""
        body: dict[str, Any] = {"name": name, "scopes": list(scopes), "expires_in": expires_in}
        if user is not None:
            body["user"] = user
        return Token(self._session.json("POST", "/tokens", body=body))

    def revoke(self, token_id: str) -> None:
        """It works no more."""
        self._session.json("DELETE", f"/tokens/{segment(token_id)}")

    def login_link(self) -> LoginLink:
        """A link that logs its reader in as oneself, once."""
        return LoginLink(self._session.json("POST", "/auth/login-links"))


class Users:
    """``client.users``: accounts, for administrators."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def list(self) -> Iterator[User]:
        """All accounts."""
        return map(User, self._session.pages("/users", {}))

    def get(self, name: str) -> User:
        """One account. Raises ``NotFound``."""
        return User(self._session.json("GET", f"/users/{segment(name)}"))

    def create(
        self,
        name: str,
        *,
        password: str | None = None,
        display_name: str | None = None,
        role: str = "user",
        default_project: str | None = None,
    ) -> User:
        """Make an account. Without a password its owner can log in by a token or a link only."""
        given = {
            "name": name,
            "role": role,
            "password": password,
            "display_name": display_name,
            "default_project": default_project,
        }
        body = {field: value for field, value in given.items() if value is not None}
        return User(self._session.json("POST", "/users", body=body))

    def change(self, name: str, **changes: Any) -> User:
        """Set ``display_name``, ``role``, ``disabled`` or ``password``; the rest stays."""
        return User(self._session.json("PATCH", f"/users/{segment(name)}", body=changes))
