"""Transfer of the shared memory's file descriptor from rank 0 to the other ranks on a node, over a
UNIX socket.

The socket has a random abstract address, so that no file can be left behind. The address is
published only in the group's rendezvous store, and each side checks that the other belongs to the
same user.
"""

from __future__ import annotations

import json
import os
import secrets
import socket
import struct
import time
from types import TracebackType
from typing import Any

from aitne_train.failure_aware_rendezvous_store import LOOK_S, check_run
from aitne_train.transport.base import Group, TransportError

_CREDENTIALS = struct.Struct("iII")
_MOST_BYTES = 4096


class RendezvousHost:
    """Rank 0's side of the distribution of the shared memory: it accepts the connections of the
    other ranks and sends them the descriptor. If the ``with`` block ends before ``take_connections``, the
    connections are closed.
    """

    def __init__(self, group: Group) -> None:
        self._group = group
        self._until = time.monotonic() + group.timeout_s
        self._members: dict[int, socket.socket] = {}
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            address = f"\0aitne-{secrets.token_hex(16)}"
            self._listener.bind(address)
            self._listener.listen(group.size)
            group.store.set(_make_key(group), address.encode())
        except OSError as error:
            self._listener.close()
            raise TransportError(f"Ranks of this node cannot connect: {error}.") from error

    def gather_ranks(self, able: bool) -> tuple[bool, int]:
        """Wait until all ranks have connected. Return True if all ranks can use the compiled
        kernel, and the number of processors that the ranks together may use. ``able`` states
        whether rank 0 can use the kernel.

        Raises:
            TransportError: a rank did not connect.
        """
        mask = _read_affinity_mask()
        while len(self._members) < self._group.size - 1:
            try:
                self._listener.settimeout(min(self._compute_remaining_s(), LOOK_S))
                member = self._listener.accept()[0]
            except TimeoutError:
                if time.monotonic() < self._until:
                    check_run(self._group)
                    continue
                missing = [
                    self._group.ranks[rank]
                    for rank in range(1, self._group.size)
                    if rank not in self._members
                ]
                text = f"Ranks {missing} did not connect to share memory within {self._group.timeout_s:g} s."
                self.refuse_ranks(text)
                raise TransportError(text) from None
            hello = self._read_hello(member)
            if hello is None:
                member.close()
                continue
            self._members[hello["rank"]] = member
            able = able and hello["able"]
            mask |= int(hello["cpus"], 16)
        return able, mask.bit_count()

    def refuse_ranks(self, reason: str) -> None:
        """Report to all connected ranks that no shared memory can be created, and the reason."""
        for member in self._members.values():
            try:
                _send_message(member, {"refused": reason})
            except OSError:
                continue  # it is lost itself

    def send_descriptor(self, fd: int, use: bool, processors: int) -> None:
        """Send the memory's descriptor ``fd`` to all ranks and wait until all have mapped the
        memory. ``use`` states whether the kernel is used; ``processors`` is the number that the
        ranks together may use.

        Raises ``TransportError`` if a rank did not map the memory.
        """
        for rank, member in self._members.items():
            self._send_to(rank, member, {"use": use, "processors": processors}, [fd])
        for rank, member in self._members.items():
            self._receive_reply(rank, member)
        for rank, member in self._members.items():
            self._send_to(rank, member, {}, [])

    def take_connections(self) -> list[socket.socket]:
        """Return the connections to ranks 1, 2 and so on, which the caller must close."""
        connections = [self._members[rank] for rank in sorted(self._members)]
        self._members = {}
        return connections

    def __enter__(self) -> RendezvousHost:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._listener.close()
        for member in self._members.values():
            member.close()

    def _read_hello(self, member: socket.socket) -> dict[str, Any] | None:
        if not _is_same_user(member):
            return None
        try:
            hello = _wait_for_message(self._group, member, self._until)[0]
        except OSError:
            return None
        valid = hello.get("rank") in range(1, self._group.size)
        return hello if valid and hello["rank"] not in self._members else None

    def _send_to(self, rank: int, member: socket.socket, message: Any, fds: list[int]) -> None:
        try:
            _send_message(member, message, fds)
        except OSError as error:
            self._raise_lost(rank, error)

    def _receive_reply(self, rank: int, member: socket.socket) -> None:
        try:
            _wait_for_message(self._group, member, self._until)
        except OSError as error:
            self._raise_lost(rank, error)

    def _raise_lost(self, rank: int, error: OSError) -> None:
        text = f"Rank {self._group.ranks[rank]} went away while memory was shared: {error}."
        self.refuse_ranks(text)
        raise TransportError(text) from error

    def _compute_remaining_s(self) -> float:
        return max(0.001, self._until - time.monotonic())


