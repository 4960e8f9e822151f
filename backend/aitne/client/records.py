"""Records of jobs, nodes, templates, events and users. Made by ``make gen``; do not edit."""

from __future__ import annotations

from datetime import datetime

from aitne.client.record_base import GpuBase, JobBase, Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class GpuRecord(GpuBase):
    """Number of GPUs on each node, and their type (None: any type)."""

    count: int
    type: str | None


class ResourcesRecord(Record, gpu=GpuRecord):
    """Resources that a job requests, with all defaults filled in."""

    nodes: int
    cpu: int
    tasks_per_node: int | None
    cpus_per_task: int | None
    memory_bytes: int
    memory_request: str
    gpu: GpuRecord
    gres: dict[str, int]
    sbatch_options: list[str]


class StageRecord(Record):
    """Stage of a job as shown in the portal; ``detail`` says why the current stage lasts or how
    it ended.
    """

    key: str
    title: str
    status: str
    started_at: datetime | None
    ended_at: datetime | None
    detail: str | None


class Job(JobBase, resources=ResourcesRecord, stages=StageRecord):
    """Job, session or array task as the API returns it, with its stages and the permitted
    actions.
    """

    id: str
    type: str
    name: str
    owner: str
    project: str
    cluster: str
    origin: str
    state: str
    account: str | None
    array_job_id: str | None
    array_task_id: int | None
    session_id: str | None
    created_at: datetime
    reason: str | None
    message: str | None
    attempt: int
    restart_count: int
    exit_code: int | None
    signal: int | None
    nodes: list[str]
    excluded_nodes: list[str]
    partition: str | None
    priority: int | None
    scheduler_id: str | None
    log_path: str | None
    submitted_at: datetime | None
    allocated_at: datetime | None
    started_at: datetime | None
    ready_at: datetime | None
    ended_at: datetime | None
    expires_at: datetime | None
    expected_start_at: datetime | None
    idle_ends_at: datetime | None
    gpu_idle_since: datetime | None
    url: str | None
    folder_bytes: int | None
    folder_files: int | None
    energy_j: int | None
    delete_requested_at: datetime | None
    delete_problem: str | None
    version: int
    container: dict[str, Any]
    environment: dict[str, Any]
    repo: dict[str, Any] | None
    args: list[str]
    script_path: str | None
    notebook: dict[str, Any] | None
    secrets: list[str]
    after: list[str]
    afterany: list[str]
    afternotok: list[str]
    aftercorr: list[str]
    singleton: bool
    begin: Any
    hold: bool
    log_files: list[str]
    placement: dict[str, Any]
    slurm: dict[str, Any]
    template: str | None
    template_version: str | None
    parameters: dict[str, Any]
    image: str
    runtime: str
    datasets: list[dict[str, Any]]
    commands: list[str]
    distributed: dict[str, Any] | None
    rank_group: dict[str, Any] | None
    env: dict[str, str]
    workdir: str | None
    tree: dict[str, Any] | None
    resources: ResourcesRecord
    max_duration_s: int
    max_duration_requested: bool
    inactivity_duration_s: int | None
    retry: dict[str, Any]
    array: str | None
    sweep: dict[str, Any] | None
    continues: str | None
    image_digest: str | None
    entry_points: list[dict[str, Any]]
    cancel_requested: bool
    stages: list[StageRecord]
    actions: list[str]


class JobSpecRecord(Record, resources=ResourcesRecord):
    """Resolved job: template expanded, defaults filled in, limits checked."""

    container: dict[str, Any]
    environment: dict[str, Any]
    repo: dict[str, Any] | None
    args: list[str]
    script_path: str | None
    notebook: dict[str, Any] | None
    secrets: list[str]
    after: list[str]
    afterany: list[str]
    afternotok: list[str]
    aftercorr: list[str]
    singleton: bool
    begin: Any
    hold: bool
    log_files: list[str]
    placement: dict[str, Any]
    slurm: dict[str, Any]
    template: str | None
    template_version: str | None
    parameters: dict[str, Any]
    image: str
    runtime: str
    datasets: list[dict[str, Any]]
    commands: list[str]
    distributed: dict[str, Any] | None
    rank_group: dict[str, Any] | None
    env: dict[str, str]
    workdir: str | None
    tree: dict[str, Any] | None
    resources: ResourcesRecord
    max_duration_s: int
    max_duration_requested: bool
    inactivity_duration_s: int | None
    retry: dict[str, Any]
    array: str | None
    sweep: dict[str, Any] | None
    continues: str | None
    type: str
    name: str
    project: str
    image_use: dict[str, Any] | None
    home: str | None
    areas: list[dict[str, Any]]
    caches: str | None
    apps: list[dict[str, Any]]
    leaves: dict[str, Any] | None
    node_paths: dict[str, list[str]] | None
    held_by: dict[str, Any]
    lineage: str | None


class Plan(Record, spec=JobSpecRecord):
    """Job as it would be submitted, shown before the submission; nothing is stored."""

    spec: JobSpecRecord
    fits: bool
    starts_now: bool
    pending_reason: str | None
    warnings: list[str]
    expected_start_at: datetime | None
    enforcement: list[str]
    script: str
    placement: dict[str, Any] | None
    settings: list[dict[str, Any]]
    limits: list[str]  # deprecated
    waits_for: str | None  # deprecated


