"""Checks of the services outside of the platform that logins and messages need."""

from __future__ import annotations

import smtplib
import ssl
from typing import Protocol, cast

from aitne.adapters.syslog import SyslogReceiver
from aitne.bootstrap.adapters import IDENTITIES, utc_now
from aitne.core.errors import DeliveryFailed, SetupError, Unavailable
from aitne.local_system.password_from_file import read_password
from aitne.operations.doctor.check_registry import Subject, check
from aitne.operations.doctor.checked_host import CheckedHost
from aitne.operations.requirements.findings import (
    Finding,
    make_failed_finding,
    make_ok_finding,
    make_skipped_finding,
    make_warning_finding,
)

_WITHIN_S = 5.0


class _Remote(Protocol):
    """Identity source that is a service outside of the platform."""

    async def probe(self) -> None: ...


@check("mail", Subject.SERVICES, "The mail server answers and accepts the platform's login.")
def check_mail_server(host: CheckedHost) -> Finding:
    """Connect to the mail server and log in; no mail is sent."""
    settings = host.settings.mail
    if settings.host is None:
        return make_skipped_finding(
            "The settings name no mail server, so notifications appear in the portal only."
        )
    address = (settings.host, settings.server_port)
    shown = f"{settings.host}:{settings.server_port}"
    try:
        context = ssl.create_default_context()
        with (
            smtplib.SMTP_SSL(*address, timeout=_WITHIN_S, context=context)
            if settings.security == "tls"
            else smtplib.SMTP(*address, timeout=_WITHIN_S)
        ) as server:
            if settings.security == "starttls":
                server.starttls(context=context)
            if settings.user is not None and settings.password_file is not None:
                server.login(settings.user, read_password(settings.password_file))
    except smtplib.SMTPAuthenticationError:
        return make_failed_finding(
            f"The mail server {shown} refuses the platform's login.",
            "Correct mail.user and the content of mail.password_file.",
        )
    except (OSError, smtplib.SMTPException) as error:
        return make_failed_finding(
            f"The mail server {shown} cannot be used: {error}.",
            "Correct [mail] (host, port, security), or start the server. Mails wait for three days.",
        )
    if settings.sender.endswith("@localhost"):
        return make_warning_finding(
            f"The mail server {shown} answers, but mails come from {settings.sender}.",
            "Set mail.sender to an address of the site: other servers reject this one.",
        )
    return make_ok_finding(f"The mail server {shown} answers.")


@check("ldap", Subject.SERVICES, "The LDAP directory answers and accepts the platform's login.")
async def check_ldap_directory(host: CheckedHost) -> Finding:
    """Connect to the directory as the account that searches for users."""
    return await _check_source(host, "ldap", "[auth.ldap] (url, ca_file, bind_dn)")


@check("oidc", Subject.SERVICES, "The OpenID Connect provider answers.")
async def check_oidc_provider(host: CheckedHost) -> Finding:
    """Fetch the provider's discovery document."""
    return await _check_source(host, "oidc", "[auth.oidc] (issuer, ca_file)")


async def _check_source(host: CheckedHost, name: str, settings: str) -> Finding:
    if name not in host.settings.auth.sources:
        return make_skipped_finding(f'auth.sources does not name "{name}".')
    try:
        source = IDENTITIES.get(name)(host.settings, utc_now)
        await cast(_Remote, source).probe()
    except SetupError as error:
        return make_failed_finding(error.message, f"Correct {settings}, or install what it needs.")
    except Unavailable as error:
        return make_failed_finding(
            error.message,
            f"Start it, or correct {settings}. Logins through it fail until then.",
        )
    return make_ok_finding("It answers.")


@check("syslog", Subject.SERVICES, "The receiver of the audit log can be reached.")
def check_syslog_receiver(host: CheckedHost) -> Finding:
    """Open a connection to the receiver; nothing is sent."""
    target = host.settings.audit.syslog
    if target is None:
        return make_skipped_finding("The audit log is not forwarded.")
    try:
        SyslogReceiver(target).send([])
    except DeliveryFailed as error:
        return make_failed_finding(
            error.message,
            "Start the receiver, or correct audit.syslog. Entries wait in the database until then.",
        )
    return make_ok_finding(f"{target} can be reached.")
