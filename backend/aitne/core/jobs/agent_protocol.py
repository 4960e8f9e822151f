"""Protocol between the platform and the agent inside an allocation.

The agent is standard library only, so it builds these as plain dictionaries; a contract test holds
its messages against the models here. A job keeps the agent of the release that submitted it, so the
platform serves the agents of the previous release, and after a rollback those of the next one.
Fields are only ever added; where a field must not be ignored, ``VERSION`` is increased.

Files in the job's folder: ``agent.json`` (``AgentSpec``) and ``token`` (the job token).
Calls, all with ``Authorization: Bearer <token>``:

- ``POST /agent/v1/jobs/{job_id}/report`` with ``AgentReport`` -> 200 ``AgentReply``
- ``GET /agent/v1/jobs/{job_id}/handover?wait_s=25`` -> 200 ``Handover`` or 204 when there is none yet
- ``GET /agent/v1/jobs/{job_id}/secrets`` -> 200 ``JobSecrets``, 409 when one is gone
- ``GET /agent/v1/jobs/{job_id}/tree`` -> 200 list of the tree's files, line feed, their contents
- ``POST /agent/v1/jobs/{job_id}/certificate`` with ``CertificateRequest`` -> 200 ``IssuedCertificate``

Of the job's own program (``aitne.job()``, ``aitne.notify()``), which can read the token too:

- ``GET /agent/v1/jobs/{job_id}/status?task=0`` -> 200 ``ProgramStatus``
- ``POST /agent/v1/jobs/{job_id}/message`` with ``ProgramMessage`` -> 204
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any
from uuid import UUID

from pydantic import Field

from aitne.core.jobs.states import JobState
from aitne.core.models.base import Frozen, Strict, UtcTime
from aitne.core.models.job import Scalar
from aitne.core.models.usage_sample import Sample
from aitne.core.ports.runtime import RuntimeLaunch, RuntimeLimits

VERSION = 1
"""Version that this release's agents speak."""
OLDEST_VERSION = 1
"""Oldest version of agents that the platform serves."""

EXIT_LOG_FULL = 116
"""Exit code: the program failed, and its log does not fit on the disk; the outcome has its exit code."""
EXIT_ENVIRONMENT = 118
"""Exit code: an entry of the job's ``environment`` could not be loaded; the log names it."""
EXIT_OUT_OF_MEMORY = 119
"""Exit code: the cgroup that the agent created ended the program; the outcome file records it."""
EXIT_NOT_READY = 120
"""Exit code: a file or program that the job needs is missing on the node, or another account listens
on the job's ``MASTER_PORT``; the outcome names it."""
EXIT_DUPLICATE = 121
"""Exit code: another run of this attempt had created the fence; nothing was started."""
EXIT_NO_FENCE = 122
"""Exit code: the fence could be neither created nor read; nothing was started."""
EXIT_NEVER_ANSWERED = 123
"""Exit code: the app did not answer within its time."""


MAX_MESSAGE = 1_000
"""Maximum number of characters in a message of a program to its job's owner."""


class AgentApp(Frozen):
    """App that the agent starts."""

    name: str
    kind: str
    argv: tuple[str, ...]
    """Command line without the arguments of the hand-over."""
    readiness_path: str
    """Path of the HTTP request with which the agent checks that the app answers."""
    timeout_s: int
    """Seconds after which an app that does not answer counts as failed."""


class AgentNeed(Frozen):
    """A file or folder that must exist before the agent starts any program."""

    what: str
    """Description for messages, such as ``the image jupyter:1.0`` or ``the dataset div2k:1``."""
    path: str
    kind: str
    """Kind of the entry: ``file`` or ``folder``."""
    within: tuple[str, ...] = ()
    """If not empty, the path with symbolic links resolved must lie in one of these folders."""
    size_bytes: int | None = None
    mtime_ns: int | None = None
    sha256: str | None = None
    """SHA-256 digest of a file, which is verified if its size or time differs from the two fields
    above.
    """


EXIT_PREEMPTED = 75
"""Exit code (EX_TEMPFAIL) of a program that was asked to end, has saved its state and is to be
resumed later.
"""


RUN_DIR, NODE_RANK = "{run_dir}", "{node_rank}"
"""Placeholders that are whole arguments in the command of a program with ranks; the agent replaces
them by the folder of the ranks, and the number of its node.
"""


class AgentRanks(Frozen):
    """Ranks of a distributed program. ``commands`` start the ranks of one node, with the values
    below in their environment.

    On several nodes, an agent runs on each node; the first node's agent starts the other agents.
    In a session, ``commands`` start the ranks of the other nodes, and the ``argv`` of the app
    starts those of the first node, too; in a job with a notebook, ``leader`` does.
    """

    nodes: int = Field(ge=1)
    ranks_per_node: int = Field(ge=1)
    agent: tuple[str, ...]
    """Command that starts the agent, as a list of arguments before ``--node`` and the job
    folder.
    """
    env: dict[str, str] = Field(default_factory=dict)
    """Environment variables for the runtime of the ranks, such as ``AITNE_TRANSPORT``."""


