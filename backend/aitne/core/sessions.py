"""What a session is called at the Hub, and where it opens."""

from __future__ import annotations

from urllib.parse import quote
from uuid import UUID


def server_name(job_id: UUID) -> str:
    """The session's named server: short enough for a host name, and never reused."""
    return f"s-{job_id.hex[:12]}"


def session_url(sessions_origin: str, owner: str, job_id: UUID, path: str = "/lab") -> str:
    """Where Open leads: below the sessions' own origin."""
    return f"{sessions_origin}/user/{quote(owner, safe='')}/{server_name(job_id)}{path}"
