"""What the platform and the agent inside an allocation say to each other. Version 1.

The agent is standard library only, so it builds these as plain dictionaries; a contract test holds
its messages against the models here. Portal N serves agents N-1: fields are only ever added.

Files in the job's folder: ``agent.json`` (``AgentSpec``) and ``token`` (the job's own secret).
Calls, all with ``Authorization: Bearer <token>``:

- ``POST /agent/v1/jobs/{job_id}/report`` with ``AgentReport`` -> 200 ``AgentReply``
- ``GET /agent/v1/jobs/{job_id}/handover?wait_s=25`` -> 200 ``Handover`` or 204 when there is none yet
"""

from __future__ import annotations

from enum import StrEnum
from uuid import UUID

from pydantic import Field

from aitne.core.models.base import Frozen
from aitne.core.models.job import Sample

VERSION = 1

EXIT_DUPLICATE = 121
"""The fence was taken by another run of this attempt; nothing was started."""
EXIT_NO_FENCE = 122
"""The fence could be neither taken nor read; nothing was started."""
EXIT_NEVER_ANSWERED = 123
"""The app did not answer within its time."""


class AgentApp(Frozen):
    """An app to start. ``argv`` is complete but for what a hand-over adds."""

    name: str
    kind: str
    argv: tuple[str, ...]
    readiness_path: str
    timeout_s: int


class AgentSpec(Frozen):
    """The file ``agent.json``: what the agent has to do."""

    protocol: int = VERSION
    job_id: UUID
    """Of the array job for an array."""
    attempt: int
    platform_url: str | None
    """None: report to nobody."""
    commands: tuple[tuple[str, ...], ...] = ()
    """One argument vector per entry of ``commands``, run in order until one fails."""
    apps: tuple[AgentApp, ...] = ()
    env: dict[str, str] = Field(default_factory=dict)
    path: tuple[str, ...] = ()
    """Folders put before the node's own PATH; a PATH in ``env`` replaces both."""
    workdir: str
    listen: str = "127.0.0.1"
    """Where an app listens: ``node`` (the node's own address), a network (the node's address in
    it), or an address."""
    sample_interval_s: float = 2.0


class Phase(StrEnum):
    """How far the program has come, as an ``AgentReport`` says it."""

    STARTED = "started"
    """The fence is taken; the program is about to start. For an app: its address is known."""
    RUNNING = "running"
    """A heartbeat with samples."""
    READY = "ready"
    """The app answers."""
    FINISHED = "finished"


class AgentReport(Frozen):
    """What the agent tells the platform. A report that is lost is never missed for good."""

    protocol: int
    attempt: int
    task: int | None = None
    restart_count: int = 0
    phase: Phase
    node: str = Field(max_length=253)
    address: str | None = Field(None, pattern=r"^[A-Za-z0-9_.:\[\]-]{1,255}:[0-9]{1,5}$")
    """``host:port`` of the app."""
    exit_code: int | None = None
    message: str | None = Field(None, max_length=2_000)
    samples: tuple[Sample, ...] = Field(default=(), max_length=1_000)


class AgentReply(Frozen):
    """The platform's answer to a report."""

    protocol: int = VERSION


class Handover(Frozen):
    """What JupyterHub leaves for the single-user server: set on the process, never in arguments."""

    env: dict[str, str]
    args: tuple[str, ...] = ()
