"""Settings of logins: identity sources, protection of accounts, and the settings of each source."""

from __future__ import annotations

import ipaddress
from pathlib import Path
from typing import Annotated, Literal, Self
from urllib.parse import urlsplit

from pydantic import Field, field_validator, model_validator

from aitne.core.models.base import Seconds, Strict
from aitne.core.platform.forward_proxy_url import ProxyUrl
from aitne.core.users.user_names import NameRules

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
    """Identity source `ldap`: logins with the accounts of an LDAP directory. Takes effect when
    `sources` names `"ldap"`; requires `pip install aitne[ldap]`.
    """

    url: str | None = Field(
        None,
        description="URL of the directory: `ldaps://host`, or `ldap://host` (then with "
        "StartTLS); unset: none.",
    )
    start_tls: bool = Field(
        True, description="Encrypt `ldap://`. Disable it only for a directory on this machine."
    )
    ca_file: Path | None = Field(
        None,
        description="Certificate authority of the server (PEM file); unset: the system's "
        "authorities.",
    )
    bind_dn: str | None = Field(
        None, description="DN with which the platform searches; unset: anonymous."
    )
    bind_password_file: Path | None = Field(
        None, description="File with the password of `bind_dn`, readable only by the platform."
    )
    user_dn: str | None = Field(
        None,
        description="DN of the entry of `{user}` where no search is needed, such as "
        "`uid={user},ou=people,dc=example,dc=org`.",
    )
    search_base: str | None = Field(None, description="Base DN of the search for users.")
    search_filter: str = Field(
        "(&(objectClass=posixAccount)(uid={user}))", description="Filter for the entry of `{user}`."
    )
    name_attribute: str = Field("uid", description="Attribute with the login name.")
    display_name_attribute: str = Field("cn", description="Attribute with the full name.")
    mail_attribute: str = Field("mail", description="Attribute with the mail address.")
    group_base: str | None = Field(
        None, description="Base DN of the search for groups; unset: `memberOf` of the user's entry."
    )
    group_filter: str = Field(
        "(|(member={dn})(memberUid={user}))", description="Filter for the groups of the user."
    )
    group_attribute: str = Field("cn", description="Attribute with the name of a group.")
    allowed_groups: list[str] = Field(
        default_factory=list,
        description="Groups whose members may log in; empty: all users of this source.",
    )
    admin_groups: list[str] = Field(
        default_factory=list,
        description="Groups whose members, and no other users of this source, are "
        "administrators; unset: roles are assigned in the platform.",
    )
    timeout_s: float = Field(10.0, ge=1, le=60, description="Timeout of a request, in seconds.")

    @model_validator(mode="after")
    def _check_connection(self) -> Self:
        if self.url is None:
            return self
        parts = urlsplit(self.url)
        if parts.scheme not in ("ldap", "ldaps") or not parts.hostname:
            raise ValueError("url must be ldap://host[:port] or ldaps://host[:port]")
        clear = parts.scheme == "ldap" and not self.start_tls
        if clear and not is_loopback(parts.hostname):
            raise ValueError(
                "start_tls = false would send passwords unencrypted; it is only for a "
                "directory on this machine"
            )
        if self.user_dn is None and self.search_base is None:
            raise ValueError("user_dn or search_base is required to find users")
        if self.user_dn is not None and "{user}" not in self.user_dn:
            raise ValueError("user_dn must have {user} where the login name goes")
        if "{user}" not in self.search_filter:
            raise ValueError("search_filter must have {user} where the login name goes")
        return self


class OidcSettings(Strict):
    """Identity source `oidc`: logins at an OpenID Connect provider. Takes effect when `sources`
    names `"oidc"`; requires `pip install aitne[oidc]`.
    """

    issuer: str | None = Field(
        None, description="URL of the provider, as its tokens name it; unset: none."
    )
    client_id: str = Field("aitne", description="Client ID of this platform at the provider.")
    client_secret_file: Path | None = Field(
        None,
        description="File with the client secret; unset: a public client.",
    )
    label: str = Field("Single sign-on", max_length=60, description="Label of the login button.")
    scopes: list[str] = Field(
        default_factory=lambda: ["openid", "profile", "email"],
        description="Scopes that are requested from the provider.",
    )
    name_claim: str = Field("preferred_username", description="Claim with the login name.")
    display_name_claim: str = Field("name", description="Claim with the full name.")
    mail_claim: str = Field("email", description="Claim with the mail address.")
    groups_claim: str = Field("groups", description="Claim with the list of groups.")
    allowed_groups: list[str] = Field(
        default_factory=list,
        description="Groups whose members may log in; empty: all users of this source.",
    )
    admin_groups: list[str] = Field(
        default_factory=list,
        description="Groups whose members, and no other users of this source, are "
        "administrators; unset: roles are assigned in the platform.",
    )
    ca_file: Path | None = Field(
        None,
        description="Certificate authority of the server (PEM file); unset: the system's "
        "authorities.",
    )
    proxy: ProxyUrl | None = Field(
        None,
        description="Forward proxy by which the platform reaches the provider, such as "
        "`http://proxy.example.org:3128`; an address on this machine is reached without it. Unset: "
        "none, whatever variables such as `HTTPS_PROXY` say.",
    )
    timeout_s: float = Field(10.0, ge=1, le=60, description="Timeout of a request, in seconds.")

    @field_validator("issuer")
    @classmethod
    def _check_issuer(cls, value: str | None) -> str | None:
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
    def _check_scopes(cls, value: list[str]) -> list[str]:
        if "openid" not in value:
            raise ValueError("openid must be among the scopes")
        return value


