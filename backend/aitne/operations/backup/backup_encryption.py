"""Encryption of backups to a public key, so that the machine that makes them need not hold the
private key.

Each backup has an ephemeral X25519 key pair. The key of each file in it is derived (HKDF, SHA-256)
from the shared secret and the file's name. A file is encrypted in chunks with AES-256-GCM; the
nonce is the number of the chunk and a mark of the last one, so that chunks can be neither exchanged
nor cut off.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Protocol

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
    load_pem_public_key,
)

from aitne.core.errors import Conflict, InvalidInput, SetupError

CHUNK_BYTES = 1 << 20
_TAG_BYTES = 16


class BackupCipher(Protocol):
    """Conversion of the contents of files on their way into a backup or out of it."""

    def encrypt(self, name: str, source: BinaryIO) -> Iterator[bytes]:
        """Yield the stored form of the content of ``source``, the file ``name``."""
        ...

    def stored_bytes(self, plain_bytes: int) -> int:
        """Return the size of the stored form of a file with ``plain_bytes``."""
        ...

    def decrypt(self, name: str, source: BinaryIO) -> Iterator[bytes]:
        """Yield the content of the file ``name``, whose stored form is ``source``.

        Raises ``InvalidInput`` if it was encrypted to another key, or changed.
        """
        ...


class NoCipher:
    """The cipher of backups that are not encrypted."""

    def encrypt(self, name: str, source: BinaryIO) -> Iterator[bytes]:
        """Yield the content unchanged."""
        return _read_chunks(source, CHUNK_BYTES)

    def stored_bytes(self, plain_bytes: int) -> int:
        """Return the size of the content."""
        return plain_bytes

    def decrypt(self, name: str, source: BinaryIO) -> Iterator[bytes]:
        """Yield the content unchanged."""
        return _read_chunks(source, CHUNK_BYTES)


class SharedCipher:
    """The cipher of one backup, from the secret that its two keys share."""

    def __init__(self, private: X25519PrivateKey, public: X25519PublicKey) -> None:
        self._secret = private.exchange(public)

    def encrypt(self, name: str, source: BinaryIO) -> Iterator[bytes]:
        """Yield the chunks, each encrypted."""
        box = self._make_aead(name)
        for number, chunk, last in _number_chunks(_read_chunks(source, CHUNK_BYTES)):
            yield box.encrypt(_make_nonce(number, last), chunk, None)

    def stored_bytes(self, plain_bytes: int) -> int:
        """Return the size with one tag for each chunk; an empty file has one chunk."""
        return plain_bytes + _TAG_BYTES * max(1, -(-plain_bytes // CHUNK_BYTES))

    def decrypt(self, name: str, source: BinaryIO) -> Iterator[bytes]:
        """Yield decrypted chunks. Raises ``InvalidInput``."""
        box = self._make_aead(name)
        for number, chunk, last in _number_chunks(_read_chunks(source, CHUNK_BYTES + _TAG_BYTES)):
            try:
                yield box.decrypt(_make_nonce(number, last), chunk, None)
            except InvalidTag:
                raise InvalidInput(
                    f"{name} in the backup cannot be decrypted: the key is another one, or the file "
                    "was changed."
                ) from None

    def _make_aead(self, name: str) -> AESGCM:
        info = b"aitne backup 1\0" + name.encode()
        return AESGCM(HKDF(hashes.SHA256(), 32, salt=None, info=info).derive(self._secret))


def create_key_pair(private: Path) -> Path:
    """Write a new private key to ``private`` (mode 0600) and its public key beside it; return the
    path of the public key, which ends in ``.pub``.

    Raises:
        Conflict: one of the files exists. A lost private key makes its backups worthless.
        SetupError: a file cannot be written.
    """
    public = private.with_name(f"{private.name}.pub")
    key = X25519PrivateKey.generate()
    for path, mode, content in (
        (public, 0o644, _public_pem(key.public_key())),
        (
            private,
            0o600,
            key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()),
        ),
    ):
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
        except FileExistsError:
            raise Conflict(f"{path} exists and is not replaced: choose another file.") from None
        except OSError as error:
            raise SetupError(f"{path} cannot be written: {error.strerror}.") from error
    return public


def read_recipient(path: Path) -> X25519PublicKey:
    """Return the public key in a file. Raises ``SetupError``."""
    try:
        key = load_pem_public_key(_read_key_file(path))
    except ValueError:
        key = None
    if not isinstance(key, X25519PublicKey):
        raise SetupError(
            f"{path} is not the public key of a backup. `aitne admin backup key FILE` creates a pair; "
            "the public key is FILE.pub."
        )
    return key


def read_private_key(path: Path) -> X25519PrivateKey:
    """Return the private key in a file. Raises ``SetupError``."""
    try:
        key = load_pem_private_key(_read_key_file(path), password=None)
    except (ValueError, TypeError):
        key = None
    if not isinstance(key, X25519PrivateKey):
        raise SetupError(f"{path} is not the private key of a backup.")
    return key


def compute_fingerprint(key: X25519PublicKey) -> str:
    """Return the SHA-256 of a public key in hexadecimal digits."""
    return hashlib.sha256(key.public_bytes(Encoding.Raw, PublicFormat.Raw)).hexdigest()


def make_encrypting_cipher(recipient: X25519PublicKey) -> tuple[SharedCipher, str]:
    """Return the cipher of a new backup for ``recipient``, and its ephemeral public key in
    hexadecimal digits.
    """
    ephemeral = X25519PrivateKey.generate()
    public = ephemeral.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
    return SharedCipher(ephemeral, recipient), public.hex()


def make_decrypting_cipher(private: X25519PrivateKey, ephemeral: str) -> SharedCipher:
    """Return the cipher of an existing backup with that ephemeral public key."""
    return SharedCipher(private, X25519PublicKey.from_public_bytes(bytes.fromhex(ephemeral)))


def _public_pem(key: X25519PublicKey) -> bytes:
    return key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def _read_key_file(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise SetupError(f"The key {path} cannot be read: {error.strerror}.") from error


def _make_nonce(number: int, last: bool) -> bytes:
    return number.to_bytes(11, "big") + bytes([last])


def _read_chunks(source: BinaryIO, size: int) -> Iterator[bytes]:
    while chunk := source.read(size):
        yield chunk


def _number_chunks(chunks: Iterator[bytes]) -> Iterator[tuple[int, bytes, bool]]:
    """Yield each chunk with its number and whether it is the last one; at least one, which may be
    empty.
    """
    number, chunk = 0, next(chunks, b"")
    for following in chunks:
        yield number, chunk, False
        number, chunk = number + 1, following
    yield number, chunk, True
