"""Support for platforms whose jobs run under the Unix accounts of their users (``accounts.mode =
"own"``).

``aitne up`` is started by root. It starts the broker as root and all other processes under the
platform's account, which owns the data directory. Files that root itself uses (plan, lock, the
broker's settings and state) are in a separate folder of root, ``Settings.broker_dir``.
"""

from __future__ import annotations

import os
import pwd
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import aitne
from aitne.adapters.unix_account_mapping import UnixUser, permitted_user, unix_user
from aitne.core.errors import NotAllowed, SetupError
from aitne.core.settings import Settings
from aitne.core.toml_writer import render_toml
from aitne.local_system.settings_loader import find_config_path
from aitne.supervisor.process_account import ProcessAccount, acting_as, become_account

CONFIG = "broker.toml"
AUDIT = "broker.jsonl"
_MOST_SOCKET_BYTES = 107
_PROBE_WITHIN_S = 60.0
_KEPT = ("PATH", "LANG", "LANGUAGE", "TZ", "SSL_CERT_FILE", "SSL_CERT_DIR", "FORWARDED_ALLOW_IPS")
_KEPT_ENDS = ("_PROXY", "_proxy")


def platform_account(settings: Settings) -> ProcessAccount | None:
    """Return the account under which the platform's processes run; None: the account that starts
    them.

    Raises:
        SetupError: the account does not exist, or jobs may run under it, which is not permitted.
    """
    if not settings.uses_user_accounts:
        return None
    user = _platform_user(settings)
    return ProcessAccount(user.uid, user.gid, list(user.groups))


@contextmanager
def acting_as_platform(settings: Settings) -> Iterator[None]:
    """Make the platform's account the effective account during the ``with`` block, so that it owns
    files that are created. Do nothing unless this process is root and users have accounts of their
    own. Raises ``SetupError``.
    """
    with acting_as(platform_account(settings) if os.geteuid() == 0 else None):
        yield


def prepare_own_accounts(settings: Settings) -> ProcessAccount:
    """Check the requirements of this mode, create root's folder and the data directory, and return
    the platform's account. A data directory that belongs to root is given to the platform's
    account.

    Raises:
        SetupError: a requirement is not met; the message says what to do.
    """
    if os.geteuid() != 0:
        raise SetupError(
            'With accounts.mode = "own" `aitne up` starts jobs as the Unix accounts of their users, '
            "which requires root: use `sudo`, or a systemd unit without `User=` "
            "(docs/howto/one-machine.md)."
        )
    os.umask(0o022)  # other accounts read the environments and the software
    account = platform_account(settings)
    assert account is not None  # noqa: S101 (the mode is own)
    create_platform_folders(settings, account)
    _check_installation(settings, account)
    return account


def create_platform_folders(settings: Settings, account: ProcessAccount) -> None:
    """Create root's folder and the data directory. A data directory that belongs to root is given
    to the platform's account.

    Raises:
        SetupError: accounts other than root could change files that root uses, or the data
            directory belongs to another account.
    """
    _check_config(find_config_path(settings.data_dir))
    _make_broker_dir(settings)
    _make_data_dir(settings, account)


def write_broker_config(settings: Settings) -> Path:
    """Write the settings of the broker to a file that only root can change; return its path."""
    path = settings.broker_dir / CONFIG
    temporary = path.with_suffix(".new")
    temporary.touch(mode=0o600)
    temporary.write_text(render_toml(_broker_config(settings)))
    temporary.replace(path)
    return path


def make_process_environment(settings: Settings) -> dict[str, str]:
    """Return the environment of the platform's processes: harmless variables of root's environment,
    with the home folder of the platform's account.
    """
    user = _platform_user(settings)
    return plain_environment() | {"HOME": user.home, "USER": user.name, "LOGNAME": user.name}


def plain_environment() -> dict[str, str]:
    """Return the environment variables of this process that any account may read: paths, language
    and proxies.
    """
    return {
        name: value
        for name, value in os.environ.items()
        if name in _KEPT or name.startswith("LC_") or name.endswith(_KEPT_ENDS)
    }


def find_starting_account(settings: Settings) -> str | None:
    """Return the account that started the platform with sudo, which becomes the first
    administrator; None if sudo was not used or jobs may not run under the account.
    """
    try:
        return permitted_user(os.environ.get("SUDO_USER", ""), settings.accounts).name
    except NotAllowed:
        return None


def _platform_user(settings: Settings) -> UnixUser:
    name = settings.accounts.platform
    try:
        user = unix_user(name)
    except NotAllowed as error:
        raise SetupError(
            f"The account {name}, which the platform runs as, does not exist. Create it with "
            f"`useradd --system --user-group --home-dir {settings.data_dir} --shell "
            f"/usr/sbin/nologin {name}`, or name another with accounts.platform."
        ) from error
    try:
        permitted_user(name, settings.accounts)
    except NotAllowed:
        return user
    raise SetupError(
        f"Jobs may run as {name}, the platform's own account, and would read its secrets. Use a "
        "system account (`useradd --system`), whose uid is below accounts.min_uid."
    )


def _check_config(path: Path) -> None:
    try:
        facts = path.stat()
    except OSError:
        return  # there is none
    if facts.st_uid != 0 or facts.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise SetupError(
            f"Accounts other than root can change {path}, which tells root what to start. "
            f"`chown root {path}; chmod go-w {path}` corrects this."
        )


