"""Restoration of a backup into a data directory.

Everything is written to a folder beside the final places first. Only when it is complete and
checked, files of an earlier platform are moved aside and the new ones renamed to their places.

Root writes nothing in a directory of another account: it acts as that account, and reads only the
backup and its key as root.
"""

from __future__ import annotations

import asyncio
import errno
import os
import secrets
import shlex
import shutil
import tomllib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from tempfile import mkdtemp

from aitne.core.errors import Conflict, SetupError
from aitne.local_system.own_account import own_account_name
from aitne.operations.backup.archive import Archive, Manifest
from aitne.operations.backup.backup_encryption import BackupCipher
from aitne.operations.backup.creation import (
    CONFIG,
    FILES,
    FOLDERS,
    HUB,
    POSTGRES,
    SQLITE,
    machine_hash,
)
from aitne.operations.data_dir_owner import find_owner
from aitne.services.platform.restore_in_progress import restoration_marker_file
from aitne.store import database_backup
from aitne.supervisor import platform_control
from aitne.supervisor.process_account import acting_as

ELSEWHERE = "restored"
"""Folder in the data directory for files whose places are outside it."""
_OF_THE_JOBS = ("jobs", "local", "trees", "images")
"""Folders that a backup does not contain, and running jobs use."""
_STAGE = ".restore-"
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
    actor: str
    key: Path | None
    set_aside: bool = False
    """True if tables of the PostgreSQL database were moved aside."""
    undo: list[Callable[[], object]] = field(default_factory=list)

    @property
    def manifest(self) -> Manifest:
        return self.archive.manifest


def check_restorable(archive: Archive, data_dir: Path, *, replace: bool) -> None:
    """Check that a backup can be restored into ``data_dir``. ``replace`` permits a directory that
    is not empty.

    Raises:
        Conflict: a platform runs there, or the directory is not empty.
        InvalidInput: the backup is damaged.
        SetupError: the backup is of a newer release.
    """
    manifest = archive.manifest
    database_backup.check_schema_not_newer(manifest.schema_revision, manifest.release)
    here = _is_made_here(manifest)
    for folder in {data_dir, *([Path(manifest.data_dir)] if here else [])}:
        with acting_as(find_owner(folder)):
            running = platform_control.get_status(folder) is not None
        if running:
            raise Conflict(
                f"A platform runs in {folder}. Stop it first: "
                f"`aitne down --keep-jobs --data-dir {folder}` leaves its jobs running."
            )
    if here and manifest.own_accounts and Path(manifest.data_dir) != data_dir:
        raise Conflict(
            'With accounts.mode = "own" the records of running jobs are beside the data directory '
            f"{manifest.data_dir}: restore the backup there."
        )
    with acting_as(find_owner(data_dir)):
        empty = not data_dir.is_dir() or not any(data_dir.iterdir())
    if not replace and not empty:
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
    check_restorable(archive, data_dir, replace=replace)
    cipher = archive.make_cipher(key)
    actor, account = own_account_name(), find_owner(data_dir)
    aside = f"before-restore-{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
    try:
        with acting_as(account):
            data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
            for left in data_dir.glob(f"{_STAGE}*"):
                shutil.rmtree(left)  # of a restoration that was killed
            stage = Path(mkdtemp(prefix=_STAGE, dir=data_dir))
            plan = _Plan(archive, cipher, data_dir, replace, stage, aside, actor, key)
            try:
                restored = _restore_platform(plan)
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
    try:
        if os.geteuid() == 0 and plan.manifest.own_accounts:
            _give_config_to_root(plan, 0 if account is None else account.uid)
        with acting_as(account):
            restoration_marker_file(data_dir).unlink()
    except OSError as error:
        raise SetupError(
            f"The backup is not restored completely: {error.filename or data_dir}: "
            f"{error.strerror or error}. Correct this, then run the command again with --replace."
        ) from error
    return restored


