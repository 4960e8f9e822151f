"""Account that owns a data directory: root does nothing there but under that account.

The owner can replace folders and files by links at any time, and its settings name programs and
paths.
"""

from __future__ import annotations

import concurrent.futures.thread  # noqa: F401 - loaded on demand, and the owner may not read root's Python
import os
import pwd
from pathlib import Path

from aitne.core.errors import SetupError
from aitne.local_system import privilege_drop
from aitne.supervisor.process_account import ProcessAccount


def find_owner(data_dir: Path) -> ProcessAccount | None:
    """Return the account to which a data directory, or the first of its parents that is not root's,
    belongs, if this process is root; None: root alone can change the path, or this process is not
    root.

    Raises:
        SetupError: the owner has no name on this machine.
    """
    entry = _get_passwd_entry(data_dir)
    if entry is None:
        return None
    return ProcessAccount.from_passwd(entry)


def become_owner(data_dir: Path) -> str | None:
    """Change this process from root to the account that owns the data directory, permanently, and
    return the account's name; None: nothing was changed.

    Raises:
        SetupError: the owner has no name on this machine.
    """
    entry = _get_passwd_entry(data_dir)
    if entry is None:
        return None
    account = ProcessAccount.from_passwd(entry)
    privilege_drop.become_account(account.uid, account.gid, account.groups)
    os.environ.update(HOME=entry.pw_dir, USER=entry.pw_name, LOGNAME=entry.pw_name)
    return entry.pw_name


def _get_passwd_entry(data_dir: Path) -> pwd.struct_passwd | None:
    if os.geteuid() != 0:
        return None
    path, real = data_dir.absolute(), data_dir.resolve()
    for folder in (path, *path.parents, real, *real.parents):
        try:
            uid = folder.lstat().st_uid
        except OSError:
            continue  # it does not exist yet
        if uid == 0:
            continue
        try:
            return pwd.getpwuid(uid)
        except KeyError:
            raise SetupError(
                f"{folder} belongs to uid {uid}, which this machine has no account for. Give it to the "
                "platform's account."
            ) from None
    return None
