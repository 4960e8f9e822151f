"""How ranks come to be connected to rank 0.

Rank 0 binds any free port and leaves its addresses and a secret in the store. Both sides prove that they
know the secret: a stranger's connection, or a stranger who answers at that port, is told from a rank.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import secrets
import socket
import time

from aitne.distrib.control import Control
from aitne.distrib.errors import HorovodInternalError
from aitne.distrib.transport.base import Store
from aitne.launch.addresses import own_addresses, split
from aitne.launch.rendezvous import TIMEOUT
from aitne.launch.wire import keep
from aitne.launch.world import World

_CONNECT_S = 120.0
_NONCE = 16


def connect(world: World, store: Store, prefix: str, host: str) -> Control:
    """Join the star. Collective.

    Args:
        world: who this rank is.
        store: where rank 0 leaves its addresses.
        prefix: of its keys there; never used before in this run.
        host: identity of this machine: where rank 0's is equal, its loopback is used.

    Raises:
        HorovodInternalError: a rank did not turn up, or an address cannot be reached.
    """
    try:
        if world.size == 1:
            connections = {}
        elif world.rank == 0:
            connections = _gather(world.size, store, prefix, host)
        else:
            connections = {0: _reach(world.rank, store, prefix, host)}
    except (OSError, TimeoutError) as error:
        raise HorovodInternalError(
            f"Rank {world.rank} could not join the others: {error}"
        ) from error
    return Control(world.rank, world.size, connections)


def _patience_s() -> float:
    """How long the others may take to turn up."""
    return float(os.environ.get(TIMEOUT) or _CONNECT_S)


def _gather(size: int, store: Store, prefix: str, host: str) -> dict[int, socket.socket]:
    patience_s = _patience_s()
    token = secrets.token_bytes(32)
    found: dict[int, socket.socket] = {}
    with _listening(size) as listener:
        port = listener.getsockname()[1]
        offer = {
            "host": host,
            "port": port,
            # Loopback is left out: who is on this machine knows it.
            "addresses": own_addresses(port, os.environ, nodes=2),
            "token": token.hex(),
        }
        store.set(f"{prefix}/control", json.dumps(offer).encode())
        deadline = time.monotonic() + patience_s
        while len(found) < size - 1:
            listener.settimeout(max(0.01, deadline - time.monotonic()))
            try:
                connection, _ = listener.accept()
            except TimeoutError:
                missing = [rank for rank in range(1, size) if rank not in found]
                raise TimeoutError(
                    f"ranks {missing} did not turn up within {patience_s:g} s"
                ) from None
            rank = _admit(connection, token)
            if rank is None or not 0 < rank < size or rank in found:
                connection.close()
                continue
            found[rank] = connection
    return dict(sorted(found.items()))


def _listening(size: int) -> socket.socket:
    if socket.has_dualstack_ipv6():
        try:
            return socket.create_server(
                ("", 0), family=socket.AF_INET6, backlog=size, dualstack_ipv6=True
            )
        except OSError:
            # IPv6 is compiled in and switched off.
            return socket.create_server(("", 0), backlog=size)
    return socket.create_server(("", 0), backlog=size)


def _admit(connection: socket.socket, token: bytes) -> int | None:
    """The rank of who called, when it knows the secret."""
    connection.settimeout(10)
    nonce = secrets.token_bytes(_NONCE)
    try:
        connection.sendall(nonce)
        said = _exactly(connection, 4 + 32)
        rank = int.from_bytes(said[:4], "big")
        if not hmac.compare_digest(said[4:], _proof(token, b"rank" + said[:4] + nonce)):
            return None
        connection.sendall(_proof(token, b"zero" + nonce))
    except OSError:
        return None  # a stranger, or a rank that will call again
    _tune(connection)
    return rank


def _reach(rank: int, store: Store, prefix: str, host: str) -> socket.socket:
    offer = json.loads(store.get(f"{prefix}/control", _patience_s()))
    token = bytes.fromhex(offer["token"])
    addresses = offer["addresses"]
    if offer["host"] == host:
        addresses = [f"127.0.0.1:{offer['port']}", f"[::1]:{offer['port']}", *addresses]
    failures = []
    for address in addresses:
        try:
            connection = socket.create_connection(split(address), timeout=10)
        except OSError as error:
            failures.append(f"{address}: {error}")
            continue
        try:
            nonce = _exactly(connection, _NONCE)
            number = rank.to_bytes(4, "big")
            connection.sendall(number + _proof(token, b"rank" + number + nonce))
            if hmac.compare_digest(_exactly(connection, 32), _proof(token, b"zero" + nonce)):
                _tune(connection)
                return connection
            failures.append(f"{address}: somebody else answers there")
        except OSError as error:
            failures.append(f"{address}: {error}")
        connection.close()
    raise ConnectionError(
        f"rank 0 cannot be reached at port {offer['port']} of {'; '.join(failures)}"
    )


def _tune(connection: socket.socket) -> None:
    connection.settimeout(None)
    keep(connection, ask_after_s=5, give_up_s=20)


def _exactly(connection: socket.socket, count: int) -> bytes:
    received = b""
    while len(received) < count:
        part = connection.recv(count - len(received))
        if not part:
            raise ConnectionError("the connection closed")
        received += part
    return received


def _proof(token: bytes, message: bytes) -> bytes:
    return hmac.digest(token, message, hashlib.sha256)
