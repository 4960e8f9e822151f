"""Settings of logging in: which sources there are, what protects accounts, and each source's
own."""

from __future__ import annotations

import ipaddress
from pathlib import Path
from typing import Annotated, Literal, Self
from urllib.parse import urlsplit

from pydantic import Field, field_validator, model_validator

from aitne.core.models.base import Seconds, Strict

SourceName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,39}$")]
SecondFactorRule = Literal["optional", "admins", "all"]


def is_loopback(host: str | None) -> bool:
    """Return whether ``host`` is the loopback interface of this machine."""
    if host == "localhost":
        return True
    try:
        return host is not None and ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class LdapSettings(Strict):
    """Accounts of a directory, with `"ldap"` among the `sources`. Needs `pip install aitne[ldap]`."""

    url: str | None = Field(
        None, description="`ldaps://host`, or `ldap://host` (then with StartTLS); unset: none."
    )
    start_tls: bool = Field(
        True, description="Encrypt `ldap://`. Off only for a directory on this machine."
    )
    ca_file: Path | None = Field(
        None, description="The authority that signed its certificate; unset: the system's own."
    )
    bind_dn: str | None = Field(
        None, description="Whom the platform searches as; unset: anonymously."
    )
    bind_password_file: Path | None = Field(
        None, description="A file with that one's password, readable for the platform alone."
    )
    user_dn: str | None = Field(
        None,
        description="Where no search is needed: the entry of `{user}`, such as "
        "`uid={user},ou=people,dc=example,dc=org`.",
    )
    search_base: str | None = Field(None, description="Below here users are searched.")
    search_filter: str = Field(
        "(&(objectClass=posixAccount)(uid={user}))", description="Which entry is `{user}`'s."
    )
    name_attribute: str = Field("uid", description="The login name.")
    display_name_attribute: str = Field("cn", description="The full name.")
    mail_attribute: str = Field("mail", description="The mail address.")
    group_base: str | None = Field(
        None, description="Below here groups are searched; unset: `memberOf` of the user's entry."
    )
    group_filter: str = Field(
        "(|(member={dn})(memberUid={user}))", description="Which groups are the user's."
    )
    group_attribute: str = Field("cn", description="A group's name.")
    allowed_groups: list[str] = Field(
        default_factory=list, description="If any are named: only members of one of them log in."
    )
    admin_groups: list[str] = Field(
        default_factory=list,
        description="Their members are administrators, and nobody else of this source is; unset: "
        "roles are given here.",
    )
    timeout_s: float = Field(10.0, ge=1, le=60, description="Wait so long for an answer.")

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if self.url is None:
            return self
        parts = urlsplit(self.url)
        if parts.scheme not in ("ldap", "ldaps") or not parts.hostname:
            raise ValueError("url must be ldap://host[:port] or ldaps://host[:port]")
        clear = parts.scheme == "ldap" and not self.start_tls
        if clear and not is_loopback(parts.hostname):
            raise ValueError(
                "start_tls = false would send passwords readable through the network; it is for a "
                "directory on this machine"
            )
        if self.user_dn is None and self.search_base is None:
            raise ValueError("either user_dn or search_base must say where users are")
        if self.user_dn is not None and "{user}" not in self.user_dn:
            raise ValueError("user_dn must have {user} where the login name goes")
        if "{user}" not in self.search_filter:
            raise ValueError("search_filter must have {user} where the login name goes")
        return self


