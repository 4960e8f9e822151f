"""Backups of real databases, and their restoration into other data directories."""

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
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from aitne.adapters.store import backup as database
from aitne.adapters.store.sql import SqlStore
from aitne.core.errors import Conflict, InvalidInput, SetupError
from aitne.core.models.audit import RESTORE, AuditFilter
from aitne.core.settings import AccountSettings, Settings
from aitne.operations.backup import archive as archives
from aitne.operations.backup import create, restore
from aitne.operations.backup.create import CreatedBackup, create_backup
from aitne.operations.backup.encryption import create_key_pair
from aitne.operations.backup.restore import RestoredPlatform, restore_backup
from aitne.services.platform.backup_record import last_backup
from aitne.services.platform.restoration import refuse_half_restored
from aitne.supervisor import preflight
from aitne.supervisor.secret_files import ensure_secrets
from tests.support.database import migrated
from tests.support.jobs import make_job
from tests.support.mounts import mounted
from tests.support.platform import AITNE
from tests.support.postgres import (
    postgres_database,
    postgres_server,
    postgres_template,
    postgres_url,
)
from tests.support.slurm import root_or_skip

__all__ = ["migrated", "postgres_database", "postgres_server", "postgres_template", "postgres_url"]

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def source(tmp_path: Path, migrated: Path) -> Settings:
    """A data directory as `aitne up` leaves it, on SQLite."""
    settings = Settings(data_dir=tmp_path / "data")
    _fill(settings)
    shutil.copy(migrated, settings.data_dir)
    return settings


def _fill(settings: Settings) -> None:
    for folder in ("manifests", "tls", "jobs", "run"):
        settings.data_dir.joinpath(folder).mkdir(parents=True)
    ensure_secrets(settings.secrets_dir)
    settings.data_dir.joinpath("aitne.toml").write_text('title = "Io"\n')
    settings.data_dir.joinpath("manifests", "abc").write_text("{}")


def _create(
    settings: Settings, to: Path, *, keep: int = 14, key: Path | None = None
) -> CreatedBackup:
    return create_backup(settings, to=str(to), keep=keep, recipient=key)


def _restore(made: CreatedBackup | str, to: Path, **options: Any) -> RestoredPlatform:
    path = made if isinstance(made, str) else made.path
    with archives.Archive(Path(path)) as archive:
        return restore_backup(archive, to, **{"key": None, "replace": False, **options})


async def _add_job(url: str) -> str:
    store = SqlStore(url)
    await store.start()
    try:
        job = make_job()
        await store.create_job(job, ())
        return str(job.id)
    finally:
        await store.close()


async def _look(url: str) -> tuple[set[str], int]:
    """The jobs of the database, and how often it was restored."""
    store = SqlStore(url)
    await store.start()
    try:
        jobs = {str(job.id) for job in await store.live_jobs()}
        return jobs, (await store.list_audit(AuditFilter(action=RESTORE))).total
    finally:
        await store.close()


