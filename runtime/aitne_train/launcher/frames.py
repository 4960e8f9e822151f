"""Messages (frames) between launchers and ranks, and the proof that both ends know the run's token.

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
"""Maximum size of a frame in bytes; real messages are far smaller."""
NONCE = 16
_LENGTH = struct.Struct("!I")
_ASK_AFTER_S, _ASK_TIMES, _GIVE_UP_S = 15, 3, 45


class RunTokenError(ConnectionError):
    """Error: the other end of the connection does not belong to this run, because it does not know
    the token."""


def enable_keepalive(
    sock: socket.socket, *, ask_after_s: int = _ASK_AFTER_S, give_up_s: int = _GIVE_UP_S
) -> None:
    """Enable TCP keepalive, so that a persistent connection ends when the other end loses power or
    network.

    The other end is probed after ``ask_after_s`` seconds of silence, and the connection is closed
    after ``give_up_s`` seconds.
    """
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, ask_after_s)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, ask_after_s)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, _ASK_TIMES)
    # Otherwise earlier data would be resent for a quarter of an hour (tcp(7), tcp_retries2).
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, give_up_s * 1_000)


def encode_frame(payload: bytes) -> bytes:
    """Return ``payload`` as a frame, with its length in front. Raises ``ValueError`` if it is too
    long."""
    if len(payload) > MOST_BYTES:
        raise ValueError(f"{len(payload)} bytes are more than a message holds ({MOST_BYTES})")
    return _LENGTH.pack(len(payload)) + payload


def receive_frame(sock: socket.socket, deadline: float | None = None) -> bytes:
    """Receive the next frame and return its payload.

    Raises:
        TimeoutError: the frame did not arrive before ``deadline`` (``time.monotonic``; None: no
            limit).
        ConnectionError: the other end has closed the connection, or uses another protocol.
    """
    (length,) = _LENGTH.unpack(_receive_exactly(sock, _LENGTH.size, deadline))
    if length > MOST_BYTES:
        raise ConnectionError("the other end sends no messages of a rendezvous")
    return _receive_exactly(sock, length, deadline)


def cut_frame(buffer: bytearray) -> bytes | None:
    """Remove the first frame from ``buffer`` and return its payload; None if no frame is
    complete."""
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


def compute_proof(token: str, who: bytes, first: bytes, second: bytes) -> bytes:
    """Return the value with which one end proves to the other that it knows the token.

    ``who`` names the side that sends it, so that the value cannot be sent back as the other side's
    proof; ``first`` and ``second`` are the random values of both sides.
    """
    return hmac.new(token.encode(), who + first + second, hashlib.sha256).digest()


def prove_token(sock: socket.socket, token: str, deadline: float) -> None:
    """Perform the client's part of the handshake, in which both ends prove that they know the
    token.

    Raises:
        RunTokenError: another program or run listens there.
        TimeoutError: the server did not answer before ``deadline`` (``time.monotonic``).
        ConnectionError: the server has closed the connection.
    """
    greeting = _receive_exactly(sock, len(MAGIC), deadline)
    if greeting != MAGIC:
        raise RunTokenError("the server of another program listens there")
    theirs, nonce = _receive_exactly(sock, NONCE, deadline), secrets.token_bytes(NONCE)
    sock.sendall(encode_frame(nonce + compute_proof(token, b"client", theirs, nonce)))
    answer = receive_frame(sock, deadline)
    if not hmac.compare_digest(answer, compute_proof(token, b"server", theirs, nonce)):
        raise RunTokenError("another run's rendezvous listens there")


def _receive_exactly(sock: socket.socket, count: int, deadline: float | None) -> bytes:
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
