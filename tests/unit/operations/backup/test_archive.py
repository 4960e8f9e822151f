"""The file format of backups: complete and unchanged, or refused."""

from __future__ import annotations

import io
import json
import tarfile
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aitne.core.errors import AitneError, Conflict, InvalidInput, SetupError
from aitne.operations.backup import backup_encryption
from aitne.operations.backup.archive import (
    MANIFEST,
    Archive,
    ArchiveWriter,
    Manifest,
    _compute_digest,
)
from aitne.operations.backup.backup_encryption import CHUNK_BYTES, NoCipher

FILES = {
    "database.sqlite": bytes(range(256)) * 97,
    "secrets/cli_token": b"token",
    "empty": b"",
    "manifests/a b": b"x" * 513,
}


def manifest(**changes: Any) -> Manifest:
    values: dict[str, Any] = {
        "created_at": datetime(2026, 3, 1, tzinfo=UTC),
        "release": "0.2",
        "database": "sqlite",
        "schema_revision": "0001",
        "cluster": "local",
        "scheduler": "local",
        "remote": False,
        "own_accounts": False,
        "host": "here",
        "machine": "m",
        "data_dir": "/srv/aitne",
        "config": "/srv/aitne/aitne.toml",
    }
    return Manifest(**{**values, **changes})


def write(path: Path, files: dict[str, bytes], recipient: Path | None = None) -> Path:
    changes: dict[str, Any] = {}
    cipher: backup_encryption.BackupCipher = NoCipher()
    if recipient is not None:
        key = backup_encryption.read_recipient(recipient)
        cipher, changes["ephemeral"] = backup_encryption.make_encrypting_cipher(key)
        changes["recipient"] = backup_encryption.compute_fingerprint(key)
    with path.open("wb") as file:
        writer = ArchiveWriter(file, cipher)
        for name, content in files.items():
            writer.add(name, io.BytesIO(content))
        writer.finish(manifest(**changes))
    return path


def read(path: Path, key: Path | None = None) -> dict[str, bytes]:
    with Archive(path) as archive:
        archive.verify()
        cipher = archive.make_cipher(key)
        return {
            member.name: b"".join(archive.read(member, cipher))
            for member in archive.manifest.members
        }


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("whole") / "backup.tar", FILES)


