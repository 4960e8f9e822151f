"""Protocol between the platform and the agent inside an allocation. Version 1.

The agent is standard library only, so it builds these as plain dictionaries; a contract test holds
its messages against the models here. Portal N serves agents N-1: fields are only ever added.

Files in the job's folder: ``agent.json`` (``AgentSpec``) and ``token`` (the job token).
Calls, all with ``Authorization: Bearer <token>``:

- ``POST /agent/v1/jobs/{job_id}/report`` with ``AgentReport`` -> 200 ``AgentReply``
- ``GET /agent/v1/jobs/{job_id}/handover?wait_s=25`` -> 200 ``Handover`` or 204 when there is none yet
- ``GET /agent/v1/jobs/{job_id}/secrets`` -> 200 ``JobSecrets``, 409 when one is gone
- ``GET /agent/v1/jobs/{job_id}/tree`` -> 200 list of the tree's files, line feed, their contents
- ``POST /agent/v1/jobs/{job_id}/certificate`` with ``CertificateRequest`` -> 200 ``IssuedCertificate``
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any
from uuid import UUID

from pydantic import Field

from aitne.core.models.base import Frozen, Strict, UtcTime
from aitne.core.models.job import Sample, Scalar
from aitne.core.ports.runtime import RuntimeLaunch, RuntimeLimits

VERSION = 1

EXIT_ENVIRONMENT = 118
"""Exit code: an entry of the job's ``environment`` could not be loaded; the log names it."""
EXIT_OUT_OF_MEMORY = 119
"""Exit code: the cgroup that the agent created ended the program; the outcome file records it."""
EXIT_NOT_READY = 120
"""Exit code: a file or program that the job needs is missing on the node; the outcome names it."""
EXIT_DUPLICATE = 121
"""The fence was taken by another run of this attempt; nothing was started."""
EXIT_NO_FENCE = 122
"""The fence could be neither taken nor read; nothing was started."""
EXIT_NEVER_ANSWERED = 123
"""The app did not answer within its time."""


class AgentApp(Frozen):
    """An app that the agent starts. ``argv`` is its complete command line, apart from arguments of
    the hand-over.
    """

    name: str
    kind: str
    argv: tuple[str, ...]
    readiness_path: str
    timeout_s: int


class AgentNeed(Frozen):
    """A file or folder that must exist before the agent starts any program."""

    what: str
    """For the message: ``the image jupyter:1.0``, ``the dataset div2k:1``."""
    path: str
    kind: str
    """``file`` or ``folder``."""
    within: tuple[str, ...] = ()
    """If any: with symbolic links followed it must lie in one of these folders."""
    size_bytes: int | None = None
    mtime_ns: int | None = None
    sha256: str | None = None
    """Checksum of a file, verified if its size or time differs from the two above."""


EXIT_PREEMPTED = 75
"""Exit code (EX_TEMPFAIL) of a program that was asked to end, saved its state and wants to
resume."""


RUN_DIR, NODE_RANK = "{run_dir}", "{node_rank}"
"""Each stands alone in an argument vector of a program with ranks where its agent puts the folder
of the ranks, and the number of its node."""


class AgentRanks(Frozen):
    """Ranks of a distributed program: ``commands`` start those of one node, with these values in
    their environment. With several nodes an agent runs on each, started by the agent of the first
    node."""

    nodes: int = Field(ge=1)
    ranks_per_node: int = Field(ge=1)
    agent: tuple[str, ...]
    """The agent's own argument vector, up to ``--node`` and the job's folder."""
    env: dict[str, str] = Field(default_factory=dict)
    """Variables for the ranks' runtime, such as ``AITNE_TRANSPORT``."""


class AgentSetting(Frozen):
    """Parameter setting of one task of a sweep, which the agent passes in a file and in environment
    variables.
    """

    values: dict[str, Scalar]
    env: dict[str, str]


class AgentTree(Frozen):
    """Folder in which a job runs, filled before its program starts: with the tree that
    ``GET /agent/v1/jobs/{job_id}/tree`` returns, or from a git repository."""

    path: str
    """Absolute path of the folder. All attempts and tasks share it; the first one fills it."""
    digest: str | None = None
    """sha256 of the list of the tree's files (``core.trees``)."""
    url: str | None = None
    """Address of a git repository."""
    ref: str | None = None
    """Branch, tag or commit of the repository."""
    subdir: str | None = None
    """Folder of the repository in which the job runs; None: its top."""


