"""What the API says and is told about logging in and about one's own account."""

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
    """A provider that the browser is sent to."""

    name: str = Field(description="The source.", examples=["oidc"])
    label: str = Field(description="What the button says.", examples=["University login"])
    url: str = Field(description="Where it leads.", examples=["/api/v1/auth/oidc/start"])


class LoginSources(Frozen):
    """The ways into this platform."""

    title: str = Field(description="The platform's name.")
    form: bool = Field(description="Whether a name and a password are taken.")
    buttons: list[LoginButton] = Field(description="Providers that log people in.")


class EnrolmentView(Frozen):
    """What an authenticator has to learn. It is shown this once."""

    secret: str = Field(description="To be typed in where no camera is.")
    uri: str = Field(description="The same for programs, `otpauth://…`.")
    qr_svg: str = Field(description="The same as a picture.")


class SecondFactorNeeded(Frozen):
    """The first step was right; `POST /auth/totp` with the ticket and a code is the second."""

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
    """Who is logged in now, after the second step."""

    recovery_codes: list[str] = Field(
        description="Of a second factor that was just set up, shown this once; else empty."
    )


class FactorView(Frozen):
    """How it stands with the second factor."""

    enabled: bool = Field(description="Whether a code is asked for.")
    required: bool = Field(description="Whether this platform wants one.")
    rule: SecondFactorRule = Field(description="Of whom it wants one.")
    confirmed_at: UtcTime | None = Field(description="Since when there is one.")
    recovery_codes_left: int = Field(description="How many are not used yet.")


class AccountView(Frozen):
    """One's own account."""

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
    """One browser that is logged in."""

    current: bool = Field(description="Whether this request came by it.")


class SignInList(Frozen):
    """Where one is logged in, used last first."""

    items: list[SignInView] = Field(description="The sign-ins.")


class Ended(Frozen):
    """How many ended."""

    ended: int = Field(description="How many sign-ins that were.")


class NewPassword(Strict):
    """One's own password."""

    password: Password = Field(description="The new one.")
    current_password: str | None = Field(
        None, max_length=1_024, description="The one until now; needed if there is one."
    )
    delete_tokens: bool = Field(False, description="Also delete all access tokens.")


class CodeUse(Strict):
    """A code of the device, or a recovery code."""

    code: Code


class IdentityProof(Strict):
    """A proof of who is at the browser: one of the two."""

    code: Code | None = None
    """Of the authenticator, or a recovery code."""
    password: str | None = Field(None, max_length=1_024, description="One's own password.")


class RecoveryCodes(Frozen):
    """For who lost the device. Each works once; they are shown this once."""

    recovery_codes: list[str] = Field(description="The codes.", examples=[["abcde-fghjk"]])


class ResetLink(Frozen):
    """Lets whoever opens it set a new password, once, until ``expires_at``."""

    url: str = Field(description="To be handed over by a way that is safe.")
    expires_at: UtcTime = Field(description="Until when it works.")


class ResetUse(Strict):
    """A new password, by a link."""

    token: str = Field(min_length=1, max_length=200, description="What follows `#token=`.")
    password: Password = Field(description="The new one.")
    delete_tokens: bool = Field(False, description="Also delete all access tokens.")


class ResetDone(Frozen):
    """Whose password it is now."""

    name: UserName = Field(description="The login name.")


class ProtectionView(Frozen):
    """How an account is protected, for administrators."""

    source: str = Field(description="Who vouches for it.", examples=["password"])
    has_password: bool = Field(description="Whether the platform knows a password of it.")
    second_factor: bool = Field(description="Whether it has one.")
    locked_until: UtcTime | None = Field(
        description="Locked because of failed logins until then; null: it is not."
    )
    sign_ins: int = Field(description="In how many browsers it is logged in.")
