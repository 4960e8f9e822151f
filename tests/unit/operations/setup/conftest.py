from __future__ import annotations

from typing import Any

SITE: dict[str, Any] = {
    "scheduler": "slurm",
    "public_url": "https://aitne.example.org",
    "sessions_url": "https://*.aitne-sessions.org",
    "proxy": {"server": "nginx"},
    "certificates": {
        "source": "files",
        "portal": "/etc/ssl/aitne/portal.pem",
        "portal_key": "/etc/ssl/aitne/portal.key",
        "sessions": "/etc/ssl/aitne/sessions.pem",
        "sessions_key": "/etc/ssl/aitne/sessions.key",
    },
}
"""Valid answers of a site with Slurm and nginx."""


def site(**changes: Any) -> dict[str, Any]:
    """The answers of ``SITE`` with changes; a dictionary changes some fields of a section."""
    return SITE | {
        name: {**SITE.get(name, {}), **value} if isinstance(value, dict) else value
        for name, value in changes.items()
    }