def _restore_platform(plan: _Plan) -> RestoredPlatform:
    elsewhere = _extract_to_stage(plan)
    url = _database_url(plan)
    if plan.manifest.database == "sqlite":
        database_backup.check_sqlite(plan.stage / "aitne.db")
        staged_url = f"sqlite:///{plan.stage / 'aitne.db'}"
        asyncio.run(_mark_restored(plan, staged_url))
        for suffix in ("-wal", "-shm"):
            plan.stage.joinpath(f"aitne.db{suffix}").unlink(missing_ok=True)
        target = _check_permitted_database(plan, database_backup.sqlite_file(url))
        _write_restoration_file(plan)
    else:
        _write_restoration_file(plan)
        _restore_postgres(plan, url)
        target = None
    moved = _move_aside(plan, target)
    for name in _REPLACED:
        if plan.stage.joinpath(name).exists():
            _move_with_undo(plan, plan.stage / name, plan.data_dir / name)
    if target is not None:
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _move_with_undo(plan, plan.stage / "aitne.db", target)
    linked = _link_job_folders(plan)
    _sync_folder(plan.data_dir)
    return RestoredPlatform(
        data_dir=plan.data_dir,
        manifest=plan.manifest,
        moved_aside=moved,
        linked=tuple(linked),
        elsewhere=tuple(plan.data_dir / ELSEWHERE / name for name in elsewhere),
    )


def _extract_to_stage(plan: _Plan) -> list[str]:
    """Write the files of the backup to the stage; return the paths of those whose places are
    outside the data directory.
    """
    elsewhere = []
    at_home = Path(plan.manifest.config) == Path(plan.manifest.data_dir) / CONFIG
    for member in plan.archive.manifest.members:
        name = {SQLITE: "aitne.db", HUB: "hub/jupyterhub.sqlite"}.get(member.name, member.name)
        if name == CONFIG and not at_home:
            # The settings are needed for the address of the database.
            _write_new_file(plan.stage / "config", plan.archive.read(member, plan.cipher))
            name = f"{FILES}{plan.manifest.config.lstrip('/')}"
        if name.startswith(FILES):
            elsewhere.append(name.removeprefix(FILES))
            name = f"{ELSEWHERE}/{elsewhere[-1]}"
        _write_new_file(plan.stage / name, plan.archive.read(member, plan.cipher))
    return elsewhere


def _write_new_file(path: Path, chunks: Iterable[bytes]) -> None:
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
                url = tomllib.loads(path.read_text(encoding="utf-8-sig")).get("database")
            except ValueError as error:
                raise SetupError(f"The settings in the backup cannot be read: {error}") from error
    kind = database_backup.parse_database_kind(url or default)
    if kind != plan.manifest.database:
        raise SetupError(
            f"The backup is of a {plan.manifest.database} database, but the settings name a {kind} "
            "database. Set the variable AITNE_DATABASE to the address of the database to restore."
        )
    return url or default


def _check_permitted_database(plan: _Plan, target: Path) -> Path:
    """Return the SQLite database to restore. Raises ``SetupError`` if only the backup names it, and
    it is outside the data directory.
    """
    inside = target.resolve().is_relative_to(plan.data_dir.resolve())
    if not inside and "AITNE_DATABASE" not in os.environ:
        raise SetupError(
            f"The settings in the backup name the database {target}, which is outside {plan.data_dir}. "
            f"If it belongs there, set AITNE_DATABASE=sqlite:///{target} and run the command again."
        )
    return target


def _write_restoration_file(plan: _Plan) -> None:
    """Write the file on account of which `aitne up` refuses a platform that is half restored."""
    file, staged = restoration_marker_file(plan.data_dir), plan.stage / "restoration"
    options = ["--data-dir", str(plan.data_dir), "--replace"]
    if plan.key is not None:
        options += ["--key", str(plan.key.absolute())]
    path = str(plan.archive.path.absolute())
    _write_new_file(staged, [shlex.join(["aitne", "admin", "restore", path, *options]).encode()])
    # That of an earlier restoration, which was killed, remains after a failure.
    if not file.exists():
        plan.undo.append(lambda: file.unlink(missing_ok=True))
    staged.rename(file)
    _sync_folder(plan.data_dir)