def receive_descriptor(group: Group, able: bool) -> tuple[socket.socket, int, bool, int]:
    """Connect to rank 0 and receive the memory's descriptor; called on the other ranks. ``able``
    states whether this rank can use the compiled kernel.

    Returns the connection, the descriptor, True if the kernel is used, and the number of processors
    that the ranks together may use.

    Raises:
        TransportError: rank 0 did not publish its address, cannot be reached, or has no memory.
    """
    try:
        address = group.store.get(_make_key(group), group.timeout_s).decode()
    except (TimeoutError, ConnectionError) as error:
        raise TransportError(
            f"Rank {group.ranks[0]} did not connect to share memory within {group.timeout_s:g} s: {error}."
        ) from error
    host = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        # Rank 0 has its own timeout and reports it: this one is for a silent rank 0.
        until = time.monotonic() + 2 * group.timeout_s
        host.settimeout(group.timeout_s)
        host.connect(address)
        if not _is_same_user(host):
            raise ConnectionError("it belongs to another user")
        _send_message(
            host, {"rank": group.rank, "able": able, "cpus": f"{_read_affinity_mask():x}"}
        )
        reply, fds = _wait_for_message(group, host, until)
        _raise_if_refused(reply)
        return host, fds[0], bool(reply["use"]), int(reply["processors"])
    except (OSError, IndexError) as error:
        host.close()
        raise TransportError(
            f"Rank {group.ranks[0]} cannot be reached on this node: {error}. Memory is shared only among "
            "ranks with the same network namespace and user."
        ) from error
    except BaseException:  # also an interrupt: rank 0 must not wait for this one
        host.close()
        raise


def confirm_mapping(group: Group, host: socket.socket) -> None:
    """Report to rank 0 that this rank has mapped the memory, and wait until all ranks have.

    Raises ``TransportError`` if a rank has not.
    """
    try:
        _send_message(host, {})
        _raise_if_refused(_wait_for_message(group, host, time.monotonic() + 2 * group.timeout_s)[0])
    except OSError as error:
        host.close()
        raise TransportError(
            f"Rank {group.ranks[0]} went away while memory was shared: {error}."
        ) from error
    except BaseException:
        host.close()
        raise


def _make_key(group: Group) -> str:
    return f"{group.name}/shm"


def _read_affinity_mask() -> int:
    """Return the set of processors that this rank may use, as a number with one bit for each."""
    return sum(1 << cpu for cpu in os.sched_getaffinity(0))


def _is_same_user(connection: socket.socket) -> bool:
    raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return bool(_CREDENTIALS.unpack(raw)[1] == os.geteuid())


def _raise_if_refused(reply: dict[str, Any]) -> None:
    if "refused" in reply:
        raise TransportError(reply["refused"])


def _send_message(
    connection: socket.socket, message: dict[str, Any], fds: list[int] | None = None
) -> None:
    socket.send_fds(connection, [json.dumps(message).encode()], fds or [])


def _wait_for_message(
    group: Group, connection: socket.socket, until: float
) -> tuple[dict[str, Any], list[int]]:
    """Return the next message and its descriptors.

    Raises ``OSError`` if none has come at the time ``until`` (``time.monotonic``), or
    ``TransportError`` if the run has failed.
    """
    while True:
        try:
            connection.settimeout(min(LOOK_S, max(0.001, until - time.monotonic())))
            return _receive_message(connection)
        except TimeoutError:
            if time.monotonic() >= until:
                raise
            check_run(group)


def _receive_message(connection: socket.socket) -> tuple[dict[str, Any], list[int]]:
    flags = socket.MSG_CMSG_CLOEXEC
    data, fds, _flags, _address = socket.recv_fds(connection, _MOST_BYTES, 1, flags)
    if not data:
        raise ConnectionError("it closed the connection")
    message: dict[str, Any] = json.loads(data)
    return message, fds
