"""Initial connection of all ranks to rank 0.

Rank 0 listens on any free port, and stores its addresses and a secret in the rendezvous store. Both
sides of a connection prove that they know the secret; other programs that connect, or that listen
at that port, cannot. All connections are served concurrently, so that a silent client delays no
rank.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import os
import secrets
import selectors
import socket
import time
import weakref
from typing import Any

from aitne_train import control_channel
from aitne_train.control_channel import Control
from aitne_train.errors import HorovodInternalError
from aitne_train.launcher import held_ports
from aitne_train.launcher.frames import enable_keepalive
from aitne_train.launcher.own_addresses import LOCAL, own_addresses, split_address
from aitne_train.launcher.rank_detection import RankTopology
from aitne_train.launcher.rendezvous_store_client import TIMEOUT
from aitne_train.transport.base import Store

_CONNECT_S = 120.0
_NONCE = 16
_HELLO = 4 + 32
"""Bytes that a rank sends first: its rank number and the proof that it knows the secret."""
_GREETING_S = 10.0
"""Seconds after which a connection that has sent no proof is closed."""
_STRANGERS = 256
"""Maximum number of open connections without proof, in addition to one for each rank."""
_AGAIN_S = 0.02
_OFFER = "control"
_sockets: weakref.WeakSet[socket.socket] = weakref.WeakSet()


def connect_ranks(world: RankTopology, store: Store, prefix: str, host: str) -> tuple[Control, str]:
    """Connect this rank to rank 0 (on rank 0: to all other ranks). Every rank must call this.

    Returns the control connections, and the prefix of the keys of the ranks in ``store``, which is
    rank 0's on every rank. An attempt that was interrupted on some rank leaves nothing that the
    next one could take for its own.

    Args:
        world: rank of this process and the number of ranks.
        store: rendezvous store in which rank 0 stores its addresses.
        prefix: prefix of keys that rank 0 has not used before in this run.
        host: identity of this machine. If rank 0 has the same, the loopback address is used.

    Raises:
        HorovodInternalError: a rank did not connect, or an address cannot be reached.
    """
    try:
        if world.size == 1:
            connections = {}
        elif world.rank == 0:
            connections = _accept_ranks(world, store, prefix, host)
        else:
            connection, prefix = _connect_to_rank_0(world.rank, store, host)
            connections = {0: connection}
    except (OSError, TimeoutError) as error:
        raise HorovodInternalError(
            f"Rank {world.rank} could not join the others: {error}"
        ) from error
    return Control(world.rank, world.size, connections), prefix


def close_all_sockets() -> None:
    """Close all connections that ``connect_ranks`` has made, for use when none is in use any more.

    An interrupt may leave one that only a traceback knows. While it is open, the other ranks wait
    for this one.
    """
    control_channel.close_all()
    for each in list(_sockets):
        each.close()


def _read_patience_s() -> float:
    """Return the number of seconds within which the other ranks must connect."""
    return float(os.environ.get(TIMEOUT) or _CONNECT_S)


class _Guest:
    """Incoming connection at rank 0 whose client has not yet proved to be a rank of this run."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.nonce = secrets.token_bytes(_NONCE)
        self.until = time.monotonic() + _GREETING_S
        self.said = b""


def _accept_ranks(
    world: RankTopology, store: Store, prefix: str, host: str
) -> dict[int, socket.socket]:
    patience_s = _read_patience_s()
    token = secrets.token_bytes(32)
    connections: dict[int, socket.socket] = {}
    with _open_listener(world) as listener, selectors.DefaultSelector() as events:
        port = listener.getsockname()[1]
        offer = {
            "prefix": prefix,
            "host": host,
            "port": port,
            # Loopback is omitted: ranks of this machine know it.
            "addresses": own_addresses(port, os.environ, nodes=2),
            "token": token.hex(),
        }
        store.set(_OFFER, json.dumps(offer).encode())
        listener.setblocking(False)
        events.register(listener, selectors.EVENT_READ)
        guests: dict[socket.socket, _Guest] = {}
        deadline = time.monotonic() + patience_s
        try:
            while len(connections) < world.size - 1:
                now = time.monotonic()
                if now >= deadline:
                    missing = [rank for rank in range(1, world.size) if rank not in connections]
                    raise TimeoutError(f"ranks {missing} did not connect within {patience_s:g} s")
                late = [guest for guest in guests.values() if guest.until <= now]
                # The first of too many are the oldest.
                late += list(guests.values())[: max(0, len(guests) - world.size - _STRANGERS)]
                for guest in late:
                    _remove_guest(guest, guests, events)
                nearest = min((guest.until for guest in guests.values()), default=deadline)
                for key, _ in events.select(max(0.0, min(nearest, deadline) - now)):
                    if key.data is None:
                        _accept_guest(listener, guests, events)
                        continue
                    rank = _read_rank(key.data, token)
                    if rank is None:
                        continue
                    taken = rank in range(1, world.size) and rank not in connections
                    connection = _remove_guest(key.data, guests, events, keep=taken)
                    if taken and _send_proof(connection, token, key.data.nonce):
                        connections[rank] = connection
        finally:
            for guest in list(guests.values()):
                _remove_guest(guest, guests, events)
    return dict(sorted(connections.items()))


