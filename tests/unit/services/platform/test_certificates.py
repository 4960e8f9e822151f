"""The platform's CA, what it issues, and the certificates that a site gives."""

from __future__ import annotations

import ssl
import stat
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from aitne.core.cluster.slurm_settings import SlurmSettings
from aitne.core.errors import InvalidInput, SetupError
from aitne.core.settings import Settings
from aitne.services.platform import certificate_authorities
from aitne.services.platform.certificate_authorities import (
    CertificateFiles,
    authority_file,
    ensure_certificates,
    open_authority,
    portal_files,
    proxy_files,
    read_validity_periods,
    session_certificate_names,
    session_signer,
    sessions_authority_file,
    sessions_files,
)

Make = Callable[..., Settings]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    def settings(**tls: Any) -> Settings:
        return Settings.model_validate(
            {
                "data_dir": tmp_path / "data",
                "public_url": "https://aitne.example.org",
                "sessions_url": "https://*.sessions.example.net",
                "tls": {"enabled": True, **tls},
            }
        )

    return settings


def loaded(path: Path) -> x509.Certificate:
    return x509.load_pem_x509_certificate(path.read_bytes())


def names(certificate: x509.Certificate) -> set[str]:
    found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    addresses = map(str, found.get_values_for_type(x509.IPAddress))
    return {*found.get_values_for_type(x509.DNSName), *addresses}


def usages(certificate: x509.Certificate) -> list[x509.ObjectIdentifier]:
    return list(certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value)


