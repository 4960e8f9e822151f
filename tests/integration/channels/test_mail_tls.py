"""Mail through a real SMTP server that speaks TLS: with a certificate that is trusted, and with none."""

from __future__ import annotations

import shutil
import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from aiosmtpd.controller import Controller as SmtpServer
from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session

from aitne.core.errors import DeliveryFailed
from tests.integration.channels.test_mail import ADA, MESSAGE, Mailbox, channel
from tests.support import realtime
from tests.support.ports import reserve_ports

pytestmark = realtime.PROCESSES

PASSWORD = "correct horse"


class Gate:
    """Lets in who knows the password, and notes whether it came encrypted."""

    def __init__(self) -> None:
        self.encrypted: list[bool] = []

    def __call__(
        self, server: SMTP, session: Session, envelope: Envelope, mechanism: str, data: object
    ) -> AuthResult:
        assert isinstance(data, LoginPassword)
        self.encrypted.append(session.ssl is not None)
        right = data.password == PASSWORD.encode()
        # Of a failure the server itself tells, unless this says that it was told.
        return AuthResult(success=right, handled=right)


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[Path, Path]:
    """A certificate for 127.0.0.1 that only its own file vouches for, and its key."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("there is no openssl to make a certificate with")
    made = (tmp_path / "server.pem", tmp_path / "server.key")
    subprocess.run(
        [
            *(openssl, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"),
            *("-nodes", "-days", "2", "-subj", "/CN=127.0.0.1"),
            *("-addext", "subjectAltName=IP:127.0.0.1", "-out", made[0], "-keyout", made[1]),
        ],
        check=True,
        capture_output=True,
    )
    return made


@pytest.fixture
def gate() -> Gate:
    return Gate()


@pytest.fixture
def port(certificate: tuple[Path, Path], gate: Gate, mailbox: Mailbox) -> Iterator[int]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    port = reserve_ports()
    server = SmtpServer(
        mailbox,
        hostname="127.0.0.1",
        port=port,
        tls_context=context,
        require_starttls=True,
        auth_required=True,
        authenticator=gate,
    )
    server.start()
    yield port
    server.stop()


@pytest.fixture
def mailbox() -> Mailbox:
    return Mailbox()


async def test_mail_goes_by_starttls_to_whom_the_system_trusts(
    tmp_path: Path,
    port: int,
    gate: Gate,
    mailbox: Mailbox,
    certificate: tuple[Path, Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    secret = tmp_path / "password"
    secret.write_text(f"{PASSWORD}\n")
    login = {"security": "starttls", "user": "aitne", "password_file": secret}
    with pytest.raises(DeliveryFailed, match="certificate verify failed") as untrusted:
        await channel(tmp_path, port, **login).send(MESSAGE, ADA, "")
    assert untrusted.value.again
    assert gate.encrypted == [], "no password before the certificate is known"
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate[0]))
    assert await channel(tmp_path, port, **login).send(MESSAGE, ADA, "") == 250
    ((envelope, mail),) = mailbox.mails
    assert (gate.encrypted, envelope.rcpt_tos) == ([True], ["ada@example.org"])
    assert mail["Subject"] == "[Aitne] träin failed"
    secret.write_text("wrong\n")
    with pytest.raises(DeliveryFailed, match="refuses the platform's login"):
        await channel(tmp_path, port, **login).send(MESSAGE, ADA, "")


async def test_a_server_without_starttls_gets_nothing(tmp_path: Path, mailbox: Mailbox) -> None:
    port = reserve_ports()
    server = SmtpServer(mailbox, hostname="127.0.0.1", port=port)
    server.start()
    try:
        with pytest.raises(DeliveryFailed, match="STARTTLS"):
            await channel(tmp_path, port, security="starttls").send(MESSAGE, ADA, "")
    finally:
        server.stop()
    assert mailbox.mails == []
