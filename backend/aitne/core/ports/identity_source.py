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
    """User as described by an identity source; a field is None if the source does not provide
    it.
    """

    name: str
    """Login name in the source, from which the source's rule (``core.users.user_names``) makes the name of
    the account.
    """
    display_name: str | None = None
    mail: str | None = None
    role: Role | None = None
    subject: str | None = None
    """Identifier of the account in the identity source, which stays the same if the login name
    changes or is given to another user. None: the login name identifies the account.
    """


class LoginDenied(NotAllowed):
    """Error: the user has authenticated correctly but may not log in to this platform. ``why`` is a
    reason code for the audit log.
    """

    def __init__(self, message: str, why: str = "not_allowed") -> None:
        super().__init__(message)
        self.why = why


@runtime_checkable
class FormSource(Protocol):
    """Identity source to which the user's name and password are passed."""

    name: str

    async def authenticate(
        self, username: str, password: str, stored: str | None
    ) -> Identity | None:
        """Return the identity; None if the name or the password is wrong, without telling which.

        ``stored`` is the hash of the password of the platform's own account, None for an unknown
        name. As far as the source can ensure that, the duration is the same in all cases.

        Raises:
            LoginDenied: the password is correct, but the user may not use this platform.
            Unavailable: the source does not answer.
        """
        ...


@runtime_checkable
class RedirectSource(Protocol):
    """Identity source that sends the browser to a provider and reads its answer."""

    name: str
    label: str
    """Label of the button on the login page."""

    async def begin_login(self, state: str, redirect_uri: str) -> tuple[str, Mapping[str, Any]]:
        """Return the URL to which the browser is redirected, and data that ``finish_login`` needs.

        Raises:
            Unavailable: the provider does not answer.
        """
        ...

    async def finish_login(
        self, kept: Mapping[str, Any], redirect_uri: str, answer: Mapping[str, str]
    ) -> Identity:
        """Return the identity of the user who has logged in at the provider.

        ``kept`` is the data that ``begin_login`` returned; ``answer`` contains the query parameters of
        the URL to which the provider redirected the browser.

        Raises:
            LoginDenied: the provider refuses the user, or its claims do not permit the login.
            NotAuthenticated: the answer does not belong to the request.
            Unavailable: the provider does not answer.
        """
        ...


IdentitySource = FormSource | RedirectSource


class PasswordHasher(Protocol):
    """Port that hashes and verifies the passwords of the platform's own accounts."""

    async def hash(self, password: str) -> str:
        """Return a salted hash that contains its own algorithm and parameters."""
        ...

    async def verify(self, username: str, password: str, stored: str | None) -> bool:
        """Return whether ``password`` matches the hash ``stored``.

        If ``stored`` is None because the name is unknown, the result is False, and the call takes
        the same time.
        """
        ...


def role_by_groups(groups: frozenset[str], admin_groups: list[str]) -> Role | None:
    """Return the role that follows from a user's groups; None if the site has configured no groups
    of administrators.
    """
    if not admin_groups:
        return None
    return Role.ADMIN if groups & set(admin_groups) else Role.USER


def require_group(name: str, groups: frozenset[str], allowed: list[str]) -> None:
    """Check that the user is in one of the ``allowed`` groups; an empty list allows all users.

    Raises:
        LoginDenied: the user is in none of the groups.
    """
    if allowed and not groups & set(allowed):
        raise LoginDenied(
            f"{name} may not use this platform: that is for members of {', '.join(allowed)}. "
            "Ask an administrator to be added.",
            "not_in_group",
        )
