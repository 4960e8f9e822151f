"""Certificate authorities (CAs) of the platform, and the certificates that its processes use.

The platform's CA signs the certificate of the portal and of the sessions' origin where the site provides none,
and the one that proxy and JupyterHub present to sessions. Clients, agents and sessions trust it. Certificates
of sessions come from a separate CA, which only proxy and JupyterHub trust: a user has the key of a session,
and could otherwise impersonate the portal.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import urlsplit

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.types import CertificatePublicKeyTypes
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from aitne.core.errors import InvalidInput, SetupError
from aitne.core.sessions.host_names import WILDCARD, user_label
from aitne.core.settings import Settings
from aitne.services.platform.shared_secrets import write_private

CA_LIFETIME = timedelta(days=3_650)
LIFETIME = timedelta(days=397)
"""Validity of the platform's own certificates; browsers accept none that is valid for longer."""
RENEWAL = timedelta(days=60)
"""Remaining validity below which a certificate is replaced by a new one."""
SPARE_LIFETIME = timedelta(days=30)
"""Validity of a session's certificate beyond the maximum time limit, for sessions that are
extended.
"""
_SKEW = timedelta(hours=1)
"""Maximum delay of the nodes' clocks behind the clock of this machine: certificates become valid
that much earlier.
"""
_SMALLEST_RSA_BITS = 2_048
_LOOPBACK = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True, slots=True)
class CertificateFiles:
    """Paths of two PEM files: a certificate with its chain, and the private key of the
    certificate.
    """

    certificate: Path
    key: Path


class CertificateAuthority:
    """A certificate authority (CA) of the platform, which signs certificates with a key in the
    secrets folder.
    """

    def __init__(self, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> None:
        self.certificate = certificate
        self._key = key

    @property
    def pem(self) -> str:
        """Return the CA's own certificate in PEM, which clients are configured to trust."""
        return _encode_as_pem(self.certificate)

    @property
    def fingerprint(self) -> str:
        """Return the SHA-256 digest of the CA's certificate, as hexadecimal pairs."""
        return self.certificate.fingerprint(hashes.SHA256()).hex(":").upper()

    def issue(
        self,
        public_key: CertificatePublicKeyTypes,
        names: Sequence[str],
        lifetime: timedelta,
        *,
        client: bool = False,
    ) -> x509.Certificate:
        """Issue a certificate for ``public_key``: a server certificate with the host names and
        addresses ``names`` or, with ``client``, a client certificate.
        """
        now = datetime.now(UTC)
        usage = ExtendedKeyUsageOID.CLIENT_AUTH if client else ExtendedKeyUsageOID.SERVER_AUTH
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, names[0][:64])])
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self.certificate.subject)
            .public_key(public_key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - _SKEW)
            .not_valid_after(min(now + lifetime, self.certificate.not_valid_after_utc))
            .add_extension(x509.SubjectAlternativeName(_general_names(names)), critical=False)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_key_usage(ca=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
            .add_extension(_authority_key(self._key), critical=False)
            .sign(self._key, hashes.SHA256())
        )

    def sign_request(self, request: str, names: Sequence[str], lifetime: timedelta) -> str:
        """Return a server certificate in PEM for the public key of a certificate signing request,
        which is in PEM too.

        Names and usage in the request are ignored.

        Raises:
            InvalidInput: the request is invalid or not signed by its own key, or the key is too
                weak.
        """
        try:
            parsed = x509.load_pem_x509_csr(request.encode())
            proven, key = parsed.is_signature_valid, parsed.public_key()
        except (ValueError, TypeError, InvalidSignature) as error:
            raise InvalidInput.field("request", "is no certificate signing request") from error
        strong = isinstance(key, ec.EllipticCurvePublicKey) and isinstance(
            key.curve, ec.SECP256R1 | ec.SECP384R1 | ec.SECP521R1
        )
        strong |= isinstance(key, rsa.RSAPublicKey) and key.key_size >= _SMALLEST_RSA_BITS
        if not (proven and strong):
            raise InvalidInput.field(
                "request", "needs an RSA key of 2048 bits or an ECDSA key, and its signature"
            )
        return _encode_as_pem(self.issue(key, names, lifetime))


