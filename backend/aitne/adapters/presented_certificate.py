"""Certificate that a TLS server presents."""

from __future__ import annotations

import socket
import ssl

from cryptography import x509

from aitne.core.errors import Unavailable


def fetch_server_certificate(host: str, port: int, *, within_s: float) -> x509.Certificate:
    """Return the certificate that a server presents for the name ``host``, trusted or not.

    ``within_s`` is the time limit of each step of the handshake, in seconds.

    Raises:
        Unavailable: the server cannot be reached, or presents no certificate.
    """
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    try:
        with (
            socket.create_connection((host, port), timeout=within_s) as line,
            context.wrap_socket(line, server_hostname=host) as secured,
        ):
            return x509.load_der_x509_certificate(secured.getpeercert(binary_form=True) or b"")
    except TimeoutError as error:
        raise Unavailable(f"{host}:{port}: no answer within {within_s:g} s.") from error
    except (OSError, ValueError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise Unavailable(f"{host}:{port}: {reason}.") from error
