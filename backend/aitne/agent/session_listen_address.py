"""Address of this node on which a session's app listens, and the owner of a listening socket."""

from __future__ import annotations

import errno
import os
import socket
from enum import Enum

from aitne.agent import http_client
from aitne_train.launcher.port_listeners import find_listeners

NODE = "node"


def find_listen_address(listen: str, node: str, platform_url: str | None) -> str:
    """Return the IP address on which a session's app should listen.

    ``listen`` is an address, a network like ``10.1.0.0/16`` in which this machine has an address,
    or ``node``. For ``node`` it is the address to which the node's name resolves, if this machine
    has it and others can reach it; otherwise the one from which this machine reaches the platform.

    Raises:
        OSError: there is no such address.
    """
    if "/" in listen:
        return _find_address_in_network(listen, node, platform_url)
    if listen != NODE:
        return listen
    named = [address for address in _resolve_addresses(node) if not _is_loopback(address)]
    for address in named:
        if _is_own_address(address):
            return address
    spoken = _find_address_towards_platform(platform_url)
    if spoken is None:
        raise OSError(
            errno.EADDRNOTAVAIL, f"no address of this node is known: {node} is not its name"
        )
    return spoken


def _find_address_in_network(network: str, node: str, platform_url: str | None) -> str:
    import ipaddress  # only where a network is set

    subnet = ipaddress.ip_network(network, strict=False)
    addresses = [
        *_resolve_addresses(node),
        *_resolve_addresses(socket.gethostname()),
        _find_address_towards_platform(platform_url),
    ]
    # The address from which this machine reaches the network is the one that is in it.
    addresses.append(
        _find_address_towards_host(str(next(subnet.hosts(), subnet.network_address)), 9)
    )
    for address in addresses:
        if address and ipaddress.ip_address(address) in subnet and _is_own_address(address):
            return address
    raise OSError(errno.EADDRNOTAVAIL, f"this node has no address in {network}")


def _resolve_addresses(name: str) -> list[str]:
    try:
        infos = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except OSError:
        return []
    return [str(entry[4][0]) for entry in infos]


def _find_address_towards_platform(platform_url: str | None) -> str | None:
    if not platform_url:
        return None
    _, host, port, _ = http_client.split_url(platform_url)
    return _find_address_towards_host(host, port)


def _find_address_towards_host(host: str, port: int) -> str | None:
    """Return the local address from which this machine would connect to the host; None if it has no
    route. Nothing is sent."""
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect(address)
            return str(probe.getsockname()[0])
    except OSError:
        return None


def _is_own_address(address: str) -> bool:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.bind((address, 0))
    except OSError:
        return False
    return True


def _is_loopback(address: str) -> bool:
    return address.startswith("127.") or address == "::1"


class Listener(Enum):
    """Owner of the program that listens on an address: this account, another one, or none (no
    program listens)."""

    OURS = "ours"
    ANOTHERS = "another's"
    NOBODYS = "nobody's"
    UNKNOWN = "unknown"
    """The kernel does not provide this information."""


def find_listener_owner(host: str, port: int) -> Listener:
    """Return the owner of the socket that listens on a port, according to the kernel.

    A port that is bound but does not listen yet can be taken over by any user of the node, also
    through a dual-stack socket. If another user's socket listens beside that of this account, the
    result is ``ANOTHERS``.
    """
    owner = Listener.NOBODYS
    try:
        accepting = _list_accepting_addresses(host)
        for address, uid in find_listeners(port):
            if address in accepting:
                if uid != os.geteuid():
                    return Listener.ANOTHERS
                owner = Listener.OURS
    except OSError:
        return Listener.UNKNOWN
    return owner


def _list_accepting_addresses(host: str) -> set[bytes]:
    """Return the packed addresses whose sockets accept connections to this host."""
    any_four, any_six = bytes(4), bytes(16)
    if ":" in host:
        return {socket.inet_pton(socket.AF_INET6, host), any_six}
    address = socket.inet_aton(socket.gethostbyname(host))
    mapped = bytes(10) + b"\xff\xff"
    return {address, any_four, mapped + address, mapped + any_four, any_six}
