"""People and their tokens."""

from __future__ import annotations

from datetime import datetime

from aitne.client.records import LoginLink, Record, Token, User
from aitne.client.session import segment

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from aitne.client.session import Session


class SignIn(Record):
    """One browser that is logged in."""

    id: str
    owner: str
    source: str
    device: str
    address: str | None
    created_at: datetime
    last_seen_at: datetime
    expires_at: datetime
    current: bool


class Protection(Record):
    """How an account is protected, as administrators see it."""

    source: str
    has_password: bool
    second_factor: bool
    locked_until: datetime | None
    sign_ins: int


class Account:
    """``client.account``: one's own."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def sign_ins(self) -> list[SignIn]:
        """The browsers in which one is logged in, used last first."""
        return [SignIn(item) for item in self._session.json("GET", "/account/sign-ins")["items"]]

    def revoke_sign_in(self, sign_in_id: str) -> None:
        """Log one of them out. Raises ``NotFound``."""
        self._session.json("DELETE", f"/account/sign-ins/{segment(sign_in_id)}")

    def revoke_all_sign_ins(self) -> int:
        """Log out everywhere; how many ended. Tokens go on working."""
        found = self._session.json("DELETE", "/account/sign-ins", query={"keep_current": "false"})
        return int(found["ended"])


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
        """Set ``display_name``, ``role``, ``disabled``, ``source`` or ``password``; the rest stays."""
        return User(self._session.json("PATCH", f"/users/{segment(name)}", body=changes))

    def protection(self, name: str) -> Protection:
        """How the account is protected, and whether it is locked. Raises ``NotFound``."""
        return Protection(self._session.json("GET", f"/users/{segment(name)}/protection"))

    def reset_link(self, name: str) -> LoginLink:
        """A link with which its reader sets a new password for ``name``, once."""
        return LoginLink(self._session.json("POST", f"/users/{segment(name)}/reset-link"))

    def unlock(self, name: str) -> None:
        """Forget the failed logins under the name."""
        self._session.json("POST", f"/users/{segment(name)}/unlock")

    def reset_second_factor(self, name: str) -> None:
        """Remove the second factor, and end all sign-ins."""
        self._session.json("POST", f"/users/{segment(name)}/reset-second-factor")

    def sign_out(self, name: str) -> int:
        """End all sign-ins of ``name``; how many."""
        return int(self._session.json("DELETE", f"/users/{segment(name)}/sign-ins")["ended"])
