"""Requests and TLS handshakes of the checks; no proxy of the environment is used."""

from __future__ import annotations

import socket
import ssl
from dataclasses import dataclass
from datetime import datetime
from email.utils import parsedate_to_datetime
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from urllib.parse import urlsplit

WITHIN_S = 4.0
_MOST_BYTES = 1 << 20


class NoAnswer(Exception):
    """Error: a server did not answer; the message says why."""


@dataclass(frozen=True, slots=True)
class WebResponse:
    """Answer of a web server: its status, its clock (None: it sent none) and the start of its body."""

    status: int
    time: datetime | None
    body: bytes


def fetch_url(
    url: str, *, token: str | None = None, context: ssl.SSLContext | None = None
) -> WebResponse:
    """Return the answer to a GET request. ``context`` is what is trusted for https.

    Raises:
        NoAnswer: the server cannot be reached or does not speak HTTP.
    """
    parts = urlsplit(url)
    connection: HTTPConnection
    if parts.scheme == "https":
        connection = HTTPSConnection(parts.netloc, timeout=WITHIN_S, context=context)
    else:
        connection = HTTPConnection(parts.netloc, timeout=WITHIN_S)
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    try:
        connection.request("GET", parts.path or "/", headers=headers)
        response = connection.getresponse()
        date = response.getheader("Date")
        time = None if date is None else parsedate_to_datetime(date)
        return WebResponse(response.status, time, response.read(_MOST_BYTES))
    except (OSError, HTTPException, ValueError) as error:
        raise NoAnswer(f"{url}: {explain_error(error)}.") from error
    finally:
        connection.close()


def verification_error(host: str, port: int, name: str, context: ssl.SSLContext) -> str | None:
    """Return why clients do not accept the server's certificate for ``name``; None: they accept it.

    Raises ``NoAnswer``.
    """
    try:
        with (
            socket.create_connection((host, port), timeout=WITHIN_S) as line,
            context.wrap_socket(line, server_hostname=name),
        ):
            return None
    except ssl.SSLCertVerificationError as error:
        return error.verify_message
    except OSError as error:
        raise NoAnswer(f"{host}:{port}: {explain_error(error)}.") from error


def explain_error(error: Exception) -> str:
    """Return the reason of a failed connection in words."""
    if isinstance(error, TimeoutError):
        return f"no answer within {WITHIN_S:g} s"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error) or type(error).__name__