def _contents(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_backup_of_an_sqlite_platform_is_restored_elsewhere(
    source: Settings, tmp_path: Path
) -> None:
    job = asyncio.run(_add_job(source.database_url))
    key = tmp_path / "key"
    public = create_key_pair(key)
    made = _create(source, tmp_path / "backups", key=public)
    assert Path(made.path).stat().st_mode & 0o777 == 0o600
    last = last_backup(source.data_dir)
    assert last is not None
    assert (last.path, last.bytes) == (made.path, Path(made.path).stat().st_size)
    secret = source.secrets_dir.joinpath("hub_cookie_secret").read_bytes()
    assert secret.strip() not in Path(made.path).read_bytes()

    target = tmp_path / "new"
    with pytest.raises(InvalidInput, match="is encrypted"):
        _restore(made, target)
    restored = _restore(made, target, key=key)
    assert target.joinpath("secrets/hub_cookie_secret").read_bytes() == secret
    assert target.joinpath("secrets/hub_cookie_secret").stat().st_mode & 0o777 == 0o600
    assert target.joinpath("aitne.toml").read_text() == 'title = "Io"\n'
    assert target.joinpath("manifests/abc").read_text() == "{}"
    assert asyncio.run(_look(f"sqlite:///{target / 'aitne.db'}")) == ({job}, 1)
    # The folder of the jobs is on this machine, and perhaps in use.
    assert target.joinpath("jobs").resolve() == source.data_dir / "jobs"
    assert restored.linked == (source.data_dir / "jobs",)
    assert not list(target.glob(".restore-*"))


def test_backup_during_writes_is_of_one_moment(source: Settings, tmp_path: Path) -> None:
    """The chain of the audit log breaks if a copy mixes states; each job has its outbox row."""
    stop = threading.Event()
    written: list[str] = []

    async def write() -> None:
        store = SqlStore(source.database_url)
        await store.start()
        try:
            while not stop.is_set():
                job = make_job()
                await store.create_job(job, ())
                written.append(str(job.id))
        finally:
            await store.close()

    writer = threading.Thread(target=lambda: asyncio.run(write()))
    writer.start()
    try:
        while len(written) < 5:
            stop.wait(0.01)
        before = set(written)
        made = _create(source, tmp_path / "backups")
        count = len(written)
        while len(written) < count + 5:  # the writer was not stopped by the backup
            stop.wait(0.01)
    finally:
        stop.set()
        writer.join()
    target = tmp_path / "new"
    _restore(made, target)
    jobs, _ = asyncio.run(_look(f"sqlite:///{target / 'aitne.db'}"))
    assert before <= jobs <= set(written)


def test_older_backups_are_deleted(
    source: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "backups"
    folder.mkdir()
    old = folder / "aitne-local-20200101T000000Z.tar"
    old.write_text("old")
    made = _create(source, folder, keep=1)
    assert made.pruned == (old.name,)
    assert [str(path) for path in folder.iterdir()] == [made.path]


def test_full_disk_leaves_nothing(source: Settings, tmp_path: Path) -> None:
    with mounted(tmp_path / "small", "size=300k") as small:
        kept = small / "aitne-local-20200101T000000Z.tar"
        kept.write_text("old")
        with pytest.raises(SetupError, match=r"No space left on device.*Nothing of it is left"):
            _create(source, small, keep=1)
        assert list(small.iterdir()) == [kept]
        assert last_backup(source.data_dir) is None
    made = _create(source, tmp_path / "backups")
    with mounted(tmp_path / "new", "size=300k") as small:
        with pytest.raises(SetupError, match="No space left on device"):
            _restore(made, small)
        assert list(small.iterdir()) == []


def test_restore_over_a_platform_needs_consent_and_keeps_it(
    source: Settings, tmp_path: Path
) -> None:
    made = _create(source, tmp_path / "backups")
    later = asyncio.run(_add_job(source.database_url))
    source.data_dir.joinpath("jobs", "log").write_text("of a running job")
    before = _contents(source.data_dir)
    with pytest.raises(Conflict, match="is not empty"):
        _restore(made, source.data_dir)
    assert _contents(source.data_dir) == before

    restored = _restore(made, source.data_dir, replace=True)
    assert asyncio.run(_look(source.database_url)) == (set(), 1)
    # What running jobs use stays in place.
    assert source.data_dir.joinpath("jobs", "log").read_text() == "of a running job"
    assert restored.moved_aside is not None
    aside = Path(restored.moved_aside)
    assert asyncio.run(_look(f"sqlite:///{aside / 'aitne.db'}")) == ({later}, 0)
    assert aside.joinpath("secrets/cli_token").exists() is False
    assert aside.joinpath("secrets/hub_cookie_secret").exists()


def test_failed_restore_changes_nothing(
    source: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = _create(source, tmp_path / "backups")
    before = _contents(source.data_dir)
    content = bytearray(Path(made.path).read_bytes())
    content[20_000] ^= 1
    Path(made.path).write_bytes(content)
    with pytest.raises(InvalidInput, match=r"damaged: the checksum of database.sqlite differs"):
        _restore(made, source.data_dir, replace=True)
    assert _contents(source.data_dir) == before


def test_backup_of_a_newer_release_is_refused(
    source: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = _create(source, tmp_path / "backups")
    monkeypatch.setattr(database, "is_known", lambda schema: False)
    with pytest.raises(SetupError, match="of a newer release"):
        _restore(made, tmp_path / "new")
    assert not tmp_path.joinpath("new").exists()


def test_files_from_elsewhere_are_restored_beside_the_platform(
    source: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker, templates = tmp_path / "etc" / "broker.toml", tmp_path / "templates"
    for path in (broker, templates / "mine.yaml"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(path.name)
    monkeypatch.setattr(create, "BROKER_CONFIG", broker)
    made = _create(source.model_copy(update={"templates": [templates]}), tmp_path / "backups")
    restored = _restore(made, tmp_path / "new")
    assert [path.read_text() for path in restored.elsewhere] == ["broker.toml", "mine.yaml"]
    assert restored.elsewhere[0] == Path(f"{tmp_path}/new/restored{broker}")


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
    made = _create(source, tmp_path / "backups")
    monkeypatch.setattr(restore, "machine_hash", lambda: "another machine")
    parent, nobody = of_nobody
    data_dir, outside = parent / "data", parent / "outside"
    data_dir.mkdir(mode=0o700)
    os.chown(data_dir, nobody, -1)
    _restore(made, data_dir)
    config = data_dir / "aitne.toml"
    assert (config.stat().st_uid, config.stat().st_mode & 0o777) == (0, 0o640)
    assert config.read_text() == 'title = "Io"\n'
    rest = [path for path in data_dir.rglob("*") if path != config]
    assert {path.lstat().st_uid for path in rest} == {nobody}
    jobs, restorations = asyncio.run(_look(f"sqlite:///{data_dir / 'aitne.db'}"))
    assert (jobs, restorations) == (set(), 1)

    outside.mkdir(mode=0o755)
    stage = Path(shutil.copytree(data_dir, parent / "copy")) and parent / "stage"
    stage.mkdir(mode=0o777)
    os.chown(stage, nobody, -1)
    stage.joinpath("secrets").symlink_to(outside)
    monkeypatch.setattr(restore, "mkdtemp", lambda **_: str(stage))
    with pytest.raises(SetupError, match="Permission denied"):
        _restore(made, data_dir, replace=True)
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
    made = _create(source, tmp_path / "backups")
    with pytest.raises(SetupError, match="is outside"):
        _restore(made, tmp_path / "new")
    assert not elsewhere.parent.exists()
    monkeypatch.setenv("AITNE_DATABASE", f"sqlite:///{elsewhere}")
    _restore(made, tmp_path / "new")
    assert elsewhere.exists()


def test_platform_that_is_half_restored_does_not_start(source: Settings, tmp_path: Path) -> None:
    """The restoration is killed while it moves the earlier platform aside."""
    made = _create(source, tmp_path / "backups")
    script = f"""
import os
from pathlib import Path
from aitne.operations.backup import restore
from aitne.operations.backup.archive import Archive
restore._link = lambda plan: os.kill(os.getpid(), 9)
with Archive(Path({made.path!r})) as archive:
    restore.restore_backup(archive, Path({str(source.data_dir)!r}), key=None, replace=True)
"""
    done = subprocess.run([sys.executable, "-c", script], check=False)
    assert done.returncode == -signal.SIGKILL
    with pytest.raises(SetupError, match=rf"aitne admin restore {re.escape(made.path)} --data-dir"):
        preflight.check(source)
    again = re.search(r"`aitne (.*)`", _refusal(source))
    assert again is not None
    done_again = subprocess.run(
        [AITNE, *shlex.split(again[1]), "--yes"], capture_output=True, text=True, check=False
    )
    assert done_again.returncode == 0, done_again.stderr
    refuse_half_restored(source.data_dir)
    assert asyncio.run(_look(source.database_url)) == (set(), 1)
    assert not list(source.data_dir.glob(".restore-*"))
    assert len(list(source.data_dir.glob("before-restore-*"))) == 2


def _refusal(settings: Settings) -> str:
    with pytest.raises(SetupError) as refused:
        refuse_half_restored(settings.data_dir)
    return refused.value.message


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGHUP])
def test_restore_that_a_signal_ends_is_undone(
    source: Settings, tmp_path: Path, signum: signal.Signals
) -> None:
    made = _create(source, tmp_path / "backups")
    before = _contents(source.data_dir)
    script = f"""
import os
from aitne.cli.main import main
from aitne.operations.backup import restore
restore._link = lambda plan: os.kill(os.getpid(), {int(signum)})
main(["admin", "restore", {made.path!r}, "--data-dir", {str(source.data_dir)!r}, "--replace", "--yes"])
"""
    done = subprocess.run([sys.executable, "-c", script], check=False)
    assert done.returncode == 128 + signum
    assert _contents(source.data_dir) == before


def test_folder_of_secrets_that_is_a_link_is_refused(source: Settings, tmp_path: Path) -> None:
    source.secrets_dir.rename(tmp_path / "moved")
    source.secrets_dir.symlink_to(tmp_path / "moved")
    with pytest.raises(SetupError, match="is a link"):
        _create(source, tmp_path / "backups")


def test_copies_that_are_not_encrypted_stay_in_the_data_directory(
    source: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    public = create_key_pair(tmp_path / "key")
    backups, seen = tmp_path / "backups", []

    def look(*_: Any) -> tuple[()]:
        seen.append([path.name for path in backups.rglob("*") if path.is_file()])
        return ()

    # The databases are copied by now, and the archive is open.
    monkeypatch.setattr(create, "_files", look)
    _create(source, backups, key=public)
    assert seen == [["archive"]]
    assert not list(source.data_dir.glob(".aitne-backup-*"))


def test_commands_of_the_handbook_back_up_and_restore(source: Settings, tmp_path: Path) -> None:
    """Each `aitne` command of both pages, with the folders of this test."""
    job = asyncio.run(_add_job(source.database_url))
    folder = tmp_path / "backups"
    printed: list[str] = []
    for page in ("backup.md", "recover.md"):
        text = ROOT.joinpath("docs", "handbook", page).read_text()
        for command in re.findall(r"^ *\$ aitne (admin .*)$", text, re.MULTILINE):
            if "--data-dir" in command and "restore" in command and "--replace" not in command:
                target = tmp_path / "standby"
            else:
                target = source.data_dir
            made = next(folder.glob("*.tar"), folder)
            typed = command.replace("/var/lib/aitne", str(target))
            typed = re.sub(r"/srv/backups/\S+", str(made), typed).replace(
                "/srv/backups", str(folder)
            )
            yes = ["--yes"] if "restore" in typed else []
            done = subprocess.run(
                [str(AITNE), *shlex.split(typed), *yes],
                cwd=tmp_path,
                capture_output=True,
                text=True,
                check=False,
            )
            assert done.returncode == 0, f"{typed}\n{done.stderr}"
            printed.append(done.stdout.strip())
    assert printed[0] == str(tmp_path / "aitne-backup-key.pub")
    assert printed[1] == str(next(folder.glob("*.tar")))
    assert len(printed) == 6
    for restored in (source.data_dir, tmp_path / "standby"):
        jobs, restorations = asyncio.run(_look(f"sqlite:///{restored / 'aitne.db'}"))
        assert (jobs, restorations) == ({job}, 1)


def test_backup_by_settings_outside_the_data_directory(source: Settings, tmp_path: Path) -> None:
    """As the unit of `aitne admin setup` runs it."""
    backups, config = tmp_path / "backups", tmp_path / "etc" / "aitne.toml"
    config.parent.mkdir()
    config.write_text(f"[backup]\nto = {json.dumps(str(backups))}\n")
    variables = {"AITNE_CONFIG": str(config), "AITNE_DATA_DIR": str(source.data_dir)}
    done = subprocess.run(
        [AITNE, "admin", "backup", "--yes"],
        env=os.environ | variables,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    restored = _restore(done.stdout.strip(), tmp_path / "new")
    assert [path.read_text() for path in restored.elsewhere] == [config.read_text()]


@pytest.mark.postgres
def test_backup_of_a_postgresql_platform_is_restored_elsewhere(
    tmp_path: Path, postgres_url: str, postgres_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = Settings(data_dir=tmp_path / "data", database=postgres_url)
    _fill(source)
    config = source.data_dir / "aitne.toml"
    config.write_text(f"database = {json.dumps(postgres_url)}\n")
    job = asyncio.run(_add_job(postgres_url))
    made = _create(source, tmp_path / "backups")
    later = asyncio.run(_add_job(postgres_url))
    with pytest.raises(Conflict, match="already contains a platform"):
        _restore(made, tmp_path / "new")
    assert asyncio.run(_look(postgres_url)) == ({job, later}, 0)

    monkeypatch.setenv("AITNE_DATABASE", postgres_database)
    _restore(made, tmp_path / "new")
    assert asyncio.run(_look(postgres_database)) == ({job}, 1)

    monkeypatch.delenv("AITNE_DATABASE")
    shutil.rmtree(tmp_path / "new")
    restored = _restore(made, tmp_path / "new", replace=True)
    assert asyncio.run(_look(postgres_url)) == ({job}, 1)
    assert str(restored.moved_aside).startswith("schema before-restore-")
    # A backup of the restored platform leaves out what was moved aside.
    again = _create(source, tmp_path / "again")
    assert again.bytes < 2 * made.bytes


@pytest.mark.parametrize(
    ("dsn", "shown", "password"),
    [
        (
            "postgresql://u:p%40w@h:5432/d?sslmode=require",
            "postgresql://u@h:5432/d?sslmode=require",
            "p@w",
        ),
        ("postgresql:///d?host=/run&password=x&user=u", "postgresql:///d?host=/run&user=u", "x"),
        ("postgresql:///d?password=x", "postgresql:///d", "x"),
        ("postgresql://u@h1:1,h2:2/d", "postgresql://u@h1:1,h2:2/d", None),
    ],
)
def test_password_of_the_database_is_not_on_the_command_line(
    dsn: str, shown: str, password: str | None
) -> None:
    assert database._without_password(dsn) == (shown, password)
