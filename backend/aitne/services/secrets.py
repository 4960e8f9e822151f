"""The secrets that the platform's own parts share, and how secrets of others are kept."""

from __future__ import annotations

import hashlib
import os
import secrets
from pathlib import Path

from aitne.core.errors import SetupError
from aitne.core.settings import Settings


def new_secret(prefix: str = "") -> str:
    """256 random bits as text."""
    return prefix + secrets.token_urlsafe(32)


def hashed(secret: str) -> str:
    """What the database holds of a secret. It has 256 bits, so it needs neither salt nor time."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def read_secret(settings: Settings, name: str) -> str:
    """One of the files in the secrets directory.

    Raises:
        SetupError: it is not there or is empty.
    """
    path = settings.secrets_dir / name
    try:
        secret = path.read_text().strip()
    except OSError as error:
        raise SetupError(
            f"The secret {path} cannot be read: {error.strerror}. `aitne up` makes it at its start."
        ) from error
    if not secret:
        raise SetupError(f"The secret {path} is empty. Remove it and run `aitne up` again.")
    return secret


def write_private(path: Path, text: str) -> None:
    """Write a file that its account alone can read, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text if text.endswith("\n") else f"{text}\n")
    temporary.replace(path)
