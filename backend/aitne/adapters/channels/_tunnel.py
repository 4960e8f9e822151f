"""Connections through a forward proxy to an address that the caller chooses.

httpx would ask a proxy for the name in the URL, and check the certificate for that name. Here the
proxy is asked for an address that was checked before, and the certificate is checked for the name.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterable
from urllib.parse import urlsplit

import httpcore
import httpx
from typing_extensions import override

_MOST_BYTES = 16_384
"""Maximum length of the proxy's answer to CONNECT."""


class _ProxyBackend(httpcore.AsyncNetworkBackend):
    """Opener of connections that asks the proxy for a tunnel (RFC 9110, 9.3.6) to each address."""

    def __init__(self, proxy: str) -> None:
        self._proxy = urlsplit(proxy)
        self._direct = httpcore.AnyIOBackend()

    @override
    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        proxy_host = self._proxy.hostname or ""
        stream = await self._direct.connect_tcp(proxy_host, self._proxy.port or 0, timeout)
        try:
            if self._proxy.scheme == "https":
                context = ssl.create_default_context()
                stream = await stream.start_tls(context, proxy_host, timeout)
            shown = f"[{host}]" if ":" in host else host
            request = f"CONNECT {shown}:{port} HTTP/1.1\r\nHost: {shown}:{port}\r\n\r\n"
            await stream.write(request.encode("ascii"), timeout)
            line = await _read_status_line(stream, timeout)
            version, _, status = line.partition(" ")
            if not version.startswith("HTTP/") or not status.startswith("2"):
                raise httpcore.ProxyError(f"the proxy answers {line[:100]!r}")
        except BaseException:
            await stream.aclose()
            raise
        return stream


async def _read_status_line(stream: httpcore.AsyncNetworkStream, timeout: float | None) -> str:  # noqa: ASYNC109
    """Read the head of the proxy's answer and return its first line. After the head the proxy sends
    nothing by itself: both TLS and HTTP wait for the client.
    """
    head = b""
    while b"\r\n\r\n" not in head:
        part = await stream.read(1_024, timeout)
        head += part
        if not part or len(head) > _MOST_BYTES:
            raise httpcore.ProxyError("the proxy does not answer in HTTP")
    return head.partition(b"\r\n")[0].decode("latin-1")


class TunnelTransport(httpx.AsyncHTTPTransport):
    """Transport of httpx whose connections lead through the proxy with this URL."""

    def __init__(self, proxy: str) -> None:
        super().__init__(trust_env=False)
        self._pool = httpcore.AsyncConnectionPool(
            ssl_context=ssl.create_default_context(), network_backend=_ProxyBackend(proxy)
        )
