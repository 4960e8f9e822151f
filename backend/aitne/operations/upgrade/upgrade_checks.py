"""Checks before an upgrade, which change nothing."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from aitne.core.byte_size_format import describe_bytes
from aitne.core.errors import AitneError, SetupError
from aitne.core.models.check_result import CheckResult, CheckState
from aitne.local_system.state_file_reader import DamagedState
from aitne.operations.upgrade.platform_service import read_plan
from aitne.operations.upgrade.releases import Releases
from aitne.operations.upgrade.this_host import ThisHost, find_running_service
from aitne.operations.upgrade.versions import Version, check_upgrade_path
from aitne.store.migrate import is_known_revision
from aitne.supervisor import platform_control
from aitne.supervisor.process_account import ProcessAccount

RELEASE_BYTES = 1024**3
"""Free disk space in bytes that a release needs."""
BACKUP_BYTES = 100 * 1024**2
"""Free disk space in bytes that a backup needs, besides copies of the database."""


def check_upgrade(
    data_dir: Path,
    account: ProcessAccount | None,
    releases: Releases,
    host: ThisHost,
    present: str,
    target: Version,
) -> list[CheckResult]:
    """Return the results of all checks before an upgrade from ``present`` to ``target``."""
    steps: tuple[tuple[str, Callable[[], str]], ...] = (
        ("release", lambda: _check_release(present, target)),
        ("installation", lambda: _check_installation(data_dir, account, releases)),
        ("disk", lambda: _check_disk(data_dir, releases, host.backup_dir)),
        ("database", lambda: _check_database(host)),
        ("platform", lambda: _check_platform(data_dir, account, host, present)),
    )
    return list(_run_checks(steps))


def raise_if_failed(results: list[CheckResult]) -> None:
    """Raise ``SetupError`` with the messages of the checks that failed, if any did."""
    failed = [check.message for check in results if check.state is CheckState.FAILED]
    if failed:
        raise SetupError(" ".join([*failed, "Nothing has been changed."]))


def _run_checks(steps: tuple[tuple[str, Callable[[], str]], ...]) -> Iterator[CheckResult]:
    for name, check in steps:
        try:
            yield CheckResult(name=name, state=CheckState.OK, message=check())
        except AitneError as error:
            yield CheckResult(name=name, state=CheckState.FAILED, message=error.message)


def _check_release(present: str, target: Version) -> str:
    check_upgrade_path(Version.parse(present), target)
    return f"From release {present} to {target}."


def _check_installation(data_dir: Path, account: ProcessAccount | None, releases: Releases) -> str:
    root = releases.root
    if not os.access(root, os.W_OK):
        raise SetupError(f"{root} cannot be written. Run the command as the owner of {root}.")
    if platform_control.get_status(data_dir) is not None:
        try:
            python = Path(read_plan(data_dir, account).init[0])
        except (OSError, DamagedState) as error:
            raise SetupError(f"The plan of the platform cannot be read: {error}.") from error
        if not python.is_relative_to(root):
            raise SetupError(
                f"The platform in {data_dir} was started with {python}, not from {root}. Run "
                f"{python.with_name('aitne')} admin upgrade."
            )
    return f"Releases are installed in {root}."


def _check_disk(data_dir: Path, releases: Releases, backup_dir: Path) -> str:
    database = data_dir / "aitne.db"
    copies = 3 * database.stat().st_size if database.exists() else 0
    for folder, needed in ((releases.root, RELEASE_BYTES), (backup_dir, BACKUP_BYTES + copies)):
        existing = next(path for path in (folder, *folder.parents) if path.exists())
        free = shutil.disk_usage(existing).free
        if free < needed:
            raise SetupError(
                f"{folder} needs {describe_bytes(needed)}, and {describe_bytes(free, 'down')} are free. "
                "Make room."
            )
    return "The disks have room for the release and the backup."


def _check_database(host: ThisHost) -> str:
    revision = host.schema_revision()
    if revision is not None and not is_known_revision(revision):
        raise SetupError(
            f"The database has the schema {revision} of a newer release. Install that release again, or "
            "restore a backup from before its installation."
        )
    return f"The database answers; its schema is {revision}."


def _check_platform(
    data_dir: Path, account: ProcessAccount | None, host: ThisHost, present: str
) -> str:
    service = find_running_service(data_dir, account)
    if service is None:
        return "The platform does not run; it is not started."
    try:
        host.wait_until_healthy(present)
    except SetupError as error:
        raise SetupError(
            f"The platform is not healthy before the upgrade: {error.message}"
        ) from error
    return f"The platform is healthy; it is {service.unit or 'started with `aitne up --detach`'}."
