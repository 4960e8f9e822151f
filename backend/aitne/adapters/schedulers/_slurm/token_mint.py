"""JSON Web Tokens for Slurm's auth/jwt, each for one user and a short time.

https://slurm.schedmd.com/jwt.html: HS256 with slurmctld's key and the claims ``sun`` (the user),
``iat`` and ``exp``.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import os
import stat
import time
from collections.abc import Callable
from pathlib import Path

from aitne.core.errors import SetupError

LIFETIME_S = 60
"""Lifetime of a token in seconds: enough for any request, and of little use to an attacker. It also
limits how late a submission that a suspended slurmrestd holds can still be executed: Slurm rejects
it afterwards.
"""
_MIN_KEY_BYTES = 32  # HS256 requires a key as long as its hash (RFC 7518, 3.2)
_HEADER = {"alg": "HS256", "typ": "JWT"}


class TokenMint:
    """Issuer of Slurm's JSON Web Tokens with slurmctld's key. Each token is cached for half of its
    lifetime.
    """

    def __init__(
        self,
        key: bytes,
        *,
        lifetime_s: int = LIFETIME_S,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._key = key
        self._lifetime_s = lifetime_s
        self._clock = clock
        self._kept: dict[str, tuple[float, str]] = {}

    @classmethod
    def from_file(cls, path: Path) -> TokenMint:
        """Create an issuer with the key in the file ``path``.

        Raises:
            SetupError: the file cannot be read, other accounts can read it, or it contains no key.
        """
        return cls(_read_key(path))

    def token(self, user: str) -> str:
        """Return a valid token that authenticates ``user``."""
        now = self._clock()
        until, token = self._kept.get(user, (0.0, ""))
        # A clock that was set back must not extend a token's use, so both limits are checked.
        if not until - self._lifetime_s / 2 <= now < until:
            token = sign_token(self._key, user, int(now), int(now) + self._lifetime_s)
            self._kept = {
                name: entry for name, entry in self._kept.items() if now < entry[0] and name != user
            }
            self._kept[user] = (now + self._lifetime_s / 2, token)
        return token


def sign_token(key: bytes, user: str, issued_at: int, expires_at: int) -> str:
    """Return a signed token (RFC 7519); times are in seconds since 1970."""
    claims = {"exp": expires_at, "iat": issued_at, "sun": user}
    body = b".".join(
        _encode_base64url(json.dumps(part, separators=(",", ":")).encode())
        for part in (_HEADER, claims)
    )
    return (body + b"." + _encode_base64url(hmac.new(key, body, hashlib.sha256).digest())).decode(
        "ascii"
    )


def _encode_base64url(data: bytes) -> bytes:
    return base64.urlsafe_b64encode(data).rstrip(b"=")


def _read_key(path: Path) -> bytes:
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise SetupError(
            f"slurm.jwt_key: {path} cannot be read: {os.strerror(error.errno or 0)}. "
            "It is slurmctld's own key (AuthAltParameters=jwt_key=…); the process that submits needs it."
        ) from error
    with os.fdopen(handle, "rb") as file:
        mode = os.fstat(handle).st_mode
        if mode & (stat.S_IROTH | stat.S_IWOTH | stat.S_IWGRP):
            raise SetupError(
                f"slurm.jwt_key: {path} has mode {stat.S_IMODE(mode):04o}: an account that can read or "
                f"write it can act as any user of Slurm. Run: chmod 0400 {path}"
            )
        key = file.read(1 << 16)
    if len(key) < _MIN_KEY_BYTES:
        raise SetupError(
            f"slurm.jwt_key: {path} holds {len(key)} bytes; a key for HS256 has at least "
            f"{_MIN_KEY_BYTES}. Create one as described in https://slurm.schedmd.com/jwt.html."
        )
    return key
