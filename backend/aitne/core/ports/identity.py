"""Identity sources, which authenticate users. One file in ``adapters/identity`` is one source.

A plug-in is created with the settings and a clock, and is either a ``FormSource``, which is given a
name and a password, or a ``RedirectSource``, which sends the browser to a provider and reads its
answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from aitne.core.errors import NotAllowed
from aitne.core.models.user import Role


@dataclass(frozen=True, slots=True)
class Identity:
    """Identity that a source confirms. None in a field: the source does not provide it."""

    name: str
    """The login name; not yet known to be one that users may have here."""
    display_name: str | None = None
    mail: str | None = None
    role: Role | None = None
    subject: str | None = None
    """The source's own identifier of the account, where names may change hands."""


class LoginDenied(NotAllowed):
    """The source knows the user, who may nevertheless not log in here; ``why`` is a stable reason
    code."""

    def __init__(self, message: str, why: str = "not_allowed") -> None:
        super().__init__(message)
        self.why = why


@runtime_checkable
class FormSource(Protocol):
    """Identity source that takes a name and a password."""

    name: str

    async def authenticate(
        self, username: str, password: str, stored: str | None
    ) -> Identity | None:
        """Return the identity, or None if name or password is wrong, without telling which.

        ``stored`` is the platform's own hash of the password, for its own accounts; None for a name
        that it does not know. The time taken must not tell the cases apart where the source
        controls it.

        Raises:
            LoginDenied: the password is right, and the user may not log in here.
            Unavailable: the source does not answer.
        """
        ...


@runtime_checkable
class RedirectSource(Protocol):
    """Identity source that sends the browser to a provider and reads its answer."""

    name: str
    label: str
    """Label of the button on the login page."""

    async def begin(self, state: str, redirect_uri: str) -> tuple[str, Mapping[str, Any]]:
        """Return the URL to send the browser to, and the data that ``finish`` needs.

        Raises:
            Unavailable: the provider does not answer.
        """
        ...

    async def finish(
        self, kept: Mapping[str, Any], redirect_uri: str, answer: Mapping[str, str]
    ) -> Identity:
        """Return the identity. ``answer`` is the query that the browser brought back.

        Raises:
            LoginDenied: the provider or its claims refuse the user.
            NotAuthenticated: the answer does not belong to the request.
            Unavailable: the provider does not answer.
        """
        ...


IdentitySource = FormSource | RedirectSource


class PasswordHasher(Protocol):
    """Hashing of the passwords of the platform's own accounts, for ``authenticate``."""

    async def hash(self, password: str) -> str:
        """Return a salted hash that contains its own algorithm and parameters."""
        ...

    async def verify(self, username: str, password: str, stored: str | None) -> bool:
        """Return whether the password is this user's; an unknown name takes as long as a known
        one."""
        ...


def role_by_groups(groups: frozenset[str], admin_groups: list[str]) -> Role | None:
    """Return the role that the groups give; None where no admin groups are configured."""
    if not admin_groups:
        return None
    return Role.ADMIN if groups & set(admin_groups) else Role.USER


def require_group(name: str, groups: frozenset[str], allowed: list[str]) -> None:
    """Pass for a member of one of the ``allowed`` groups, and for all users where none is named.

    Raises:
        LoginDenied: the user is in none of them.
    """
    if allowed and not groups & set(allowed):
        raise LoginDenied(
            f"{name} may not use this platform: that is for members of {', '.join(allowed)}. "
            "Ask an administrator to be added.",
            "not_in_group",
        )