def authority_file(settings: Settings) -> Path:
    """Return the path of the certificate of the platform's CA."""
    return settings.tls_dir / "ca.pem"


def sessions_authority_file(settings: Settings) -> Path:
    """Return the path of the certificate of the CA that signs the certificates of sessions."""
    return settings.tls_dir / "sessions_ca.pem"


def portal_files(settings: Settings) -> CertificateFiles:
    """Return the paths of the portal's certificate and key: the files that the settings name or, if
    they name none, the files issued by the platform's own CA.
    """
    tls = settings.tls
    if tls.certificate is not None and tls.key is not None:
        return CertificateFiles(tls.certificate, tls.key)
    return CertificateFiles(
        settings.tls_dir / "server.pem", settings.secrets_dir / "server_key.pem"
    )


def sessions_files(settings: Settings) -> CertificateFiles:
    """Return the paths of the certificate and key of the origin at which browsers open sessions."""
    tls = settings.tls
    if tls.sessions_certificate is not None and tls.sessions_key is not None:
        return CertificateFiles(tls.sessions_certificate, tls.sessions_key)
    return portal_files(settings)


def proxy_files(settings: Settings) -> CertificateFiles:
    """Return the paths of the certificate and key with which the proxy and JupyterHub identify
    themselves to sessions.
    """
    return CertificateFiles(settings.tls_dir / "proxy.pem", settings.secrets_dir / "proxy_key.pem")


def open_authority(settings: Settings) -> CertificateAuthority:
    """Return the platform's CA, which is created if it does not exist.

    Raises:
        SetupError: its files cannot be read or written, or key and certificate do not match.
    """
    return _open_ca(authority_file(settings), settings.secrets_dir / "ca_key.pem", "Aitne CA")


def open_sessions_authority(settings: Settings) -> CertificateAuthority:
    """Return the CA that signs certificates of sessions, which is created if it does not exist.

    Raises ``SetupError`` if its files cannot be read or written, or key and certificate do not
    match.
    """
    key_path = settings.secrets_dir / "sessions_ca_key.pem"
    return _open_ca(sessions_authority_file(settings), key_path, "Aitne sessions CA")


def _open_ca(path: Path, key_path: Path, name: str) -> CertificateAuthority:
    try:
        if not path.exists() and not key_path.exists():
            _create_authority(name, path, key_path)
        certificate = x509.load_pem_x509_certificate(path.read_bytes())
        key = serialization.load_pem_private_key(key_path.read_bytes(), None)
    except OSError as error:
        raise SetupError(
            f"The CA {path} cannot be used: {error.strerror}: {error.filename}. Restore it and "
            f"{key_path} from a backup, or remove both for a new CA, which clients must then trust."
        ) from error
    except ValueError as error:
        raise SetupError(f"The CA {path} or its key {key_path} is damaged: {error}.") from error
    if (
        not isinstance(key, ec.EllipticCurvePrivateKey)
        or key.public_key() != certificate.public_key()
    ):
        raise SetupError(f"{key_path} is not the key of the CA {path}.")
    return CertificateAuthority(certificate, key)


def ensure_certificates(settings: Settings) -> None:
    """Check the certificates that the administrator provides in the settings; issue certificates of
    the platform's own CA that are missing, expire soon or have other names.

    Raises:
        SetupError: a provided certificate cannot be used, or the files of a CA cannot be read or
            written.
    """
    open_sessions_authority(settings)
    renew_issued(settings)
    check_provided_certificates(settings)


def check_provided_certificates(settings: Settings) -> None:
    """Check the certificates that the administrator provides in the settings, if there are any:
    names, keys and validity.

    Raises:
        SetupError: one cannot be used.
    """
    if settings.tls.certificate is not None:
        check_certificate(portal_files(settings), _portal_names(settings))
        check_certificate(sessions_files(settings), _origin_names(settings))


def renew_issued(settings: Settings) -> None:
    """Issue new certificates of the platform's CA in place of those that are missing, expire soon
    or were issued for names other than the present ones.

    Raises:
        SetupError: the files of a CA cannot be read or written.
        OSError: a certificate cannot be written.
    """
    authority = open_authority(settings)
    _renew_files(authority, proxy_files(settings), ["aitne-proxy"], client=True)
    if settings.tls.certificate is None:
        names = [*_portal_names(settings), *_origin_names(settings), *_internal_names(settings)]
        _renew_files(authority, portal_files(settings), list(dict.fromkeys(names)))


