"""Notifications by mail through SMTP, as plain text. Message texts are checked before they are used
in a mail header.
"""

from __future__ import annotations

import asyncio
import smtplib
import ssl
from collections.abc import Mapping, Sequence
from datetime import datetime
from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime, make_msgid, parseaddr
from typing import Any

from aitne.core.errors import DeliveryFailed
from aitne.core.notifications.settings import MailSettings, check_mail_address
from aitne.core.ports.channel import ChannelRecipient
from aitne.core.settings import Settings
from aitne.local_system.password_from_file import read_password

_POLICY = SMTP.clone(max_line_length=78, cte_type="7bit")
_SUBJECT_LENGTH = 200
_PREFERENCES = "/account/notifications"
_LEFT = "-- \n"


class MailChannel:
    """Channel that sends notifications by mail; implements ``core.ports.channel.Channel``."""

    name = "mail"
    retry_period_s = 3 * 86_400.0
    """Seconds for which a delivery is retried: a mail server may be unavailable for a weekend."""

    def __init__(self, settings: Settings) -> None:
        self._settings: MailSettings = settings.mail
        self._portal = settings.portal_url
        self._title = settings.title

    @property
    def is_available(self) -> bool:
        """Return True if the platform's settings name a mail server."""
        return self._settings.host is not None

    def list_targets(self, person: ChannelRecipient) -> Sequence[str]:
        """Return ``[""]`` (one target without a name) if the user has a mail address, otherwise an
        empty list.
        """
        return [""] if person.mail else []

    async def send(self, message: Mapping[str, Any], person: ChannelRecipient, target: str) -> int:
        """Send the message by SMTP, in a separate thread. Raises ``DeliveryFailed``."""
        if person.mail is None:
            raise DeliveryFailed(f"{person.name} has no mail address any more.", again=False)
        try:
            mail = self.compose(message, person.mail)
        except ValueError as error:
            raise DeliveryFailed(
                f"The message cannot be sent as mail: {error}.", again=False
            ) from error
        return await asyncio.to_thread(self._send, mail, person.mail)

    def compose(self, message: Mapping[str, Any], to: str) -> EmailMessage:
        """Return the mail with the message to the address ``to``. Raises ``ValueError`` if the
        address is not valid.
        """
        mail = EmailMessage(policy=_POLICY)
        name, sender = parseaddr(self._settings.sender)
        # One line of words: a line break would start another header.
        subject = " ".join(
            _remove_control_characters(f"[{self._title}] {message['title']}").split()
        )
        mail["Subject"] = subject[:_SUBJECT_LENGTH]
        mail["From"] = Address(
            _remove_control_characters(name or self._title), addr_spec=check_mail_address(sender)
        )
        mail["To"] = Address(addr_spec=check_mail_address(to))
        mail["Date"] = format_datetime(datetime.fromisoformat(str(message["time"])))
        mail["Message-ID"] = make_msgid(
            idstring=_remove_control_characters(str(message["id"])).replace(" ", ""),
            domain=sender.split("@")[1],
        )
        mail["List-Unsubscribe"] = f"<{self._portal}{_PREFERENCES}>"
        mail["Auto-Submitted"] = "auto-generated"
        mail["X-Aitne-Event"] = _remove_control_characters(str(message["kind"]))
        mail.set_content(self._make_body(message), charset="utf-8")
        return mail

    def _make_body(self, message: Mapping[str, Any]) -> str:
        parts = [str(message["title"]), str(message["text"])]
        if message.get("log"):
            parts.append(
                "\n".join(["Last lines of its log:", *(f"    {x}" for x in message["log"])])
            )
        parts.append(str(message["url"]))
        foot = f"Notification settings: {self._portal}{_PREFERENCES}\n"
        return "\n\n".join(part for part in parts if part) + f"\n\n{_LEFT}{foot}"

    def _send(self, mail: EmailMessage, to: str) -> int:
        settings = self._settings
        host = settings.host or ""
        try:
            with self._connect(host) as server:
                if settings.security == "starttls":
                    server.starttls(context=ssl.create_default_context())
                if settings.user is not None and settings.password_file is not None:
                    server.login(settings.user, read_password(settings.password_file))
                refused = server.send_message(mail, to_addrs=[to])
        except smtplib.SMTPRecipientsRefused as error:
            code, reply = next(iter(error.recipients.values()))
            raise _make_refused_error(f"{to} is rejected", code, reply) from error
        except smtplib.SMTPAuthenticationError as error:
            raise DeliveryFailed(
                f"The mail server {host} refuses the platform's login.",
                again=True,
                status=error.smtp_code,
            ) from error
        except smtplib.SMTPResponseException as error:
            raise _make_refused_error(
                "the mail is rejected", error.smtp_code, error.smtp_error
            ) from error
        except (OSError, smtplib.SMTPException) as error:
            raise DeliveryFailed(
                f"The mail server {host} cannot be used: {error}.", again=True
            ) from error
        if refused:
            code, reply = refused[to]
            raise _make_refused_error(f"{to} is rejected", code, reply)
        return 250

    def _connect(self, host: str) -> smtplib.SMTP:
        settings = self._settings
        address = (host, settings.server_port)
        if settings.security == "tls":
            context = ssl.create_default_context()
            return smtplib.SMTP_SSL(*address, timeout=settings.timeout, context=context)
        return smtplib.SMTP(*address, timeout=settings.timeout)


def _remove_control_characters(text: str) -> str:
    """Return the text without control characters, which are not allowed in headers."""
    return "".join(letter if letter.isprintable() else " " for letter in text)


def _make_refused_error(what: str, code: int, reply: bytes | str) -> DeliveryFailed:
    words = reply.decode("utf-8", "replace") if isinstance(reply, bytes) else reply
    # The first digit determines whether to try again (RFC 5321, section 4.2.1).
    return DeliveryFailed(
        f"The mail server answers {code}, {what}: {' '.join(words.split())[:300]}",
        again=400 <= code < 500,
        status=code,
    )
