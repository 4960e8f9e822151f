"""One HTTP/1.1 request and response over a socket (RFC 9112), and its errors.

The standard library's ``http.client`` reads a response's head with the e-mail parser, whose import
takes as long as the rest of `aitne ps`. An API of JSON and byte streams needs only this module: one
request per connection, so that no connection is kept, shared between threads or found stale.
"""

from __future__ import annotations

import select
import socket

TYPE_CHECKING = False
if TYPE_CHECKING:
    import ssl
    from collections.abc import Iterator, Mapping
    from typing import BinaryIO

    from aitne.client.transport import Reply

ASK_FROM = 1 << 20
"""Size in bytes from which a body is sent only after the platform has agreed to read it (``Expect:
100-continue``)."""
CONTINUE_S = 2.0
"""Seconds to wait for ``100 Continue``; afterwards the body is sent anyway, because the server may
not support it."""
CHUNK = 1 << 16
LONGEST_LINE = 1 << 16
MOST_HEADERS = 200
SILENCE = "no answer in time"
BROKE_OFF = "the response ended early"
NOT_HTTP = "the server there does not speak HTTP"
NOT_TLS = "the server there does not speak TLS; its address may begin with http://"
_UNKNOWN_CA = (
    "If the platform has a CA of its own, name the file with the CA's certificate: "
    "`aitne login URL --ca-file FILE`, or the variable SSL_CERT_FILE."
)
_CERTIFICATE_REMEDIES = {
    10: "Ask the administrator of the platform to renew it.",
    62: "Use the name that the certificate is for.",
    64: "Use the name that the certificate is for.",
}
"""Advice by OpenSSL's verification error code: expired, wrong host name, wrong IP address."""
_PLAIN = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-~")


class ConnectionFailed(OSError):
    """The connection failed. ``sent`` is False if the platform cannot have received the request."""

    def __init__(self, reason: str, *, sent: bool) -> None:
        super().__init__(reason)
        self.reason = reason
        self.sent = sent


class CertificateRejected(ConnectionFailed):
    """The server's certificate is not trusted, has expired, or is for another name. ``remedy`` says
    what the user can do."""

    def __init__(self, reason: str, remedy: str) -> None:
        super().__init__(reason, sent=False)
        self.remedy = remedy


def make_tls_context(ca_file: str | None, authority: str | None = None) -> ssl.SSLContext:
    """Return a TLS context that trusts the system's CAs and, in addition, the CAs in the PEM file
    ``ca_file`` and in the PEM text ``authority`` (None: none).

    Raises ``ValueError`` if the file cannot be read.
    """
    import ssl

    context = ssl.create_default_context()
    if ca_file is not None:
        try:
            context.load_verify_locations(ca_file)
        except OSError as error:
            reason = (
                "it has no certificates in PEM format"
                if isinstance(error, ssl.SSLError)
                else error.strerror
            )
            raise ValueError(f"the CA file {ca_file} cannot be used: {reason}") from error
    if authority is not None:
        context.load_verify_locations(cadata=authority)
    return context


def percent_encode(text: str) -> str:
    """Return a text percent-encoded as one segment of a path or one value of a query."""
    return "".join(chr(b) if b in _PLAIN else f"%{b:02X}" for b in text.encode())


class HttpTransport:
    """Sender of requests to one address, with a new TCP connection for each."""

    def __init__(
        self, base_url: str, ca_file: str | None = None, *, authority: str | None = None
    ) -> None:
        """Set the address, and the CA certificates to trust in addition to the system's: a file, or
        the text of one in PEM format.

        Raises ``ValueError`` if ``base_url`` is not a URL, or if the file cannot be read.
        """
        scheme, _, rest = base_url.partition("://")
        netloc, slash, path = rest.partition("/")
        host, port = _host_and_port(netloc)
        if scheme not in ("http", "https") or not host or "@" in netloc:
            raise ValueError(f"{base_url!r} is not an address: write http://host:port")
        self._tls = make_tls_context(ca_file, authority) if scheme == "https" else None
        self._address = (host, port or (443 if self._tls else 80))
        self._netloc = netloc
        self._prefix = f"{slash}{path}".rstrip("/")

    def send(
        self,
        method: str,
        path: str,
        *,
        headers: Mapping[str, str],
        body: bytes | None,
        timeout_s: float,
    ) -> Reply:
        """Send one request over a new connection and return its response. A body of more than
        ``ASK_FROM`` bytes is sent only after the server answers ``100 Continue``, or has been
        silent for a while. ``timeout_s`` is the maximum number of seconds for connecting, and for
        each wait for data.

        Raises ``ConnectionFailed``; its ``sent`` is False if the server cannot have received the
        request.
        """
        data = body or b""
        waits = len(data) > ASK_FROM
        head_fields = {**headers, "Expect": "100-continue"} if waits else headers
        request = self._make_request_head(method, path, head_fields, body) + (
            b"" if waits else data
        )
        try:
            connection = self._connect(timeout_s)
        except ConnectionFailed:
            raise
        except OSError as error:
            raise ConnectionFailed(_describe_error(error), sent=False) from error
        reader = connection.makefile("rb")
        try:
            connection.sendall(request)
            return HttpReply(connection, reader, data if waits else b"")
        except OSError as error:
            reader.close()
            connection.close()
            if isinstance(error, ConnectionFailed):
                raise
            raise ConnectionFailed(_describe_error(error), sent=True) from error

    def _connect(self, timeout_s: float) -> socket.socket:
        host, port = self._address
        # Given as bytes it needs no codec for international names, which is slow to load.
        host_name = host.encode() if host.isascii() else host
        line = socket.create_connection((host_name, port), timeout_s)  # type: ignore[arg-type]
        # A request is one write; without this its last part would wait for an acknowledgement.
        line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self._tls is None:
            return line
        import ssl

        try:
            return self._tls.wrap_socket(line, server_hostname=host)
        except OSError as error:
            line.close()
            if isinstance(error, ssl.SSLCertVerificationError):
                raise _make_rejected_error(error) from error
            raise

    def _make_request_head(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes | None
    ) -> bytes:
        fields = {"Host": self._netloc, "Connection": "close", **headers}
        if body is not None or method != "GET":
            fields["Content-Length"] = str(len(body or b""))
        lines = [f"{method} {self._prefix}{path} HTTP/1.1"]
        lines += [f"{name}: {value}" for name, value in fields.items()]
        if not all(line.isascii() and line.isprintable() for line in lines):
            raise ValueError("a header or the address has characters that HTTP cannot carry")
        return "\r\n".join([*lines, "", ""]).encode()


