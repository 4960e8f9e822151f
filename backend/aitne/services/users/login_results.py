"""Origins of requests that log in, and the results of logins."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from aitne.core.models.user import Actor
from aitne.services.users.second_factor import Enrolment


@dataclass(frozen=True, slots=True)
class RequestOrigin:
    """Origin of a request: network address, user agent and the cookie of a known browser."""

    address: str | None = None
    agent: str | None = None
    browser: str | None = None
    """Cookie of a browser that has logged in before."""


@dataclass(frozen=True, slots=True)
class WebSession:
    """Valid sign-in of a request, with its CSRF token and the end of an impersonation."""

    actor: Actor
    csrf: str
    acting_until: datetime | None = None


@dataclass(frozen=True, slots=True)
class WebLogin:
    """A new sign-in. ``token`` is its sign-in token for the cookie; only the hash of it
    is stored.
    """

    actor: Actor
    csrf: str
    token: str
    browser: str
    """Value of a long-lived cookie that marks the browser as known: its failed logins are counted
    separately, so that wrong passwords sent from other browsers cannot lock it out.
    """
    recovery_codes: tuple[str, ...] = ()
    """Recovery codes of a second factor that was set up during the login; shown only once."""


@dataclass(frozen=True, slots=True)
class SecondStep:
    """Answer to a login with a correct password that needs a code as a second step.

    ``enrol`` is set if the user has no second factor yet and must set one up.
    """

    ticket: str
    expires_at: datetime
    enrol: Enrolment | None = None


@dataclass(frozen=True, slots=True)
class OneTimeLink:
    """One-time link that logs a user in."""

    url: str
    expires_at: datetime


@dataclass(frozen=True, slots=True)
class AuthRedirect:
    """URL to which a browser is redirected to log in at an identity provider.

    The browser keeps ``proof`` in a cookie; it shows later that the same browser returns.
    """

    url: str
    proof: str
