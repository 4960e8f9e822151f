"""Secrets of the platform, in one file each that only its owner can read; created at the first
start.
"""

from __future__ import annotations

import secrets
from pathlib import Path

from aitne.services.platform.shared_secrets import write_private

NAMES = (
    "hub_api_token",
    "hub_service_secret",
    "oauth_client_secret",
    "proxy_auth_token",
    "hub_cookie_secret",
    "second_factor_key",
    "webhook_key",
    "metrics_token",
    "alerts_token",
    "encryption_key",
)
BYTES = 32


def ensure_secrets(folder: Path) -> None:
    """Create the files of secrets that are missing in ``folder``.

    Existing secrets are kept, so that logins and sessions remain valid after a restart.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.chmod(0o700)
    for name in NAMES:
        path = folder / name
        if path.exists() and path.read_text().strip():
            continue
        write_private(path, secrets.token_hex(BYTES))
