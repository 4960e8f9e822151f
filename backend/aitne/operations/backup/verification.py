"""Verification of a backup."""

from __future__ import annotations

from pathlib import Path

from aitne.operations.backup.archive import Archive, Manifest
from aitne.store.database_backup import check_schema_not_newer


def verify_backup(path: Path, key: Path | None) -> Manifest:
    """Check that a backup is complete and unchanged, and that this release can restore it; return what
    it contains. With the private ``key`` each member is decrypted, too.

    Raises:
        InvalidInput: the file is no backup, or the key does not fit.
        SetupError: the backup is damaged, or of a newer release.
    """
    with Archive(path) as archive:
        manifest = archive.manifest
        check_schema_not_newer(manifest.schema_revision, manifest.release)
        archive.verify()
        if key is not None:
            cipher = archive.make_cipher(key)
            for member in manifest.members:
                for _ in archive.read(member, cipher):
                    pass
    return manifest
