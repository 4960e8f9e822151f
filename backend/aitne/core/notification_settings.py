"""The settings of mail, webhooks and idle work, parts of the one tree in ``core.settings``."""

from __future__ import annotations

import ipaddress
import re
from email.utils import parseaddr
from pathlib import Path
from typing import Literal, Self

from pydantic import Field, field_validator, model_validator

from aitne.core.models.base import Seconds, Strict

MAIL_ADDRESS = re.compile(
    r"(?=.{3,254}\Z)[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}"
    r"@[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
    r"(?:\.[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?)*\Z"
)
"""An address as browsers' forms take it: no quotes, no comments, no line breaks."""


def mail_address(text: str) -> str:
    """Return the text if mail can be sent there; else raise ``ValueError``."""
    if MAIL_ADDRESS.match(text) is None:
        raise ValueError("it is not a mail address such as ada@example.org")
    return text


class MailSettings(Strict):
    """Mail by SMTP. Without a host there is none."""

    host: str | None = Field(None, description="The SMTP server; unset: no mail is sent.")
    port: int | None = Field(
        None, ge=1, le=65_535, description="Unset: 465 with `tls`, 587 with `starttls`, else 25."
    )
    security: Literal["starttls", "tls", "none"] = Field(
        "starttls",
        description="`starttls`, `tls` from the first byte, or `none` for a server on this machine.",
    )
    user: str | None = Field(None, description="The name to log in with; unset: no login.")
    password_file: Path | None = Field(None, description="Holds the password, for `user`.")
    sender: str = Field(
        "aitne@localhost", description="Who it is from: `Aitne <aitne@example.org>`."
    )
    timeout: Seconds = Field(30, description="How long the server may take for an answer.")

    @field_validator("sender")
    @classmethod
    def _sender(cls, value: str) -> str:
        mail_address(parseaddr(value)[1])
        return value

    @model_validator(mode="after")
    def _login(self) -> Self:
        if self.user is not None and self.password_file is None:
            raise ValueError("user needs a password_file")
        if self.user is not None and self.security == "none":
            raise ValueError("a password is not sent without starttls or tls")
        return self

    @property
    def port_of_server(self) -> int:
        """Port of the mail server."""
        return self.port or {"tls": 465, "starttls": 587, "none": 25}[self.security]


class WebhookSettings(Strict):
    """Permitted targets of users' webhooks."""

    enabled: bool = Field(True, description="Whether people may have webhooks.")
    http_hosts: list[str] = Field(
        default_factory=list,
        description="Hosts that may be told without TLS, by name; all others need https.",
    )
    private_networks: list[str] = Field(
        default_factory=list,
        description="Networks that are not public and may be told all the same, such as "
        '`["10.1.0.0/16"]`. Loopback and all other private addresses are refused.',
    )
    timeout: Seconds = Field(10, description="How long the other side may take for its answer.")

    @field_validator("private_networks")
    @classmethod
    def _networks(cls, value: list[str]) -> list[str]:
        for network in value:
            ipaddress.ip_network(network)
        return value


class IdleSettings(Strict):
    """Handling of sessions without activity and of idle GPUs."""

    inactivity_duration: Seconds | None = Field(
        None,
        description="After so long without activity a session is ended, unless its job file or "
        "template says otherwise; unset: never.",
    )
    max_inactivity_duration: Seconds | None = Field(
        None, description="The longest that a job file may say; unset: as long as it likes, or off."
    )
    gpu_utilization: float = Field(
        0.05,
        ge=0,
        le=1,
        description="A batch job whose GPUs are on average less busy than this is shown as idle.",
    )
    gpu_window: Seconds = Field(1_800, description="The time over which that average is taken.")
