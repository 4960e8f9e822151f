"""Unix accounts of the supervised processes, if the supervisor runs as root.

The supervisor then has the platform's account as its effective uid, and root as its real uid only
to start and end processes. So the platform's account, which owns the data directory, cannot make
root write or read other files by placing links there. Standard library only.
"""

from __future__ import annotations

import os
import pwd
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Self

from aitne.local_system import privilege_drop


@dataclass(frozen=True, slots=True)
class ProcessAccount:
    """Unix account of a process, by numbers only, because looking up names in a directory service
    may be slow.
    """

    uid: int
    gid: int
    groups: list[int]
    """GIDs of all groups, including the primary one."""

    @classmethod
    def from_passwd(cls, entry: pwd.struct_passwd) -> Self:
        """Return the account of an entry in the user database, with all its groups."""
        return cls(entry.pw_uid, entry.pw_gid, os.getgrouplist(entry.pw_name, entry.pw_gid))


ROOT = ProcessAccount(0, 0, [0])


def make_popen_arguments(account: ProcessAccount | None) -> dict[str, Any]:
    """Return the arguments with which ``subprocess`` starts a program under ``account``; None: under
    that of this process.
    """
    if account is None:
        return {}
    return {"user": account.uid, "group": account.gid, "extra_groups": account.groups}


def set_effective_account(account: ProcessAccount) -> None:
    """Make ``account`` the effective account of this process, whose real account is root. Raises
    ``OSError``.
    """
    os.seteuid(0)
    os.setgroups(account.groups)
    os.setegid(account.gid)
    os.seteuid(account.uid)


@contextmanager
def acting_as(account: ProcessAccount | None) -> Iterator[None]:
    """Make ``account`` the effective account during the ``with`` block, and root afterwards; None:
    change nothing.
    """
    if account is None:
        yield
        return
    set_effective_account(account)
    try:
        yield
    finally:
        set_effective_account(ROOT)


def become_account(account: ProcessAccount) -> None:
    """Change this process from root to ``account`` permanently and without capabilities; with
    ``ROOT``, make root the effective account again. Raises ``OSError``.
    """
    set_effective_account(ROOT)
    if account.uid == 0:
        os.setresuid(0, 0, 0)
    else:
        privilege_drop.become_account(account.uid, account.gid, account.groups)