class AgentPlacement(Frozen):
    """Order of the job's nodes, which the agent of the first node decides and by which ranks are
    numbered.
    """

    order: str = "auto"
    """``auto`` (by the topology), ``given`` or ``file:PATH``."""
    mesh: tuple[int, ...] = ()
    """Sizes of the dimensions of the mesh of ranks, innermost first; empty: one ring."""


class AgentSetting(Frozen):
    """Parameter setting of one task of a sweep, which the agent writes to a file and to environment
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
    """SHA-256 digest of the list of the tree's files (``core.tree_document``); None for a git
    repository.
    """
    url: str | None = None
    """URL of a git repository; None for an uploaded tree."""
    ref: str | None = None
    """Branch, tag or commit of the repository."""
    subdir: str | None = None
    """Folder of the repository in which the job runs; None: the top folder."""


class AgentSpec(Frozen):
    """Content of ``agent.json``, which tells the agent what to start."""

    protocol: int = VERSION
    job_id: UUID
    """ID of the job. For a task of an array, it is the ID of the array job."""
    attempt: int
    platform_url: str | None
    """URL to which the agent sends reports; None: it sends none."""
    authority: str | None = None
    """Certificate of the platform's CA (PEM), which is trusted in addition to the node's own; an
    app then serves TLS with a certificate of its own. None: the platform does not use TLS.
    """
    commands: tuple[tuple[str, ...], ...] = ()
    """One list of arguments for each entry of ``commands`` in the job file; they run in order until
    one fails. In a session or for a notebook with ranks, the command that starts the ranks of
    another node.
    """
    leader: tuple[str, ...] = ()
    """Command of the first node that runs a notebook together with the ranks of that node; empty if
    the job does not have both a notebook and ranks.
    """
    explains_failure: bool = False
    """Whether the program writes why it fails to ``failure.json`` in the job's folder:
    ``{"message": "cell 2 of 3 failed: …"}``, a sentence without its end, which is in the log too.
    """
    apps: tuple[AgentApp, ...] = ()
    env: dict[str, str] = Field(default_factory=dict)
    secrets: bool = False
    """Whether the job has secrets, which the agent must fetch."""
    path: tuple[str, ...] = ()
    """Folders put before the node's own PATH; a PATH in ``env`` replaces both."""
    workdir: str
    tree: AgentTree | None = None
    """Source of the folder in which the job runs; None: the folder exists already."""
    launch: RuntimeLaunch = RuntimeLaunch()
    """Command prefix and environment with which ``commands`` and the apps' ``argv`` are started,
    for example in a container.
    """
    needs: tuple[AgentNeed, ...] = ()
    datasets: dict[str, str] = Field(default_factory=dict)
    """Folder of each dataset by name: linked below a folder that ``AITNE_DATASETS`` names. In a
    container they are bind mounts instead, and ``env`` contains the variable.
    """
    limits: RuntimeLimits = RuntimeLimits()
    tmp_dir: str = "/tmp"  # noqa: S108 - a default that a site may change
    """Folder on the disk of the node, in which the run's own temporary folder is created."""
    listen: str = "127.0.0.1"
    """Listening address of the apps: ``node`` (the node's own address), a network (the node's
    address in it), or an address."""
    sample_interval_s: float = 2.0
    inactivity_duration_s: int | None = None
    """Seconds without activity after which a session ends; the agent reports periodically how long
    the session has been inactive. None: no limit.
    """
    ranks: AgentRanks | None = None
    """Ranks of a distributed program; None for a program that runs once, on the first node."""
    placement: AgentPlacement = AgentPlacement()
    venv: str | None = None
    conda: str | None = None
    """Environments that are loaded before the programs; the snapshot contains their packages."""
    log_files: tuple[str, ...] = ()
    """Paths at which the log also appears, as format strings for ``str.format`` with the letters of
    ``core.jobs.log_path_pattern``.
    """
    settings: tuple[AgentSetting, ...] = ()
    """Parameter settings of a sweep, by the indices of its tasks."""
    script_signal: str | None = None
    """Signal, such as ``USR1`` or ``10``, that the program alone gets and not its child processes;
    None: there is none.
    """


class ProgramPhase(StrEnum):
    """Progress of the program, as an ``AgentReport`` states it."""

    STARTED = "started"
    """The fence was created; the program is about to start. The address of an app is known."""
    RUNNING = "running"
    """The program runs; the report is a heartbeat with resource usage samples."""
    READY = "ready"
    """The app has answered a request."""
    FINISHED = "finished"


class AgentSample(Sample):
    """Sample of an agent, with counters that are part of the metrics but not stored."""

    node: str = Field(max_length=255)
    read_bytes: int | None = Field(None, ge=0, le=1 << 62, exclude=True)
    """Bytes that the job's processes on the node have read from storage."""
    written_bytes: int | None = Field(None, ge=0, le=1 << 62, exclude=True)
    """Bytes that they have written to storage."""
    node_cpu_power_w: float | None = Field(None, ge=0, le=1e18, allow_inf_nan=False, exclude=True)
    """Mean power of the node's CPUs and memory since the previous sample, in watts (RAPL). It
    includes the load of other jobs.
    """


