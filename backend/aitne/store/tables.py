"""Tables of the store. Every change requires a migration; a test compares both."""

from __future__ import annotations

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
    Uuid,
    false,
    func,
    text,
)

from aitne.store.column_types import (
    BigId,
    GpuType,
    ProjectName,
    Prose,
    UnixName,
    UserName,
    UtcDateTime,
)

metadata = MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "uq": "uq_%(table_name)s_%(column_0_name)s",
        "ix": "ix_%(table_name)s_%(column_0_name)s",
    }
)

jobs = Table(
    "jobs",
    metadata,
    Column("id", Uuid, primary_key=True),
    Column("cluster", String(40), nullable=False),
    Column("owner", UserName, nullable=False),
    Column("account", UnixName),
    Column("project", ProjectName, nullable=False),
    Column("type", String(20), nullable=False),
    Column("name", Text, nullable=False),
    # Case-folded by Python, so that searches have the same results on both databases.
    Column("name_folded", Text, nullable=False),
    Column("state", String(20), nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("restart_count", Integer, nullable=False),
    Column("scheduler_id", Text),
    Column("reason", String(40)),
    Column("message", Prose),
    Column("exit_code", Integer),
    Column("signal", Integer),
    Column("nodes", JSON, nullable=False),
    # Nodes that failed during earlier attempts.
    Column("excluded_nodes", JSON),
    Column("folder", Text),
    Column("partition", Text),
    Column("priority", BigInteger),
    Column("scheduler_record", JSON(none_as_null=True)),
    Column("address", Text),
    Column("url", Text),
    Column("cancel_requested_at", UtcDateTime),
    Column("is_array", Boolean, nullable=False),
    Column("array_job_id", Uuid, ForeignKey("jobs.id", ondelete="CASCADE")),
    Column("array_task_id", Integer),
    # For a row that several tasks share: their indices as ranges, and their number.
    Column("array_task_ids", Text),
    Column("task_count", Integer),
    # Where it was submitted; the log of a job from outside lies where its owner put it.
    Column("origin", String(20), nullable=False, server_default="platform"),
    Column("log_path", Text),
    Column("log_seal", Text),
    # Session of a rank group. No foreign key: the record of a group may outlive its session's.
    Column("session_id", Uuid),
    Column("created_at", UtcDateTime, nullable=False),
    Column("submitted_at", UtcDateTime),
    Column("allocated_at", UtcDateTime),
    Column("started_at", UtcDateTime),
    Column("ready_at", UtcDateTime),
    Column("ended_at", UtcDateTime),
    Column("expires_at", UtcDateTime),
    Column("expected_start_at", UtcDateTime),
    Column("idle_ends_at", UtcDateTime),
    Column("gpu_idle_since", UtcDateTime),
    Column("version", Integer, nullable=False),
    # Values of the specification by which lists are sorted and filtered; ``gpus`` on all nodes.
    Column("gpus", Integer, nullable=False, server_default=text("0")),
    Column("gpu_type", GpuType),
    Column("template", String(100)),
    Column("image", Text),
    # Of the folder of an ended job.
    Column("folder_bytes", BigInteger),
    Column("folder_files", BigInteger),
    # Of the nodes of an ended job, from accounting.
    Column("energy_j", BigInteger),
    # The controller measures the folder, or deletes the job, from this time on.
    Column("folder_due_at", UtcDateTime),
    Column("delete_requested_at", UtcDateTime),
    Column("delete_problem", Prose),
    # Last, because it is long: a scan of the columns above does not read its overflow pages.
    Column("spec", JSON, nullable=False),
    UniqueConstraint("array_job_id", "array_task_id"),
    # Lists are newest first by (created_at, id); each index serves one filter in that order.
    Index("ix_jobs_created_at", "created_at", "id"),
    # With the columns of the most frequent filters, so that counts need not read the rows.
    Index("ix_jobs_state", "state", "created_at", "id", "owner", "project", "type", "array_job_id"),
    Index("ix_jobs_owner", "owner", "created_at", "id"),
    Index("ix_jobs_project", "project", "created_at", "id"),
    # The usage of a month is computed from the jobs that ended in it.
    Index("ix_jobs_ended_at", "ended_at"),
    # The tasks of an array are counted with every change of one of them.
    Index(
        "ix_jobs_array_job_id",
        "array_job_id",
        "state",
        "reason",
        sqlite_where=text("array_job_id IS NOT NULL"),
        postgresql_where=text("array_job_id IS NOT NULL"),
    ),
    # The rank groups of a session.
    Index(
        "ix_jobs_session_id",
        "session_id",
        sqlite_where=text("session_id IS NOT NULL"),
        postgresql_where=text("session_id IS NOT NULL"),
    ),
    # Records of the scheduler are compared with these rows.
    Index(
        "ix_jobs_outside",
        "scheduler_id",
        sqlite_where=text("origin = 'outside'"),
        postgresql_where=text("origin = 'outside'"),
    ),
    # Only the few folders that wait for the controller.
    Index(
        "ix_jobs_folder_due_at",
        "folder_due_at",
        sqlite_where=text("folder_due_at IS NOT NULL"),
        postgresql_where=text("folder_due_at IS NOT NULL"),
    ),
    # Counts of jobs add the tasks of these few rows.
    Index(
        "ix_jobs_task_count",
        "state",
        "owner",
        "project",
        "task_count",
        sqlite_where=text("task_count IS NOT NULL"),
        postgresql_where=text("task_count IS NOT NULL"),
    ),
)

# Separate from the jobs, so that no query of a job can expose its secrets.
job_secrets = Table(
    "job_secrets",
    metadata,
    Column("job_id", Uuid, ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True),
    Column("token_hash", Text, unique=True),
    Column("handover", JSON(none_as_null=True)),
    # Hash of the session token that the hand-over contains; unset after it was revoked.
    Column("session_token_hash", String(64)),
    # Whether the logins of the owner have ended since the session was stored: it gets no session token.
    Column("session_token_ended", Boolean, nullable=False, server_default=false()),
    Index("ix_job_secrets_session_token_hash", "session_token_hash", unique=True),
)

# No foreign key: the key is inserted first, so that a second request waits for the first one.
idempotency = Table(
    "idempotency",
    metadata,
    Column("owner", UserName, primary_key=True),
    Column("key", Text, primary_key=True),
    Column("request_hash", Text, nullable=False),
    Column("job_id", Uuid, nullable=False),
    Column("created_at", UtcDateTime, nullable=False, index=True),
)

outbox = Table(
    "outbox",
    metadata,
    Column("id", BigId, primary_key=True),
    Column("kind", String(20), nullable=False),
    Column("job_id", Uuid, ForeignKey("jobs.id", ondelete="CASCADE"), nullable=False, index=True),
    # The owner of the job: owners take turns.
    Column("owner", UserName, nullable=False, server_default=text("''")),
    Column("attempt", Integer, nullable=False),
    Column("data", JSON, nullable=False),
    Column("tries", Integer, nullable=False),
    Column("created_at", UtcDateTime, nullable=False),
    # Used for leases and for delays: the item is not processed before this time.
    Column("available_at", UtcDateTime, nullable=False),
    # The epoch of the controller that processes it; in another epoch the lease is void.
    Column("leased_in", BigInteger),
    # The job that the item's job depends on: the item is held until that job ends or has an ID.
    Column("dependency", Uuid),
    Index(
        "ix_outbox_dependency",
        "dependency",
        sqlite_where=text("dependency IS NOT NULL"),
        postgresql_where=text("dependency IS NOT NULL"),
    ),
    sqlite_autoincrement=True,
)

events = Table(
    "events",
    metadata,
    Column("id", BigId, primary_key=True),
    Column("time", UtcDateTime, nullable=False, index=True),
    Column("kind", String(40), nullable=False),
    Column("job_id", Uuid),
    Column("owner", UserName),
    Column("project", ProjectName),
    Column("data", JSON, nullable=False),
    Index("ix_events_job_id", "job_id", "id"),
    # An ID is never reused, not even after the newest events were pruned.
    sqlite_autoincrement=True,
)

samples = Table(
    "samples",
    metadata,
    # A report that an agent sends twice is stored once.
    Column("job_id", Uuid, ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True),
    Column("time", UtcDateTime, primary_key=True),
    Column("node", Text, primary_key=True),
    Column("cpu", Float, nullable=False),
    Column("memory_bytes", BigInteger, nullable=False),
    Column("processes", Integer, nullable=False),
    Column("gpu", JSON, nullable=False),
    Column("cpu_energy_j", Float),
    sqlite_with_rowid=False,
)

profiles = Table(
    "profiles",
    metadata,
    Column("job_id", Uuid, ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True),
    Column("data", JSON, nullable=False),
)

nodes = Table(
    "nodes",
    metadata,
    Column("cluster", String(40), primary_key=True),
    Column("name", Text, primary_key=True),
    Column("seen_at", UtcDateTime, nullable=False),
    Column("data", JSON, nullable=False),
)

# Data about a cluster as a whole, such as its partitions, and whether its scheduler answers.
clusters = Table(
    "clusters",
    metadata,
    Column("name", String(40), primary_key=True),
    Column("data", JSON(none_as_null=True)),
    Column("seen_at", UtcDateTime),
    Column("answering", Boolean),
    Column("since", UtcDateTime),
    Column("message", Prose),
)

leases = Table(
    "leases",
    metadata,
    Column("name", String(100), primary_key=True),
    Column("holder", Text),
    # Unique among all leases, so the epoch alone shows whether its holder is still the leader.
    Column("epoch", BigInteger, nullable=False, unique=True),
    Column("expires_at", UtcDateTime, nullable=False),
    Column("counters", JSON, nullable=False),
)

users = Table(
    "users",
    metadata,
    Column("name", UserName, primary_key=True),
    Column("display_name", Text, nullable=False),
    Column("role", String(20), nullable=False),
    Column("default_project", ProjectName, nullable=False),
    Column("disabled", Boolean, nullable=False),
    Column("created_at", UtcDateTime, nullable=False),
    Column("mail", Text),
    Column("source", String(40)),
    # The account's ID in the source, where names may be reassigned to another user.
    Column("subject", Text),
    Column("password_hash", Text),
    # The number of ended logins that JupyterHub has not been notified of.
    Column("hub_logouts", Integer, nullable=False, server_default=text("0")),
    # Of the last login in a browser; a sign-in that has ended is deleted.
    Column("last_login_at", UtcDateTime),
    Index("ix_users_source", "source", "subject", unique=True),
)
# Names that differ only in capital letters are one name.
Index("ix_users_alike", func.lower(users.c.name), unique=True)

projects = Table(
    "projects",
    metadata,
    Column("name", ProjectName, primary_key=True),
    Column("title", Text, nullable=False),
    Column("created_at", UtcDateTime, nullable=False),
    Column("description", Prose, nullable=False, server_default=text("''")),
    Column("state", String(20), nullable=False, server_default="active"),
    Column("note", Prose),
    Column("requested_by", UserName),
    Column("closed_by", String(20)),
    Column("expires_at", UtcDateTime),
    # The last reminder was sent this number of days before the end.
    Column("reminded_days", Integer),
    Column("budget", JSON(none_as_null=True)),
    Column("extension", JSON(none_as_null=True)),
    Column("retention", JSON(none_as_null=True)),
)

members = Table(
    "members",
    metadata,
    Column("user_name", UserName, ForeignKey("users.name", ondelete="CASCADE"), primary_key=True),
    Column(
        "project", ProjectName, ForeignKey("projects.name", ondelete="CASCADE"), primary_key=True
    ),
    Column("role", String(20), nullable=False, server_default="member"),
)

limits = Table(
    "limits",
    metadata,
    Column(
        "project", ProjectName, ForeignKey("projects.name", ondelete="CASCADE"), primary_key=True
    ),
    # Empty: limits of the whole project; @: lower limits that its managers set.
    Column("user_name", UserName, primary_key=True),
    Column("data", JSON, nullable=False),
)

# The last usage that slurmctld reported: one row, so that new jobs are checked without a query.
in_use = Table(
    "in_use",
    metadata,
    Column("cluster", String(40), primary_key=True),
    Column("taken_at", UtcDateTime, nullable=False),
    Column("data", JSON, nullable=False),
)
