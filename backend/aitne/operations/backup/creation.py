"""Creation of a backup, while the platform runs or not."""

from __future__ import annotations

import asyncio
import hashlib
import os
import socket
import tomllib  # noqa: F401 - for the settings: the owner of the data directory may not read Python
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import aitne
from aitne.core.errors import SetupError
from aitne.core.settings import Settings
from aitne.local_system.settings_loader import find_config_path
from aitne.operations.backup.archive import ArchiveWriter, Manifest
from aitne.operations.backup.backup_encryption import (
    BackupCipher,
    NoCipher,
    compute_fingerprint,
    make_encrypting_cipher,
    read_recipient,
)
from aitne.operations.backup.backup_targets import (
    create_staging_folder,
    make_backup_name,
    make_target,
)
from aitne.services.platform.backup_record import BackupRecord, backup_record_file
from aitne.services.platform.exposed_files import BROKER_CONFIG
from aitne.services.platform.shared_secrets import write_private
from aitne.store import database_backup

SQLITE, POSTGRES, HUB = "database.sqlite", "database.dump", "hub.sqlite"
"""Members with the databases of the platform and of JupyterHub."""
CONFIG = "aitne.toml"
FOLDERS = ("secrets", "tls", "manifests")
"""Folders in the data directory that a backup contains."""
FILES = "files/"
"""Prefix of members from outside the data directory, followed by their path."""
_MACHINE_ID = Path("/etc/machine-id")


@dataclass(frozen=True, slots=True)
class CreatedBackup:
    """A backup that was made. ``left_out`` are files that could not be read, with the reason, and
    ``pruned`` the names of older backups that were deleted.
    """

    path: str
    created_at: datetime
    bytes: int
    encrypted: bool
    left_out: tuple[str, ...]
    pruned: tuple[str, ...]


def create_backup(
    settings: Settings, *, to: str, keep: int, recipient: Path | None
) -> CreatedBackup:
    """Make a backup of the platform, delete those that are more than ``keep``, and record it in the
    data directory.

    The databases are copied first, each in the state of one moment: the files that their rows name
    exist before the rows. If it fails, nothing remains of it.

    Raises:
        SetupError: a setting or a file is missing, or the disk is full; the message says which.
        Unavailable: the database or the bucket does not answer.
    """
    if not settings.data_dir.is_dir():
        raise SetupError(f"There is no platform in {settings.data_dir}: name it with --data-dir.")
    target = make_target(to, settings.data_dir)
    cipher, ephemeral, key = _make_cipher(recipient)
    try:
        # Not encrypted yet, so the copies of the databases stay here.
        with (
            create_staging_folder(settings.data_dir) as copies,
            create_staging_folder(target.staging) as folder,
        ):
            databases, schema = _copy_databases(settings, copies)
            created_at = datetime.now(UTC)
            left_out: list[str] = []
            path = folder / "archive"
            with open(path, "xb", opener=_open_private_file) as file:
                writer = ArchiveWriter(file, cipher)
                for name, copy in databases.items():
                    with copy.open("rb") as source:
                        writer.add(name, source)
                    copy.unlink()
                for name, source_path in _list_backup_files(settings):
                    try:
                        source = source_path.open("rb")
                    except FileNotFoundError:
                        continue  # deleted since it was listed
                    except PermissionError as error:
                        left_out.append(f"{source_path} ({error.strerror})")
                        continue
                    with source:
                        writer.add(name, source)
                writer.finish(_make_manifest(settings, created_at, schema, ephemeral, key))
            size = path.stat().st_size
            address = target.store(path, make_backup_name(settings.cluster, created_at))
    except OSError as error:
        raise SetupError(
            f"The backup could not be made: {error.filename or to}: {error.strerror or error}. Nothing "
            "of it is left; earlier backups are not affected. Make space there, or choose another "
            "folder with --to."
        ) from error
    record = BackupRecord(path=address, created_at=created_at, bytes=size)
    try:
        write_private(backup_record_file(settings.data_dir), record.model_dump_json())
        pruned = target.prune(settings.cluster, keep)
    except OSError as error:
        raise SetupError(
            f"The backup {address} is complete, but {error.filename} cannot be changed: "
            f"{error.strerror or error}."
        ) from error
    return CreatedBackup(
        address, created_at, size, recipient is not None, tuple(left_out), tuple(pruned)
    )


