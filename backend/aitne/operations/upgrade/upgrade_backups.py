"""Backup and restore for an upgrade, by the commands of the release that runs them."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from aitne.core.errors import SetupError
from aitne.operations.upgrade.platform_service import start_environment
from aitne.supervisor.process_account import ProcessAccount, make_popen_arguments


def create_backup(aitne: Path, data_dir: Path, folder: Path, account: ProcessAccount | None) -> str:
    """Back up the platform in ``data_dir`` into ``folder`` with the program ``aitne`` of a release,
    as ``account`` (None: that of this process); return the path of the backup. Raises
    ``SetupError``.
    """
    options = ["--to", str(folder), "--yes", "--json", "--data-dir", str(data_dir)]
    answer = _run_aitne_command([str(aitne), "admin", "backup", *options], data_dir, account)
    path: str = json.loads(answer)["path"]
    return path


def restore_backup(aitne: Path, path: str, data_dir: Path, account: ProcessAccount | None) -> None:
    """Restore a backup into ``data_dir``; what was there is moved aside. Raises ``SetupError``."""
    options = ["--data-dir", str(data_dir), "--replace", "--yes", "--json"]
    _run_aitne_command([str(aitne), "admin", "restore", path, *options], data_dir, account)


def _run_aitne_command(argv: list[str], data_dir: Path, account: ProcessAccount | None) -> str:
    done = subprocess.run(
        argv,
        env=start_environment(data_dir, account),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        **make_popen_arguments(account),
    )
    if done.returncode:
        raise SetupError(
            f"`aitne {' '.join(argv[1:3])}` has failed: {done.stderr.strip() or done.stdout.strip()}"
        )
    answer: str = done.stdout
    return answer
