"""Backups of real databases, and their restoration into other data directories."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shlex
import shutil
import subprocess
import threading
from pathlib import Path

import pytest

from aitne.core.errors import Conflict, InvalidInput, SetupError
from aitne.core.settings import Settings
from aitne.operations.backup import creation
from aitne.operations.backup.backup_encryption import create_key_pair
from aitne.services.platform.backup_record import read_backup_record
from aitne.store import Store, database_backup
from tests.support.backups import add_job, contents, create_in, fill, restore_to, source, stored
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

__all__ = [
    "migrated",
    "postgres_database",
    "postgres_server",
    "postgres_template",
    "postgres_url",
    "source",
]

ROOT = Path(__file__).resolve().parents[3]


def test_backup_of_an_sqlite_platform_is_restored_elsewhere(
    source: Settings, tmp_path: Path
) -> None:
    job = asyncio.run(add_job(source.database_url))
    key = tmp_path / "key"
    public = create_key_pair(key)
    made = create_in(source, tmp_path / "backups", key=public)
    assert Path(made.path).stat().st_mode & 0o777 == 0o600
    last = read_backup_record(source.data_dir)
    assert last is not None
    assert (last.path, last.bytes) == (made.path, Path(made.path).stat().st_size)
    secret = source.secrets_dir.joinpath("hub_cookie_secret").read_bytes()
    assert secret.strip() not in Path(made.path).read_bytes()

    target = tmp_path / "new"
    with pytest.raises(InvalidInput, match="is encrypted"):
        restore_to(made, target)
    restored = restore_to(made, target, key=key)
    assert target.joinpath("secrets/hub_cookie_secret").read_bytes() == secret
    assert target.joinpath("secrets/hub_cookie_secret").stat().st_mode & 0o777 == 0o600
    assert target.joinpath("aitne.toml").read_text() == 'title = "Io"\n'
    assert target.joinpath("manifests/abc").read_text() == "{}"
    assert asyncio.run(stored(f"sqlite:///{target / 'aitne.db'}")) == ({job}, 1)
    # The folder of the jobs is on this machine, and perhaps in use.
    assert target.joinpath("jobs").resolve() == source.data_dir / "jobs"
    assert restored.linked == (source.data_dir / "jobs",)
    assert not list(target.glob(".restore-*"))


def test_backup_during_writes_is_of_one_moment(source: Settings, tmp_path: Path) -> None:
    """The chain of the audit log breaks if a copy mixes states; each job has its outbox row."""
    stop = threading.Event()
    written: list[str] = []

    async def write() -> None:
        store = Store(source.database_url)
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
        made = create_in(source, tmp_path / "backups")
        count = len(written)
        while len(written) < count + 5:  # the writer was not stopped by the backup
            stop.wait(0.01)
    finally:
        stop.set()
        writer.join()
    target = tmp_path / "new"
    restore_to(made, target)
    jobs, _ = asyncio.run(stored(f"sqlite:///{target / 'aitne.db'}"))
    assert before <= jobs <= set(written)


def test_older_backups_are_deleted(
    source: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "backups"
    folder.mkdir()
    old = folder / "aitne-local-20200101T000000Z.tar"
    old.write_text("old")
    made = create_in(source, folder, keep=1)
    assert made.pruned == (old.name,)
    assert [str(path) for path in folder.iterdir()] == [made.path]


def test_full_disk_leaves_nothing(source: Settings, tmp_path: Path) -> None:
    with mounted(tmp_path / "small", "size=300k") as small:
        kept = small / "aitne-local-20200101T000000Z.tar"
        kept.write_text("old")
        with pytest.raises(SetupError, match=r"No space left on device.*Nothing of it is left"):
            create_in(source, small, keep=1)
        assert list(small.iterdir()) == [kept]
        assert read_backup_record(source.data_dir) is None
    made = create_in(source, tmp_path / "backups")
    with mounted(tmp_path / "new", "size=300k") as small:
        with pytest.raises(SetupError, match="No space left on device"):
            restore_to(made, small)
        assert list(small.iterdir()) == []


def test_restore_over_a_platform_needs_consent_and_keeps_it(
    source: Settings, tmp_path: Path
) -> None:
    made = create_in(source, tmp_path / "backups")
    later = asyncio.run(add_job(source.database_url))
    source.data_dir.joinpath("jobs", "log").write_text("of a running job")
    before = contents(source.data_dir)
    with pytest.raises(Conflict, match="is not empty"):
        restore_to(made, source.data_dir)
    assert contents(source.data_dir) == before

    restored = restore_to(made, source.data_dir, replace=True)
    assert asyncio.run(stored(source.database_url)) == (set(), 1)
    # What running jobs use stays in place.
    assert source.data_dir.joinpath("jobs", "log").read_text() == "of a running job"
    assert restored.moved_aside is not None
    aside = Path(restored.moved_aside)
    assert asyncio.run(stored(f"sqlite:///{aside / 'aitne.db'}")) == ({later}, 0)
    assert aside.joinpath("secrets/cli_token").exists() is False
    assert aside.joinpath("secrets/hub_cookie_secret").exists()


def test_failed_restore_changes_nothing(
    source: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = create_in(source, tmp_path / "backups")
    before = contents(source.data_dir)
    content = bytearray(Path(made.path).read_bytes())
    content[20_000] ^= 1
    Path(made.path).write_bytes(content)
    with pytest.raises(InvalidInput, match=r"damaged: the checksum of database.sqlite differs"):
        restore_to(made, source.data_dir, replace=True)
    assert contents(source.data_dir) == before


def test_backup_of_a_newer_release_is_refused(
    source: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = create_in(source, tmp_path / "backups")
    monkeypatch.setattr(database_backup, "is_known_revision", lambda schema: False)
    with pytest.raises(SetupError, match="of a newer release"):
        restore_to(made, tmp_path / "new")
    assert not tmp_path.joinpath("new").exists()


def test_files_from_elsewhere_are_restored_beside_the_platform(
    source: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker, templates = tmp_path / "etc" / "broker.toml", tmp_path / "templates"
    for path in (broker, templates / "mine.yaml"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(path.name)
    monkeypatch.setattr(creation, "BROKER_CONFIG", broker)
    made = create_in(source.model_copy(update={"templates": [templates]}), tmp_path / "backups")
    restored = restore_to(made, tmp_path / "new")
    assert [path.read_text() for path in restored.elsewhere] == ["broker.toml", "mine.yaml"]
    assert restored.elsewhere[0] == Path(f"{tmp_path}/new/restored{broker}")


def test_commands_of_the_handbook_back_up_and_restore(source: Settings, tmp_path: Path) -> None:
    """Each `aitne` command of both pages, with the folders of this test."""
    job = asyncio.run(add_job(source.database_url))
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
            typed = re.sub(r"/srv/backups/\S+|BACKUP", str(made), typed).replace(
                "/srv/backups", str(folder)
            )
            typed = typed.replace("/tmp/drill", str(tmp_path / "drill"))
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
    assert len(printed) == 7
    for restored in (source.data_dir, tmp_path / "standby", tmp_path / "drill"):
        jobs, restorations = asyncio.run(stored(f"sqlite:///{restored / 'aitne.db'}"))
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
    restored = restore_to(done.stdout.strip(), tmp_path / "new")
    assert [path.read_text() for path in restored.elsewhere] == [config.read_text()]


@pytest.mark.postgres
def test_backup_of_a_postgresql_platform_is_restored_elsewhere(
    tmp_path: Path, postgres_url: str, postgres_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = Settings(data_dir=tmp_path / "data", database=postgres_url)
    fill(source)
    config = source.data_dir / "aitne.toml"
    config.write_text(f"database = {json.dumps(postgres_url)}\n")
    job = asyncio.run(add_job(postgres_url))
    made = create_in(source, tmp_path / "backups")
    later = asyncio.run(add_job(postgres_url))
    with pytest.raises(Conflict, match="already contains a platform"):
        restore_to(made, tmp_path / "new")
    assert asyncio.run(stored(postgres_url)) == ({job, later}, 0)

    monkeypatch.setenv("AITNE_DATABASE", postgres_database)
    restore_to(made, tmp_path / "new")
    assert asyncio.run(stored(postgres_database)) == ({job}, 1)

    monkeypatch.delenv("AITNE_DATABASE")
    shutil.rmtree(tmp_path / "new")
    restored = restore_to(made, tmp_path / "new", replace=True)
    assert asyncio.run(stored(postgres_url)) == ({job}, 1)
    assert str(restored.moved_aside).startswith("schema before-restore-")
    # A backup of the restored platform leaves out what was moved aside.
    again = create_in(source, tmp_path / "again")
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
    assert database_backup._without_password(dsn) == (shown, password)
