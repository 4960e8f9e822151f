"""Requests and answers of the API for login and for the user's own account."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from aitne.api.views import Me, Password
from aitne.core.identity_settings import SecondFactorRule
from aitne.core.models.base import Frozen, Strict, UserName, UtcTime
from aitne.core.models.sign_in import SignIn
from aitne.core.models.user import Role

Code = Annotated[
    str,
    Field(
        min_length=1,
        max_length=50,
        description="Six digits of the device, or one of the recovery codes.",
        examples=["123456"],
    ),
]


class LoginButton(Frozen):
    """Identity provider that the browser can be sent to."""

    name: str = Field(description="The source.", examples=["oidc"])
    label: str = Field(description="What the button says.", examples=["University login"])
    url: str = Field(description="Where it leads.", examples=["/api/v1/auth/oidc/start"])


class LoginSources(Frozen):
    """Identity sources of this platform."""

    title: str = Field(description="The platform's name.")
    form: bool = Field(description="Whether a name and a password are taken.")
    buttons: list[LoginButton] = Field(description="Providers that log people in.")


class EnrolmentView(Frozen):
    """Secret for an authenticator app. It is shown only once."""

    secret: str = Field(description="To be typed in where no camera is.")
    uri: str = Field(description="The same for programs, `otpauth://…`.")
    qr_svg: str = Field(description="The same as a picture.")


class SecondFactorNeeded(Frozen):
    """Answer to a correct first step: `POST /auth/totp` with the ticket and a code is the second
    step."""

    second_factor_required: bool = Field(True, description="Always true.")
    ticket: str = Field(description="Works for one login.")
    expires_at: UtcTime = Field(description="Until when.")
    enrol: EnrolmentView | None = Field(
        description="To be set up now, because the site wants one; null: there is one."
    )


class SecondStepUse(Strict):
    """The second step of a login."""

    ticket: str = Field(min_length=1, max_length=200, description="What the first step answered.")
    code: Code


class SignedIn(Me):
    """The user who is logged in after the second step."""

    recovery_codes: list[str] = Field(
        description="Of a second factor that was just set up, shown this once; else empty."
    )


class FactorView(Frozen):
    """State of the user's second factor."""

    enabled: bool = Field(description="Whether a code is asked for.")
    required: bool = Field(description="Whether this platform wants one.")
    rule: SecondFactorRule = Field(description="Of whom it wants one.")
    confirmed_at: UtcTime | None = Field(description="Since when there is one.")
    recovery_codes_left: int = Field(description="How many are not used yet.")


class AccountView(Frozen):
    """The user's own account, with its login settings."""

    name: UserName = Field(description="The login name.")
    display_name: str = Field(description="The full name.")
    mail: str | None = Field(description="Where notifications go.")
    role: Role = Field(description="What one may do on the whole platform.")
    default_project: str = Field(description="What jobs are accounted to unless they say more.")
    created_at: UtcTime = Field(description="Since when there is an account.")
    source: str = Field(
        description="Who vouches for it: `password` is the platform itself.", examples=["ldap"]
    )
    has_password: bool = Field(description="Whether the platform knows a password of it.")
    second_factor: FactorView = Field(description="The second factor.")


class SignInView(SignIn):
    """One browser in which the user is logged in."""

    current: bool = Field(description="Whether this request came by it.")


class SignInList(Frozen):
    """Sign-ins of the user, most recently used first."""

    items: list[SignInView] = Field(description="The sign-ins.")


class Ended(Frozen):
    """Number of sign-ins that were revoked."""

    ended: int = Field(description="How many sign-ins that were.")


class NewPassword(Strict):
    """New password for the user's own account."""

    password: Password = Field(description="The new one.")
    current_password: str | None = Field(
        None, max_length=1_024, description="The one until now; needed if there is one."
    )
    delete_tokens: bool = Field(False, description="Also delete all access tokens.")


class CodeUse(Strict):
    """A code of the device, or a recovery code."""

    code: Code


class IdentityProof(Strict):
    """Proof of identity: one of the two fields."""

    code: Code | None = None
    """Code of the authenticator app, or a recovery code."""
    password: str | None = Field(None, max_length=1_024, description="One's own password.")


class RecoveryCodes(Frozen):
    """Recovery codes for a user who has lost the device. Each works once; they are shown only
    once."""

    recovery_codes: list[str] = Field(description="The codes.", examples=[["abcde-fghjk"]])


class ResetLink(Frozen):
    """Link that sets a new password for the account, once, until ``expires_at``."""

    url: str = Field(description="To be handed over by a way that is safe.")
    expires_at: UtcTime = Field(description="Until when it works.")


class ResetUse(Strict):
    """New password, set through a link."""

    token: str = Field(min_length=1, max_length=200, description="What follows `#token=`.")
    password: Password = Field(description="The new one.")
    delete_tokens: bool = Field(False, description="Also delete all access tokens.")


class ResetDone(Frozen):
    """Account whose password was set."""

    name: UserName = Field(description="The login name.")


class ProtectionView(Frozen):
    """Protection of an account, for administrators."""

    source: str = Field(description="Who vouches for it.", examples=["password"])
    has_password: bool = Field(description="Whether the platform knows a password of it.")
    second_factor: bool = Field(description="Whether it has one.")
    locked_until: UtcTime | None = Field(
        description="Locked because of failed logins until then; null: it is not."
    )
    sign_ins: int = Field(description="In how many browsers it is logged in.")
