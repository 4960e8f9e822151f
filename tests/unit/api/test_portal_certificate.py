"""The portal's certificate while the portal runs: what is renewed, and what new connections get."""

from __future__ import annotations

import ssl
from datetime import timedelta
from pathlib import Path

import pytest
from cryptography import x509

from aitne.api.certificate_renewal import PortalCertificate
from aitne.core.settings import Settings
from aitne.services.platform import certificate_authorities
from aitne.services.platform.certificate_authorities import ensure_certificates, portal_files


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    found = Settings.model_validate({"data_dir": tmp_path / "data", "tls": {"enabled": True}})
    ensure_certificates(found)
    return found


def served(context: ssl.SSLContext) -> int:
    """Return the serial number of the certificate that a new connection gets."""
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname, client.verify_mode = False, ssl.CERT_NONE
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    ours, theirs = client.wrap_bio(down, up), context.wrap_bio(up, down, server_side=True)
    for side in (ours, theirs, ours, theirs, ours):
        try:
            side.do_handshake()
        except ssl.SSLWantReadError:
            continue
    shown = ours.getpeercert(binary_form=True)
    assert shown is not None
    return x509.load_der_x509_certificate(shown).serial_number


async def test_certificate_of_the_ca_that_ends_soon_is_renewed_and_used(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    portal = PortalCertificate(settings)
    first = served(portal.context)
    await portal.refresh()
    assert served(portal.context) == first
    monkeypatch.setattr(
        certificate_authorities, "RENEWAL", certificate_authorities.LIFETIME + timedelta(days=1)
    )
    await portal.refresh()
    assert served(portal.context) != first


async def test_certificate_of_the_site_is_used_once_its_key_is_there(
    settings: Settings, tmp_path: Path
) -> None:
    other = Settings.model_validate({"data_dir": tmp_path / "other", "tls": {"enabled": True}})
    ensure_certificates(other)
    ours, new = portal_files(settings), portal_files(other)
    tls = {"enabled": True, "certificate": ours.certificate, "key": ours.key}
    site = Settings.model_validate({"data_dir": tmp_path / "data", "tls": tls})
    portal = PortalCertificate(site)
    first = served(portal.context)
    ours.certificate.write_bytes(new.certificate.read_bytes())
    await portal.refresh()
    assert served(portal.context) == first
    ours.key.write_bytes(new.key.read_bytes())
    await portal.refresh()
    assert served(portal.context) != first
