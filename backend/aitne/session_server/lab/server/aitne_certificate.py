"""TLS certificate of a session's server: the key is created here, and the platform's CA signs the
certificate.

Runs in the session's environment: standard library and cryptography, which JupyterHub requires
anyway.
"""

from __future__ import annotations

import json
import os
import ssl
import sys
import time
import urllib.error
import urllib.request
from datetime import datetime, timedelta, timezone
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

KEY, SERVER, AGENT, CLIENTS = "key.pem", "server.pem", "agent.pem", "clients.pem"
"""Files in the folder of the certificate.

``AGENT`` is a client certificate of this session's agent, which checks that the server answers; no
other server accepts it. ``CLIENTS`` are the certificates of accepted clients: the platform's proxy
and the agent.
"""
_ANSWER_S = 10.0
_SHORTEST_PAUSE_S, _LONGEST_PAUSE_S = 0.2, 5.0
_FINAL = frozenset({400, 401, 403, 404, 405, 413, 422})


def make_trusting_context(authority: str) -> ssl.SSLContext:
    """Return a TLS context for clients that trusts the CA ``authority`` (PEM) in addition to those
    of the system.
    """
    context = ssl.create_default_context()
    context.load_verify_locations(cadata=authority)
    return context


def make_server_options(
    folder: str, url: str, token: str, address: str, authority: str
) -> list[str]:
    """Create a key, have the platform sign its certificate, and return the options with which the
    server uses TLS.

    Args:
        folder: where the files are written, readable by their owner only.
        url: the platform's URL for signing requests, authenticated with the job's ``token``.
        address: ``host:port`` at which the server will listen.
        authority: the certificate of the platform's CA (PEM).

    Raises:
        SystemExit: the platform refuses to sign.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "session")])
    request = x509.CertificateSigningRequestBuilder().subject_name(name).sign(key, hashes.SHA256())
    agent = _make_self_signed(key)
    body = json.dumps({"request": _to_pem(request), "address": address}).encode()
    certificate = _request_certificate(url, token, authority, body)
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    for file, text in (
        (KEY, private.decode()),
        (AGENT, _to_pem(agent)),
        (CLIENTS, authority + _to_pem(agent)),
        (SERVER, certificate),
    ):
        path = os.path.join(folder, file)
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as opened:
            opened.write(text)
    return [
        f"--ServerApp.certfile={Path(folder) / SERVER}",
        f"--ServerApp.keyfile={Path(folder) / KEY}",
        f"--ServerApp.client_ca={Path(folder) / CLIENTS}",
    ]


def _make_self_signed(key: ec.EllipticCurvePrivateKey) -> x509.Certificate:
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "agent")])
    now = datetime.now(timezone.utc)  # noqa: UP017 (images may have an older Python)
    return (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=3_650))
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )


def _request_certificate(url: str, token: str, authority: str, body: bytes) -> str:
    """Request the signature and return the certificate (PEM); repeat the request until the platform
    answers.

    There is no limit of time: the platform may be restarting, and the agent ends a server that
    takes too long to start.
    """
    opener = urllib.request.build_opener(
        urllib.request.ProxyHandler({}),
        urllib.request.HTTPSHandler(context=make_trusting_context(authority)),
    )
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    pause = _SHORTEST_PAUSE_S
    while True:
        try:
            request = urllib.request.Request(url, body, headers)  # noqa: S310 (the agent's own URL)
            with opener.open(request, timeout=_ANSWER_S) as answer:
                return str(json.load(answer)["certificate"])
        except urllib.error.HTTPError as error:
            if error.code in _FINAL:
                raise SystemExit(
                    f"The platform refuses to sign this session's certificate: {error}"
                ) from error
            problem: Exception = error
        except (OSError, ValueError, KeyError) as error:
            problem = error
        sys.stderr.write(f"The session's certificate is not signed yet: {problem}\n")
        time.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE_S)


def _to_pem(document: x509.Certificate | x509.CertificateSigningRequest) -> str:
    return document.public_bytes(serialization.Encoding.PEM).decode()
