"""The seam between the client and the network: tests and embedding programs pass their own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Protocol


class Reply(Protocol):
    """A response: the head is there, the body is read as it comes. Close it."""

    status: int
    headers: Mapping[str, str]
    """By lower-case name."""

    def chunks(self) -> Iterator[bytes]:
        """The body, as it arrives. Raises ``ConnectionFailed`` when it breaks off."""
        ...

    def close(self) -> None:
        """Let go of the connection; chunks still to come are lost."""
        ...


class Transport(Protocol):
    """Sends one request and returns when the head of its response is there."""

    def send(
        self,
        method: str,
        path: str,
        *,
        headers: Mapping[str, str],
        body: bytes | None,
        timeout_s: float,
    ) -> Reply:
        """``timeout_s`` bounds connecting and every single wait for bytes.

        Raises:
            ConnectionFailed: no complete exchange.
        """
        ...
