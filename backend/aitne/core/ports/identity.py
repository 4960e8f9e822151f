"""Identity: who vouches for people. One file in ``adapters/identity`` is one source.

A plug-in is made with the settings and a clock, and is either a ``FormSource``, which is shown a name
and a password, or a ``RedirectSource``, which sends the browser to a provider and reads what it brings back.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from aitne.core.errors import NotAllowed
from aitne.core.models.user import Role


@dataclass(frozen=True, slots=True)
class Identity:
    """Whom a source vouches for. What is None the source does not say."""

    name: str
    """The login name; not yet known to be one that users may have here."""
    display_name: str | None = None
    mail: str | None = None
    role: Role | None = None
    subject: str | None = None
    """What the source itself calls the account, where names may change hands."""


class NotLetIn(NotAllowed):
    """The source knows the person, who may nevertheless not log in here; ``why`` is a stable word."""

    def __init__(self, message: str, why: str = "not_allowed") -> None:
        super().__init__(message)
        self.why = why


@runtime_checkable
class FormSource(Protocol):
    """Takes a name and a password."""

    name: str

    async def authenticate(
        self, username: str, password: str, stored: str | None
    ) -> Identity | None:
        """Who this is; None: name or password is wrong, and nothing says which.

        ``stored`` is the platform's own hash of the password, for its own accounts; None for a name
        that it does not know. The time taken must not tell the cases apart where that is in the
        source's own hands.

        Raises:
            NotLetIn: the password is right, and the person may not log in here.
            Unavailable: the source does not answer.
        """
        ...


@runtime_checkable
class RedirectSource(Protocol):
    """Sends the browser elsewhere and takes what it brings back."""

    name: str
    label: str
    """What the button says."""

    async def begin(self, state: str, redirect_uri: str) -> tuple[str, Mapping[str, Any]]:
        """Where to send the browser, and what ``finish`` needs to know again.

        Raises:
            Unavailable: the provider does not answer.
        """
        ...

    async def finish(
        self, kept: Mapping[str, Any], redirect_uri: str, answer: Mapping[str, str]
    ) -> Identity:
        """Who this is. ``answer`` is the query that the browser brought back.

        Raises:
            NotLetIn: the provider or its claims say no.
            NotAuthenticated: what came back is not the answer to what was asked.
            Unavailable: the provider does not answer.
        """
        ...


IdentitySource = FormSource | RedirectSource


class PasswordHasher(Protocol):
    """For the platform's own accounts: what ``authenticate`` is later given as ``stored``."""

    async def hash(self, password: str) -> str:
        """A salted hash that says itself how it was made."""
        ...

    async def verify(self, username: str, password: str, stored: str | None) -> bool:
        """Whether the password is this user's; an unknown name takes as long as a known one."""
        ...


def role_by_groups(groups: frozenset[str], admin_groups: list[str]) -> Role | None:
    """The role that the groups give; None where no group was said to give one."""
    if not admin_groups:
        return None
    return Role.ADMIN if groups & set(admin_groups) else Role.USER


def require_group(name: str, groups: frozenset[str], allowed: list[str]) -> None:
    """Pass for a member of one of the ``allowed`` groups, and for everybody where none is named.

    Raises:
        NotLetIn: the person is in none of them.
    """
    if allowed and not groups & set(allowed):
        raise NotLetIn(
            f"{name} may not use this platform: that is for members of {', '.join(allowed)}. "
            "Ask an administrator to be added.",
            "not_in_group",
        )
