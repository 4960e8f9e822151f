"""A certificate authority that only the tests trust."""

from __future__ import annotations

import ipaddress
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

_VALID = timedelta(days=2)


class Authority:
    """Issue certificates for host names and addresses; ``path`` is its own certificate."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name("Aitne tests")
        made = self._certificate(self._name, self._key.public_key()).add_extension(
            x509.BasicConstraints(ca=True, path_length=0), critical=True
        )
        self.path = folder / "authority.pem"
        self.path.write_bytes(_pem(made.sign(self._key, hashes.SHA256())))

    def issue(self, name: str, *hosts: str, ended_ago: timedelta = -_VALID) -> tuple[Path, Path]:
        """Return the paths of a new certificate for the hosts and of its key, called after ``name``; it
        ended ``ended_ago``, by default in the future.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        made = self._certificate(_name(hosts[0]), key.public_key(), -ended_ago).add_extension(
            x509.SubjectAlternativeName([_general_name(host) for host in hosts]), critical=False
        )
        paths = self._folder / f"{name}.pem", self._folder / f"{name}.key"
        paths[0].write_bytes(_pem(made.sign(self._key, hashes.SHA256())))
        paths[1].touch(0o600)
        paths[1].write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        return paths

    def _certificate(
        self, subject: x509.Name, key: ec.EllipticCurvePublicKey, valid: timedelta = _VALID
    ) -> x509.CertificateBuilder:
        now = datetime.now(UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - _VALID)
            .not_valid_after(now + valid)
        )


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)
