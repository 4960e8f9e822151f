#!/usr/bin/env python3
"""Chromium, deaf to the host's network interfaces: it is started in place of ``AITNE_CHROMIUM``.

A browser lets go of what it loads when an address of its machine comes or goes (ERR_NETWORK_CHANGED), and bridges and
cables of test machines and containers come and go beside the walks. A process that may not open a netlink socket hears of
none of it; Chromium then takes the network as it found it. seccomp(2), by Debian's libseccomp, which apt itself needs;
where there is none, the browser is as it is.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import errno
import os
import socket
import sys

ALLOW = 0x7FFF0000
REFUSE = 0x00050000 | errno.EAFNOSUPPORT
EQUAL = 4


class _Argument(ctypes.Structure):
    """``scmp_arg_cmp`` of <seccomp.h>: what one argument of a system call is compared with."""

    _fields_ = (
        ("number", ctypes.c_uint),
        ("how", ctypes.c_int),
        ("value", ctypes.c_uint64),
        ("mask", ctypes.c_uint64),
    )


def refuse_netlink() -> None:
    """Refuse netlink sockets to this process and its children from now on.

    Raises:
        OSError: The kernel takes no filter.
    """
    found = ctypes.util.find_library("seccomp")
    if found is None:
        return
    library = ctypes.CDLL(found)
    library.seccomp_init.restype = ctypes.c_void_p
    rules = ctypes.c_void_p(library.seccomp_init(ctypes.c_uint32(ALLOW)))
    family = _Argument(0, EQUAL, socket.AF_NETLINK, 0)
    number = library.seccomp_syscall_resolve_name(b"socket")
    for failed in (
        library.seccomp_rule_add_array(
            rules, ctypes.c_uint32(REFUSE), number, 1, ctypes.byref(family)
        ),
        library.seccomp_load(rules),
    ):
        if failed:
            raise OSError(-failed, os.strerror(-failed), found)


if __name__ == "__main__":
    refuse_netlink()
    browser = os.environ.get("AITNE_CHROMIUM", "/usr/bin/chromium")
    os.execv(browser, [browser, *sys.argv[1:]])
