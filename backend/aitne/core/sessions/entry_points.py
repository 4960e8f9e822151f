"""Names of sessions in JupyterHub, and the apps at which they can be opened."""

from __future__ import annotations

from urllib.parse import quote
from uuid import UUID

from pydantic import Field

from aitne.core.jobs.states import JobState
from aitne.core.models.base import Frozen
from aitne.core.models.job import Job
from aitne.core.sessions.host_names import WILDCARD, user_label

WORKSPACE = "AITNE_WORKSPACE"
"""Environment variable with the name of a session's workspace, which it shares with the sessions
that it continues.
"""
HUB_SAFE = "@~"
"""Characters that JupyterHub does not escape in the paths of users. Its servers compare paths
literally, so URLs must be escaped as JupyterHub does it.
"""


def server_name(job_id: UUID) -> str:
    """Return the name of the session's named server in JupyterHub, which is short enough for a host
    name and never reused.
    """
    return f"s-{job_id.hex[:12]}"


def session_url(sessions_url: str, owner: str, job_id: UUID, path: str = "/lab") -> str:
    """Return the URL at which the session can be opened. If ``sessions_url`` contains ``*.``, the
    host name of the owner is inserted there.
    """
    origin = sessions_url.replace(WILDCARD, f"{user_label(owner)}.", 1)
    return f"{origin}/user/{quote(owner, safe=HUB_SAFE)}/{server_name(job_id)}{path}"


def describe_live_successor(successor: Job) -> str:
    """Return a message which says that a session cannot be continued because the live session
    ``successor`` continues it already.
    """
    return (
        f"The session {successor.id} already continues this one: it is {successor.state}. Open it, or "
        "stop it first."
    )


class EntryPoint(Frozen):
    """An app at which a session can be opened."""

    name: str = Field(description="Name that `open` takes as `app`.")
    title: str
    icon: str = Field(description="A name from the portal's icon set.")
    url: str | None = Field(description="URL of the app; null until the session is READY.")


def entry_points(job: Job) -> tuple[EntryPoint, ...]:
    """Return the apps of a session, the default one first; empty for a batch job."""
    apps = job.spec.apps
    base = None if job.url is None else job.url.removesuffix(apps[0].path)
    return tuple(
        EntryPoint(
            name=app.name,
            title=app.title,
            icon=app.icon,
            url=None if base is None or job.state is not JobState.READY else base + app.path,
        )
        for app in apps
    )
