"""Checks of settings, folders and files of the platform on its host."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from aitne.core.byte_size_format import describe_bytes
from aitne.core.models.check_result import CheckState
from aitne.core.settings import Settings
from aitne.local_system.settings_loader import find_config_path
from aitne.local_system.settings_report import SourceKind, describe_settings
from aitne.operations.doctor.check_registry import Subject, check
from aitne.operations.doctor.checked_host import CheckedHost
from aitne.operations.requirements.clock_and_disk_space import check_space, list_folders
from aitne.operations.requirements.findings import (
    Finding,
    make_failed_finding,
    make_ok_finding,
    make_unknown_finding,
    make_warning_finding,
)
from aitne.services.platform.backup_record import backup_record_file
from aitne.services.platform.exposed_files import list_correctable_files

SUBFOLDERS = ("run", "logs", "hub", "secrets")
LARGE_LOGS_BYTES = 2 << 30


@check("settings", Subject.FILES, "The settings are valid, and their file is safe from others.")
def settings_file(host: CheckedHost) -> Finding:
    """Check the file with the settings; that they are valid was checked when they were loaded."""
    path = find_config_path(host.settings.data_dir)
    if not path.exists():
        return make_ok_finding(
            "The settings are valid; there is no file, so they come from defaults and variables."
        )
    mode = path.stat().st_mode
    if mode & stat.S_IWOTH:
        return make_failed_finding(
            f"Every account of this machine can change {path}, and so what the platform runs.",
            f"Run `chmod o-w {path}`, and check its content.",
        )
    return make_ok_finding(f"{path} is valid.")


@check("unused-settings", Subject.FILES, "Each setting in the file has an effect.")
def unused_settings(host: CheckedHost) -> Finding:
    """Check for settings that have no effect because another setting is missing or excludes them."""
    named = {
        view.name
        for view in describe_settings(host.settings)
        if view.source in (SourceKind.FILE, SourceKind.ENVIRONMENT)
    }
    unused = {
        name: why
        for prefix, why in _list_unused_settings(host.settings)
        for name in sorted(named)
        if name == prefix or name.startswith(prefix + ".")
    }
    if not unused:
        return make_ok_finding("Every setting that differs from its default has an effect.")
    listed = "; ".join(f"{name} ({why})" for name, why in unused.items())
    return make_warning_finding(
        f"These settings have no effect: {listed}.",
        "Remove them, or set what they need; `aitne admin settings` shows where each comes from.",
    )


def _list_unused_settings(settings: Settings) -> Iterator[tuple[str, str]]:
    """Yield settings and sections that have no effect, each with the reason."""
    if settings.capabilities.remote:
        yield "local", f'scheduler is "{settings.scheduler}"'
        yield "trusted_users", f'scheduler is "{settings.scheduler}"'
    else:
        for name in (
            "conf",
            "rest_url",
            "jwt_key",
            "operator",
            "portal_address",
            "sessions_address",
        ):
            yield f"slurm.{name}", f'scheduler is "{settings.scheduler}"'
    if settings.broker.socket is None:
        for name in ("map", "min_uid", "max_uid", "groups"):
            yield f"accounts.{name}", "without a broker all jobs run as one account"
    if not settings.tls.enabled:
        yield "internal_port", "tls.enabled is false"
    if settings.mail.host is None:
        for name in ("port", "security", "user", "password_file", "sender"):
            yield f"mail.{name}", "mail.host is not set"
    for source in ("ldap", "oidc", "pam"):
        if source not in settings.auth.sources:
            yield f"auth.{source}", f'auth.sources does not name "{source}"'
    if not settings.webhooks.enabled:
        for name in ("http_hosts", "private_networks"):
            yield f"webhooks.{name}", "webhooks.enabled is false"


@check(
    "data-directory",
    Subject.FILES,
    "The data directory and its folders exist, for the platform only.",
)
def data_directory(host: CheckedHost) -> Finding:
    """Check owner and modes of the data directory, and that its folders exist."""
    folder = host.settings.data_dir
    if not folder.is_dir():
        return make_failed_finding(
            f"There is no data directory {folder}.",
            "Pass the right one with --data-dir, mount its file system, or restore a backup.",
        )
    owner = folder.stat().st_uid
    if owner != os.geteuid():
        return make_unknown_finding(
            f"{folder} belongs to uid {owner}, and this is uid {os.geteuid()}.",
            "Run `aitne admin doctor` as root or as the platform's account.",
        )
    missing = [name for name in SUBFOLDERS if not (folder / name).is_dir()]
    if missing:
        return make_failed_finding(
            f"{folder} has no folder {', '.join(missing)}.",
            "`aitne up` and --fix create them. If secrets are missing, restore a backup first: new "
            "ones end all logins.",
            lambda: _make_folders(folder, missing),
        )
    open_ones = [
        path
        for path in (folder, *(folder / name for name in SUBFOLDERS))
        if stat.S_IMODE(path.stat().st_mode) & 0o077
    ]
    if open_ones:
        names = ", ".join(map(str, open_ones))
        return make_failed_finding(
            f"Other accounts of this machine have access to {names}.",
            f"Run `chmod go-rwx {' '.join(map(str, open_ones))}`, or pass --fix.",
            lambda: _restrict_to_owner(open_ones),
        )
    return make_ok_finding(f"{folder} and its folders belong to the platform only.")


@check(
    "secrets",
    Subject.FILES,
    "Only the accounts that need them can read the secrets of the platform and of Slurm.",
)
async def check_secret_files(host: CheckedHost) -> Finding:
    """Check modes and owners of files with secrets, and of the folders above them."""
    found = await host.check_health("secrets")
    if found.state is not CheckState.FAILED:
        return found
    own = list_correctable_files((await host.secret_files().inspect()).exposed)
    return make_failed_finding(
        found.message, found.remedy or "", (lambda: _restrict_to_owner(own)) if own else None
    )


@check("disk", Subject.FILES, "The file system of the data directory has space.")
async def check_data_dir_space(host: CheckedHost) -> Finding:
    """Check the free space of the data directory, as the health page does."""
    return await host.check_health("disk")


@check("folders", Subject.FILES, "The file systems of all folders have space and inodes.")
def check_folder_space(host: CheckedHost) -> Finding:
    """Check free bytes and inodes of every folder that the settings name."""
    return check_space(list_folders(host.settings))


@check("storage", Subject.FILES, "Every storage area and dataset folder is mounted.")
async def check_storage_areas(host: CheckedHost) -> Finding:
    """Check the storage areas, as the health page does."""
    return await host.check_health("storage")


@check("templates", Subject.FILES, "All job templates are valid.")
async def check_job_templates(host: CheckedHost) -> Finding:
    """Check the job templates, as the health page does."""
    return await host.check_health("templates")


@check("logs", Subject.FILES, "The logs do not grow without bound.")
def check_log_size(host: CheckedHost) -> Finding:
    """Check the total size of the files in ``logs`` of the data directory: the supervisor rotates them
    only while it runs.
    """
    folder = host.settings.data_dir / "logs"
    if not folder.is_dir():
        return make_unknown_finding(f"There is no folder {folder}.", "`aitne up` creates it.")
    sizes = {path: path.stat().st_size for path in folder.glob("*") if path.is_file()}
    total = sum(sizes.values())
    if total > LARGE_LOGS_BYTES:
        largest = max(sizes, key=lambda path: sizes[path])
        return make_warning_finding(
            f"{folder} has {describe_bytes(total)}, most of it in {largest.name}.",
            f"See what {largest} repeats, remove the cause, then the file; the supervisor rotates only "
            "while it runs.",
        )
    return make_ok_finding(f"{folder} has {describe_bytes(total)} in {len(sizes)} files.")


@check("backup", Subject.FILES, "There is a backup, and it is not old.")
async def check_backup_age(host: CheckedHost) -> Finding:
    """Check the age of the last backup."""
    if not backup_record_file(host.settings.data_dir).exists():
        return make_warning_finding(
            "No backup of this platform is recorded.",
            "Run `aitne admin backup --to DIR`, and let a timer repeat it daily.",
        )
    return await host.check_health("backup")


@check("leftovers", Subject.FILES, "No unfinished writes or sockets of dead processes are left.")
def check_leftover_files(host: CheckedHost) -> Finding:
    """Check for files that a process left when it was killed."""
    stale = list(_list_leftovers(host))
    if not stale:
        return make_ok_finding("No file of a dead process is left.")
    return make_warning_finding(
        f"Dead processes have left {', '.join(map(str, stale))}.",
        "Pass --fix to remove them. They have no effect, but an update or a start was interrupted.",
        lambda: _remove_files(stale),
    )


def _list_leftovers(host: CheckedHost) -> Iterator[Path]:
    """Yield temporary files of processes that have ended, and the socket of a dead supervisor."""
    settings = host.settings
    if not host.is_running and (settings.run_dir / "supervisor.sock").is_socket():
        yield settings.run_dir / "supervisor.sock"
    for folder in (settings.data_dir, settings.run_dir, settings.secrets_dir, settings.tls_dir):
        if not folder.is_dir():
            continue
        for path in sorted(folder.glob(".*")):
            number = path.suffix.removeprefix(".")
            if path.is_file() and number.isdecimal() and not Path("/proc", number).exists():
                yield path


def _make_folders(folder: Path, names: list[str]) -> str:
    for name in names:
        (folder / name).mkdir(mode=0o700, exist_ok=True)
    return f"created {', '.join(str(folder / name) for name in names)}."


def _restrict_to_owner(paths: list[Path]) -> str:
    """Take all permissions of other accounts from files, without following links."""
    for path in paths:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            mode = stat.S_IMODE(os.fstat(descriptor).st_mode)
            os.fchmod(descriptor, mode & ~0o077)
        finally:
            os.close(descriptor)
    return f"took the permissions of other accounts from {', '.join(map(str, paths))}."


def _remove_files(paths: list[Path]) -> str:
    for path in paths:
        path.unlink(missing_ok=True)
    return f"removed {', '.join(map(str, paths))}."