class AgentSpec(Frozen):
    """Content of ``agent.json``, which tells the agent what to start."""

    protocol: int = VERSION
    job_id: UUID
    """Id of the job; of the array job for an array."""
    attempt: int
    platform_url: str | None
    """None: the agent sends no reports."""
    authority: str | None = None
    """The certificate of the platform's CA (PEM), trusted beside the node's own; an app then serves
    TLS with a certificate of its own. None: the platform does not use TLS."""
    commands: tuple[tuple[str, ...], ...] = ()
    """One argument vector per entry of ``commands``, run in order until one fails."""
    apps: tuple[AgentApp, ...] = ()
    env: dict[str, str] = Field(default_factory=dict)
    secrets: bool = False
    """Whether there are secrets to be fetched."""
    path: tuple[str, ...] = ()
    """Folders put before the node's own PATH; a PATH in ``env`` replaces both."""
    workdir: str
    tree: AgentTree | None = None
    """Source of the folder in which the job runs; None: the folder exists."""
    launch: RuntimeLaunch = RuntimeLaunch()
    """``commands`` and the apps' ``argv`` are the programs' own; this comes before each."""
    needs: tuple[AgentNeed, ...] = ()
    datasets: dict[str, str] = Field(default_factory=dict)
    """Name to folder: linked below a folder that ``AITNE_DATASETS`` names. In a container they are
    bound, and ``env`` has the variable."""
    limits: RuntimeLimits = RuntimeLimits()
    tmp_dir: str = "/tmp"  # noqa: S108 - a default that a site may change
    """Node-local disk, where the run's own temporary folder is made."""
    listen: str = "127.0.0.1"
    """Listening address of the apps: ``node`` (the node's own address), a network (the node's
    address in it), or an address."""
    sample_interval_s: float = 2.0
    inactivity_duration_s: int | None = None
    """Time without activity after which a session ends, in seconds: the agent reports periodically
    how long the session has been inactive."""
    ranks: AgentRanks | None = None
    """None: a program that runs once, on the first node."""
    venv: str | None = None
    conda: str | None = None
    """Environments that are loaded before the programs: the snapshot has their packages."""
    log_files: tuple[str, ...] = ()
    """Paths at which the log also appears, as formats of Python with the letters of
    ``core.jobs.log_pattern``."""
    settings: tuple[AgentSetting, ...] = ()
    """Settings of a sweep, by the tasks' indices."""


class ProgramPhase(StrEnum):
    """Progress of the program, as an ``AgentReport`` states it."""

    STARTED = "started"
    """The fence is taken; the program is about to start. For an app: its address is known."""
    RUNNING = "running"
    """A heartbeat with samples."""
    READY = "ready"
    """The app answers."""
    FINISHED = "finished"


class AgentReport(Frozen):
    """Report of the agent to the platform. No report is essential: a later one makes up for a lost
    one."""

    protocol: int
    attempt: int
    task: int | None = None
    restart_count: int = Field(0, ge=0, le=1_000_000)
    """Number of restarts of the attempt by the scheduler, from the agent's environment."""
    phase: ProgramPhase
    node: str = Field(max_length=253)
    address: str | None = Field(None, pattern=r"^[A-Za-z0-9_.:\[\]-]{1,255}:[0-9]{1,5}$")
    """``host:port`` of the app."""
    exit_code: int | None = None
    message: str | None = Field(None, max_length=2_000)
    samples: tuple[Sample, ...] = Field(default=(), max_length=1_000)
    node_rank: int | None = Field(None, ge=0)
    """Number of a further node, from its agent: it reports only its samples and the profile."""
    idle_s: float | None = Field(None, ge=0)
    """For how long the agent has seen no activity in the session."""
    profile: dict[str, Any] | None = None
    """Profile of the ranks' collectives, from their runtime (``core.models.profile``); the last one
    counts."""
    snapshot: dict[str, Any] | None = None
    """Snapshot of what the job runs on (``core.models.snapshot.Taken``)."""
    results: dict[str, Any] | None = None
    """Measurements of its program (``core.models.sweep.Results``): the last ones count."""
    files: dict[str, Any] | None = None
    """Files that it has written (``core.models.snapshot.WrittenFiles``)."""


class AgentReply(Frozen):
    """The platform's answer to a report."""

    protocol: int = VERSION


class JobSecrets(Frozen):
    """The owner's secrets that the job names: set on its programs, never in files."""

    env: dict[str, str]


class SessionStatus(Frozen):
    """Facts about a session that the bar in its own page shows."""

    name: str
    portal_url: str
    """Page of the session in the portal."""
    expires_at: UtcTime | None
    memory_bytes: int | None
    """Memory in use at the last measurement; None: not measured yet."""
    memory_limit_bytes: int
    gpus: int
    """Number of its GPUs."""
    gpu_utilization: float | None
    """Mean over its GPUs, 0 to 1; None: not measured, or no GPUs."""


class SessionExtension(Strict):
    """Time by which the session's own page extends it."""

    duration_s: int = Field(ge=1, le=7 * 86_400)


class CertificateRequest(Strict):
    """A certificate signing request for the key that a session has made."""

    request: str = Field(max_length=8_192, description="The request in PEM format.")
    address: str = Field(max_length=300, description="``host:port`` at which the session listens.")


class IssuedCertificate(Frozen):
    """The certificate of a session's server, for its address and its host in browsers."""

    certificate: str = Field(
        description="The certificate in PEM format, followed by that of the CA of sessions."
    )


class Handover(Frozen):
    """Environment and arguments from JupyterHub for the single-user server. ``env`` is set on the
    process, never passed in arguments."""

    env: dict[str, str]
    args: tuple[str, ...] = ()
