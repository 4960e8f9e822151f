"""Operations of an upgrade on this machine."""

from __future__ import annotations

import asyncio
import os
import subprocess
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from aitne.core.errors import SetupError
from aitne.local_system.http_status_client import poll_http_status
from aitne.local_system.state_file_reader import DamagedState
from aitne.operations.upgrade import upgrade_backups
from aitne.operations.upgrade.command_account import must_install_node_software
from aitne.operations.upgrade.platform_facts import PlatformFacts, query_facts
from aitne.operations.upgrade.platform_service import (
    Service,
    find_service,
    read_plan,
    start_environment,
)
from aitne.operations.upgrade.releases import Releases
from aitne.supervisor import offline_bundle
from aitne.supervisor.process_account import ProcessAccount, acting_as, make_popen_arguments

HEALTHY_WITHIN_S = 60.0
LOOK_EVERY_S = 0.5
ANSWER_WITHIN_S = 1.0


class ThisHost:
    """Implementation of ``steps.UpgradeHost``.

    Args:
        data_dir: data directory of the platform.
        account: account of commands for it; None: that of this process.
        releases: the installed releases.
        backup_dir: folder for the backup.
        say: called with one line per action.
    """

    def __init__(
        self,
        data_dir: Path,
        account: ProcessAccount | None,
        releases: Releases,
        backup_dir: Path,
        say: Callable[[str], None],
        service: Service | None,
    ) -> None:
        self._data_dir = data_dir
        self._releases = releases
        self.backup_dir = backup_dir
        self._say = say
        self._account = account
        self._service = service or Service(data_dir, None, account)
        self.facts = query_facts(data_dir, account)
        """Facts of the platform's settings."""
        self.api_away_s: float | None = None
        """Longest time in seconds without an answer of the API during the last restart; None before
        the first answer.
        """
        self._answered_at = 0.0

    def install(self, version: str, requirement: str) -> None:
        """Install a release beside the others, and let it create its environments."""
        self._releases.install(version, requirement, self._say)
        if must_install_node_software(self._data_dir, self._account):
            software = ("admin", "software", "--data-dir", str(self._data_dir))
            self._run_in(dict(os.environ), None, version, *software)
        self._run_release_command(
            version, "admin", "upgrade", "--prepare", "--data-dir", str(self._data_dir)
        )

    def create_backup(self, version: str) -> str:
        """Back up the platform with the release ``version``; return the path of the backup."""
        _make_folder(self.backup_dir, self._account)
        program = self._releases.program(version)
        return upgrade_backups.create_backup(
            program, self._data_dir, self.backup_dir, self._account
        )

    def restore_backup(self, version: str, path: str) -> None:
        """Restore a backup with the release ``version``."""
        program = self._releases.program(version)
        upgrade_backups.restore_backup(program, path, self._data_dir, self._account)

    def schema_revision(self) -> str | None:
        """Return the revision of the database's schema; None if the database is empty."""
        return self._read_facts(datetime.now(UTC)).schema_revision

    def count_jobs_since(self, time: datetime) -> int:
        """Return the number of jobs that were accepted at or after ``time``."""
        return self._read_facts(time).jobs_since

    def stop(self) -> None:
        """End the platform, if it runs; its jobs and sessions continue."""
        self._answered_at, self.api_away_s = time.monotonic(), None
        self._service.stop()

    def select(self, version: str) -> None:
        """Select the release that is started from now on."""
        self._releases.select(version)

    def start(self) -> None:
        """Start the selected release and wait until it is ready."""
        self._service.start(self._selected_program(), self._record_api_answer)
        self._record_api_answer()

    def restart(self) -> None:
        """End the platform, if it runs, and start the selected release."""
        self._answered_at, self.api_away_s = time.monotonic(), None
        self._service.restart(self._selected_program(), self._record_api_answer)
        self._record_api_answer()

    def check_release(self, version: str) -> None:
        """Wait until the platform is healthy and runs the release ``version``."""
        try:
            plan = read_plan(self._data_dir, self._account)
        except (OSError, DamagedState) as error:
            raise SetupError(f"The plan of the platform cannot be read: {error}.") from error
        python = Path(plan.init[0])
        folder = self._releases.folder(version)
        expected = folder if (folder / "bin" / "python").exists() else self._releases.root
        if python.parent.parent != expected:
            raise SetupError(
                f"The platform was started with {python}, not with release {version}. Let its unit start "
                f"{self._releases.root / 'bin' / 'aitne'}."
            )
        self.wait_until_healthy(version)

    def wait_until_healthy(self, version: str) -> None:
        """Wait until the platform is healthy; the program of release ``version`` asks it."""
        until = time.monotonic() + HEALTHY_WITHIN_S
        while True:
            try:
                self._run_release_command(
                    version, "admin", "health", "--data-dir", str(self._data_dir)
                )
            except SetupError:
                if time.monotonic() > until:
                    raise
                time.sleep(LOOK_EVERY_S)
            else:
                return

    def prune(self, *keep: str) -> None:
        """Remove other installed releases."""
        self._releases.prune(*keep)

    def _read_facts(self, since: datetime) -> PlatformFacts:
        return query_facts(self._data_dir, self._account, since)

    def _selected_program(self) -> Path:
        selected = self._releases.selected
        assert selected is not None  # noqa: S101 (an upgrade selects one first)
        return self._releases.program(selected)

    def _record_api_answer(self) -> None:
        url = f"{self.facts.internal_url}/healthz"
        if asyncio.run(poll_http_status(url, within_s=ANSWER_WITHIN_S)) == 200:
            now = time.monotonic()
            self.api_away_s = max(self.api_away_s or 0.0, round(now - self._answered_at, 1))
            self._answered_at = now

    def _run_release_command(self, version: str, *arguments: str) -> None:
        environ = (
            start_environment(self._data_dir, self._account) | offline_bundle.get_bundle_variables()
        )
        self._run_in(environ, self._account, version, *arguments)

    def _run_in(
        self, environ: dict[str, str], account: ProcessAccount | None, version: str, *arguments: str
    ) -> None:
        program = self._releases.program(version)
        done = subprocess.run(
            [str(program), *arguments],
            env=environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            **make_popen_arguments(account),
        )
        if done.returncode:
            said = (done.stderr.strip() or done.stdout.strip()).splitlines()[-8:]
            raise SetupError(f"`aitne {' '.join(arguments[:2])}` has failed: {' '.join(said)}")
        for line in done.stderr.splitlines():
            self._say(line)


def find_running_service(data_dir: Path, account: ProcessAccount | None) -> Service | None:
    """Return how the platform in ``data_dir`` was started; None if it does not run.

    Raises:
        SetupError: an upgrade cannot restart it.
    """
    service = find_service(data_dir, account)
    if service is not None and service.unit is not None and os.geteuid() != 0:
        raise SetupError(
            f"The platform is the unit {service.unit}, which only root restarts: run the command with "
            "sudo."
        )
    return service


def _make_folder(folder: Path, account: ProcessAccount | None) -> None:
    """Create a folder of ``account``, which may be able to change the folders above it."""
    if folder.exists():
        return
    try:
        with acting_as(account):
            folder.mkdir(mode=0o700, parents=True)
    except PermissionError:
        if account is None:
            raise
        folder.mkdir(mode=0o700, parents=True)
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            os.fchown(descriptor, account.uid, account.gid)
        finally:
            os.close(descriptor)