class PamSettings(Strict):
    """Identity source `pam`: logins with the passwords of this machine's Unix accounts. Takes
    effect when `sources` names `"pam"`; requires `pip install aitne[pam]`.
    """

    service: str = Field(
        "login",
        pattern=r"^[A-Za-z0-9_.-]{1,64}$",
        description="PAM service: a file in `/etc/pam.d`. With a broker its own `pam_service` "
        "applies.",
    )
    allowed_groups: list[str] = Field(
        default_factory=list,
        description="Groups whose members may log in; empty: all users of this source.",
    )
    admin_groups: list[str] = Field(
        default_factory=list,
        description="Groups whose members, and no other users of this source, are "
        "administrators; unset: roles are assigned in the platform.",
    )


class AuthSettings(Strict):
    """Settings of logins of users."""

    sources: list[SourceName] = Field(
        default_factory=lambda: ["password"],
        min_length=1,
        description="Identity sources, in the order in which they are tried: `password` (the "
        "platform's own accounts), `ldap`, `oidc`, `pam`.",
    )
    create_users: bool = Field(
        True,
        description="Create an account at the first login of a user of a source other than "
        "`password`.",
    )
    second_factor: SecondFactorRule = Field(
        "optional",
        description="Users who must have a second factor: none (`optional`), administrators "
        "(`admins`) or `all`.",
    )
    session_lifetime: Seconds = Field(12 * 3_600, description="Lifetime of a portal login.")
    inactivity_duration: Seconds = Field(
        2 * 3_600,
        description="Time without use after which a portal login ends before that. Input in a page "
        "of the portal is use, also in a terminal; an open page alone is not.",
    )
    device_token_lifetime: Seconds = Field(
        90 * 86_400,
        description="Longest validity of the access token of a program whose login is confirmed in the "
        "portal (`aitne login`).",
    )
    login_link_lifetime: Seconds = Field(900, description="Lifetime of a one-time login link.")
    reset_link_lifetime: Seconds = Field(
        86_400, description="Lifetime of a link that sets a new password."
    )
    max_failures: int = Field(
        10, ge=1, description="Failed logins of a name or address before further ones are delayed."
    )
    failure_window: Seconds = Field(
        300,
        description="Period over which failures are counted, and the first delay; for a name "
        "every further failure doubles the delay.",
    )
    longest_lockout: Seconds = Field(86_400, description="Longest delay for a name.")
    names: NameRules = NameRules()
    ldap: LdapSettings = LdapSettings()
    oidc: OidcSettings = OidcSettings()
    pam: PamSettings = PamSettings()

    @model_validator(mode="after")
    def _each_once(self) -> Self:
        if len(set(self.sources)) != len(self.sources):
            raise ValueError("sources names a source twice")
        for name, address in (("ldap", self.ldap.url), ("oidc", self.oidc.issuer)):
            if name in self.sources and address is None:
                what = "url" if name == "ldap" else "issuer"
                raise ValueError(f"sources has {name}, but [auth.{name}] has no {what}")
        return self


class RateSettings(Strict):
    """Limits of requests in a time. A request above a limit is answered with status 429 and the
    time to wait.
    """

    changes_per_minute: int = Field(
        3_000, ge=1, description="Requests of one user that change something, per minute."
    )
    changes_burst: int = Field(
        5_000, ge=1, description="Number of such requests that are accepted in a burst."
    )
    logins_per_minute: int = Field(
        60,
        ge=1,
        description="Logins and other requests without a credential from one address, per minute.",
    )
    logins_burst: int = Field(
        200, ge=1, description="Number of such requests that are accepted in a burst."
    )


class AuditSettings(Strict):
    """Forwarding of the audit log to a receiver outside of the platform."""

    syslog: str | None = Field(
        None,
        pattern=r"^((udp|tcp|tls)://[A-Za-z0-9.:\[\]-]+|/.+)$",
        description="Destination of each entry of the audit log: `tls://HOST:PORT`, "
        "`tcp://HOST:PORT`, `udp://HOST:PORT` or the path of a socket; unset: none.",
    )