class Event(Record):
    """One entry of the event log. ``id`` grows in commit order, so a reader that has seen an ID
    has seen all earlier events.

    ``kind`` is ``job.state``, ``job.changed``, ``job.created``, ``nodes.changed`` …;
    ``owner`` and ``project`` determine which users may see it (both None: every user who is
    logged in).
    """

    id: int
    time: datetime
    kind: str
    job_id: str | None
    owner: str | None
    project: str | None
    data: dict[str, Any]


class ParameterRecord(Record):
    """Parameter of a template, which is a field of its launch form. The job gets its value in
    the environment variable ``AITNE_PARAM_<NAME>``.
    """

    name: str
    type: str
    title: str
    description: str
    default: Any
    minimum: float | None
    maximum: float | None
    choices: list[str]
    pattern: str | None
    max_length: int


class Template(Record, parameters=ParameterRecord):
    """Content of a template file, ``jobtemplates/*.yaml``."""

    name: str
    version: str
    title: str
    description: str
    icon: str
    type: str
    image: str
    parameters: list[ParameterRecord]
    resources: dict[str, Any]
    env: dict[str, str]
    commands: list[str]
    apps: list[dict[str, Any]]
    distributed: dict[str, Any] | None
    workdir_from: str | None


class TemplateProblemRecord(Record):
    """A template file that was rejected; other templates are not affected."""

    path: str
    line: int | None
    reason: str


class GpuCountRecord(Record):
    """Number of GPUs of one type on one node (a MIG profile is a type of its own)."""

    type: str | None
    total: int
    used: int


class Node(Record, gpus=GpuCountRecord):
    """A node with its resources, and how much of them is allocated to jobs."""

    name: str
    cluster: str
    state: str
    reason: str | None
    cpu_total: int
    cpu_used: int
    memory_total_bytes: int
    memory_used_bytes: int
    gpus: list[GpuCountRecord]
    gres: list[dict[str, Any]]
    features: list[str]
    partitions: list[str]
    power_w: int | None
    cpu_power_w: int | None
    address: str | None
    scheduler_state: str | None
    seen_at: datetime


class QueuePositionRecord(Record):
    """Position of a job among the pending jobs of this platform in one partition."""

    position: int
    waiting: int
    partition: str
    place: int  # deprecated


class AdviceRecord(Record):
    """Piece of advice on a queued job: an action that would help, or the time at which the job
    can start.
    """

    text: str
    at: datetime | None
    jobs: list[dict[str, Any]]


class LogLineRecord(Record):
    """One line of a job's log, with its position."""

    text: str
    offset: int


class RemedyRecord(Record):
    """Action that may prevent the failure. A resubmission is proposed only with resources that
    all limits permit.
    """

    kind: str
    memory_bytes: int | None
    max_duration_s: int | None


class FailureRecord(Record, line=LogLineRecord, remedies=RemedyRecord):
    """Explanation of why a job failed."""

    cause: str
    text: str
    line: LogLineRecord | None
    remedies: list[RemedyRecord]


class GpuSumRecord(Record):
    """Number of GPUs of one type on all nodes of a partition. ``free`` counts those that could
    be allocated to a job now.
    """

    type: str | None
    total: int
    used: int
    free: int


class PartitionRecord(Record, gpus=GpuSumRecord):
    """A partition with the sums of its nodes' resources and the number of nodes in each state."""

    name: str
    up: bool
    accepts_jobs: bool
    default: bool
    nodes: str
    node_count: int
    states: dict[str, int]
    cpu_total: int
    cpu_used: int
    gpus: list[GpuSumRecord]
    features: list[str]
    max_time_s: int | None
    default_time_s: int | None
    max_nodes: int | None
    allow_accounts: list[str] | None
    allow_qos: list[str] | None


class Token(Record):
    """Personal access token. ``token``, the secret, is returned only when the token is created."""

    id: str
    owner: str
    name: str
    scopes: list[str]
    created_at: datetime
    expires_at: datetime | None
    last_used_at: datetime | None
    created_by: str | None
    token: str


class User(Record):
    """User with an account; the hash of the password is not included."""

    name: str
    display_name: str
    role: str
    default_project: str
    disabled: bool
    mail: str | None
    source: str | None
    created_at: datetime


class UserListItemRecord(Record):
    """User in a list, with the time of the last login."""

    name: str
    display_name: str
    role: str
    default_project: str
    disabled: bool
    mail: str | None
    source: str | None
    created_at: datetime
    last_login_at: datetime | None


class PlatformInfoRecord(Record):
    """Description of the platform: title, version, cluster, scheduler."""

    title: str
    version: str
    cluster: str
    scheduler: str
    can_drain: bool
    limits_applied: str
    retention: dict[str, Any]
    sessions_origin: str
    shared_account: str | None
    unix_accounts: bool
    user_domains: bool
    documentation_url: str | None
    sessions_address: str | None
    limits: str  # deprecated


class CurrentUserRecord(Record, user=User, platform=PlatformInfoRecord):
    """The current user. ``csrf_token`` must be sent as ``X-CSRF-Token``; null if the request has
    an access token.
    """

    user: User
    projects: list[str]
    csrf_token: str | None
    platform: PlatformInfoRecord
    impersonation: dict[str, Any] | None


class LoginLinkRecord(Record):
    """Link that works once, until ``expires_at``. It logs in any browser that opens it: do not
    share it.
    """

    url: str
    expires_at: datetime