async def _mark_restored(plan: _Plan, url: str) -> None:
    await database_backup.complete_restore(
        url,
        actor=plan.actor,
        backup_at=plan.manifest.created_at,
        path=plan.archive.path.name,
    )


def _restore_postgres(plan: _Plan, url: str) -> None:
    if asyncio.run(database_backup.read_schema_revision(url)) is not None:
        if not plan.replace:
            raise Conflict(
                "The PostgreSQL database that the settings name already contains a platform. Name an "
                "empty one with AITNE_DATABASE, or pass --replace: its tables are then moved to "
                "another schema, not deleted."
            )
        plan.undo.append(
            lambda: asyncio.run(database_backup.restore_renamed_schema(url, plan.aside))
        )
        asyncio.run(database_backup.rename_schema(url, plan.aside))
        plan.set_aside = True
    database_backup.restore_postgres(url, plan.stage / POSTGRES)
    asyncio.run(_mark_restored(plan, url))


def _give_config_to_root(plan: _Plan, owner: int) -> None:
    """Replace the restored settings by root's own copy from the backup: root reads them, so only
    root may change them.

    The owner of the data directory may have changed the restored file, or put a link in its place;
    the copy is a new file, in the open directory.
    """
    member = next((member for member in plan.manifest.members if member.name == CONFIG), None)
    if member is None or Path(plan.manifest.config) != Path(plan.manifest.data_dir) / CONFIG:
        return
    folder = os.open(plan.data_dir, os.O_RDONLY | os.O_DIRECTORY)
    try:
        if os.stat(folder).st_uid != owner:
            raise PermissionError(errno.EPERM, "it was replaced", str(plan.data_dir))
        name = f".{CONFIG}-{secrets.token_hex(8)}"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        with os.fdopen(os.open(name, flags, 0o600, dir_fd=folder), "wb") as file:
            file.writelines(plan.archive.read(member, plan.cipher))
            file.flush()
            os.fchown(file.fileno(), 0, os.stat(folder).st_gid)
            os.fchmod(file.fileno(), 0o640)
            os.fsync(file.fileno())
        os.rename(name, CONFIG, src_dir_fd=folder, dst_dir_fd=folder)
        os.fsync(folder)
    finally:
        os.close(folder)


def _move_aside(plan: _Plan, target: Path | None) -> str | None:
    """Move the files of an earlier platform, which the backup replaces, into a folder; return its
    path, or the schema with its tables.
    """
    places = [plan.data_dir / name for name in _REPLACED]
    earlier = [path for path in places if os.path.lexists(path)]
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
        _move_with_undo(plan, path, aside / path.name)
    return str(aside)


def _move_with_undo(plan: _Plan, source: Path, destination: Path) -> None:
    # First, because a signal may arrive at any time.
    plan.undo.append(lambda: None if os.path.lexists(source) else _move(destination, source))
    _move(source, destination)


def _move(source: Path, destination: Path) -> None:
    try:
        # Unlike a move, it never follows a link that the owner of the data directory placed there.
        source.rename(destination)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        shutil.move(source, destination)  # a database on another file system


def _link_job_folders(plan: _Plan) -> list[Path]:
    """Link the folders of running jobs, if the platform of the backup ran on this machine in
    another data directory; return these folders.

    The processes of its jobs continue to write there, and the records of the local scheduler there
    are newer than the backup.
    """
    origin = Path(plan.manifest.data_dir)
    if not _is_made_here(plan.manifest) or origin == plan.data_dir:
        return []
    linked = []
    for name in _OF_THE_JOBS:
        source, link = origin / name, plan.data_dir / name
        if source.is_dir() and not os.path.lexists(link):
            link.symlink_to(source.resolve())
            plan.undo.append(link.unlink)
            linked.append(source)
    return linked


def _is_made_here(manifest: Manifest) -> bool:
    """Return whether the backup was made on this machine."""
    return manifest.machine == machine_hash()


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
