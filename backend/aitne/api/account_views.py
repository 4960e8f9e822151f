"""Models of the API's requests and responses for login and for the user's own account."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from aitne.api.job_query_views import Me, Password
from aitne.core.models.base import Frozen, Strict, UserName, UtcTime, deprecated_copy
from aitne.core.models.sign_in_records import SignIn
from aitne.core.models.user import Role
from aitne.core.users.auth_settings import SecondFactorRule

Code = Annotated[
    str,
    Field(
        min_length=1,
        max_length=50,
        description="Six-digit code of the authenticator app, or a recovery code.",
        examples=["123456"],
    ),
]


class LoginButton(Frozen):
    """Identity provider that the browser can be sent to."""

    name: str = Field(description="Name of the identity source.", examples=["oidc"])
    label: str = Field(description="Label of the button.", examples=["University login"])
    url: str = Field(
        description="Path that starts the login.", examples=["/api/v1/auth/oidc/start"]
    )


class LoginSources(Frozen):
    """Ways to log in to this platform: name and password, and external identity providers."""

    title: str = Field(description="The platform's name.")
    form: bool = Field(description="Whether users can log in with a name and a password.")
    buttons: list[LoginButton] = Field(description="Identity providers that users can log in with.")


class EnrolmentView(Frozen):
    """Secret of a second factor for the user's authenticator app. It is shown only once."""

    secret: str = Field(description="The secret, to enter by hand if there is no camera.")
    uri: str = Field(description="The secret as a URI, `otpauth://…`.")
    qr_svg: str = Field(description="The URI as a QR code.")


class SecondFactorNeeded(Frozen):
    """Response to a correct password if a second factor is required. The login is completed by
    `POST /auth/totp` with the ticket and a code."""

    second_factor_required: bool = Field(True, description="Always true.")
    ticket: str = Field(description="Token for the second step, valid for one login.")
    expires_at: UtcTime = Field(description="Time at which the ticket expires.")
    enrol: EnrolmentView | None = Field(
        description="Second factor to set up now, as the site requires one; null: there is one."
    )


class SecondStepUse(Strict):
    """Ticket and code of the second step of a login."""

    ticket: str = Field(min_length=1, max_length=200, description="The ticket of the first step.")
    code: Code


class SignedIn(Me):
    """The user who is logged in after the second step."""

    recovery_codes: list[str] = Field(
        description="Codes of a second factor that was just set up, shown only once; else empty."
    )


class FactorView(Frozen):
    """State of the user's second factor."""

    enabled: bool = Field(description="Whether a login requires a code.")
    required: bool = Field(description="Whether the platform requires a second factor of you.")
    policy: SecondFactorRule = Field(description="Users who need a second factor.")
    confirmed_at: UtcTime | None = Field(description="Time at which it was activated.")
    recovery_codes_left: int = Field(description="Number of unused recovery codes.")
    rule: ClassVar = deprecated_copy("policy", SecondFactorRule)


class AccountView(Frozen):
    """The user's own account, with its login settings."""

    name: UserName = Field(description="The login name.")
    display_name: str = Field(description="The full name.")
    mail: str | None = Field(description="Mail address for notifications.")
    role: Role = Field(description="Role on the platform.")
    default_project: str = Field(description="Project of jobs that do not specify one.")
    created_at: UtcTime = Field(description="Time at which the account was created.")
    source: str = Field(
        description="Identity source; `password`: the account is managed by the platform itself.",
        examples=["ldap"],
    )
    has_password: bool = Field(description="Whether the platform stores a password of the account.")
    second_factor: FactorView = Field(description="State of the second factor.")


class SignInView(SignIn):
    """Login of the user in one browser, and whether it is the one that sent this request."""

    current: bool = Field(description="Whether this request was made with it.")


class SignInList(Frozen):
    """Browsers in which the user is logged in, most recently used first."""

    items: list[SignInView] = Field(description="The sign-ins.")


class RevokedSignIns(Frozen):
    """Number of logins that were ended."""

    revoked: int = Field(description="Number of revoked sign-ins.")
    ended: ClassVar = deprecated_copy("revoked", int)


class NewPassword(Strict):
    """New password for the user's own account."""

    password: Password = Field(description="The new password.")
    current_password: str | None = Field(
        None, max_length=1_024, description="The current password; required if there is one."
    )
    delete_tokens: bool = Field(False, description="Also delete all access tokens.")


class CodeUse(Strict):
    """Code of the user's second factor: from the authenticator app, or a recovery code."""

    code: Code


class IdentityProof(Strict):
    """Proof of identity: either a code of the second factor or the password."""

    code: Code | None = None
    """Code of the authenticator app, or a recovery code."""
    password: str | None = Field(None, max_length=1_024, description="The user's own password.")


class LoginProof(IdentityProof):
    """Proof of the identity of a logged-in user: a code, the password or a new login link."""

    link: str | None = Field(
        None,
        min_length=1,
        max_length=1_024,
        description="Address of a one-time login link that an administrator's token has created for "
        "the same user, or its part after `#link=`.",
    )


class RecoveryCodes(Frozen):
    """Recovery codes for a user who has lost the device. Each works once; they are shown only
    once."""

    recovery_codes: list[str] = Field(description="The codes.", examples=[["abcde-fghjk"]])


class ResetLink(Frozen):
    """Link with which the owner of the account can set a new password, once, until
    ``expires_at``."""

    url: str = Field(description="The link; send it over a secure channel.")
    expires_at: UtcTime = Field(description="Time at which the link expires.")


class ResetUse(Strict):
    """New password, set with the secret of a password reset link."""

    token: str = Field(
        min_length=1, max_length=200, description="The part of the link after `#token=`."
    )
    password: Password = Field(description="The new password.")
    delete_tokens: bool = Field(False, description="Also delete all access tokens.")


class ResetDone(Frozen):
    """Account whose password was set."""

    name: UserName = Field(description="The login name.")


class ProtectionView(Frozen):
    """Protection of an account: second factor, lock after failed logins, logins. Administrators
    only."""

    source: str = Field(description="Identity source.", examples=["password"])
    has_password: bool = Field(description="Whether the platform stores a password of the account.")
    second_factor: bool = Field(description="Whether the account has a second factor.")
    locked_until: UtcTime | None = Field(
        description="End of the lock after failed logins; null: not locked."
    )
    sign_ins: int = Field(description="Number of browsers in which the user is logged in.")
