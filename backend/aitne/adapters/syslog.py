"""Client of a syslog server (RFC 5424; over TCP and TLS one line per message, RFC 6587 3.4.2)."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterable
from datetime import UTC, datetime
from urllib.parse import urlsplit

from aitne.core.errors import DeliveryFailed

_PRIORITY = 10 * 8 + 6
"""Priority of all messages: facility authpriv, severity informational."""
_TIMEOUT_S = 10.0
_DEFAULT_PORTS = {"udp": 514, "tcp": 601, "tls": 6514}


class SyslogReceiver:
    """Client that sends messages to a syslog server.

    Args:
        target: ``udp://HOST:PORT``, ``tcp://HOST:PORT``, ``tls://HOST:PORT`` (default ports 514,
            601 and 6514), or the absolute path of a UNIX datagram socket.
    """

    def __init__(self, target: str) -> None:
        self._target = target
        self._host = socket.gethostname() or "-"

    def send(self, lines: Iterable[str]) -> None:
        """Send each line as one message, in order. Blocks for at most ten seconds per line.

        Raises:
            DeliveryFailed: the server cannot be reached; earlier lines may have arrived.
        """
        try:
            with self._connect() as connection:
                for line in lines:
                    connection.sendall(self._format_message(line, connection.type))
        except OSError as error:
            raise DeliveryFailed(
                f"The syslog receiver {self._target} cannot be reached: {error}.", again=True
            ) from error

    def _connect(self) -> socket.socket:
        if self._target.startswith("/"):
            connection = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            connection.settimeout(_TIMEOUT_S)
            connection.connect(self._target)
            return connection
        url = urlsplit(self._target)
        host = url.hostname or ""
        port = url.port or _DEFAULT_PORTS[url.scheme]
        if url.scheme == "udp":
            family, kind, protocol, _, address = socket.getaddrinfo(
                host, port, type=socket.SOCK_DGRAM
            )[0]
            connection = socket.socket(family, kind, protocol)
            connection.settimeout(_TIMEOUT_S)
            connection.connect(address)
            return connection
        connection = socket.create_connection((host, port), timeout=_TIMEOUT_S)
        if url.scheme == "tls":
            return ssl.create_default_context().wrap_socket(connection, server_hostname=host)
        return connection

    def _format_message(self, line: str, kind: int) -> bytes:
        time = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        record = f"<{_PRIORITY}>1 {time} {self._host} aitne-audit - - - {line}".encode()
        return record if kind == socket.SOCK_DGRAM else record + b"\n"
