"""Interface between the client and the network, which tests and embedding programs can
implement."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Protocol


class Reply(Protocol):
    """Response whose status and headers were received; the body is read as it arrives. It must be
    closed."""

    status: int
    headers: Mapping[str, str]
    """Headers by lower-case name."""

    def chunks(self) -> Iterator[bytes]:
        """Yield the body as it arrives. Raises ``ConnectionFailed`` if the connection breaks."""
        ...

    def close(self) -> None:
        """Close the connection; chunks not yet read are lost."""
        ...


class RequestTransport(Protocol):
    """A way to send requests, such as a TCP connection to one address."""

    def send(
        self,
        method: str,
        path: str,
        *,
        headers: Mapping[str, str],
        body: bytes | None,
        timeout_s: float,
    ) -> Reply:
        """Send one request and return when the status and headers of its response have arrived.

        ``timeout_s`` is the maximum number of seconds for connecting, and for each wait for data.

        Raises:
            ConnectionFailed: the exchange was not completed.
        """
        ...