class HttpReply:
    """HTTP response that is read from a socket."""

    def __init__(self, line: socket.socket, reader: BinaryIO, late: bytes = b"") -> None:
        """Read the status and headers of a response.

        ``late`` is a request body that is sent only once the server agrees or is silent for
        ``CONTINUE_S``: a client that is rejected while it sends could not read the reason. Raises
        ``ConnectionFailed`` or ``OSError``.
        """
        self._line = line
        self._reader = reader
        if late and not _has_data(line, CONTINUE_S):
            line.sendall(late)
            late = b""
        self.status, self.headers = self._read_head()
        while 100 <= self.status < 200:
            if late:
                line.sendall(late)
                late = b""
            self.status, self.headers = self._read_head()

    def chunks(self) -> Iterator[bytes]:
        """Yield the body as it arrives. Raises ``ConnectionFailed`` if the connection breaks."""
        try:
            if self.status in (204, 304):
                return
            if self.headers.get("transfer-encoding", "").lower() == "chunked":
                yield from self._read_chunked()
            elif (length := self.headers.get("content-length")) is not None:
                yield from self._read_exactly(_parse_number(length, 10))
            else:
                while chunk := self._read_some(CHUNK):
                    yield chunk
        except ConnectionFailed:
            raise
        except OSError as error:
            raise ConnectionFailed(_describe_error(error), sent=True) from error

    def close(self) -> None:
        """Close the connection; chunks not yet read are lost."""
        self._reader.close()
        self._line.close()

    def _read_head(self) -> tuple[int, Mapping[str, str]]:
        version, _, rest = self._text_line().partition(" ")
        if not version:
            raise ConnectionFailed("the connection was closed without an answer", sent=True)
        status = rest[:3]
        if not version.startswith("HTTP/1.") or not status.isdecimal():
            raise ConnectionFailed(NOT_HTTP, sent=True)
        headers: dict[str, str] = {}
        while line := self._text_line():
            name, _, value = line.partition(":")
            headers[name.strip().lower()] = value.strip()
            if len(headers) > MOST_HEADERS:
                raise ConnectionFailed(NOT_HTTP, sent=True)
        return int(status), headers

    def _text_line(self) -> str:
        line = self._reader.readline(LONGEST_LINE)
        if len(line) == LONGEST_LINE:
            raise ConnectionFailed(NOT_HTTP, sent=True)
        return line.decode("latin-1").rstrip("\r\n")

    def _read_chunked(self) -> Iterator[bytes]:
        while size := _parse_number(self._text_line().partition(";")[0], 16):
            yield from self._read_exactly(size)
            self._text_line()
        while self._text_line():
            pass  # trailers are ignored

    def _read_exactly(self, size: int) -> Iterator[bytes]:
        while size:
            chunk = self._read_some(min(size, CHUNK))
            if not chunk:
                raise ConnectionFailed(BROKE_OFF, sent=True)
            size -= len(chunk)
            yield chunk

    def _read_some(self, max_bytes: int) -> bytes:
        # read1 of a buffered reader waits for no more than one piece from the network.
        return self._reader.read1(max_bytes)  # type: ignore[attr-defined,no-any-return]


def _make_rejected_error(error: ssl.SSLCertVerificationError) -> CertificateRejected:
    remedy = _CERTIFICATE_REMEDIES.get(error.verify_code)
    return CertificateRejected(error.verify_message.rstrip("."), remedy or _UNKNOWN_CA)


def _has_data(connection: socket.socket, within_s: float) -> bool:
    poll = select.poll()
    poll.register(connection, select.POLLIN)
    return bool(poll.poll(within_s * 1_000))


def _host_and_port(authority: str) -> tuple[str, int]:
    host, colon, port = authority.rpartition(":")
    if not colon or "]" in port:
        host, port = authority, ""
    if port and not (port.isdecimal() and int(port) < 65_536):
        return "", 0
    return host.removeprefix("[").removesuffix("]"), int(port or 0)


def _parse_number(text: str, base: int) -> int:
    try:
        number = int(text.strip(), base)
    except ValueError:
        number = -1
    if number < 0:
        raise ConnectionFailed(BROKE_OFF, sent=True)
    return number


def _describe_error(error: OSError) -> str:
    if isinstance(error, TimeoutError):
        return SILENCE
    if getattr(error, "reason", None) == "WRONG_VERSION_NUMBER":
        return NOT_TLS
    return str(error.strerror or error or type(error).__name__)
