"""The platform's own secrets: one file each, readable for its user alone, made at the first start."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

NAMES = (
    "hub_api_token",
    "hub_service_secret",
    "oauth_client_secret",
    "proxy_auth_token",
    "hub_cookie_secret",
    "second_factor_key",
    "webhook_key",
    "metrics_token",
    "encryption_key",
)
BYTES = 32


def ensure_secrets(folder: Path) -> None:
    """Make what is missing. What is there stays, so that logins and sessions outlive a restart."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.chmod(0o700)
    for name in NAMES:
        path = folder / name
        if path.exists() and path.read_text().strip():
            continue
        # Whole or not there at all, and never readable for others, not even for a moment.
        temporary = folder / f".{name}.{os.getpid()}"
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(secrets.token_hex(BYTES) + "\n")
        temporary.replace(path)
