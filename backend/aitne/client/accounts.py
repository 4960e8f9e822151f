"""The user's own account, personal access tokens, and the accounts of all users."""

from __future__ import annotations

from datetime import datetime

from aitne.client.api_session import quote_segment
from aitne.client.record_base import Record
from aitne.client.records import LoginLinkRecord, Token, User, UserListItemRecord

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from aitne.client.api_session import ApiSession


class SignInRecord(Record):
    """Login of the user in one browser. Times are in UTC."""

    id: str
    """Identifier of the login, for ``revoke_sign_in``; it is not a secret."""
    owner: str
    source: str
    """Kind of login: ``password``, ``ldap``, ``oidc``, ``pam``, or ``link`` for a one-time link."""
    device: str
    """Browser and operating system, such as ``Firefox on Linux``."""
    address: str | None
    """Network address of the last request; None: unknown."""
    created_at: datetime
    last_seen_at: datetime
    """Time of the last request, to the minute."""
    expires_at: datetime
    current: bool
    """Whether the request that returned this record was made with this login."""


class ProtectionRecord(Record):
    """State of an account's authentication: password, second factor, logins."""

    source: str
    """Identity source, such as ``ldap``; ``password``: the platform manages the account itself."""
    has_password: bool
    second_factor: bool
    locked_until: datetime | None
    """Time until which failed logins lock the account; None: it is not locked."""
    sign_ins: int
    """Number of browsers in which the user is logged in."""


class Account:
    """Operations on the user's own account, as ``client.account``."""

    def __init__(self, session: ApiSession) -> None:
        self._session = session

    def sign_ins(self) -> list[SignInRecord]:
        """Return the browsers in which the user is logged in, most recently used first."""
        return [
            SignInRecord(item)
            for item in self._session.request_json("GET", "/account/sign-ins")["items"]
        ]

    def revoke_sign_in(self, sign_in_id: str) -> None:
        """Log the user out in the browser of the login ``sign_in_id``. Raises ``NotFound``."""
        self._session.request_json("DELETE", f"/account/sign-ins/{quote_segment(sign_in_id)}")

    def revoke_all_sign_ins(self) -> int:
        """Log the user out in all browsers, and return the number of logins that were ended.
        Personal access tokens remain valid.
        """
        answer = self._session.request_json(
            "DELETE", "/account/sign-ins", query={"keep_current": "false"}
        )
        return int(answer["revoked"])


class Tokens:
    """Operations on personal access tokens, as ``client.tokens``."""

    def __init__(self, session: ApiSession) -> None:
        self._session = session

    def list(self, *, user: str | None = None) -> list[Token]:
        """Return the personal access tokens of ``user`` (None: the current user). Only
        administrators may pass another user's name."""
        answer = self._session.request_json("GET", "/tokens", query={"user": user})
        return [Token(item) for item in answer["items"]]

    def create(
        self,
        name: str,
        *,
        scopes: Sequence[str] = ("read", "write"),
        expires_in: str | None = "30d",
        user: str | None = None,
    ) -> Token:
        """Create a personal access token.

        ``scopes`` are the permitted actions: ``read``, ``write``, ``admin``. ``expires_in`` is the
        validity, such as ``"30d"``; None: the token does not expire. ``user`` is the owner of the
        token (administrators only); None: the current user.

        The field ``token`` of the result contains the secret, which cannot be read again later.
        """
        body: dict[str, Any] = {"name": name, "scopes": list(scopes), "expires_in": expires_in}
        if user is not None:
            body["user"] = user
        return Token(self._session.request_json("POST", "/tokens", body=body))

    def revoke(self, token_id: str) -> None:
        """Revoke the token with the ID ``token_id``, which becomes invalid immediately."""
        self._session.request_json("DELETE", f"/tokens/{quote_segment(token_id)}")

    def login_link(self) -> LoginLinkRecord:
        """Create a one-time login link. The first browser that opens it is logged in as the
        user.
        """
        return LoginLinkRecord(self._session.request_json("POST", "/auth/login-links"))


class Users:
    """Operations on all accounts, as ``client.users``; administrators only."""

    def __init__(self, session: ApiSession) -> None:
        self._session = session

    def list(self) -> Iterator[UserListItemRecord]:
        """Iterate over all accounts by name, with the time of the last login of each."""
        return map(UserListItemRecord, self._session.list_pages("/users", {}))

    def get(self, name: str) -> User:
        """Return one account. Raises ``NotFound``."""
        return User(self._session.request_json("GET", f"/users/{quote_segment(name)}"))

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
        """Create an account and return it.

        If ``password`` is None, the owner can log in only with an access token or a login link.
        ``default_project`` is the project of jobs that do not specify one; None: a new project is
        created. ``role`` is ``user`` or ``admin``.
        """
        fields = {
            "name": name,
            "role": role,
            "password": password,
            "display_name": display_name,
            "mail": mail,
            "default_project": default_project,
        }
        body = {field: value for field, value in fields.items() if value is not None}
        return User(self._session.request_json("POST", "/users", body=body))

    def change(self, name: str, **changes: Any) -> User:
        """Change fields of an account: ``display_name``, ``role``, ``disabled``, ``source`` or
        ``password``. Other fields keep their values."""
        return User(
            self._session.request_json("PATCH", f"/users/{quote_segment(name)}", body=changes)
        )

    def protection(self, name: str) -> ProtectionRecord:
        """Return the password, second factor and lock state of an account. Raises ``NotFound``."""
        return ProtectionRecord(
            self._session.request_json("GET", f"/users/{quote_segment(name)}/protection")
        )

    def reset_link(self, name: str) -> LoginLinkRecord:
        """Create a one-time link with which the user ``name`` can set a new password."""
        return LoginLinkRecord(
            self._session.request_json("POST", f"/users/{quote_segment(name)}/reset-link")
        )

    def unlock(self, name: str) -> None:
        """Unlock an account that was locked after failed logins, and reset its count of failed
        logins.
        """
        self._session.request_json("POST", f"/users/{quote_segment(name)}/unlock")

    def reset_second_factor(self, name: str) -> None:
        """Remove the second factor of an account and log its user out in all browsers."""
        self._session.request_json("POST", f"/users/{quote_segment(name)}/reset-second-factor")

    def sign_out(self, name: str) -> int:
        """Log the user ``name`` out in all browsers, and return the number of logins that were
        ended.
        """
        return int(
            self._session.request_json("DELETE", f"/users/{quote_segment(name)}/sign-ins")[
                "revoked"
            ]
        )