def session_certificate_names(settings: Settings, owner: str, address: str) -> list[str]:
    """Return the names for the certificate of a session: its host name in browsers and the address
    of its node. ``address`` is ``host:port``.

    The proxy passes on the browser's Host header and checks the certificate for that name;
    JupyterHub connects by the address alone.
    """
    host = _get_host(settings.sessions_origin)
    session_host = f"{user_label(owner)}.{host}" if settings.has_user_domains else host
    return list(dict.fromkeys((session_host, address.rpartition(":")[0].strip("[]"))))


def session_signer(settings: Settings) -> Callable[[str, str, str], str]:
    """Return a function that signs the certificate request of a session.

    The function's arguments are the session's owner, the address ``host:port`` and the request in
    PEM. It returns the session's certificate followed by the CA's certificate, in PEM.
    """
    lifetime = timedelta(seconds=settings.limits.max_duration) + SPARE_LIFETIME

    def sign(owner: str, address: str, request: str) -> str:
        names = session_certificate_names(settings, owner, address)
        authority = open_sessions_authority(settings)
        return authority.sign_request(request, names, lifetime) + authority.pem

    return sign


def read_validity_periods(settings: Settings) -> Mapping[Path, tuple[datetime, datetime]]:
    """Return the validity period of each certificate that the platform's processes use.

    Raises:
        SetupError: a certificate cannot be read.
    """
    files = (portal_files, sessions_files, proxy_files)
    authorities = (authority_file(settings), sessions_authority_file(settings))
    paths = {*authorities, *(locate(settings).certificate for locate in files)}
    try:
        loaded = {path: x509.load_pem_x509_certificate(path.read_bytes()) for path in paths}
    except (OSError, ValueError) as error:
        raise SetupError(f"A certificate of the platform cannot be read: {error}.") from error
    return {
        path: (certificate.not_valid_before_utc, certificate.not_valid_after_utc)
        for path, certificate in loaded.items()
    }


