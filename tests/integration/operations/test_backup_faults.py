"""Backups and restorations that are attacked, interrupted or only half done."""

from __future__ import annotations

import asyncio
import json
import os
import pwd
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from aitne.core.errors import SetupError
from aitne.core.settings import AccountSettings, Settings
from aitne.operations.backup import creation, restoration
from aitne.operations.backup.backup_encryption import create_key_pair
from aitne.services.platform.restore_in_progress import check_no_interrupted_restoration
from aitne.supervisor import start_checks
from tests.support.backups import contents, create_in, restore_to, source, stored
from tests.support.database import migrated
from tests.support.platform import AITNE
from tests.support.slurm import root_or_skip

__all__ = ["migrated", "source"]

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def of_nobody() -> Iterator[tuple[Path, int]]:
    """A folder that every account may enter, and the uid of `nobody`."""
    root_or_skip()
    with tempfile.TemporaryDirectory() as name:
        os.chmod(name, 0o755)
        yield Path(name), pwd.getpwnam("nobody").pw_uid


def test_root_restores_as_the_owner_of_the_data_directory(
    source: Settings, tmp_path: Path, of_nobody: tuple[Path, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The owner replaces a folder of the stage by a link, as soon as it exists."""
    source = source.model_copy(update={"accounts": AccountSettings(mode="own")})
    made = create_in(source, tmp_path / "backups")
    monkeypatch.setattr(restoration, "machine_hash", lambda: "another machine")
    parent, nobody = of_nobody
    data_dir, outside = parent / "data", parent / "outside"
    data_dir.mkdir(mode=0o700)
    os.chown(data_dir, nobody, -1)
    restore_to(made, data_dir)
    config = data_dir / "aitne.toml"
    assert (config.stat().st_uid, config.stat().st_mode & 0o777) == (0, 0o640)
    assert config.read_text() == 'title = "Io"\n'
    rest = [path for path in data_dir.rglob("*") if path != config]
    assert {path.lstat().st_uid for path in rest} == {nobody}
    jobs, restorations = asyncio.run(stored(f"sqlite:///{data_dir / 'aitne.db'}"))
    assert (jobs, restorations) == (set(), 1)

    outside.mkdir(mode=0o755)
    stage = Path(shutil.copytree(data_dir, parent / "copy")) and parent / "stage"
    stage.mkdir(mode=0o777)
    os.chown(stage, nobody, -1)
    stage.joinpath("secrets").symlink_to(outside)
    monkeypatch.setattr(restoration, "mkdtemp", lambda **_: str(stage))
    with pytest.raises(SetupError, match="Permission denied"):
        restore_to(made, data_dir, replace=True)
    assert list(outside.iterdir()) == []


def test_root_backs_up_as_the_owner_of_the_data_directory(
    source: Settings, of_nobody: tuple[Path, int]
) -> None:
    """The settings of the account name a folder that only root can read."""
    parent, nobody = of_nobody
    data_dir = Path(shutil.copytree(source.data_dir, parent / "data"))
    hidden = parent / "hidden"
    hidden.mkdir(mode=0o700)
    hidden.joinpath("shadow.yaml").write_text("only for root")
    data_dir.joinpath("aitne.toml").write_text(f"templates = [{json.dumps(str(hidden))}]\n")
    backups = parent / "backups"
    backups.mkdir()
    for path in (backups, data_dir, *data_dir.rglob("*")):
        os.chown(path, nobody, -1)
    words = ["admin", "backup", "--to", str(backups), "--data-dir", str(data_dir), "--yes"]
    done = subprocess.run([AITNE, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    path = Path(done.stdout.strip())
    assert path.stat().st_uid == nobody
    assert b"only for root" not in path.read_bytes()


def test_database_that_only_the_backup_names_is_not_created_elsewhere(
    source: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tmp_path / "elsewhere" / "aitne.db"
    source.data_dir.joinpath("aitne.toml").write_text(f'database = "sqlite:///{elsewhere}"\n')
    made = create_in(source, tmp_path / "backups")
    with pytest.raises(SetupError, match="is outside"):
        restore_to(made, tmp_path / "new")
    assert not elsewhere.parent.exists()
    monkeypatch.setenv("AITNE_DATABASE", f"sqlite:///{elsewhere}")
    restore_to(made, tmp_path / "new")
    assert elsewhere.exists()


def test_platform_that_is_half_restored_does_not_start(source: Settings, tmp_path: Path) -> None:
    """The restoration is killed while it moves the earlier platform aside."""
    made = create_in(source, tmp_path / "backups")
    script = f"""
import os
from pathlib import Path
from aitne.operations.backup import restoration
from aitne.operations.backup.archive import Archive
restoration._link_job_folders = lambda plan: os.kill(os.getpid(), 9)
with Archive(Path({made.path!r})) as archive:
    restoration.restore_backup(archive, Path({str(source.data_dir)!r}), key=None, replace=True)
"""
    done = subprocess.run([sys.executable, "-c", script], check=False)
    assert done.returncode == -signal.SIGKILL
    with pytest.raises(SetupError, match=rf"aitne admin restore {re.escape(made.path)} --data-dir"):
        start_checks.check_requirements(source)
    again = re.search(r"`aitne (.*)`", _refusal(source))
    assert again is not None
    done_again = subprocess.run(
        [AITNE, *shlex.split(again[1]), "--yes"], capture_output=True, text=True, check=False
    )
    assert done_again.returncode == 0, done_again.stderr
    check_no_interrupted_restoration(source.data_dir)
    assert asyncio.run(stored(source.database_url)) == (set(), 1)
    assert not list(source.data_dir.glob(".restore-*"))
    assert len(list(source.data_dir.glob("before-restore-*"))) == 2


def _refusal(settings: Settings) -> str:
    with pytest.raises(SetupError) as refused:
        check_no_interrupted_restoration(settings.data_dir)
    return refused.value.message


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGHUP])
def test_restore_that_a_signal_ends_is_undone(
    source: Settings, tmp_path: Path, signum: signal.Signals
) -> None:
    made = create_in(source, tmp_path / "backups")
    before = contents(source.data_dir)
    script = f"""
import os
from aitne.cli.main import main
from aitne.operations.backup import restoration
restoration._link_job_folders = lambda plan: os.kill(os.getpid(), {int(signum)})
main(["admin", "restore", {made.path!r}, "--data-dir", {str(source.data_dir)!r}, "--replace", "--yes"])
"""
    done = subprocess.run([sys.executable, "-c", script], check=False)
    assert done.returncode == 128 + signum
    assert contents(source.data_dir) == before


def test_folder_of_secrets_that_is_a_link_is_refused(source: Settings, tmp_path: Path) -> None:
    source.secrets_dir.rename(tmp_path / "moved")
    source.secrets_dir.symlink_to(tmp_path / "moved")
    with pytest.raises(SetupError, match="is a link"):
        create_in(source, tmp_path / "backups")


def test_copies_that_are_not_encrypted_stay_in_the_data_directory(
    source: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    public = create_key_pair(tmp_path / "key")
    backups, seen = tmp_path / "backups", []

    def look(*_: Any) -> tuple[()]:
        seen.append([path.name for path in backups.rglob("*") if path.is_file()])
        return ()

    # The databases are copied by now, and the archive is open.
    monkeypatch.setattr(creation, "_list_backup_files", look)
    create_in(source, backups, key=public)
    assert seen == [["archive"]]
    assert not list(source.data_dir.glob(".aitne-backup-*"))