def _open_listener(world: RankTopology) -> socket.socket:
    """Return a listening socket, which accepts only local connections if all ranks are on this
    node.
    """
    return held_ports.open_listener(LOCAL if world.local_size == world.size else "")


def _accept_guest(
    listener: socket.socket,
    guests: dict[socket.socket, _Guest],
    events: selectors.BaseSelector,
) -> None:
    """Accept one connection and send the random bytes to which its proof must refer."""
    try:
        connection, _ = listener.accept()
    except OSError:
        return  # it is closed already
    _sockets.add(connection)
    guest = guests[connection] = _Guest(connection)
    connection.setblocking(False)
    events.register(connection, selectors.EVENT_READ, guest)
    with contextlib.suppress(OSError):  # it is closed, as its end of file will show
        connection.sendall(guest.nonce)


def _remove_guest(
    guest: _Guest,
    guests: dict[socket.socket, _Guest],
    events: selectors.BaseSelector,
    *,
    keep: bool = False,
) -> socket.socket:
    """Remove a connection from ``guests`` and ``events`` and return it; close it unless ``keep`` is
    True.
    """
    del guests[guest.connection]
    events.unregister(guest.connection)
    if not keep:
        guest.connection.close()
    return guest.connection


def _read_rank(guest: _Guest, token: bytes) -> int | None:
    """Read from a connection. Return the rank that its client has proved to be; -1 if the proof is
    wrong or the connection has ended; None if more data must arrive.
    """
    try:
        part = guest.connection.recv(_HELLO - len(guest.said))
    except BlockingIOError:
        return None
    except OSError:
        return -1
    guest.said += part
    if len(guest.said) < _HELLO:
        return None if part else -1
    number, proof = guest.said[:4], guest.said[4:]
    if not hmac.compare_digest(proof, _compute_proof(token, b"rank" + number + guest.nonce)):
        return -1
    return int.from_bytes(number, "big")


def _send_proof(connection: socket.socket, token: bytes, nonce: bytes) -> bool:
    """Prove to the other side that this process is rank 0; return False if the connection has
    ended.
    """
    try:
        connection.sendall(_compute_proof(token, b"zero" + nonce))
        _set_socket_options(connection)
    except OSError:
        connection.close()  # the rank will connect again
        return False
    return True


def _connect_to_rank_0(rank: int, store: Store, host: str) -> tuple[socket.socket, str]:
    """Connect to rank 0; return the connection and rank 0's prefix.

    Rank 0's addresses may be those of an earlier ``init``, which do not answer any more, until
    it stores new ones.
    """
    patience_s = _read_patience_s()
    until = time.monotonic() + patience_s
    while True:
        offer = json.loads(store.get(_OFFER, patience_s))
        found = _try_addresses(rank, offer, host)
        if isinstance(found, socket.socket):
            return found, str(offer["prefix"])
        if time.monotonic() >= until:
            raise ConnectionError(
                f"rank 0 cannot be reached at port {offer['port']} of {'; '.join(found)}"
            )
        time.sleep(_AGAIN_S)


def _try_addresses(rank: int, offer: Any, host: str) -> socket.socket | list[str]:
    """Return a connection to rank 0, which has stored ``offer``, or else why each address failed."""
    token = bytes.fromhex(offer["token"])
    addresses = offer["addresses"]
    if offer["host"] == host:
        addresses = [f"127.0.0.1:{offer['port']}", f"[::1]:{offer['port']}", *addresses]
    failures = []
    for address in addresses:
        try:
            connection = socket.create_connection(split_address(address), timeout=10)
        except OSError as error:
            failures.append(f"{address}: {error}")
            continue
        _sockets.add(connection)
        try:
            nonce = _receive_exactly(connection, _NONCE)
            number = rank.to_bytes(4, "big")
            connection.sendall(number + _compute_proof(token, b"rank" + number + nonce))
            if hmac.compare_digest(
                _receive_exactly(connection, 32), _compute_proof(token, b"zero" + nonce)
            ):
                _set_socket_options(connection)
                return connection
            failures.append(f"{address}: another program answers there")
        except OSError as error:
            failures.append(f"{address}: {error}")
        connection.close()
    return failures


def _set_socket_options(connection: socket.socket) -> None:
    connection.settimeout(None)
    enable_keepalive(connection, ask_after_s=5, give_up_s=20)


def _receive_exactly(connection: socket.socket, count: int) -> bytes:
    received = b""
    while len(received) < count:
        part = connection.recv(count - len(received))
        if not part:
            raise ConnectionError("the connection closed")
        received += part
    return received


def _compute_proof(token: bytes, message: bytes) -> bytes:
    return hmac.digest(token, message, hashlib.sha256)