@pytest.fixture(scope="module")
def key(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("key") / "backup-key"
    backup_encryption.create_key_pair(path)
    return path


def public(key: Path) -> Path:
    return key.with_name(f"{key.name}.pub")


def test_backup_returns_what_was_written(whole: Path) -> None:
    assert read(whole) == FILES


@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_truncated_backup_is_refused(whole: Path, data: st.DataObject) -> None:
    content = whole.read_bytes()
    length = data.draw(st.integers(0, len(content) - 1))
    short = whole.with_name("short.tar")
    short.write_bytes(content[:length])
    with pytest.raises(InvalidInput, match="backup"):
        read(short)


@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_changed_byte_is_noticed_or_harmless(whole: Path, data: st.DataObject) -> None:
    """Padding and unused fields of tar may change; no content may."""
    content = bytearray(whole.read_bytes())
    place = data.draw(st.integers(0, len(content) - 1))
    content[place] ^= data.draw(st.integers(1, 255))
    changed = whole.with_name("changed.tar")
    changed.write_bytes(content)
    with suppress(AitneError):
        assert read(changed) == FILES


@pytest.mark.parametrize("content", [b"", b"\0" * 10_240, b"PK\x03\x04" + b"z" * 2_000])
def test_foreign_file_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "photo.tar"
    path.write_bytes(content)
    with pytest.raises(InvalidInput, match="is not a backup of Aitne"):
        Archive(path)


def test_foreign_archive_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "home.tar"
    with tarfile.open(path, "w") as tar:
        info = tarfile.TarInfo(MANIFEST)
        info.size = 2
        tar.addfile(info, io.BytesIO(b"[]"))
    with pytest.raises(InvalidInput, match="is not a backup of Aitne"):
        Archive(path)


def _forged(path: Path, names: list[tarfile.TarInfo], **changes: Any) -> Path:
    """An archive of these files, with a manifest that fits them unless ``changes`` say otherwise."""
    empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    document = manifest().model_dump(mode="json") | {
        "members": [{"name": info.name, "bytes": 0, "sha256": empty} for info in names],
        **changes,
    }
    text = json.dumps({**document, "digest": _compute_digest(document)}).encode()
    with tarfile.open(path, "w") as tar:
        for info in names:
            tar.addfile(info)
        last = tarfile.TarInfo(MANIFEST)
        last.size = len(text)
        tar.addfile(last, io.BytesIO(text))
    return path


@pytest.mark.parametrize("name", ["../out", "secrets/../../out", "a//b", "./a", "a\nb"])
def test_name_that_leaves_the_folder_is_refused(tmp_path: Path, name: str) -> None:
    path = _forged(tmp_path / "evil.tar", [tarfile.TarInfo(name)])
    with pytest.raises(InvalidInput, match="it has a file with the name"):
        Archive(path)


def test_link_in_a_backup_is_refused(tmp_path: Path) -> None:
    link = tarfile.TarInfo("secrets/cli_token")
    link.type, link.linkname = tarfile.SYMTYPE, "/etc/shadow"
    with pytest.raises(InvalidInput, match="other files than its manifest"):
        Archive(_forged(tmp_path / "evil.tar", [link]))


def test_newer_format_is_refused(tmp_path: Path) -> None:
    path = _forged(tmp_path / "new.tar", [], format=2, release="9.0")
    with pytest.raises(SetupError, match=r"newer release \(Aitne 9.0\)"):
        Archive(path)


@pytest.mark.parametrize(
    "size", [0, 1, CHUNK_BYTES - 1, CHUNK_BYTES, CHUNK_BYTES + 1, 2 * CHUNK_BYTES]
)
def test_encrypted_backup_is_read_with_its_key(tmp_path: Path, key: Path, size: int) -> None:
    content = (b"passphrase" * (size // 10 + 1))[:size]
    path = write(tmp_path / "backup.tar", {"secrets/x": content, "empty": b""}, public(key))
    assert b"passphrase" not in path.read_bytes()
    assert read(path, key) == {"secrets/x": content, "empty": b""}


def test_encrypted_backup_needs_its_own_key(tmp_path: Path, key: Path) -> None:
    path = write(tmp_path / "backup.tar", FILES, public(key))
    with pytest.raises(InvalidInput, match="is encrypted: name the file"):
        read(path)
    other = tmp_path / "other"
    backup_encryption.create_key_pair(other)
    with pytest.raises(InvalidInput, match="encrypted to another key"):
        read(path, other)
    with pytest.raises(SetupError, match="not the private key"):
        read(path, public(key))
    with pytest.raises(SetupError, match="not the public key"):
        write(tmp_path / "wrong.tar", FILES, key)


def test_encrypted_content_cannot_be_cut_or_exchanged(key: Path) -> None:
    """Even by those who can also write a fitting manifest."""
    cipher, ephemeral = backup_encryption.make_encrypting_cipher(
        backup_encryption.read_recipient(public(key))
    )
    reader = backup_encryption.make_decrypting_cipher(
        backup_encryption.read_private_key(key), ephemeral
    )
    content = b"a" * CHUNK_BYTES + b"b" * CHUNK_BYTES
    stored = b"".join(cipher.encrypt("secrets/x", io.BytesIO(content)))
    assert len(stored) == cipher.stored_bytes(len(content))
    half = len(stored) // 2
    for changed, name in (
        (stored[:half], "secrets/x"),
        (stored[half:] + stored[:half], "secrets/x"),
        (stored, "secrets/y"),
        (b"", "secrets/x"),
    ):
        with pytest.raises(InvalidInput, match="cannot be decrypted"):
            b"".join(reader.decrypt(name, io.BytesIO(changed)))


def test_key_is_private_and_never_replaced(tmp_path: Path) -> None:
    path = tmp_path / "key"
    backup_encryption.create_key_pair(path)
    assert path.stat().st_mode & 0o777 == 0o600
    before = path.read_bytes()
    with pytest.raises(Conflict, match="exists and is not replaced"):
        backup_encryption.create_key_pair(path)
    assert path.read_bytes() == before