class OidcSettings(Strict):
    """An OpenID provider. Needed with `"oidc"` among the `sources`; `pip install aitne[oidc]`."""

    issuer: str | None = Field(
        None, description="The provider's address, as its own tokens name it; unset: none."
    )
    client_id: str = Field("aitne", description="What the provider calls this platform.")
    client_secret_file: Path | None = Field(
        None,
        description="A file with the secret shared with the provider; unset: a public client.",
    )
    label: str = Field("Single sign-on", max_length=60, description="What the button says.")
    scopes: list[str] = Field(
        default_factory=lambda: ["openid", "profile", "email"],
        description="What the provider is asked to tell.",
    )
    name_claim: str = Field("preferred_username", description="The login name.")
    display_name_claim: str = Field("name", description="The full name.")
    mail_claim: str = Field("email", description="The mail address.")
    groups_claim: str = Field("groups", description="A list of groups.")
    allowed_groups: list[str] = Field(
        default_factory=list, description="If any are named: only members of one of them log in."
    )
    admin_groups: list[str] = Field(
        default_factory=list,
        description="Their members are administrators, and nobody else of this source is; unset: "
        "roles are given here.",
    )
    ca_file: Path | None = Field(
        None, description="The authority that signed its certificate; unset: the system's own."
    )
    timeout_s: float = Field(10.0, ge=1, le=60, description="Wait so long for an answer.")

    @field_validator("issuer")
    @classmethod
    def _encrypted(cls, value: str | None) -> str | None:
        if value is None:
            return None
        parts = urlsplit(value)
        if parts.scheme != "https" and not (parts.scheme == "http" and is_loopback(parts.hostname)):
            raise ValueError("the provider must be reached by https")
        if parts.query or parts.fragment:
            raise ValueError("an issuer has neither a query nor a fragment")
        return value

    @field_validator("scopes")
    @classmethod
    def _openid(cls, value: list[str]) -> list[str]:
        if "openid" not in value:
            raise ValueError("openid must be among the scopes")
        return value


class PamSettings(Strict):
    """Accounts of this machine, with `"pam"` among the `sources`; `pip install aitne[pam]`."""

    service: str = Field(
        "login",
        pattern=r"^[A-Za-z0-9_.-]{1,64}$",
        description="The file in `/etc/pam.d`. With a broker its own `pam_service` decides.",
    )
    allowed_groups: list[str] = Field(
        default_factory=list, description="If any are named: only members of one of them log in."
    )
    admin_groups: list[str] = Field(
        default_factory=list,
        description="Their members are administrators, and nobody else of this source is; unset: "
        "roles are given here.",
    )


class AuthSettings(Strict):
    """Settings of logins and sign-ins."""

    sources: list[SourceName] = Field(
        default_factory=lambda: ["password"],
        min_length=1,
        description="Who vouches for people, in the order they are asked: `password` (the "
        "platform's own accounts), `ldap`, `oidc`, `pam`.",
    )
    create_users: bool = Field(
        True, description="Make an account for whom a source other than `password` vouches for."
    )
    second_factor: SecondFactorRule = Field(
        "optional", description="Who must have one: nobody (`optional`), `admins`, or `all`."
    )
    session_lifetime: Seconds = Field(12 * 3_600, description="How long a portal login lasts.")
    login_link_lifetime: Seconds = Field(900, description="How long a one-time login link works.")
    reset_link_lifetime: Seconds = Field(
        86_400, description="How long a link works that lets its reader set a new password."
    )
    max_failures: int = Field(
        10, ge=1, description="Failed logins by name or address before further ones must wait."
    )
    failure_window: Seconds = Field(
        300,
        description="The time over which failures are counted, and the first wait; for a name "
        "every further failure doubles it.",
    )
    longest_lockout: Seconds = Field(86_400, description="A name's wait grows up to this.")
    ldap: LdapSettings = LdapSettings()
    oidc: OidcSettings = OidcSettings()
    pam: PamSettings = PamSettings()

    @model_validator(mode="after")
    def _each_once(self) -> Self:
        if len(set(self.sources)) != len(self.sources):
            raise ValueError("sources names one of them twice")
        for name, known in (("ldap", self.ldap.url), ("oidc", self.oidc.issuer)):
            if name in self.sources and known is None:
                what = "url" if name == "ldap" else "issuer"
                raise ValueError(f"sources has {name}, but [auth.{name}] says no {what}")
        return self


class RateSettings(Strict):
    """Limits of the request rate; further requests are answered with 429 and the time to wait."""

    changes_per_minute: int = Field(
        3_000, ge=1, description="Requests of one user that change something."
    )
    changes_burst: int = Field(
        5_000, ge=1, description="So many of them at once, after a time of rest."
    )
    logins_per_minute: int = Field(
        60, ge=1, description="Logins and what else needs none, from one address."
    )
    logins_burst: int = Field(200, ge=1, description="So many of them at once.")


class AuditSettings(Strict):
    """A copy of the audit log outside of the platform."""

    syslog: str | None = Field(
        None,
        pattern=r"^((udp|tcp|tls)://[A-Za-z0-9.:\[\]-]+|/.+)$",
        description="Where each entry of the audit log is sent: `tls://HOST:PORT`, `tcp://HOST:PORT`, "
        "`udp://HOST:PORT` or the path of a socket; unset: nowhere.",
    )
