"""Format of a backup: one tar file whose last member, the manifest, describes all others.

A backup is written to a temporary name, synchronized to disk and renamed, so a file with the name
of a backup is complete. A reader nevertheless checks every byte before it uses any of them.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, Literal

from pydantic import Field

from aitne.core.errors import InvalidInput, SetupError
from aitne.core.models.base import Frozen, UtcTime
from aitne.local_system.state_file_reader import DamagedState, parse_state_document
from aitne.operations.backup.backup_encryption import (
    BackupCipher,
    NoCipher,
    compute_fingerprint,
    make_decrypting_cipher,
    read_private_key,
)

FORMAT = 1
MANIFEST = "manifest.json"
_NAME = re.compile(r"[A-Za-z0-9_@%+=,:.~ -]+(?:/[A-Za-z0-9_@%+=,:.~ -]+)*")
_COPIED_BYTES = 1 << 20
_MOST_MANIFEST_BYTES = 64 << 20
_HEX = r"^[0-9a-f]{64}$"


class ArchiveMember(Frozen):
    """One file of a backup, as it is stored."""

    name: str
    bytes: int = Field(ge=0)
    sha256: str = Field(pattern=_HEX)


class Manifest(Frozen):
    """Description of a backup."""

    format: int = FORMAT
    created_at: UtcTime
    release: str
    """Release of Aitne that made the backup."""
    database: Literal["sqlite", "postgresql"]
    schema_revision: str
    cluster: str
    scheduler: str
    remote: bool
    """True if jobs run on other machines than the platform."""
    own_accounts: bool
    host: str
    machine: str
    """Hash of the ID of the machine."""
    data_dir: str
    config: str
    """Path of the settings file."""
    recipient: str | None = None
    """Fingerprint of the key that the backup is encrypted to; None: it is not encrypted."""
    ephemeral: str | None = Field(None, pattern=_HEX)
    members: tuple[ArchiveMember, ...] = ()


class ArchiveWriter:
    """Writer of a backup to an open file; ``finish`` adds the manifest."""

    def __init__(self, file: BinaryIO, cipher: BackupCipher) -> None:
        self._file = file
        self._cipher = cipher
        self._tar = tarfile.TarFile(
            fileobj=file, mode="w", format=tarfile.PAX_FORMAT, copybufsize=_COPIED_BYTES
        )
        self._members: list[ArchiveMember] = []

    def add(self, name: str, source: BinaryIO) -> None:
        """Add a file with the content of ``source``, from its beginning to its present size. Raises
        ``OSError``.
        """
        size = source.seek(0, os.SEEK_END)
        source.seek(0)
        stored = _Stored(self._cipher.encrypt(name, source))
        stored_bytes = self._cipher.stored_bytes(size)
        self._write_member(name, stored_bytes, stored)
        self._members.append(ArchiveMember(name=name, bytes=stored_bytes, sha256=stored.sha256()))

    def finish(self, manifest: Manifest) -> None:
        """Write the manifest and the end of the archive, and synchronize the file to disk. Raises
        ``OSError``.
        """
        manifest = manifest.model_copy(update={"members": tuple(self._members)})
        document = manifest.model_dump(mode="json")
        text = json.dumps({**document, "digest": _compute_digest(document)}, indent=1).encode()
        self._write_member(MANIFEST, len(text), io.BytesIO(text))
        self._tar.close()
        self._file.flush()
        os.fsync(self._file.fileno())

    def _write_member(self, name: str, size: int, content: Any) -> None:
        info = tarfile.TarInfo(name)
        info.size, info.mode = size, 0o600
        self._tar.addfile(info, content)


class Archive:
    """A backup that is read. Every method raises ``InvalidInput`` if it is damaged."""

    def __init__(self, path: Path) -> None:
        """Open a backup and read its manifest.

        Raises:
            InvalidInput: the file is no backup, or a truncated or damaged one.
            SetupError: the file cannot be read, or a newer release made it.
        """
        self.path = path
        try:
            self._file = path.open("rb")
        except OSError as error:
            raise SetupError(f"The backup {path} cannot be read: {error.strerror}.") from error
        try:
            self._tar = tarfile.open(fileobj=self._file, mode="r:")  # noqa: SIM115
            self._infos = self._tar.getmembers()
        except (tarfile.TarError, EOFError, ValueError) as error:
            self._file.close()
            raise self._make_foreign_error() from error
        try:
            self.manifest = self._read_manifest()
            self._check_structure()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the file of the backup."""
        self._tar.close()
        self._file.close()

    def __enter__(self) -> Archive:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def make_cipher(self, key: Path | None) -> BackupCipher:
        """Return the cipher that decrypts the backup with the private key in the file ``key``.

        Raises:
            InvalidInput: the key is missing, or another one than the backup's.
            SetupError: the file is no private key.
        """
        if self.manifest.recipient is None or self.manifest.ephemeral is None:
            return NoCipher()
        if key is None:
            raise InvalidInput(
                f"The backup {self.path} is encrypted: name the file with the private key with --key."
            )
        private = read_private_key(key)
        if compute_fingerprint(private.public_key()) != self.manifest.recipient:
            raise InvalidInput(
                f"The backup {self.path} is encrypted to another key than {key}: the SHA-256 of its "
                f"public key begins with {self.manifest.recipient[:16]}."
            )
        return make_decrypting_cipher(private, self.manifest.ephemeral)

    def verify(self) -> None:
        """Compare the size and the SHA-256 of each file with the manifest."""
        for member, info in zip(self.manifest.members, self._infos, strict=False):
            digest = hashlib.sha256()
            for chunk in _read_chunks(self._open_member(info)):
                digest.update(chunk)
            if digest.hexdigest() != member.sha256:
                raise self._make_damaged_error(f"the checksum of {member.name} differs")

    def read(self, member: ArchiveMember, cipher: BackupCipher) -> Iterator[bytes]:
        """Yield the decrypted content of a file."""
        info = self._infos[self.manifest.members.index(member)]
        return cipher.decrypt(member.name, self._open_member(info))

    def _open_member(self, info: tarfile.TarInfo) -> BinaryIO:
        file = self._tar.extractfile(info)
        if file is None:
            raise self._make_damaged_error(f"{info.name} is not a file")
        return file  # type: ignore[return-value]

    def _read_manifest(self) -> Manifest:
        last = self._infos[-1] if self._infos else None
        if last is None or last.name != MANIFEST or last.size > _MOST_MANIFEST_BYTES:
            raise self._make_foreign_error()
        try:
            document = json.loads(self._open_member(last).read())
            digest = document.pop("digest")
            found = document["format"]
        except (ValueError, KeyError, AttributeError, TypeError) as error:
            raise self._make_foreign_error() from error
        if not isinstance(found, int) or digest != _compute_digest(document):
            raise self._make_damaged_error("its manifest was changed")
        if found > FORMAT:
            raise SetupError(
                f"The backup {self.path} is of a newer release (Aitne {document.get('release')}). "
                "Install that release, then restore the backup."
            )
        try:
            return parse_state_document(Manifest, document)
        except DamagedState as error:
            raise self._make_damaged_error("its manifest is invalid") from error

    def _check_structure(self) -> None:
        stored = [(info.name, info.size) for info in self._infos[:-1] if info.isreg()]
        named = [(member.name, member.bytes) for member in self.manifest.members]
        if stored != named or len(stored) != len(self._infos) - 1:
            raise self._make_damaged_error("it has other files than its manifest names")
        if len({name for name, _ in named}) != len(named):
            raise self._make_damaged_error("its manifest names a file twice")
        for name, _ in named:
            if not _NAME.fullmatch(name) or {".", ".."} & set(name.split("/")):
                raise self._make_damaged_error(f"it has a file with the name {name!r}")
        last = self._infos[-1]
        end = last.offset_data + -(-last.size // tarfile.BLOCKSIZE) * tarfile.BLOCKSIZE
        whole = -(-(end + 2 * tarfile.BLOCKSIZE) // tarfile.RECORDSIZE) * tarfile.RECORDSIZE
        if self.path.stat().st_size != whole:
            raise self._make_damaged_error("its end is missing")

    def _make_foreign_error(self) -> InvalidInput:
        return InvalidInput(
            f"{self.path} is not a backup of Aitne, or it is truncated: its manifest is missing. Use "
            "another backup."
        )

    def _make_damaged_error(self, reason: str) -> InvalidInput:
        return InvalidInput(f"The backup {self.path} is damaged: {reason}. Use another backup.")


class _Stored:
    """Reader of a stream of chunks, with the SHA-256 of what was read."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._rest = b""
        self._hash = hashlib.sha256()

    def read(self, size: int) -> bytes:
        while len(self._rest) < size:
            chunk = next(self._chunks, b"")
            if not chunk:
                break
            self._hash.update(chunk)
            self._rest += chunk
        taken, self._rest = self._rest[:size], self._rest[size:]
        return taken

    def sha256(self) -> str:
        """Return the SHA-256 of the chunks in hexadecimal digits."""
        return self._hash.hexdigest()


def _read_chunks(file: BinaryIO) -> Iterator[bytes]:
    while chunk := file.read(_COPIED_BYTES):
        yield chunk


def _compute_digest(document: dict[str, Any]) -> str:
    """Return the SHA-256 of the manifest as canonical JSON."""
    text = json.dumps(document, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