class AgentReport(Frozen):
    """Report of the agent to the platform. A lost report does no harm, because the next one
    contains its information.
    """

    protocol: int
    attempt: int
    task: int | None = None
    restart_count: int = Field(0, ge=0, le=1_000_000)
    """Number of restarts of the attempt by the scheduler, according to the agent's environment."""
    phase: ProgramPhase
    node: str = Field(max_length=253)
    address: str | None = Field(None, pattern=r"^[A-Za-z0-9_.:\[\]-]{1,255}:[0-9]{1,5}$")
    """``host:port`` of the app."""
    exit_code: int | None = None
    message: str | None = Field(None, max_length=2_000)
    samples: tuple[AgentSample, ...] = Field(default=(), max_length=1_000)
    node_rank: int | None = Field(None, ge=0)
    """Number of the node, only in reports from other nodes than the first; such reports contain
    only samples and the profile.
    """
    idle_s: float | None = Field(None, ge=0, allow_inf_nan=False)
    """Seconds for which the agent has seen no activity in the session."""
    ranks_ended: str | None = Field(None, max_length=2_000)
    """Reason why the ranks of a session have ended, as a sentence without a full stop; the session
    continues. None: they have not ended, or the job is not a session.
    """
    profile: dict[str, Any] | None = None
    """Profile of the ranks' collectives, from their runtime (``core.models.collective_profile``); a later one
    replaces it.
    """
    snapshot: dict[str, Any] | None = None
    """Snapshot of the environment that the job runs in (``core.models.job_snapshot.Taken``)."""
    results: dict[str, Any] | None = None
    """Metrics that the job's program reported (``core.models.sweep.Results``); later ones replace
    them.
    """
    files: dict[str, Any] | None = None
    """Files that the job has written (``core.models.job_snapshot.WrittenFiles``)."""
    placement: dict[str, Any] | None = None
    """Order of the job's nodes, and bindings of its ranks
    (``core.models.reported_placement.ReportedPlacement``); a later one replaces it.
    """
    boot_id: str | None = Field(None, max_length=64)
    """ID of the node's current boot."""
    python: str | None = Field(None, max_length=16)
    """Version of the node's Python, such as ``3.11``."""
    topology: dict[str, Any] | None = None
    """What the node consists of (``core.models.reported_node.ReportedNode``), for which the platform
    has asked.
    """


class AgentReply(Frozen):
    """Answer of the platform to a report."""

    protocol: int = VERSION
    topology_wanted: bool = False
    """Whether the platform asks for a description of the node, which it has not had since the boot of
    the node.
    """


class JobSecrets(Frozen):
    """Secrets of the owner that the job names. They are passed to its programs as environment
    variables and never written to files.
    """

    env: dict[str, str]


class AttachedRanks(Frozen):
    """Rank group that has not ended, as the bar in JupyterLab shows it."""

    job_id: UUID
    state: JobState
    cancel_requested: bool
    """Whether its release was requested."""
    ranks: int
    """Number of ranks in total."""
    nodes: int
    message: str | None
    """Reason for which it waits; None: it does not wait, or the reason is unknown."""
    expires_at: UtcTime | None


class SessionStatus(Frozen):
    """Data about a session that the status bar of its page in the browser shows."""

    name: str
    portal_url: str
    """URL of the session's page in the portal."""
    cancel_requested: bool
    """Whether its end was requested; it then ends in a moment."""
    expires_at: UtcTime | None
    memory_bytes: int | None
    """Memory in use in the last sample, in bytes; None: not measured yet."""
    memory_limit_bytes: int
    gpus: int
    """Number of GPUs of the session."""
    gpu_utilization: float | None
    """Mean utilization of its GPUs, from 0 to 1; None: not measured, or the session has no GPUs."""
    ranks: tuple[AttachedRanks, ...]
    """Attached and requested rank groups, oldest first."""


class SessionExtension(Strict):
    """Request to extend a session, sent by the session's own page."""

    duration_s: int = Field(ge=1, le=7 * 86_400)
    """Additional time in seconds."""


class ProgramStatus(Frozen):
    """Data about a running job that its own program may ask for."""

    expires_at: UtcTime | None
    """Time at which the job reaches its time limit; None: it is not known yet."""


class ProgramMessage(Strict):
    """Message of a job's program to the job's owner."""

    text: str = Field(min_length=1, max_length=MAX_MESSAGE)
    task: int | None = Field(None, ge=0)
    """Index of the array's task that sends it; None for other jobs."""


class CertificateRequest(Strict):
    """Certificate signing request for a key that a session has created."""

    request: str = Field(max_length=8_192, description="The request in PEM format.")
    address: str = Field(max_length=300, description="``host:port`` at which the session listens.")


class IssuedCertificate(Frozen):
    """Certificate of a session's server, for its address and its host name in browsers."""

    certificate: str = Field(
        description="The certificate in PEM format, followed by that of the CA of sessions."
    )


class Handover(Frozen):
    """Environment variables and arguments that JupyterHub passes to the single-user server. The
    variables are never passed as arguments, which other users could read.
    """

    env: dict[str, str]
    args: tuple[str, ...] = ()
