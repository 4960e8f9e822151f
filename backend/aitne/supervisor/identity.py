"""Accounts of the supervised processes, where the supervisor runs as root.

The supervisor then acts as the platform's account (effective uid) and keeps root (real uid) only to
start processes and to end them. So the platform's account, which owns the data directory, cannot make
root write or read anything there by a link. Standard library only.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from aitne.host import privileges


@dataclass(frozen=True, slots=True)
class ProcessAccount:
    """Unix account of a process: numbers only, because a directory service may be slow."""

    uid: int
    gid: int
    groups: list[int]
    """All groups, the primary one included."""


ROOT = ProcessAccount(0, 0, [0])


def act_as(account: ProcessAccount) -> None:
    """Make ``account`` the effective account of this process of root. Raises ``OSError``."""
    os.seteuid(0)
    os.setgroups(account.groups)
    os.setegid(account.gid)
    os.seteuid(account.uid)


@contextmanager
def acting_as(account: ProcessAccount | None) -> Iterator[None]:
    """Act as ``account`` in the block, then as root again; None: change nothing."""
    if account is None:
        yield
        return
    act_as(account)
    try:
        yield
    finally:
        act_as(ROOT)


def become(account: ProcessAccount) -> None:
    """Make this process of root one of ``account`` for good, without capabilities; root again for
    ``ROOT``. Raises ``OSError``.
    """
    act_as(ROOT)
    if account.uid == 0:
        os.setresuid(0, 0, 0)
    else:
        privileges.become(account.uid, account.gid, account.groups)
