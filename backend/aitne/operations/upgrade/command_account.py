"""Account that commands for a platform run as, so that root executes nothing that another account has
named.

The settings of a platform name programs, and the account that owns the data directory may write them.
"""

from __future__ import annotations

import os
import pwd
import stat
from pathlib import Path

from aitne.core.errors import SetupError
from aitne.local_system.settings_loader import find_config_path, load_settings
from aitne.supervisor.process_account import ProcessAccount
from aitne.supervisor.supervisor_plan import FILE, plan_dir


def find_command_account(data_dir: Path) -> ProcessAccount | None:
    """Return the account to which the data directory belongs, if this process is root and commands
    for the platform must run under that account; None: they run as this process does. Root itself
    acts only for a platform of root, or one whose settings of root say ``accounts.mode = "own"``.

    Raises:
        SetupError: there is no data directory, or root would use files of other accounts.
    """
    if not data_dir.is_dir():
        raise SetupError(f"There is no platform in {data_dir}: name its directory with --data-dir.")
    if os.geteuid() != 0:
        return None
    owner = data_dir.stat()
    for parent in data_dir.absolute().parents:
        if parent.stat().st_uid not in (0, owner.st_uid):
            raise SetupError(
                f"{parent} belongs to another account than {data_dir}, and could be replaced by it. Move "
                "the data directory, for example to /var/lib/aitne."
            )
    config, plan = find_config_path(data_dir), plan_dir(data_dir) / FILE
    if owner.st_uid == 0:
        for path in (config, plan):
            problem = describe_other_writers(path)
            if problem is not None:
                raise SetupError(
                    f"{problem}, and so {path}, which tells root what to start. Give the data directory "
                    "to the account of the platform, or its folders to root alone."
                )
        return None
    if (
        config.exists()
        and describe_other_writers(config) is None
        and load_settings(data_dir).uses_user_accounts
    ):
        problem = describe_other_writers(plan)
        if problem is not None:
            raise SetupError(f"{problem}, and so {plan}, which tells root what to start.")
        return None
    try:
        name = pwd.getpwuid(owner.st_uid).pw_name
    except KeyError:
        return ProcessAccount(owner.st_uid, owner.st_gid, [owner.st_gid])
    return ProcessAccount(owner.st_uid, owner.st_gid, os.getgrouplist(name, owner.st_gid))


def must_install_node_software(data_dir: Path, account: ProcessAccount | None) -> bool:
    """Return whether this process is root, acts as ``account`` for the platform in ``data_dir``, and has
    to install the software of the nodes itself: the folder belongs to root, and is named by settings
    that only root can change. Raises ``SetupError``.
    """
    config = find_config_path(data_dir)
    if account is None or not config.exists() or describe_other_writers(config) is not None:
        return False
    folder = load_settings(data_dir).slurm.software_dir
    return folder is not None and folder.is_dir() and folder.stat().st_uid == 0


def describe_other_writers(path: Path) -> str | None:
    """Return who else than root can change or replace the file ``path``, as part of a sentence; None:
    only root can.
    """
    absolute = path.absolute()
    for place in {absolute, absolute.resolve()}:
        for each in (place, *place.parents):
            try:
                facts = each.stat()
            except FileNotFoundError:
                continue
            writable = facts.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
            # In a folder with the sticky bit others cannot replace what exists, but create what does not.
            below = place if each == place else _get_child(each, place)
            replaceable = writable and not (
                each != place and facts.st_mode & stat.S_ISVTX and below.exists()
            )
            if facts.st_uid != 0 or replaceable:
                return f"Accounts other than root can change {each}"
    return None


def _get_child(folder: Path, path: Path) -> Path:
    return folder / path.relative_to(folder).parts[0]
