"""Secrets that parts of the platform share, and the form in which other secrets are stored."""

from __future__ import annotations

import hashlib
import os
import secrets
from pathlib import Path

from aitne.core.errors import SetupError
from aitne.core.settings import Settings


def new_secret(prefix: str = "") -> str:
    """Return ``prefix`` followed by 256 random bits, encoded as text."""
    return prefix + secrets.token_urlsafe(32)


def hash_secret(secret: str) -> str:
    """Return the hash of a secret, as the database stores it.

    A secret has 256 bits, so it needs neither a salt nor a slow hash.
    """
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def read_secret(settings: Settings, name: str) -> str:
    """Return the content of a file in the secrets folder.

    Raises:
        SetupError: the file is missing or empty.
    """
    path = settings.secrets_dir / name
    try:
        secret = path.read_text().strip()
    except OSError as error:
        raise SetupError(
            f"The secret {path} cannot be read: {error.strerror}. `aitne up` creates it at its start."
        ) from error
    if not secret:
        raise SetupError(f"The secret {path} is empty. Remove it and run `aitne up` again.")
    return secret


def write_private(path: Path, text: str) -> None:
    """Write a file that only its owner can read. The file is replaced atomically."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text if text.endswith("\n") else f"{text}\n")
    temporary.replace(path)