def request(key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey) -> str:
    """Return a certificate request for more than a session may have."""
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "aitne.example.org")])
    wanted = x509.SubjectAlternativeName([x509.DNSName("aitne.example.org")])
    return (
        x509.CertificateSigningRequestBuilder()
        .subject_name(subject)
        .add_extension(wanted, critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
        .public_bytes(serialization.Encoding.PEM)
        .decode()
    )


def given(settings: Settings, folder: Path, *hosts: str, days: int = 90) -> dict[str, Path]:
    """Write a certificate and a key of a site, signed by another CA; return their paths."""
    key = ec.generate_private_key(ec.SECP256R1())
    issued = open_authority(settings).issue(key.public_key(), hosts, timedelta(days=days))
    files = {"certificate": folder / "site.pem", "key": folder / "site.key"}
    files["certificate"].write_bytes(issued.public_bytes(serialization.Encoding.PEM))
    files["key"].write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return files


def usable(files: CertificateFiles) -> None:
    ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(files.certificate, files.key)


def test_authority_is_made_once_and_its_key_is_private(make: Make) -> None:
    first, second = open_authority(make()), open_authority(make())
    assert first.fingerprint == second.fingerprint
    key = make().secrets_dir / "ca_key.pem"
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    constraints = loaded(authority_file(make())).extensions.get_extension_for_class(
        x509.BasicConstraints
    )
    assert constraints.critical
    assert (constraints.value.ca, constraints.value.path_length) == (True, 0)


def test_certificates_are_issued_for_all_names_and_kept(make: Make) -> None:
    settings = make()
    ensure_certificates(settings)
    server, proxy = portal_files(settings), proxy_files(settings)
    for files in (server, proxy, sessions_files(settings)):
        usable(files)
    assert {
        "aitne.example.org",
        "sessions.example.net",
        "*.sessions.example.net",
        "127.0.0.1",
        "localhost",
    } <= names(loaded(server.certificate))
    assert usages(loaded(server.certificate)) == [ExtendedKeyUsageOID.SERVER_AUTH]
    assert usages(loaded(proxy.certificate)) == [ExtendedKeyUsageOID.CLIENT_AUTH]
    before = server.certificate.read_bytes()
    ensure_certificates(settings)
    assert server.certificate.read_bytes() == before
    ends = [end for _, end in read_validity_periods(settings).values()]
    assert min(ends) > datetime.now(UTC) + certificate_authorities.RENEWAL


@pytest.mark.parametrize("change", ["names", "age", "authority", "key"])
def test_certificates_are_issued_again_when_they_are_of_no_more_use(
    make: Make, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    settings = make()
    if change == "age":
        monkeypatch.setattr(
            certificate_authorities, "LIFETIME", certificate_authorities.RENEWAL / 2
        )
    ensure_certificates(settings)
    files = portal_files(settings)
    before = files.certificate.read_bytes()
    monkeypatch.undo()
    if change == "names":
        settings = settings.model_copy(update={"public_url": "https://other.example.org"})
    if change == "authority":
        authority_file(settings).unlink()
        (settings.secrets_dir / "ca_key.pem").unlink()
    if change == "key":
        files.key.write_text("none")
    ensure_certificates(settings)
    assert files.certificate.read_bytes() != before
    usable(files)


def test_session_gets_a_certificate_for_its_own_names_alone(make: Make) -> None:
    settings = make()
    key = ec.generate_private_key(ec.SECP256R1())
    issued = x509.load_pem_x509_certificate(
        session_signer(settings)("a_b", "10.1.0.7:34567", request(key)).encode()
    )
    assert names(issued) == set(session_certificate_names(settings, "a_b", "10.1.0.7:34567"))
    assert names(issued) == {"10.1.0.7", "u-ab--648fa9b31bc7ff7eb914.sessions.example.net"}
    assert usages(issued) == [ExtendedKeyUsageOID.SERVER_AUTH]
    assert not issued.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    issued.verify_directly_issued_by(loaded(sessions_authority_file(settings)))
    assert session_certificate_names(settings, "ada", "[2001:db8::1]:34567")[-1] == "2001:db8::1"


def test_no_client_takes_a_session_for_the_portal(make: Make) -> None:
    settings = make(sessions_certificate=None)
    settings = settings.model_copy(update={"sessions_url": "https://aitne.example.org:8443"})
    key = ec.generate_private_key(ec.SECP256R1())
    chain = session_signer(settings)("eve", "127.0.0.1:34567", request(key))
    issued = x509.load_pem_x509_certificates(chain.encode())
    assert "aitne.example.org" in names(issued[0]), "all sessions have the origin's host"
    for each in issued:
        with pytest.raises((ValueError, InvalidSignature)):
            each.verify_directly_issued_by(open_authority(settings).certificate)


def test_requests_that_prove_no_good_key_are_refused(make: Make) -> None:
    sign = session_signer(make())
    weak = rsa.generate_private_key(public_exponent=65_537, key_size=1_024)
    good = request(ec.generate_private_key(ec.SECP256R1()))
    for text in ("", "none", request(weak), good.replace("MII", "MIJ", 1), good[:200]):
        with pytest.raises(InvalidInput, match="request"):
            sign("ada", "10.1.0.7:34567", text)


def test_certificates_of_the_site_are_used(make: Make, tmp_path: Path) -> None:
    hosts = ("aitne.example.org", "sessions.example.net", "*.sessions.example.net")
    settings = make(**given(make(), tmp_path, *hosts))
    ensure_certificates(settings)
    assert portal_files(settings).certificate == tmp_path / "site.pem"
    assert sessions_files(settings) == portal_files(settings)
    assert not (settings.tls_dir / "server.pem").exists()


@pytest.mark.parametrize(
    ("hosts", "days", "words"),
    [
        (["aitne.example.org"], 90, "ask for sessions.example.net"),
        (["*.example.org", "*.sessions.example.net"], 90, "ask for sessions.example.net"),
        (["aitne.example.org", "sessions.example.net"], 90, r"ask for \*.sessions.example.net"),
        (["aitne.example.org"], 0, "expired on"),
    ],
)
def test_certificates_of_the_site_that_browsers_would_refuse_are_refused(
    make: Make, tmp_path: Path, hosts: list[str], days: int, words: str
) -> None:
    with pytest.raises(SetupError, match=words):
        ensure_certificates(make(**given(make(), tmp_path, *hosts, days=days)))


def test_files_that_are_no_certificate_and_key_are_refused(make: Make, tmp_path: Path) -> None:
    files = given(make(), tmp_path, "aitne.example.org")
    other = tmp_path / "other"
    other.mkdir()
    foreign = given(make(), other, "aitne.example.org")
    with pytest.raises(SetupError, match="is not the key of"):
        ensure_certificates(make(certificate=files["certificate"], key=foreign["key"]))
    with pytest.raises(SetupError, match="are not a certificate and its key"):
        ensure_certificates(make(certificate=files["key"], key=files["key"]))
    with pytest.raises(SetupError, match="cannot be read"):
        ensure_certificates(make(certificate=tmp_path / "none.pem", key=files["key"]))


def test_certificates_of_the_site_are_for_the_names_that_nodes_use(
    make: Make, tmp_path: Path
) -> None:
    files = given(make(), tmp_path, "aitne.example.org", "*.sessions.example.net")
    files |= {"sessions_certificate": files["certificate"], "sessions_key": files["key"]}
    settings = make(**files).model_copy(
        update={"slurm": SlurmSettings(portal_address="https://login1:8000")}
    )
    with pytest.raises(SetupError, match="nodes ask for login1"):
        ensure_certificates(settings)


def test_damaged_authority_is_named(make: Make) -> None:
    settings = make()
    open_authority(settings)
    (settings.secrets_dir / "ca_key.pem").unlink()
    with pytest.raises(SetupError, match="Restore"):
        open_authority(settings)
    (settings.secrets_dir / "ca_key.pem").write_text("none")
    with pytest.raises(SetupError, match="is damaged"):
        open_authority(settings)
