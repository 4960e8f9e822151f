"""Names and addresses under which other nodes can reach this node."""

from __future__ import annotations

import contextlib
import socket
import struct

from aitne_train.launcher.errors import LaunchError
from aitne_train.launcher.hosts import parse_number

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing costs as much time as the launcher's own code
    from collections.abc import Mapping

LOCAL = "127.0.0.1"
INTERFACE = "AITNE_NETWORK_INTERFACE"
"""Environment variable: network interface for connections between nodes. If it lists several names,
separated by commas, each node uses the first that it has."""
_OF_HOROVOD = "HOROVOD_GLOO_IFACE"


def split_address(address: str) -> tuple[str, int]:
    """Split ``host:port`` or ``[::1]:port`` into host and port. Raises ``LaunchError``."""
    host, colon, port = address.rpartition(":")
    port_number = parse_number(port) or 0
    if not colon or not host or not 0 < port_number < 65536:
        raise LaunchError(f"{address!r} is not an address: write host:port")
    return host.strip("[]"), port_number


def own_addresses(port: int, environ: Mapping[str, str], nodes: int) -> list[str]:
    """Return the addresses ``host:port`` under which other ranks can reach a port of this machine.

    If the run has one node, this is the loopback address. Otherwise it is the address of the
    network interface that the user has chosen or, if none is chosen, all host names and addresses.
    Host names come before IP addresses, because they are valid in all networks.

    Args:
        port: port of this machine.
        environ: environment variables, which may choose a network interface.
        nodes: number of nodes of the run.

    Raises:
        LaunchError: this node does not have the chosen interface.
    """
    if nodes == 1:
        return [f"{LOCAL}:{port}"]
    chosen = find_chosen_interface(environ)
    if chosen is not None:
        return [f"{chosen[1]}:{port}"]
    name = socket.gethostname()
    candidates = [environ.get("SLURMD_NODENAME", ""), name]
    with contextlib.suppress(OSError):  # no entry for the own name: addresses follow
        candidates += [
            str(entry[4][0]) for entry in socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
        ]
    candidates += _list_interfaces().values()
    # A name may stand for 127.0.1.1 in its owner's /etc/hosts and for another address elsewhere, so
    # names stay whatever they mean here. Loopback comes last: several nodes may be one machine.
    hosts = [
        host
        for host in dict.fromkeys(candidates)
        if host and not host.startswith(("127.", "::1", "fe80:"))
    ]
    hosts.append(LOCAL)
    return [f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host in hosts]


def find_chosen_interface(environ: Mapping[str, str]) -> tuple[str, str] | None:
    """Return the name and the IPv4 address of the network interface that the user has chosen with
    ``AITNE_NETWORK_INTERFACE`` or, if it is not set, ``HOROVOD_GLOO_IFACE``. Return None if neither
    is set. Of a list of names, the first one that this node has is used.

    Raises:
        LaunchError: this node does not have the chosen interface.
    """
    variable = INTERFACE if environ.get(INTERFACE) else _OF_HOROVOD
    text = environ.get(variable, "")
    if not text:
        return None
    present = _list_interfaces()
    for name in text.split(","):
        if name.strip() in present:
            return name.strip(), present[name.strip()]
    raise LaunchError(
        f"{variable} is {text[:80]!r}, and this node has no such network interface with an IPv4 address, but "
        f"{', '.join(sorted(present))}: name one of them"
    )


def build_interface_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment variables that make gloo and NCCL use the chosen network interface;
    empty if none is chosen. Raises ``LaunchError`` if this node does not have it."""
    chosen = find_chosen_interface(environ)
    if chosen is None:
        return {}
    return {"GLOO_SOCKET_IFNAME": chosen[0], "NCCL_SOCKET_IFNAME": f"={chosen[0]}"}


def _list_interfaces() -> dict[str, str]:
    """Return the IPv4 address of each network interface of this machine (netdevice(7),
    SIOCGIFADDR)."""
    import fcntl

    addresses = {}
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        for _, name in socket.if_nameindex():
            with contextlib.suppress(OSError):  # it has no address
                answer = fcntl.ioctl(sock, 0x8915, struct.pack("256s", name.encode()[:15]))
                addresses[name] = socket.inet_ntoa(answer[20:24])
    return addresses
