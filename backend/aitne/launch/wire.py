"""Frames between launchers and ranks, and the proof that both ends know the run's token.

A frame is four bytes of length, big endian, and as many bytes of payload. The token itself is never
sent: each end sends 16 random bytes, and receives them back under HMAC-SHA256 (RFC 2104) with the
token as the key.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import socket
import struct
import time

MAGIC = b"aitne-rendezvous-1\n"
MOST_BYTES = 64 * 1024 * 1024
"""Maximum size of a frame; an address, a handle or a link check is far smaller."""
NONCE = 16
_LENGTH = struct.Struct("!I")
_ASK_AFTER_S, _ASK_TIMES, _GIVE_UP_S = 15, 3, 45


class RunTokenError(ConnectionError):
    """Error: the peer does not belong to this run because it does not know the token."""


def keep(
    sock: socket.socket, *, ask_after_s: int = _ASK_AFTER_S, give_up_s: int = _GIVE_UP_S
) -> None:
    """Enable TCP keepalive, so that a persistent connection ends when its peer loses power or
    network.

    The peer is probed after ``ask_after_s`` seconds of silence, and given up after ``give_up_s``
    seconds.
    """
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, ask_after_s)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, ask_after_s)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, _ASK_TIMES)
    # Otherwise earlier data would be resent for a quarter of an hour (tcp(7), tcp_retries2).
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, give_up_s * 1_000)


def frame(payload: bytes) -> bytes:
    """Return the frame of ``payload``. Raises ``ValueError`` if it is too long."""
    if len(payload) > MOST_BYTES:
        raise ValueError(f"{len(payload)} bytes are more than a message holds ({MOST_BYTES})")
    return _LENGTH.pack(len(payload)) + payload


def receive(sock: socket.socket, deadline: float | None = None) -> bytes:
    """Return the payload of the next frame.

    Raises:
        TimeoutError: the frame did not arrive before ``deadline`` (of ``time.monotonic``).
        ConnectionError: the other end has closed the connection, or uses another protocol.
    """
    (length,) = _LENGTH.unpack(_exactly(sock, _LENGTH.size, deadline))
    if length > MOST_BYTES:
        raise ConnectionError("the other end sends no messages of a rendezvous")
    return _exactly(sock, length, deadline)


def cut(buffer: bytearray) -> bytes | None:
    """Remove the first frame from ``buffer`` and return its payload; None if it is incomplete."""
    if len(buffer) < _LENGTH.size:
        return None
    (length,) = _LENGTH.unpack_from(buffer)
    if length > MOST_BYTES:
        raise ConnectionError("the other end sends no messages of a rendezvous")
    if len(buffer) < _LENGTH.size + length:
        return None
    payload = bytes(buffer[_LENGTH.size : _LENGTH.size + length])
    del buffer[: _LENGTH.size + length]
    return payload


def proof(token: str, who: bytes, first: bytes, second: bytes) -> bytes:
    """Return the value that proves to the peer that the sender knows the token.

    ``who`` names the sender's side, so that the value cannot be sent back as the peer's own proof;
    ``first`` and ``second`` are random values of both sides.
    """
    return hmac.new(token.encode(), who + first + second, hashlib.sha256).digest()


def prove(sock: socket.socket, token: str, deadline: float) -> None:
    """Perform the client's part of the handshake.

    Raises:
        RunTokenError: another program or run listens there.
        TimeoutError: the server did not answer before ``deadline``.
        ConnectionError: the server has closed the connection.
    """
    greeting = _exactly(sock, len(MAGIC), deadline)
    if greeting != MAGIC:
        raise RunTokenError("the server of another program listens there")
    theirs, nonce = _exactly(sock, NONCE, deadline), secrets.token_bytes(NONCE)
    sock.sendall(frame(nonce + proof(token, b"client", theirs, nonce)))
    answer = receive(sock, deadline)
    if not hmac.compare_digest(answer, proof(token, b"server", theirs, nonce)):
        raise RunTokenError("another run's rendezvous listens there")


def _exactly(sock: socket.socket, count: int, deadline: float | None) -> bytes:
    parts: list[bytes] = []
    while count:
        if deadline is not None:
            remaining_s = deadline - time.monotonic()
            if remaining_s <= 0:
                raise TimeoutError("no answer in time")
            sock.settimeout(remaining_s)
        else:
            sock.settimeout(None)
        try:
            part = sock.recv(min(count, 1 << 20))
        except socket.timeout as error:  # noqa: UP041 - the same as TimeoutError only from Python 3.10 on
            raise TimeoutError("no answer in time") from error
        if not part:
            raise ConnectionError("the other end has closed the connection")
        parts.append(part)
        count -= len(part)
    return b"".join(parts)
