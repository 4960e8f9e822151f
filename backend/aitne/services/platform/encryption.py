"""Encryption of data that the database must not hold in clear text."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable

from cryptography.fernet import Fernet, InvalidToken

KEY_NAME = "encryption_key"


class Cipher:
    """Encryption of texts with the platform's key. A text that was encrypted for one purpose cannot
    be decrypted for another.
    """

    def __init__(self, read_key: Callable[[], str]) -> None:
        """Store ``read_key``, which reads the key file in the secrets folder."""
        self._read_key = read_key

    def encrypt(self, text: str, purpose: str) -> str:
        """Encrypt ``text``; only ``decrypt`` with the same purpose returns it."""
        return self._make_fernet().encrypt(json.dumps([purpose, text]).encode()).decode()

    def decrypt(self, encrypted: str, purpose: str) -> str:
        """Return the text that ``encrypt`` was given for ``purpose``.

        Raises:
            ValueError: ``encrypted`` was made with another key or for another purpose, or is
                damaged.
        """
        try:
            stored, text = json.loads(self._make_fernet().decrypt(encrypted.encode()))
        except InvalidToken:
            raise ValueError(f"The {purpose} was encrypted with another key.") from None
        if stored != purpose:
            raise ValueError(f"The {purpose} was encrypted for another purpose.")
        return str(text)

    def _make_fernet(self) -> Fernet:
        digest = hashlib.sha256(self._read_key().encode()).digest()
        return Fernet(base64.urlsafe_b64encode(digest))
