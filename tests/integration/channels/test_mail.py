"""Mail through a real SMTP server on loopback."""

from __future__ import annotations

import asyncio
import email
from collections.abc import Iterator
from email.message import EmailMessage
from email.policy import default
from pathlib import Path
from typing import Any

import pytest
from aiosmtpd.controller import Controller as SmtpServer
from aiosmtpd.smtp import SMTP, Envelope, Session

from aitne.adapters.channels.mail import MailChannel
from aitne.core.errors import DeliveryFailed
from aitne.core.ports.channel import ChannelRecipient
from aitne.core.settings import Settings
from tests.support.ports import reserve_ports

MESSAGE = {
    "version": 1,
    "id": "17-ada",
    "kind": "job_failed",
    "level": "error",
    "time": "2026-01-02T03:04:05+00:00",
    "user": "ada",
    "title": "träin failed",
    "text": "The program ended with exit code 1.",
    "url": "https://portal.test/jobs/1",
    "job_id": None,
    "data": {},
    "log": ["Traceback:", ".", "ValueError: müll 🚀"],
}
ADA = ChannelRecipient(name="ada", mail="ada@example.org")


class Mailbox:
    """The mails that the server received; `says` replaces its answers to a command."""

    def __init__(self) -> None:
        self.mails: list[tuple[Envelope, EmailMessage]] = []
        self.says: dict[str, str] = {}

    async def handle_RCPT(
        self, server: SMTP, session: Session, envelope: Envelope, address: str, options: Any
    ) -> str:
        if "RCPT" in self.says:
            return self.says["RCPT"]
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:
        if "DATA" in self.says:
            return self.says["DATA"]
        content = envelope.content
        assert isinstance(content, bytes)
        parsed = email.message_from_bytes(content, policy=default)
        assert isinstance(parsed, EmailMessage)
        self.mails.append((envelope, parsed))
        return "250 OK"


@pytest.fixture
def mailbox() -> Mailbox:
    return Mailbox()


@pytest.fixture
def port(mailbox: Mailbox) -> Iterator[int]:
    port = reserve_ports()
    server = SmtpServer(mailbox, hostname="127.0.0.1", port=port)
    server.start()
    yield port
    server.stop()


def channel(tmp_path: Path, port: int, **mail: Any) -> MailChannel:
    settings = {"host": "127.0.0.1", "port": port, "security": "none", "timeout": 60}
    sender = {"sender": "Aitne of the Institute <aitne@example.org>"}
    return MailChannel(
        Settings(
            data_dir=tmp_path,
            public_url="https://portal.test",
            mail={**settings, **sender, **mail},
        )
    )


async def test_a_mail_arrives_well_formed(tmp_path: Path, port: int, mailbox: Mailbox) -> None:
    assert await channel(tmp_path, port).send(MESSAGE, ADA, "") == 250
    ((envelope, mail),) = mailbox.mails
    assert (envelope.mail_from, envelope.rcpt_tos) == ("aitne@example.org", ["ada@example.org"])
    assert mail["Subject"] == "[Aitne] träin failed"
    assert mail["From"] == "Aitne of the Institute <aitne@example.org>"
    assert mail["List-Unsubscribe"] == "<https://portal.test/account/notifications>"
    assert mail["Auto-Submitted"] == "auto-generated"
    assert mail["Date"].datetime.isoformat() == "2026-01-02T03:04:05+00:00"
    assert mail["Message-ID"]
    assert mail.get_content_type() == "text/plain"
    lines = mail.get_content().splitlines()
    assert {"    ValueError: müll 🚀", "    .", "https://portal.test/jobs/1"} <= {*lines}
    raw = envelope.original_content
    assert raw is not None
    assert all(len(line) < 998 for line in raw.split(b"\r\n"))


@pytest.mark.parametrize(
    "name",
    [
        "evil\r\nBcc: all@example.org",
        "evil\nBcc: all@example.org",
        "evil\r\n\r\nbody",
        "x\x00\x0b\x85\u2028Bcc: y",
    ],
)
async def test_no_name_becomes_a_header(
    tmp_path: Path, port: int, mailbox: Mailbox, name: str
) -> None:
    message = {**MESSAGE, "title": f"{name} failed", "kind": name, "id": name}
    await channel(tmp_path, port).send(message, ADA, "")
    ((envelope, mail),) = mailbox.mails
    assert envelope.rcpt_tos == ["ada@example.org"]
    assert mail["Bcc"] is None
    assert mail["Subject"].startswith("[Aitne] ")
    assert "failed" in mail["Subject"]


@pytest.mark.parametrize(
    "address",
    [
        "ada@example.org\r\nBcc: all@example.org",
        "ada@example.org, eve@example.org",
        "ada@example.org\n",
        "<ada@example.org>",
        "@",
        "-oX /etc/passwd",
    ],
)
async def test_an_address_that_is_none_gets_no_mail(
    tmp_path: Path, port: int, mailbox: Mailbox, address: str
) -> None:
    with pytest.raises(DeliveryFailed) as failed:
        await channel(tmp_path, port).send(MESSAGE, ChannelRecipient(name="ada", mail=address), "")
    assert not failed.value.again
    assert mailbox.mails == []


@pytest.mark.parametrize(
    ("says", "again", "status"),
    [
        ({"RCPT": "550 No such mailbox"}, False, 550),
        ({"RCPT": "450 Try later"}, True, 450),
        ({"DATA": "552 Too large"}, False, 552),
        ({"DATA": "451 Greylisted"}, True, 451),
    ],
)
async def test_mail_delivery_is_retried_only_after_temporary_refusal(
    tmp_path: Path,
    port: int,
    mailbox: Mailbox,
    says: dict[str, str],
    again: bool,
    status: int,
) -> None:
    mailbox.says = says
    with pytest.raises(DeliveryFailed) as failed:
        await channel(tmp_path, port).send(MESSAGE, ADA, "")
    assert (failed.value.again, failed.value.status) == (again, status)


async def test_a_server_that_is_not_there_is_tried_again(tmp_path: Path) -> None:
    with pytest.raises(DeliveryFailed, match="cannot be used") as failed:
        await channel(tmp_path, reserve_ports()).send(MESSAGE, ADA, "")
    assert failed.value.again


async def test_a_server_without_tls_is_not_spoken_to_in_the_clear(
    tmp_path: Path, port: int, mailbox: Mailbox
) -> None:
    with pytest.raises(DeliveryFailed):
        await channel(tmp_path, port, security="starttls").send(MESSAGE, ADA, "")
    assert mailbox.mails == []


async def test_the_rest_of_the_platform_goes_on_while_a_server_hangs(tmp_path: Path) -> None:
    connected = asyncio.Event()

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connected.set()
        await reader.read()
        writer.close()

    server = await asyncio.start_server(silent, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    sending = asyncio.create_task(channel(tmp_path, port, timeout=2).send(MESSAGE, ADA, ""))
    await connected.wait()
    assert not sending.done()
    with pytest.raises(DeliveryFailed) as failed:
        await sending
    assert failed.value.again
    server.close()
    await server.wait_closed()
