"""Mapping of portal users to Unix accounts, with the checks which accounts jobs may run under."""

from __future__ import annotations

import grp
import os
import pwd
import re
from dataclasses import dataclass
from pathlib import PurePath

from aitne.core.errors import InvalidInput, NotAllowed
from aitne.core.models.base import USER_NAME
from aitne.core.ports.unix_account_mapping import UnixAccount
from aitne.core.settings import AccountSettings, Settings
from aitne.core.users.user_names import get_account_name
from aitne.local_system.own_account import own_account_name

_NAME = re.compile(USER_NAME)


@dataclass(frozen=True, slots=True)
class UnixUser:
    """Unix account of this machine with uid, groups and home folder (``getpwnam``,
    ``getgrouplist``).
    """

    name: str
    uid: int
    gid: int
    groups: tuple[int, ...]
    """All groups, the primary one included."""
    home: str


def unix_user(name: str) -> UnixUser:
    """Return the Unix account ``name``, even if jobs may not run under it.

    Raises:
        NotAllowed: this machine has no account of that name.
    """
    if _NAME.fullmatch(name) is None:
        raise NotAllowed(f"{name[:40]!r} is not the name of a Unix account.")
    try:
        entry = pwd.getpwnam(name)
    except KeyError:
        entry = None
    # A directory service may match names in another spelling, but an account must have one key.
    if entry is None or entry.pw_name != name:
        raise NotAllowed(f"This machine has no Unix account {name}.")
    canonical = _name_of(entry.pw_uid)
    if canonical != name:
        raise NotAllowed(
            f"The Unix account {name} is {canonical} under another name: both have the uid "
            f"{entry.pw_uid}. Use {canonical}."
        )
    groups = os.getgrouplist(name, entry.pw_gid)
    return UnixUser(name, entry.pw_uid, entry.pw_gid, tuple(sorted(set(groups))), entry.pw_dir)


def _name_of(uid: int) -> str | None:
    """Return the name by which this machine, and so the scheduler, calls the account ``uid``."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return None


def user_account(user: str, settings: AccountSettings) -> UnixUser:
    """Return the Unix account of a portal user: the one that ``[accounts] map`` names, otherwise the
    one of the same name.

    Raises:
        NotAllowed: there is none that jobs may run as, or it is another user's.
    """
    try:
        name = get_account_name(user, settings.map)
    except ValueError as error:
        raise NotAllowed(f"{error}.") from error
    return permitted_user(name, settings)


def permitted_user(name: str, settings: AccountSettings) -> UnixUser:
    """Return the Unix account ``name`` after checking that jobs may run under it.

    Raises:
        NotAllowed: the account does not exist, or its uid or its groups do not permit it.
    """
    user = unix_user(name)
    if not settings.min_uid <= user.uid <= settings.max_uid:
        raise NotAllowed(
            f"Jobs may not run as {name}: its uid {user.uid} is not between {settings.min_uid} and "
            f"{settings.max_uid} (accounts.min_uid and accounts.max_uid)."
        )
    if settings.groups and not _group_ids(settings.groups) & {user.gid, *user.groups}:
        raise NotAllowed(
            f"Jobs may not run as {name}: it is in none of the groups {', '.join(settings.groups)} "
            "(accounts.groups)."
        )
    return user


def jobs_folder(pattern: str, user: UnixUser) -> PurePath:
    """Return the folder that contains the job folders of this account: ``pattern`` (``[slurm]
    jobs_dir``) with the account's name inserted.

    Raises:
        NotAllowed: the result is not an absolute path.
    """
    folder = PurePath(pattern.replace("{user}", user.name).replace("{home}", user.home))
    homeless = "{home}" in pattern and user.home.strip("/") == ""
    if homeless or not folder.is_absolute() or ".." in folder.parts:
        raise NotAllowed(
            f"The jobs of {user.name} would be in {str(folder)!r}, which is not an absolute path "
            f"of its own. Check the account's home ({user.home!r}) and slurm.jobs_dir."
        )
    return folder


class UnixAccounts:
    """Implementation of ``core.ports.unix_accounts.Accounts`` for platforms with a broker: each user's
    jobs run under an account of the user.
    """

    def __init__(self, settings: Settings) -> None:
        self._accounts = settings.accounts
        self._pattern = settings.slurm.jobs_dir

    def get_account(self, user: str) -> UnixAccount:
        """Return the account that ``[accounts] map`` assigns to the user, otherwise the account
        with the user's name.

        Raises:
            InvalidInput: the user has no account under which jobs may run.
        """
        try:
            account = user_account(user, self._accounts)
            folder = str(jobs_folder(self._pattern, account))
            return UnixAccount(
                name=account.name,
                home=account.home,
                folder=folder,
                user=account.name,
                uid=account.uid,
            )
        except NotAllowed as error:
            raise InvalidInput.field(
                "account",
                f"{user} has no Unix account that jobs may run as. {error.message} Ask an "
                "administrator for one, or for an entry in accounts.map.",
                value=self._accounts.map.get(user, user),
            ) from error


class OwnAccount:
    """Implementation of ``core.ports.unix_accounts.Accounts`` without a broker: the jobs of all users
    run under the platform's own account.
    """

    def __init__(self, settings: Settings) -> None:
        home = os.path.expanduser("~")
        self._account = UnixAccount(
            name=None,
            home=home,
            folder=str(settings.jobs_dir),
            user=own_account_name(),
            uid=os.geteuid(),
        )

    def get_account(self, user: str) -> UnixAccount:
        """Return the platform's own account."""
        return self._account


def _group_ids(names: list[str]) -> set[int]:
    """Return the gids of the named groups; names that do not exist on this machine are skipped."""
    gids = set()
    for name in names:
        try:
            gids.add(grp.getgrnam(name).gr_gid)
        except KeyError:
            continue
    return gids
