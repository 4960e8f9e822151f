"""Files with secrets that accounts other than those that need them can read, change or replace."""

from __future__ import annotations

import os
import pwd
import shlex
import stat
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from aitne.core.settings import Settings
from aitne.local_system.settings_loader import find_config_path

_OTHERS = stat.S_IRWXO | stat.S_IWGRP
GROUP_AND_OTHERS = stat.S_IRWXG | stat.S_IRWXO
_PROXY_KEYS = Path("/etc/aitne/tls")
"""Folder in which the playbook stores the keys of the reverse proxy."""
BROKER_CONFIG = Path("/etc/aitne/broker.toml")
"""Settings of a broker that is a service of its own."""


@dataclass(frozen=True, slots=True)
class SecretFile:
    """A file with a secret, and who may not have access to it."""

    path: Path
    forbidden: int = _OTHERS
    """Bits of the mode that may not be set."""
    required: bool = False
    """True if it is unknown who can read the secret while this file is not found."""
    elsewhere: str | None = None
    """Host that has the file, according to Slurm's configuration; None: this one."""


@dataclass(frozen=True, slots=True)
class ExposedFile:
    """A file or folder with permissions that are too open, or with the wrong owner."""

    path: Path
    problem: str
    """Sentence that says what other accounts can do."""
    command: str
    """Command that corrects it."""
    by_mode: bool = False
    """Whether it is the mode of the file itself that is too open."""


@dataclass(frozen=True, slots=True)
class SecretsSeen:
    """Result of a look at the secrets of this machine."""

    exposed: tuple[ExposedFile, ...]
    unseen: tuple[str, ...]
    """Reasons why files of this machine were not looked at, each a sentence."""
    elsewhere: tuple[str, ...]
    """Files of other machines, each a sentence."""


def list_platform_secret_files(settings: Settings) -> Iterator[SecretFile]:
    """Yield the files with secrets that the platform's settings name.

    In the data directory neither the group nor others may have access. Files that the settings name
    may be readable by their group, and so may ``aitne.toml``, which is checked only if it contains
    the password of the database.
    """
    folder = settings.secrets_dir
    yield SecretFile(folder, GROUP_AND_OTHERS)
    if folder.is_dir():
        for path in folder.iterdir():
            if not path.is_symlink():
                yield SecretFile(path, GROUP_AND_OTHERS)
    yield SecretFile(settings.data_dir / "aitne.db", GROUP_AND_OTHERS)
    given = (
        settings.tls.key,
        settings.tls.sessions_key,
        settings.mail.password_file,
        settings.auth.ldap.bind_password_file,
        settings.auth.oidc.client_secret_file,
        settings.slurm.jwt_key,
    )
    for named in given:
        if named is not None:
            yield SecretFile(named)
    if (
        settings.database is not None
        and ":" in settings.database.partition("://")[2].rpartition("@")[0]
    ):
        yield SecretFile(find_config_path(settings.data_dir))
    if settings.broker.socket is not None:
        own = settings.broker_dir / "broker.toml"
        yield SecretFile(own if settings.uses_user_accounts else BROKER_CONFIG)
    if os.access(_PROXY_KEYS, os.R_OK | os.X_OK):
        yield from (SecretFile(path) for path in sorted(_PROXY_KEYS.glob("*.key")))


def inspect_files(
    files: Iterable[SecretFile], settings: Settings, services: Collection[int] = ()
) -> SecretsSeen:
    """Return which of the files are exposed, and which this process could not look at or are not here.

    Accounts that jobs may run as (``accounts.min_uid``) may own none of them, nor the folders
    above. The platform's account may, and those with the uids ``services``.
    """
    accounts = settings.accounts
    trusted = {os.geteuid(), _get_owner_uid(settings.data_dir), *services}

    def is_user(uid: int) -> bool:
        return accounts.min_uid <= uid <= accounts.max_uid and uid not in trusted

    exposed: dict[Path, ExposedFile] = {}
    unseen: dict[Path, str] = {}
    elsewhere: dict[Path, str] = {}
    for file in files:
        try:
            facts = file.path.stat()
        except FileNotFoundError:
            if file.elsewhere is not None:
                elsewhere[file.path] = f"{file.path} is on {file.elsewhere}."
            elif file.required:
                unseen[file.path] = f"{file.path} does not exist on this machine."
            continue
        except OSError as error:
            if not _is_in_closed_folder(file.path):
                unseen[file.path] = f"{file.path}: {error.strerror}."
            continue
        for found in (
            _check_mode(file, facts),
            _check_owner(file.path, facts, is_user),
            *_check_folders(file.path, is_user),
        ):
            if found is not None:
                exposed.setdefault(found.path, found)
    return SecretsSeen(
        tuple(exposed[path] for path in sorted(exposed)),
        tuple(unseen[path] for path in sorted(unseen)),
        tuple(elsewhere[path] for path in sorted(elsewhere)),
    )


def _check_mode(file: SecretFile, facts: os.stat_result) -> ExposedFile | None:
    mode = stat.S_IMODE(facts.st_mode)
    if not mode & file.forbidden:
        return None
    return ExposedFile(
        file.path,
        f"Other accounts of this machine can read or change {file.path}.",
        f"chmod {mode & ~file.forbidden:04o} {shlex.quote(str(file.path))}",
        by_mode=True,
    )


def _check_owner(
    path: Path, facts: os.stat_result, is_user: Callable[[int], bool]
) -> ExposedFile | None:
    if not is_user(facts.st_uid):
        return None
    return ExposedFile(
        path,
        f"{path} belongs to the account {_get_account_name(facts.st_uid)} of a user.",
        f"chown root {shlex.quote(str(path))}",
    )


def _check_folders(path: Path, is_user: Callable[[int], bool]) -> Iterator[ExposedFile | None]:
    for folder in path.resolve().parents:
        facts = folder.stat()
        yield _check_owner(folder, facts, is_user)
        # In a folder with the sticky bit others cannot replace what exists.
        if facts.st_mode & stat.S_IWOTH and not facts.st_mode & stat.S_ISVTX:
            yield ExposedFile(
                folder,
                f"Other accounts of this machine can replace files in {folder}.",
                f"chmod o-w {shlex.quote(str(folder))}",
            )


def _is_in_closed_folder(path: Path) -> bool:
    """Return whether a folder above ``path`` keeps other accounts out: this process, which is such
    an account, can see that.
    """
    for folder in reversed(path.parents):
        try:
            if not folder.stat().st_mode & stat.S_IXOTH:
                return True
        except OSError:
            return False
    return False


def _get_owner_uid(path: Path) -> int:
    try:
        return path.stat().st_uid
    except OSError:
        return os.geteuid()


def _get_account_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def list_correctable_files(exposed: Collection[ExposedFile]) -> list[Path]:
    """Return those of the files whose mode this process can correct: they belong to its account."""
    return [
        each.path for each in exposed if each.by_mode and _get_owner_uid(each.path) == os.geteuid()
    ]