def _create_authority(common_name: str, path: Path, key_path: Path) -> None:
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"{common_name} {now:%Y-%m-%d}")])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _SKEW)
        .not_valid_after(now + CA_LIFETIME)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(ca=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    write_private(key_path, _private_pem(key))
    _write_certificate(path, certificate)


def _renew_files(
    authority: CertificateAuthority,
    files: CertificateFiles,
    names: Sequence[str],
    *,
    client: bool = False,
) -> None:
    if _is_usable_certificate(authority, files, names):
        return
    key = ec.generate_private_key(ec.SECP256R1())
    write_private(files.key, _private_pem(key))
    certificate = authority.issue(key.public_key(), names, LIFETIME, client=client)
    _write_certificate(files.certificate, certificate, authority.certificate)


def _is_usable_certificate(
    authority: CertificateAuthority, files: CertificateFiles, names: Sequence[str]
) -> bool:
    """Return whether an issued certificate can still be used: ``authority`` signed it, it matches
    its key, has exactly these names and does not expire soon.
    """
    try:
        certificate = x509.load_pem_x509_certificate(files.certificate.read_bytes())
        key = serialization.load_pem_private_key(files.key.read_bytes(), None)
        certificate.verify_directly_issued_by(authority.certificate)
    except (OSError, ValueError, TypeError, InvalidSignature):
        return False
    return (
        certificate.not_valid_after_utc > datetime.now(UTC) + RENEWAL
        and key.public_key() == certificate.public_key()
        and get_certificate_names(certificate) == set(names)
    )


def check_certificate(
    files: CertificateFiles, hosts: Iterable[str], *, section: str = "[tls]"
) -> None:
    """Check that a certificate of the site belongs to its key, has not expired and is for ``hosts``.

    ``section`` is the place of both paths in the settings, for messages.

    Raises:
        SetupError: it cannot be used.
    """
    try:
        certificate = x509.load_pem_x509_certificate(files.certificate.read_bytes())
        key = serialization.load_pem_private_key(files.key.read_bytes(), None)
    except OSError as error:
        raise SetupError(
            f"{error.filename}, set in {section}, cannot be read: {error.strerror}. The platform's account "
            "must be able to read it."
        ) from error
    except (ValueError, TypeError) as error:
        raise SetupError(
            f"{files.certificate} and {files.key}, set in {section}, are not a certificate and its key in "
            f"PEM without a password: {error}."
        ) from error
    if key.public_key() != certificate.public_key():
        raise SetupError(
            f"{files.key} is not the key of {files.certificate}; both are set in {section}."
        )
    if certificate.not_valid_after_utc <= datetime.now(UTC):
        raise SetupError(
            f"The certificate {files.certificate} expired on "
            f"{certificate.not_valid_after_utc:%Y-%m-%d}. Renew it."
        )
    names = get_certificate_names(certificate)
    for host in hosts:
        if not is_valid_for_host(names, host):
            raise SetupError(
                f"The certificate {files.certificate} is for {', '.join(sorted(names)) or 'no host'}, "
                f"and browsers or nodes ask for {host}. Set {section} to a certificate that has this name too."
            )


def is_valid_for_host(names: set[str], host: str) -> bool:
    """Return whether a certificate with these names is valid for ``host``, which may be a wildcard."""
    label, _, parent = host.partition(".")
    return host in names or (label != "*" and bool(parent) and f"*.{parent}" in names)


def _portal_names(settings: Settings) -> list[str]:
    """Return the host names for which browsers and nodes verify the portal's certificate."""
    portal_address = settings.slurm.portal_address
    return [
        _get_host(settings.portal_url),
        *([] if portal_address is None else [_get_host(portal_address)]),
    ]


def _origin_names(settings: Settings) -> list[str]:
    """Return the host names of the origin for sessions, with a wildcard if each user has a
    domain.
    """
    host, sessions_address = _get_host(settings.sessions_origin), settings.slurm.sessions_address
    if settings.has_user_domains:
        return [host, f"{WILDCARD}{host}"]
    return [host, *([] if sessions_address is None else [_get_host(sessions_address)])]


def _internal_names(settings: Settings) -> list[str]:
    """Return the names and addresses by which the platform's processes and nodes connect, in
    addition to those that browsers use.
    """
    urls = (settings.slurm.sessions_address, settings.own_url)
    hosts = [_get_host(url) for url in urls if url is not None]
    return [*hosts, socket.gethostname(), *_LOOPBACK]


def _get_host(url: str) -> str:
    """Return the host of a URL in the form that certificates contain.

    Raises ``SetupError`` if the URL has none.
    """
    host = (urlsplit(url).hostname or "localhost").lower()
    try:
        if _is_address(host):
            return str(ipaddress.ip_address(host))
        return host if host.isascii() else host.encode("idna").decode()
    except ValueError as error:
        raise SetupError(f"{url} has no host name that a certificate can have: {error}.") from error


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _general_names(names: Iterable[str]) -> list[x509.GeneralName]:
    return [
        x509.IPAddress(ipaddress.ip_address(name)) if _is_address(name) else x509.DNSName(name)
        for name in names
    ]


def get_certificate_names(certificate: x509.Certificate) -> set[str]:
    """Return the host names and addresses for which a certificate is valid."""
    try:
        extension = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except x509.ExtensionNotFound:
        return set()
    addresses = map(str, extension.value.get_values_for_type(x509.IPAddress))
    return {*extension.value.get_values_for_type(x509.DNSName), *addresses}


def _key_usage(*, ca: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not ca,
        key_cert_sign=ca,
        crl_sign=ca,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _authority_key(key: ec.EllipticCurvePrivateKey) -> x509.AuthorityKeyIdentifier:
    return x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key())


def _encode_as_pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(serialization.Encoding.PEM).decode()


def _private_pem(key: ec.EllipticCurvePrivateKey) -> str:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    ).decode()


def _write_certificate(path: Path, *chain: x509.Certificate) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(".new")
    temporary.write_text("".join(map(_encode_as_pem, chain)))
    temporary.chmod(0o644)
    temporary.replace(path)
