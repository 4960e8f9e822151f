"""Server of the rendezvous store, in which ranks exchange messages, on one thread of the
launcher."""

from __future__ import annotations

import hmac
import secrets
import selectors
import socket
import struct
import threading
import time

from aitne_train.launcher import frames, held_ports

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing costs as much time as the launcher's own code
    from collections.abc import Callable

GREETING_S = 10.0
"""Seconds after which a connection is closed whose client has not proved that it knows the token.
"""
SET, CLAIM, GET, LINE = b"S", b"C", b"G", b"L"
YES, NO = b"+", b"-"
SECONDS = struct.Struct("!d")
KEY_LENGTH = struct.Struct("!H")
_GREETING_BYTES = 256


class RendezvousServer:
    """Server of the rendezvous store and of the connections between nodes and coordinator. It
    listens as soon as it is created, and keeps stored values until ``close``.

    Args:
        token: secret of the run, with which clients authenticate.
        host: address to listen on; empty: all addresses of this machine.
        heard: called on the server's thread with the name of a connection and a received message,
            or None when the connection has ended. It must not block. None: messages are ignored.

    Raises:
        OSError: this machine does not have the address.
    """

    def __init__(
        self, token: str, host: str = "", heard: Callable[[str, bytes | None], None] | None = None
    ) -> None:
        self._token = token
        self._heard = heard or (lambda _name, _payload: None)
        self._listener = held_ports.open_listener(host)
        self.port: int = self._listener.getsockname()[1]
        self._selector = selectors.DefaultSelector()
        self._messages: dict[bytes, bytes] = {}
        self._peers: set[_Peer] = set()
        self._todo: list[Callable[[], None]] = []
        self._lock = threading.Lock()
        self._closing = False
        self._waker, self._woken = socket.socketpair()
        for sock in (self._listener, self._woken, self._waker):
            sock.setblocking(False)
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._selector.register(self._woken, selectors.EVENT_READ)
        self._thread = threading.Thread(
            target=self._serve_requests, name="aitne-rendezvous", daemon=True
        )
        self._thread.start()

    def send(self, name: str, payload: bytes) -> None:
        """Send a message over the connection named ``name``; do nothing if it is not open. May be
        called from any thread."""
        self._call_soon(lambda: self._send_message(name, payload))

    def close(self) -> None:
        """Close all connections and the port, after delivering the messages that were sent
        before."""
        self._call_soon(self._begin_to_close)
        if threading.current_thread() is not self._thread:
            self._thread.join()

    # --- on its thread ---------------------------------------------------------------------------

    def _call_soon(self, action: Callable[[], None]) -> None:
        with self._lock:
            self._todo.append(action)
        try:
            self._waker.send(b"\0")
        except (BlockingIOError, OSError):
            return  # the thread is awake, or has ended

    def _begin_to_close(self) -> None:
        self._closing = True

    def _send_message(self, name: str, payload: bytes) -> None:
        for peer in list(self._peers):
            if peer.line == name:
                self._queue_frame(peer, payload)

    def _serve_requests(self) -> None:
        try:
            while not self._closing:
                for key, events in self._selector.select(self._nearest_deadline()):
                    if key.fileobj is self._listener:
                        self._accept()
                    elif key.fileobj is self._woken:
                        self._run_scheduled()
                    else:
                        self._serve_peer(key.data, events)
                self._end_late_requests()
        finally:
            for peer in list(self._peers):
                self._flush_last(peer)
                peer.sock.close()
            self._selector.close()
            for sock in (self._listener, self._woken, self._waker):
                sock.close()

    def _run_scheduled(self) -> None:
        try:
            self._woken.recv(4096)
        except BlockingIOError:
            return
        with self._lock:
            todo, self._todo = self._todo, []
        for action in todo:
            action()

    def _accept(self) -> None:
        try:
            sock, _ = self._listener.accept()
        except OSError:
            return  # it is closed already, or there are no more file descriptors
        sock.setblocking(False)
        frames.enable_keepalive(sock)
        peer = _Peer(sock)
        self._peers.add(peer)
        self._selector.register(sock, selectors.EVENT_READ, peer)
        peer.out += frames.MAGIC + peer.nonce
        self._send_queued(peer)

    def _serve_peer(self, peer: _Peer, events: int) -> None:
        if events & selectors.EVENT_WRITE:
            self._send_queued(peer)
        if not events & selectors.EVENT_READ or peer not in self._peers:
            return
        try:
            part = peer.sock.recv(1 << 18)
        except BlockingIOError:
            return
        except OSError:
            part = b""
        if not part:
            self._close_peer(peer)
            return
        peer.received += part
        try:
            while peer in self._peers and (payload := frames.cut_frame(peer.received)) is not None:
                self._handle_frame(peer, payload)
        except (ConnectionError, struct.error):
            self._close_peer(peer)
        if not peer.known and len(peer.received) > _GREETING_BYTES:
            self._close_peer(peer)

    def _handle_frame(self, peer: _Peer, payload: bytes) -> None:
        if not peer.known:
            theirs, answer = payload[: frames.NONCE], payload[frames.NONCE :]
            expected = frames.compute_proof(self._token, b"client", peer.nonce, theirs)
            if not hmac.compare_digest(answer, expected):
                self._close_peer(peer)
                return
            peer.known = True
            self._queue_frame(
                peer, frames.compute_proof(self._token, b"server", peer.nonce, theirs)
            )
        elif peer.line is not None:
            self._heard(peer.line, payload)
        else:
            self._answer_request(peer, payload[:1], payload[1:])

    def _answer_request(self, peer: _Peer, verb: bytes, rest: bytes) -> None:
        if verb in (SET, CLAIM):
            (length,) = KEY_LENGTH.unpack_from(rest)
            key, value = rest[KEY_LENGTH.size :][:length], rest[KEY_LENGTH.size + length :]
            if verb == CLAIM and key in self._messages:
                self._queue_frame(peer, NO)
                return
            self._messages[key] = value
            self._queue_frame(peer, YES)
            for other in [other for other in self._peers if other.awaited_key == key]:
                other.awaited_key = None
                self._queue_frame(other, YES + value)
        elif verb == GET:
            (seconds,) = SECONDS.unpack_from(rest)
            key = rest[SECONDS.size :]
            if key in self._messages:
                self._queue_frame(peer, YES + self._messages[key])
            else:
                peer.awaited_key, peer.deadline = key, time.monotonic() + seconds
        elif verb == LINE:
            peer.line = rest.decode("utf-8", "replace")
            self._queue_frame(peer, YES)
        else:
            self._close_peer(peer)

    def _nearest_deadline(self) -> float | None:
        deadlines = [peer.deadline for peer in self._peers if peer.times_out]
        return max(0.0, min(deadlines) - time.monotonic()) if deadlines else None

    def _end_late_requests(self) -> None:
        now = time.monotonic()
        for peer in [peer for peer in self._peers if peer.times_out and peer.deadline <= now]:
            if not peer.known:
                self._close_peer(peer)
            else:
                peer.awaited_key = None
                self._queue_frame(peer, NO)

    def _queue_frame(self, peer: _Peer, payload: bytes) -> None:
        peer.out += frames.encode_frame(payload)
        self._send_queued(peer)

    def _send_queued(self, peer: _Peer) -> None:
        try:
            while peer.out:
                del peer.out[: peer.sock.send(memoryview(peer.out)[: 1 << 18].tobytes())]
        except BlockingIOError:
            pass  # the rest is sent later
        except OSError:
            self._close_peer(peer)
            return
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if peer.out else 0)
        self._selector.modify(peer.sock, events, peer)

    def _close_peer(self, peer: _Peer) -> None:
        if peer not in self._peers:
            return
        self._peers.discard(peer)
        self._selector.unregister(peer.sock)
        peer.sock.close()
        if peer.line is not None:
            self._heard(peer.line, None)

    @staticmethod
    def _flush_last(peer: _Peer) -> None:
        peer.sock.settimeout(1.0)
        try:
            peer.sock.sendall(peer.out)
        except OSError:
            return  # the peer has closed the connection


class _Peer:
    """Connection of one client to the rendezvous server."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.nonce = secrets.token_bytes(frames.NONCE)
        self.known = False
        self.line: str | None = None
        self.received, self.out = bytearray(), bytearray()
        self.awaited_key: bytes | None = None
        self.deadline = time.monotonic() + GREETING_S

    @property
    def times_out(self) -> bool:
        return not self.known or self.awaited_key is not None
