"""Sockets that listen on a port of this machine, with the accounts that own them, as the kernel
reports them to every user.

The kernel's socket monitoring (sock_diag(7)) is asked for the listening sockets of one port alone.
``/proc/net/tcp`` and ``/proc/net/tcp6`` state the same, but reading them takes tens of milliseconds
where the kernel's table of connections is large; they are used where the kernel lacks the former.
"""

from __future__ import annotations

import os
import socket
import struct

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing costs as much time as the launcher's own code
    from collections.abc import Iterator

_SOCK_DIAG, _BY_FAMILY, _DUMP = 4, 20, 0x301
_ERROR, _DONE = 2, 3
_LISTEN_STATE = 10
_HEADER = struct.Struct("=IHHII")
_REQUEST = struct.Struct("=BBBxI")
_PORTS = struct.Struct("!HH")
_UID_AT = 64
"""Offset of the uid in an answer (``inet_diag_msg``): four bytes, the 48 bytes of the socket's
addresses, and three numbers precede it."""
_LISTENING = b"0A"


def find_listeners(port: int) -> Iterator[tuple[bytes, int]]:
    """Yield the packed address, of 4 or 16 bytes, and the uid of the owner of each socket that
    listens on the TCP port.

    Raises:
        OSError: the kernel does not provide this information.
    """
    try:
        found = [*_query_kernel(socket.AF_INET, port), *_query_kernel(socket.AF_INET6, port)]
    except OSError:
        found = [*_read_table("tcp", port)]
        if os.path.exists("/proc/net/tcp6"):
            found += _read_table("tcp6", port)
    yield from found


def find_foreign_uid(port: int) -> tuple[int | None, bool]:
    """Return the uid of another account that listens on the TCP port (None: there is none), and
    whether a program of this account listens there.

    Raises ``OSError`` as ``find_listeners`` does.
    """
    uids, own_uid = {uid for _, uid in find_listeners(port)}, os.geteuid()
    others = uids - {own_uid}
    return (min(others) if others else None), own_uid in uids


def describe_foreign(uid: int, port: int, node: str) -> str:
    """Return the beginning of a sentence about another account that listens on a port of a job."""
    return f"uid {uid}, another account, listens on port {port} of node {node}"


def _query_kernel(family: int, port: int) -> Iterator[tuple[bytes, int]]:
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _SOCK_DIAG) as kernel:
        # Ports, addresses, interface and cookie of the socket; a cookie of ones is no condition.
        wanted = _PORTS.pack(port, 0) + bytes(36) + b"\xff" * 8
        request = _REQUEST.pack(family, socket.IPPROTO_TCP, 0, 1 << _LISTEN_STATE) + wanted
        size = _HEADER.size + len(request)
        kernel.send(_HEADER.pack(size, _BY_FAMILY, _DUMP, 1, 0) + request)
        while True:
            answer, at = kernel.recv(1 << 16), 0
            while at < len(answer):
                length, kind, *_ = _HEADER.unpack_from(answer, at)
                message = answer[at + _HEADER.size : at + length]
                if kind == _DONE:
                    return
                if kind == _ERROR:
                    number = -struct.unpack_from("=i", message)[0]
                    raise OSError(number, os.strerror(number))
                if _PORTS.unpack_from(message, 4)[0] == port:
                    address = message[8 : 12 if message[0] == socket.AF_INET else 24]
                    yield address, struct.unpack_from("=I", message, _UID_AT)[0]
                at += (length + 3) & ~3


def _read_table(table: str, port: int) -> Iterator[tuple[bytes, int]]:
    """Yield what a table of ``/proc/net`` states, which begins with the listening sockets
    (https://docs.kernel.org/networking/proc_net_tcp.html)."""
    ending = b":%04X" % port
    with open(f"/proc/net/{table}", "rb") as file:
        file.readline()
        for line in file:
            fields = line.split(None, 8)
            if fields[3] != _LISTENING:
                return
            if fields[1].endswith(ending):
                words = bytes.fromhex(fields[1][:-5].decode("ascii"))
                address = b"".join(words[at : at + 4][::-1] for at in range(0, len(words), 4))
                yield address, int(fields[7])