def machine_hash() -> str:
    """Return a hash of the ID of this machine, or of its name if it has no ID."""
    try:
        identity = _MACHINE_ID.read_text().strip()
    except OSError:
        identity = ""
    return hashlib.sha256(f"aitne backup\0{identity or socket.gethostname()}".encode()).hexdigest()


def _make_cipher(recipient: Path | None) -> tuple[BackupCipher, str | None, str | None]:
    """Return the cipher, its ephemeral public key, and the fingerprint of the recipient's key."""
    if recipient is None:
        return NoCipher(), None, None
    public = read_recipient(recipient)
    cipher, ephemeral = make_encrypting_cipher(public)
    return cipher, ephemeral, compute_fingerprint(public)


def _copy_databases(settings: Settings, folder: Path) -> tuple[dict[str, Path], str]:
    """Copy the databases of the platform and of JupyterHub into ``folder``; return the copies by
    member, and the revision of the platform's schema.
    """
    schema = asyncio.run(_read_schema_revision(settings))
    copies: dict[str, Path] = {}
    if database_backup.parse_database_kind(settings.database_url) == "sqlite":
        copies[SQLITE] = folder / "sqlite"
        database_backup.copy_sqlite(
            database_backup.sqlite_file(settings.database_url), copies[SQLITE]
        )
    else:
        copies[POSTGRES] = folder / "dump"
        database_backup.dump_postgres(settings.database_url, copies[POSTGRES])
    hub = settings.data_dir / "hub" / "jupyterhub.sqlite"
    if hub.exists():
        copies[HUB] = folder / "hub"
        database_backup.copy_sqlite(hub, copies[HUB])
    return copies, schema


async def _read_schema_revision(settings: Settings) -> str:
    url = settings.database_url
    exists = (
        database_backup.parse_database_kind(url) != "sqlite"
        or database_backup.sqlite_file(url).exists()
    )
    schema = await database_backup.read_schema_revision(url) if exists else None
    if schema is None:
        raise SetupError(
            f"The platform in {settings.data_dir} has no database yet: start it once with `aitne up`."
        )
    return schema


def _list_backup_files(settings: Settings) -> Iterator[tuple[str, Path]]:
    """Yield the files of a backup other than the databases, each with the name of its member."""
    config = find_config_path(settings.data_dir)
    if config.exists():
        yield CONFIG, config
    for folder in FOLDERS:
        root = settings.data_dir / folder
        if root.is_symlink():
            raise SetupError(
                f"{root} is a link, which a backup does not follow. Move the folder itself there."
            )
        for path in _list_files_below(root):
            yield f"{folder}/{path.relative_to(root)}", path
    if BROKER_CONFIG.exists():
        yield f"{FILES}{str(BROKER_CONFIG).lstrip('/')}", BROKER_CONFIG
    for root in settings.templates:
        for path in _list_files_below(root.absolute()):
            yield f"{FILES}{str(path).lstrip('/')}", path


def _list_files_below(root: Path) -> Iterator[Path]:
    """Yield the regular files below a folder, in a fixed order. Links are not followed."""
    for folder, folders, names in os.walk(root):
        folders.sort()
        for name in sorted(names):
            path = Path(folder, name)
            if path.is_file() and not path.is_symlink():
                yield path


def _make_manifest(
    settings: Settings, at: datetime, schema: str, ephemeral: str | None, key: str | None
) -> Manifest:
    return Manifest(
        created_at=at,
        release=aitne.__version__,
        database=database_backup.parse_database_kind(settings.database_url),
        schema_revision=schema,
        cluster=settings.cluster,
        scheduler=settings.scheduler,
        remote=settings.capabilities.remote,
        own_accounts=settings.uses_user_accounts,
        host=socket.gethostname(),
        machine=machine_hash(),
        data_dir=str(settings.data_dir),
        config=str(find_config_path(settings.data_dir).absolute()),
        ephemeral=ephemeral,
        recipient=key,
    )


def _open_private_file(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
