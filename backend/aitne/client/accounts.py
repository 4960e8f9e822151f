"""The user's own account, personal access tokens, and the accounts of all users."""

from __future__ import annotations

from datetime import datetime

from aitne.client.record import Record
from aitne.client.records import LoginLinkRecord, Token, User, UserListItemRecord
from aitne.client.session import segment

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from aitne.client.session import ApiSession


class SignInRecord(Record):
    """Login of the user in one browser."""

    id: str
    owner: str
    source: str
    device: str
    address: str | None
    created_at: datetime
    last_seen_at: datetime
    expires_at: datetime
    current: bool


class ProtectionRecord(Record):
    """Protection of an account: password, second factor, lock after failed logins, number of
    logins."""

    source: str
    has_password: bool
    second_factor: bool
    locked_until: datetime | None
    sign_ins: int


class Account:
    """Operations on the user's own account, as ``client.account``."""

    def __init__(self, session: ApiSession) -> None:
        self._session = session

    def sign_ins(self) -> list[SignInRecord]:
        """Return the browsers in which the user is logged in, most recently used first."""
        return [
            SignInRecord(item) for item in self._session.json("GET", "/account/sign-ins")["items"]
        ]

    def revoke_sign_in(self, sign_in_id: str) -> None:
        """End the login in one browser. Raises ``NotFound``."""
        self._session.json("DELETE", f"/account/sign-ins/{segment(sign_in_id)}")

    def revoke_all_sign_ins(self) -> int:
        """Revoke all logins of the user in browsers and return their number. Access tokens remain
        valid."""
        answer = self._session.json("DELETE", "/account/sign-ins", query={"keep_current": "false"})
        return int(answer["revoked"])


class Tokens:
    """Operations on personal access tokens, as ``client.tokens``."""

    def __init__(self, session: ApiSession) -> None:
        self._session = session

    def list(self, *, user: str | None = None) -> list[Token]:
        """Return the user's own tokens, or those of ``user``, which only administrators may
        name."""
        answer = self._session.json("GET", "/tokens", query={"user": user})
        return [Token(item) for item in answer["items"]]

    def create(
        self,
        name: str,
        *,
        scopes: Sequence[str] = ("read", "write"),
        expires_in: str | None = "30d",
        user: str | None = None,
    ) -> Token:
        """Create a token, for ``user`` if given (administrators only).

        Its secret is in the field ``token`` and is returned only once. ``expires_in`` is its
        validity, such as ``"30d"``; with None it does not expire.
        """
        body: dict[str, Any] = {"name": name, "scopes": list(scopes), "expires_in": expires_in}
        if user is not None:
            body["user"] = user
        return Token(self._session.json("POST", "/tokens", body=body))

    def revoke(self, token_id: str) -> None:
        """Revoke a token; requests with it are rejected from now on."""
        self._session.json("DELETE", f"/tokens/{segment(token_id)}")

    def login_link(self) -> LoginLinkRecord:
        """Create a link that logs the user in, in the first browser that opens it."""
        return LoginLinkRecord(self._session.json("POST", "/auth/login-links"))


class Users:
    """Operations on all accounts, as ``client.users``; administrators only."""

    def __init__(self, session: ApiSession) -> None:
        self._session = session

    def list(self) -> Iterator[UserListItemRecord]:
        """Iterate over all accounts by name, with the time of the last login of each."""
        return map(UserListItemRecord, self._session.pages("/users", {}))

    def get(self, name: str) -> User:
        """Return one account. Raises ``NotFound``."""
        return User(self._session.json("GET", f"/users/{segment(name)}"))

    def create(
        self,
        name: str,
        *,
        password: str | None = None,
        display_name: str | None = None,
        mail: str | None = None,
        role: str = "user",
        default_project: str | None = None,
    ) -> User:
        """Create an account. Without a password its owner can log in only by an access token or a
        link."""
        fields = {
            "name": name,
            "role": role,
            "password": password,
            "display_name": display_name,
            "mail": mail,
            "default_project": default_project,
        }
        body = {field: value for field, value in fields.items() if value is not None}
        return User(self._session.json("POST", "/users", body=body))

    def change(self, name: str, **changes: Any) -> User:
        """Change fields of an account: ``display_name``, ``role``, ``disabled``, ``source`` or
        ``password``. Other fields keep their values."""
        return User(self._session.json("PATCH", f"/users/{segment(name)}", body=changes))

    def protection(self, name: str) -> ProtectionRecord:
        """Return the protection of an account, and until when it is locked. Raises ``NotFound``."""
        return ProtectionRecord(self._session.json("GET", f"/users/{segment(name)}/protection"))

    def reset_link(self, name: str) -> LoginLinkRecord:
        """Create a link with which the user ``name`` can set a new password, once."""
        return LoginLinkRecord(self._session.json("POST", f"/users/{segment(name)}/reset-link"))

    def unlock(self, name: str) -> None:
        """Delete the record of failed logins of an account, which unlocks it."""
        self._session.json("POST", f"/users/{segment(name)}/unlock")

    def reset_second_factor(self, name: str) -> None:
        """Remove the second factor of an account and end its logins in all browsers."""
        self._session.json("POST", f"/users/{segment(name)}/reset-second-factor")

    def sign_out(self, name: str) -> int:
        """End the logins of the user ``name`` in all browsers and return their number."""
        return int(self._session.json("DELETE", f"/users/{segment(name)}/sign-ins")["revoked"])
