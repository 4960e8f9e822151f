"""Control messages between rank 0 and every other rank, and detection of lost ranks.

There is one TCP connection from each other rank to rank 0, set up by ``control_connection``. A message is its
length in four bytes, followed by JSON: ``[kind, payload]``.
"""

from __future__ import annotations

import contextlib
import json
import logging
import math
import os
import select
import socket
import struct
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

from aitne_train.interruptible_event import Flag

log = logging.getLogger("aitne_train")

Handler = Callable[[int, Any], None]
LostHandler = Callable[[int, str], None]

_LENGTH = struct.Struct("!I")
_MOST = 64 << 20
_HAND_BACK_S = 0.003
_LONG_S = 0.1
_EARLY = 4096
_LOST = "control.lost"
_BYE = "control.bye"


class Control:
    """Control connections of this rank: on rank 0 to all other ranks, on other ranks to rank 0.
    They carry short messages about collectives and failures.

    Handlers of messages run on the reading thread, one message after another.
    """

    def __init__(self, rank: int, size: int, connections: dict[int, socket.socket]) -> None:
        self.rank = rank
        self.size = size
        self._connections = connections
        self._buffers = {peer: bytearray() for peer in connections}
        self._locks = {peer: threading.Lock() for peer in connections}
        self._early: dict[str, deque[tuple[int, Any]]] = {}
        self._early_lock = threading.RLock()
        self._handlers: dict[str, Handler] = {_LOST: self._on_lost_message}
        self._lost_handlers: list[LostHandler] = []
        self._lost: dict[int, str] = {}
        self._leaving: set[int] = set()
        self._events = select.epoll()
        self._peers = {connection.fileno(): peer for peer, connection in connections.items()}
        self._wake, self._woken = socket.socketpair()
        self._wake.setblocking(False)
        self._reading = threading.RLock()
        self._caller_reads = False
        self._caller_left = 0.0
        self._asleep = False
        self._resume = Flag()
        self._closed = False
        self._released = False
        self._thread: threading.Thread | None = None
        self.register_handler(_BYE, lambda sender, _: self._leaving.add(sender))
        _alive.add(self)

    def start(self) -> None:
        """Start the reading thread. Handlers registered before this call receive all messages."""
        if not self._connections:
            return
        for connection in [*self._connections.values(), self._woken]:
            self._events.register(connection, select.EPOLLIN)
        self._thread = threading.Thread(target=self._run_reader, name="aitne-control", daemon=True)
        self._thread.start()

    def register_handler(self, kind: str, handler: Handler) -> None:
        """Register ``handler(sender, payload)`` for messages of ``kind``. The handler must return
        quickly and never wait.

        Messages of this kind that arrived earlier are passed to it first, because ranks do not
        become ready simultaneously.
        """
        with self._early_lock:
            for sender, payload in self._early.pop(kind, ()):
                handler(sender, payload)
            self._handlers[kind] = handler

    def register_lost_handler(self, handler: LostHandler) -> None:
        """Register ``handler(rank, reason)``, which is called when the connection to a rank ends
        although the rank has not announced its end.
        """
        with self._early_lock:
            self._lost_handlers.append(handler)
            lost = list(self._lost.items())
        for rank, reason in lost:
            handler(rank, reason)

    def send(self, rank: int, kind: str, payload: Any) -> None:
        """Send a message to one rank; ranks other than 0 can send to rank 0 only.

        A message to this rank itself is handled immediately, on the calling thread. A message to a
        lost rank is dropped; the handlers of ``register_lost_handler`` report the loss.
        """
        if rank == self.rank:
            self._dispatch(rank, kind, payload)
            return
        self._send_packed(rank, _pack_message(kind, payload))

    def send_to_all(self, ranks: Iterable[int], kind: str, payload: Any) -> None:
        """Send the same message from rank 0 to the given ranks, other than itself; the message is
        encoded only once.
        """
        packed = _pack_message(kind, payload)
        for rank in ranks:
            self._send_packed(rank, packed)

    def broadcast(self, kind: str, payload: Any) -> None:
        """Send a message from rank 0 to all ranks; rank 0 handles it last."""
        self.send_to_all(self._connections, kind, payload)
        self._dispatch(self.rank, kind, payload)

    def announce_end(self) -> None:
        """Announce to the other ranks that this rank ends regularly, so that it is not reported as
        lost.
        """
        for peer in self._connections:
            self._send_packed(peer, _pack_message(_BYE, None))

    def begin_reading(self) -> bool:
        """Let the calling thread read the connections in place of the reading thread, which saves
        waking that thread for a message that the caller waits for. Return whether it may.

        If the result is True, the caller must call ``read`` and then ``end_reading``. It is False if
        another caller is reading, or if there are no other ranks. The caller must not hold a lock
        that a message handler acquires.
        """
        if self._thread is None:
            return False
        if not self._reading.acquire(blocking=False):
            if self._caller_reads:
                return False
            self._caller_left = math.inf  # the thread must not resume reading before this caller
            self.interrupt_read()
            try:
                self._reading.acquire()
            except BaseException:  # such as a KeyboardInterrupt
                self._caller_left = 0.0
                raise
        self._caller_reads = True
        return True

    def read(self, timeout_s: float) -> bool:
        """Read and handle incoming messages for at most ``timeout_s`` seconds (negative: no limit);
        return False if there were none.

        Returns early if another thread calls ``interrupt_read``.
        """
        events = self._events.poll(timeout_s)
        for number, _ in events:
            peer = self._peers.get(number)
            if peer is None:
                self._woken.recv(4096)
            else:
                try:
                    self._read_peer(peer)
                except BaseException:
                    # Such as that of a signal handler: a part of a message may be lost.
                    with contextlib.suppress(OSError):  # its end has been found before
                        self._events.unregister(number)
                    raise
        return bool(events)

    def end_reading(self) -> None:
        """End the reading by the calling thread; the reading thread continues after some
        milliseconds.
        """
        self._caller_reads = False
        self._caller_left = time.monotonic()
        with contextlib.suppress(
            RuntimeError
        ):  # a signal handler has ended ``begin_reading`` before
            self._reading.release()
        if self._asleep:
            self._resume.set()

    def interrupt_read(self) -> None:
        """Interrupt the ``read`` of another thread, which then returns before its timeout."""
        with contextlib.suppress(OSError):  # the unread bytes are sufficient, or it is closed
            self._wake.send(b"x")

    def close(self) -> None:
        """Stop the reading thread and close the connections."""
        if self._released:
            return
        self._closed = True
        self._resume.set()
        thread = self._thread
        try:
            self.interrupt_read()
            # An interrupt may have come before its start.
            if (
                thread is not None
                and thread.is_alive()
                and thread is not threading.current_thread()
            ):
                thread.join(5)
        finally:
            self._release_sockets()

    def _release_sockets(self) -> None:
        for connection in [*self._connections.values(), self._wake, self._woken]:
            connection.close()
        self._events.close()
        self._released = True

    def _close_connections(self) -> None:
        """Close all connections, so that the other ranks consider this rank lost."""
        for connection in self._connections.values():
            with contextlib.suppress(OSError):  # the peer has closed it already
                connection.shutdown(socket.SHUT_RDWR)

    def _send_packed(self, peer: int, packed: bytes) -> None:
        # The reader of this connection detects and reports its end; a sender need not.
        with self._locks[peer], contextlib.suppress(OSError):
            self._connections[peer].sendall(packed)

    def _run_reader(self) -> None:
        while not self._closed:
            self._yield_to_callers()
            with self._reading:
                if self._closed:
                    return
                try:
                    self.read(-1)
                except Exception as error:
                    log.exception("A message of another rank could not be handled")
                    self._announce_lost(self.rank, f"it could not handle a message ({error})")
                    self._close_connections()
                    return

    def _yield_to_callers(self) -> None:
        """Let the reading thread sleep while other threads read the connections, or did so
        recently. Waking it each time they stop would slow them down.
        """
        since = time.monotonic()
        while not self._closed:
            now = time.monotonic()
            if not self._caller_reads and now - self._caller_left > _HAND_BACK_S:
                return
            if self._caller_reads and now - since > _LONG_S:
                self._asleep = True
                if self._caller_reads:
                    self._resume.wait()
                self._asleep = False
                self._resume.clear()
                since = time.monotonic()
            else:
                self._resume.wait(_HAND_BACK_S)

    def _read_peer(self, peer: int) -> None:
        try:
            received = self._connections[peer].recv(1 << 16)
        except OSError as error:
            self._handle_end(peer, f"its connection failed ({error.strerror or error})")
            return
        if not received:
            self._handle_end(peer, "its connection closed")
            return
        buffer = self._buffers[peer]
        buffer += received
        while len(buffer) >= 4:
            (length,) = _LENGTH.unpack_from(buffer)
            if length > _MOST:
                self._handle_end(peer, "it sent an invalid message")
                return
            if len(buffer) < 4 + length:
                return
            kind, payload = json.loads(buffer[4 : 4 + length])
            # Removed first: a signal handler may raise here, and no message may be handled twice.
            del buffer[: 4 + length]
            self._dispatch(peer, kind, payload)

    def _dispatch(self, sender: int, kind: str, payload: Any) -> None:
        handler = self._handlers.get(kind)
        if handler is None:
            with self._early_lock:
                handler = self._handlers.get(kind)
                if handler is None:
                    self._early.setdefault(kind, deque(maxlen=_EARLY)).append((sender, payload))
                    return
        handler(sender, payload)

    def _handle_end(self, peer: int, reason: str) -> None:
        self._events.unregister(self._connections[peer])
        if peer in self._leaving or self._closed:
            return
        if self.rank == 0:
            for other in self._connections:
                if other != peer:
                    self._send_packed(other, _pack_message(_LOST, [peer, reason]))
        self._announce_lost(peer, reason)

    def _on_lost_message(self, _sender: int, payload: Any) -> None:
        self._announce_lost(payload[0], payload[1])

    def _announce_lost(self, rank: int, reason: str) -> None:
        with self._early_lock:
            if rank in self._lost:
                return
            self._lost[rank] = reason
            handlers = list(self._lost_handlers)
        for handler in handlers:
            handler(rank, reason)


def _pack_message(kind: str, payload: Any) -> bytes:
    body = json.dumps([kind, payload], separators=(",", ":")).encode()
    return _LENGTH.pack(len(body)) + body


def close_after_fork(controls: Iterable[Control]) -> None:
    """Close the inherited connections in a forked child process, so that they do not stay open
    after the parent's end.
    """
    for control in controls:
        control._release_sockets()


def close_all() -> None:
    """Close the connections of this process, also those that an interrupt has separated from
    their owner.
    """
    for control in list(_alive):
        control.close()


_alive: weakref.WeakSet[Control] = weakref.WeakSet()
os.register_at_fork(after_in_child=lambda: close_after_fork(list(_alive)))