def _make_broker_dir(settings: Settings) -> None:
    folder = settings.broker_dir
    if len(os.fsencode(settings.broker.socket or "")) > _MOST_SOCKET_BYTES:
        raise SetupError(
            f"The path {settings.broker.socket} is too long for a socket. Choose a shorter data "
            "directory with --data-dir, such as /var/lib/aitne."
        )
    _check_parents(folder)
    try:
        folder.mkdir(mode=0o711, parents=True, exist_ok=True)
        facts = folder.lstat()
    except OSError as error:
        raise SetupError(f"{folder} cannot be created: {error.strerror}.") from error
    if not stat.S_ISDIR(facts.st_mode) or facts.st_uid != 0:
        raise SetupError(
            f"{folder} is not a folder of root. Remove it, or choose another data directory with "
            "--data-dir."
        )
    folder.chmod(0o711)


def _check_parents(folder: Path) -> None:
    """Check that only root can replace ``folder``, and that other accounts can access files in it.
    Raises ``SetupError``.
    """
    advice = "Choose another data directory with --data-dir, such as /var/lib/aitne."
    for parent in folder.parents:
        if not parent.exists():
            continue
        facts = parent.stat()
        open_to_others = facts.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
        if facts.st_uid != 0 or (open_to_others and not facts.st_mode & stat.S_ISVTX):
            raise SetupError(
                f"Accounts other than root can change {parent}, and so {folder}, from which root "
                f"starts programs. {advice}"
            )
        if not facts.st_mode & stat.S_IXOTH:
            raise SetupError(
                f"Other accounts than root cannot reach {folder}: {parent} has mode "
                f"{stat.S_IMODE(facts.st_mode):04o}. {advice}"
            )


def _make_data_dir(settings: Settings, account: ProcessAccount) -> None:
    folder = settings.data_dir
    if not folder.exists():
        folder.mkdir(mode=0o700, parents=True)
    owner = folder.stat().st_uid
    if owner == 0:
        # The folder itself comes last: after an interruption the rest is done by the next start.
        for _, folders, files, descriptor in os.fwalk(folder, topdown=False):
            for name in (*folders, *files):
                os.chown(name, account.uid, account.gid, dir_fd=descriptor, follow_symlinks=False)
        own = find_config_path(folder)
        if own.parent == folder and own.exists():
            os.chown(own, 0, account.gid)
        os.chown(folder, account.uid, account.gid)
    elif owner != account.uid:
        raise SetupError(
            f"The data directory {folder} belongs to {_get_account_name(owner)}, not to "
            f"{settings.accounts.platform}. Give it away with `chown -R "
            f"{settings.accounts.platform}: {folder}`, or choose another with --data-dir."
        )


def _check_installation(settings: Settings, account: ProcessAccount) -> None:
    """Check that the platform's account can run the platform's installation and cannot change it.
    Raises ``SetupError``.
    """
    name, package = settings.accounts.platform, Path(aitne.__file__).parent
    advice = (
        "Install the platform as root where every account can read it, such as "
        "`python3 -m venv /opt/aitne` (docs/howto/one-machine.md)."
    )
    try:
        probe = subprocess.run(
            [sys.executable, "-P", "-c", "import aitne.api"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            cwd="/",
            env=plain_environment(),
            timeout=_PROBE_WITHIN_S,
            check=False,
            preexec_fn=lambda: become_account(account),
        )
        problem = probe.stderr.strip().splitlines()[-1:] if probe.returncode else None
    except (OSError, subprocess.SubprocessError) as error:
        problem = [str(error)]
    if problem is not None:
        raise SetupError(
            f"{name} cannot run {sys.executable} with this installation: {''.join(problem)}. {advice}"
        )
    with acting_as(account):
        for path in (find_config_path(settings.data_dir), *settings.templates):
            if path.exists() and not os.access(path, os.R_OK, effective_ids=True):
                raise SetupError(f"{name} cannot read {path}. `chmod o+r {path}` corrects this.")
        for path in (package, Path(sys.executable)):
            if os.access(path, os.W_OK, effective_ids=True):
                raise SetupError(
                    f"{name} can change {path}, which the broker runs as root. {advice}"
                )


def _broker_config(settings: Settings) -> dict[str, Any]:
    """Return the content of ``broker.toml``. Amounts such as durations are numbers, as in
    ``Settings``.
    """
    values = settings.model_dump(mode="json", exclude_none=True)
    accounts = {name: values["accounts"][name] for name in ("min_uid", "max_uid", "groups")}
    pam = {"pam_service": settings.auth.pam.service} if "pam" in settings.auth.sources else {}
    return {
        "socket": str(settings.broker.socket),
        "peers": [settings.accounts.platform],
        "audit": str(settings.broker_dir / AUDIT),
        "state_dir": str(settings.broker_dir),
        "scheduler": settings.scheduler,
        "cluster": settings.cluster,
        "max_duration": settings.limits.max_duration,
        **pam,
        "accounts": accounts,
        "local": values["local"],
        "slurm": {
            "jobs_dir": settings.slurm.jobs_dir,
            "spare_jobs_dir": settings.spare_jobs_dir,
        },
        "storage": values["storage"],
    }


def _get_account_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid {uid}"
