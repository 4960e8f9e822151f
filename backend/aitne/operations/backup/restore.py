"""Restoration of a backup into a data directory.

Everything is written to a folder beside the final places first. Only when it is complete and
checked, files of an earlier platform are moved aside and the new ones renamed to their places.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import tomllib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from tempfile import mkdtemp

from aitne.adapters.store import backup as database
from aitne.core.errors import Conflict, SetupError
from aitne.host.account import own_account_name
from aitne.operations.backup.archive import Archive, Manifest
from aitne.operations.backup.create import (
    CONFIG,
    FILES,
    FOLDERS,
    HUB,
    POSTGRES,
    SQLITE,
    machine_hash,
)
from aitne.operations.backup.encryption import BackupCipher
from aitne.supervisor import control

ELSEWHERE = "restored"
"""Folder in the data directory for files whose places are outside it."""
_OF_THE_JOBS = ("jobs", "local", "trees", "images")
"""Folders that a backup does not contain, and running jobs use."""
_REPLACED = ("hub", *FOLDERS, CONFIG, "backup.json", ELSEWHERE)


@dataclass(frozen=True, slots=True)
class RestoredPlatform:
    """A platform that was restored."""

    data_dir: Path
    manifest: Manifest
    moved_aside: str | None
    """Folder, or schema of the PostgreSQL database, with what was there before; None: nothing was.
    """
    linked: tuple[Path, ...]
    """Folders of the earlier data directory that this one uses through links, because jobs may be
    running in them.
    """
    elsewhere: tuple[Path, ...]
    """Files in ``ELSEWHERE``, to be copied to their places."""


@dataclass(slots=True)
class _Plan:
    """Backup to restore, and the folders that it passes on its way."""

    archive: Archive
    cipher: BackupCipher
    data_dir: Path
    replace: bool
    stage: Path
    aside: str
    set_aside: bool = False
    """True if tables of the PostgreSQL database were moved aside."""
    undo: list[Callable[[], object]] = field(default_factory=list)

    @property
    def manifest(self) -> Manifest:
        return self.archive.manifest


def check(archive: Archive, data_dir: Path, *, replace: bool) -> None:
    """Check that a backup can be restored into ``data_dir``. ``replace`` permits a directory that
    is not empty.

    Raises:
        Conflict: a platform runs there, or the directory is not empty.
        InvalidInput: the backup is damaged.
        SetupError: the backup is of a newer release.
    """
    manifest = archive.manifest
    database.refuse_newer(manifest.schema_revision, manifest.release)
    here = _made_here(manifest)
    for folder in {data_dir, *([Path(manifest.data_dir)] if here else [])}:
        if control.status(folder) is not None:
            raise Conflict(
                f"A platform runs in {folder}. Stop it first: "
                f"`aitne down --keep-jobs --data-dir {folder}` leaves its jobs running."
            )
    if here and manifest.own_accounts and Path(manifest.data_dir) != data_dir:
        raise Conflict(
            'With accounts.mode = "own" the records of running jobs are beside the data directory '
            f"{manifest.data_dir}: restore the backup there."
        )
    if not replace and data_dir.is_dir() and any(data_dir.iterdir()):
        raise Conflict(
            f"The data directory {data_dir} is not empty. Choose an empty one, or pass --replace: the "
            "platform in it is then moved aside, not deleted."
        )
    archive.verify()


def restore_backup(
    archive: Archive, data_dir: Path, *, key: Path | None, replace: bool
) -> RestoredPlatform:
    """Restore a backup into ``data_dir``; if it fails, the directory and the database are as they
    were.

    Raises:
        Conflict: a platform runs there, or the directory or the database is not empty.
        InvalidInput: the backup is damaged, or encrypted to another key than ``key``.
        SetupError: the backup is of a newer release, or the disk is full.
    """
    check(archive, data_dir, replace=replace)
    cipher = archive.cipher(key)
    at = f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
    try:
        data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        stage = Path(mkdtemp(prefix=".restore-", dir=data_dir))
        plan = _Plan(archive, cipher, data_dir, replace, stage, f"before-restore-{at}")
        try:
            return _restore(plan)
        except BaseException:
            for step in reversed(plan.undo):
                step()
            raise
        finally:
            shutil.rmtree(stage, ignore_errors=True)
    except OSError as error:
        raise SetupError(
            f"The backup could not be restored: {error.filename or data_dir}: "
            f"{error.strerror or error}. Nothing was changed."
        ) from error


def _restore(plan: _Plan) -> RestoredPlatform:
    elsewhere = _extract(plan)
    url = _database_url(plan)
    if plan.manifest.database == "sqlite":
        database.check_sqlite(plan.stage / "aitne.db")
        staged_url = f"sqlite:///{plan.stage / 'aitne.db'}"
        asyncio.run(_mark(plan, staged_url))
        for suffix in ("-wal", "-shm"):
            plan.stage.joinpath(f"aitne.db{suffix}").unlink(missing_ok=True)
        target = database.sqlite_file(url)
    else:
        asyncio.run(_restore_postgres(plan, url))
        target = None
    _own(plan)
    moved = _move_aside(plan, target)
    for name in _REPLACED:
        if plan.stage.joinpath(name).exists():
            _rename(plan, plan.stage / name, plan.data_dir / name)
    if target is not None:
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _rename(plan, plan.stage / "aitne.db", target)
    linked = _link(plan)
    _sync(plan.data_dir)
    return RestoredPlatform(
        data_dir=plan.data_dir,
        manifest=plan.manifest,
        moved_aside=moved,
        linked=tuple(linked),
        elsewhere=tuple(plan.data_dir / ELSEWHERE / name for name in elsewhere),
    )


def _extract(plan: _Plan) -> list[str]:
    """Write the files of the backup to the stage; return the paths of those whose places are
    outside the data directory.
    """
    elsewhere = []
    at_home = Path(plan.manifest.config) == Path(plan.manifest.data_dir) / CONFIG
    for member in plan.archive.manifest.members:
        name = {SQLITE: "aitne.db", HUB: "hub/jupyterhub.sqlite"}.get(member.name, member.name)
        if name == CONFIG and not at_home:
            # The settings are needed for the address of the database.
            _write(plan.stage / "config", plan.archive.read(member, plan.cipher))
            name = f"{FILES}{plan.manifest.config.lstrip('/')}"
        if name.startswith(FILES):
            elsewhere.append(name.removeprefix(FILES))
            name = f"{ELSEWHERE}/{elsewhere[-1]}"
        _write(plan.stage / name, plan.archive.read(member, plan.cipher))
    return elsewhere


def _write(path: Path, chunks: Iterable[bytes]) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        for chunk in chunks:
            file.write(chunk)
        file.flush()
        os.fsync(file.fileno())


def _database_url(plan: _Plan) -> str:
    """Return the address of the database, from the variable or the settings of the backup. Raises
    ``SetupError`` if it is of another kind than the backup.
    """
    default = f"sqlite:///{plan.data_dir / 'aitne.db'}"
    url = os.environ.get("AITNE_DATABASE")
    for path in (plan.stage / "config", plan.stage / CONFIG):
        if url is None and path.exists():
            try:
                url = tomllib.loads(path.read_text(encoding="utf-8")).get("database")
            except ValueError as error:
                raise SetupError(f"The settings in the backup cannot be read: {error}") from error
    found = database.kind_of(url or default)
    if found != plan.manifest.database:
        raise SetupError(
            f"The backup is of a {plan.manifest.database} database, but the settings name a {found} "
            "database. Set the variable AITNE_DATABASE to the address of the database to restore."
        )
    return url or default


async def _mark(plan: _Plan, url: str) -> None:
    await database.mark_restored(
        url,
        actor=own_account_name(),
        backup_at=plan.manifest.created_at,
        path=plan.archive.path.name,
    )


async def _restore_postgres(plan: _Plan, url: str) -> None:
    if await database.schema_of(url) is not None:
        if not plan.replace:
            raise Conflict(
                "The PostgreSQL database that the settings name already contains a platform. Name an "
                "empty one with AITNE_DATABASE, or pass --replace: its tables are then moved to "
                "another schema, not deleted."
            )
        await database.set_aside(url, plan.aside)
        plan.set_aside = True
    try:
        await asyncio.to_thread(database.restore_postgres, url, plan.stage / POSTGRES)
        await _mark(plan, url)
    except BaseException:
        if plan.set_aside:
            await database.put_back(url, plan.aside)
        raise
    if plan.set_aside:
        plan.undo.append(lambda: asyncio.run(database.put_back(url, plan.aside)))


def _own(plan: _Plan) -> None:
    """Give the restored files to the owner of the data directory, if root restores them."""
    if os.geteuid() != 0:
        return
    owner = plan.data_dir.stat()
    for folder, folders, names in os.walk(plan.stage):
        for path in (Path(folder), *(Path(folder, name) for name in (*folders, *names))):
            os.chown(path, owner.st_uid, owner.st_gid, follow_symlinks=False)
    config = plan.stage / CONFIG
    if plan.manifest.own_accounts and config.exists():
        # Root reads these settings, so only root may change them.
        os.chown(config, 0, owner.st_gid)
        config.chmod(0o640)


def _move_aside(plan: _Plan, target: Path | None) -> str | None:
    """Move the files of an earlier platform, which the backup replaces, into a folder; return its
    path, or the schema with its tables.
    """
    names = [name for name in _REPLACED if plan.data_dir.joinpath(name).exists()]
    earlier = [plan.data_dir / name for name in names]
    if target is not None:
        files = [target.with_name(target.name + suffix) for suffix in ("", "-wal", "-shm")]
        found = [path for path in files if path.exists()]
        if found and not plan.replace:
            raise Conflict(f"The database {target} exists: pass --replace to move it aside.")
        earlier += found
    if not earlier:
        return f"schema {plan.aside}" if plan.set_aside else None
    aside = plan.data_dir / plan.aside
    aside.mkdir(mode=0o700)
    plan.undo.append(aside.rmdir)
    for path in earlier:
        _rename(plan, path, aside / path.name)
    return str(aside)


def _rename(plan: _Plan, source: Path, destination: Path) -> None:
    shutil.move(source, destination)
    plan.undo.append(lambda: shutil.move(destination, source))


def _link(plan: _Plan) -> list[Path]:
    """Link the folders of running jobs, if the platform of the backup ran on this machine in
    another data directory; return these folders.

    The processes of its jobs continue to write there, and the records of the local scheduler there
    are newer than the backup.
    """
    origin = Path(plan.manifest.data_dir)
    if not _made_here(plan.manifest) or origin == plan.data_dir:
        return []
    linked = []
    for name in _OF_THE_JOBS:
        source, link = origin / name, plan.data_dir / name
        if source.is_dir() and not os.path.lexists(link):
            link.symlink_to(source.resolve())
            plan.undo.append(link.unlink)
            linked.append(source)
    return linked


def _made_here(manifest: Manifest) -> bool:
    """Return whether the backup was made on this machine."""
    return manifest.machine == machine_hash()


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
