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
    """A user as an identity source describes the account; a field is None if the source does not
    provide it.
    """

    name: str
    """The login name; not yet known to be one that users may have here."""
    display_name: str | None = None
    mail: str | None = None
    role: Role | None = None
    subject: str | None = None
    """The source's own identifier of the account, where names may change hands."""


class LoginDenied(NotAllowed):
    """Error: the user has authenticated correctly but may not log in to this platform. ``why`` is a
    reason code for the audit log.
    """

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
        """Return the identity; None if the name or the password is wrong, without a distinction.

        ``stored`` is the hash of the password of an account of the platform itself, None for an
        unknown name. As far as the source controls it, all cases take the same time.

        Raises:
            LoginDenied: the password is right, but the user may not log in here.
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
        """Return the identity of the user who has logged in at the provider.

        ``kept`` is the data that ``begin`` returned, ``answer`` the query with which the provider
        sent the browser back.

        Raises:
            LoginDenied: the provider or its claims refuse the user.
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
        """Return whether ``password`` matches the hash ``stored``. If ``stored`` is None because
        the name is unknown, the answer False takes as long.
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
