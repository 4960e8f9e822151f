"""Settings of mail, webhooks and inactivity, which are sections of ``core.settings.Settings``."""

from __future__ import annotations

import ipaddress
import re
from email.utils import parseaddr
from pathlib import Path
from typing import Literal, Self

from pydantic import Field, field_validator, model_validator

from aitne.core.models.base import Seconds, Strict
from aitne.core.platform.forward_proxy_url import ProxyUrl

MAIL_ADDRESS = re.compile(
    r"(?=.{3,254}\Z)[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}"
    r"@[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
    r"(?:\.[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?)*\Z"
)
"""Pattern of a mail address as browsers accept it in forms: without quotes, comments and line
breaks.
"""
_HOST_NAME = re.compile(r"(?:[a-z0-9](?:[a-z0-9-]*[a-z0-9])?\.)+[a-z0-9-]*[a-z0-9]")
_INNER = frozenset({"localhost", "local", "internal", "localdomain"})


def check_mail_address(text: str) -> str:
    """Return the text if it is a valid mail address.

    Raises ``ValueError`` if it is not.
    """
    if MAIL_ADDRESS.match(text) is None:
        raise ValueError("it is not a mail address such as ada@example.org")
    return text


class MailSettings(Strict):
    """Mail server (SMTP) for notifications. Without a host, no mail is sent."""

    host: str | None = Field(None, description="The SMTP server; unset: no mail is sent.")
    port: int | None = Field(
        None, ge=1, le=65_535, description="Unset: 465 with `tls`, 587 with `starttls`, else 25."
    )
    security: Literal["starttls", "tls", "none"] = Field(
        "starttls",
        description="`starttls`, `tls` from the first byte, or `none` for a server on this machine.",
    )
    user: str | None = Field(None, description="Name for the login at the server; unset: no login.")
    password_file: Path | None = Field(None, description="File with the password of `user`.")
    sender: str = Field(
        "aitne@localhost", description="Sender of the mails, such as `Aitne <aitne@example.org>`."
    )
    timeout: Seconds = Field(30, description="Timeout for an answer of the server.")

    @field_validator("sender")
    @classmethod
    def _check_sender(cls, value: str) -> str:
        check_mail_address(parseaddr(value)[1])
        return value

    @model_validator(mode="after")
    def _check_login(self) -> Self:
        if self.user is not None and self.password_file is None:
            raise ValueError("user needs a password_file")
        if self.user is not None and self.security == "none":
            raise ValueError("a password is not sent without starttls or tls")
        return self

    @property
    def server_port(self) -> int:
        """Port of the mail server, with the default for the type of encryption."""
        return self.port or {"tls": 465, "starttls": 587, "none": 25}[self.security]


class WebhookSettings(Strict):
    """Permitted destinations of users' webhooks."""

    enabled: bool = Field(True, description="Whether users may have webhooks.")
    http_hosts: list[str] = Field(
        default_factory=list,
        description="Hosts that may receive messages without TLS, by name; all others need https.",
    )
    private_networks: list[str] = Field(
        default_factory=list,
        description="Networks that may receive messages although they are not public, such as "
        '`["10.1.0.0/16"]`. Loopback and all other private addresses are refused.',
    )
    proxy: ProxyUrl | None = Field(
        None,
        description="Forward proxy for messages that leave the site, such as "
        "`http://proxy.example.org:3128`; addresses in `private_networks` are reached without it. "
        "Unset: none, whatever variables such as `HTTPS_PROXY` say.",
    )
    proxy_hosts: list[str] = Field(
        default_factory=list,
        description="Hosts whose names the proxy looks up, for a machine that cannot: their "
        "addresses are not checked, so name only hosts of others, such as `hooks.slack.com`.",
    )
    timeout: Seconds = Field(10, description="Timeout for an answer of the receiver.")

    @model_validator(mode="after")
    def _with_proxy(self) -> Self:
        if self.proxy_hosts and self.proxy is None:
            raise ValueError("proxy_hosts needs a proxy")
        return self

    @field_validator("proxy_hosts")
    @classmethod
    def _check_host_names(cls, value: list[str]) -> list[str]:
        for host in value:
            last = host.rpartition(".")[2]
            if _HOST_NAME.fullmatch(host) is None or last.isdigit() or last in _INNER:
                raise ValueError(f"{host!r} is not the name of a public host")
        return value

    @field_validator("private_networks")
    @classmethod
    def _check_networks(cls, value: list[str]) -> list[str]:
        for network in value:
            ipaddress.ip_network(network)
        return value


class IdleSettings(Strict):
    """Treatment of sessions without activity and of jobs with idle GPUs."""

    inactivity_duration: Seconds | None = Field(
        None,
        description="Time without activity after which a session ends, unless its job file or "
        "template sets another; unset: never.",
    )
    max_inactivity_duration: Seconds | None = Field(
        None, description="Longest time that a job file may set; unset: any time, or off."
    )
    gpu_utilization: float = Field(
        0.05,
        ge=0,
        le=1,
        description="A job or session whose GPUs are on average less busy than this is shown as idle.",
    )
    gpu_window: Seconds = Field(1_800, description="Period over which that average is computed.")
