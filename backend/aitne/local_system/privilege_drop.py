"""Permanent change of a process of root to another Unix account.

Standard library only and quick to import, because the runner of jobs uses it.
"""

from __future__ import annotations

import codecs
import ctypes
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

# https://man7.org/linux/man-pages/man2/prctl.2.html
_PR_CAPBSET_DROP, _PR_SET_NO_NEW_PRIVS = 24, 38
_CAPABILITY_VERSION = 0x20080522  # https://man7.org/linux/man-pages/man2/capget.2.html
_MOST_CAPABILITIES = 64


def become_account(uid: int, gid: int, groups: Sequence[int]) -> None:
    """Become the account permanently: its uid, gid and groups, without capabilities, and without a
    way to gain any (``no_new_privs``).

    The memory of the process can be read neither by the account nor by its debugger until the next
    exec, because the kernel makes a process that changes its uid undumpable.

    Raises:
        ValueError: the uid is root's.
        OSError: the kernel refuses.
    """
    if uid < 1 or gid < 0:
        raise ValueError(f"uid {uid} is never used")
    libc = ctypes.CDLL(None, use_errno=True)
    # The account may not be able to read Python's library, from which a codec is loaded at first use.
    codecs.lookup("utf-8-sig")
    for capability in range(_MOST_CAPABILITIES):
        # Refused without CAP_SETPCAP: then only no_new_privs keeps programs from these capabilities.
        libc.prctl(_PR_CAPBSET_DROP, ctypes.c_ulong(capability), 0, 0, 0)
    os.setgroups(groups)
    os.setresgid(gid, gid, gid)
    os.setresuid(uid, uid, uid)
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION, 0)
    none = (ctypes.c_uint32 * 6)()
    _check_result(libc.capset(ctypes.byref(header), ctypes.byref(none)), "capset")
    _check_result(
        libc.prctl(_PR_SET_NO_NEW_PRIVS, ctypes.c_ulong(1), *[ctypes.c_ulong(0)] * 3), "prctl"
    )
    if os.getresuid() != (uid, uid, uid) or os.getresgid() != (gid, gid, gid):
        raise PermissionError("the account could not be changed")


def _check_result(result: int, name: str) -> None:
    if result != 0:
        raise OSError(ctypes.get_errno(), name)
