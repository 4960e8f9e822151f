"""The tables. A change here needs a migration: a test compares the two."""

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
    text,
)

from aitne.adapters.store.column_types import BigId, Prose, UtcDateTime

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
    Column("owner", String(32), nullable=False),
    Column("account", String(64)),
    Column("project", String(40), nullable=False),
    Column("type", String(20), nullable=False),
    Column("name", Text, nullable=False),
    # Case-folded by Python, so that a search finds the same on both databases.
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
    # Of a row that several tasks share: their indices as ranges, and how many they are.
    Column("array_task_ids", Text),
    Column("task_count", Integer),
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
    # Of the specification, what lists are sorted and filtered by; ``gpus`` on all nodes together.
    Column("gpus", Integer, nullable=False, server_default=text("0")),
    Column("gpu_type", String(40)),
    Column("template", String(100)),
    Column("image", Text),
    # Last, because it is long: a scan of the columns above does not read its overflow pages.
    Column("spec", JSON, nullable=False),
    UniqueConstraint("array_job_id", "array_task_id"),
    # Lists are newest first by (created_at, id); each index serves one filter in that order.
    Index("ix_jobs_created_at", "created_at", "id"),
    # With what else is most often asked for, so that counting need not look at the rows.
    Index("ix_jobs_state", "state", "created_at", "id", "owner", "project", "type", "array_job_id"),
    Index("ix_jobs_owner", "owner", "created_at", "id"),
    Index("ix_jobs_project", "project", "created_at", "id"),
    # What ended in a month is summed up for it.
    Index("ix_jobs_ended_at", "ended_at"),
    # How an array stands is counted with every change of one of its tasks.
    Index(
        "ix_jobs_array_job_id",
        "array_job_id",
        "state",
        "reason",
        sqlite_where=text("array_job_id IS NOT NULL"),
        postgresql_where=text("array_job_id IS NOT NULL"),
    ),
    # What counts jobs adds the tasks of these few rows.
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

# Apart from the jobs, so that no query that shows a job can show its secrets.
job_secrets = Table(
    "job_secrets",
    metadata,
    Column("job_id", Uuid, ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True),
    Column("token_hash", Text, unique=True),
    Column("handover", JSON(none_as_null=True)),
)

# No foreign key: the key is claimed first, so that a second request waits for the first one's end.
idempotency = Table(
    "idempotency",
    metadata,
    Column("owner", String(32), primary_key=True),
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
    # Of the job: owners take turns.
    Column("owner", String(32), nullable=False, server_default=text("''")),
    Column("attempt", Integer, nullable=False),
    Column("data", JSON, nullable=False),
    Column("tries", Integer, nullable=False),
    Column("created_at", UtcDateTime, nullable=False),
    # A lease and a delay are the same thing: nobody takes the item before this time.
    Column("available_at", UtcDateTime, nullable=False),
    # The epoch of the lead that works on it; under another lead the lease is void.
    Column("leased_in", BigInteger),
    # The job that the item's job depends on: until that one ends or has an id, nothing is done.
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
    Column("owner", String(32)),
    Column("project", String(40)),
    Column("data", JSON, nullable=False),
    Index("ix_events_job_id", "job_id", "id"),
    # An id is never used twice, not even after the newest events were pruned.
    sqlite_autoincrement=True,
)

samples = Table(
    "samples",
    metadata,
    # An agent that sends a report twice stores it once.
    Column("job_id", Uuid, ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True),
    Column("time", UtcDateTime, primary_key=True),
    Column("node", Text, primary_key=True),
    Column("cpu", Float, nullable=False),
    Column("memory_bytes", BigInteger, nullable=False),
    Column("processes", Integer, nullable=False),
    Column("gpu", JSON, nullable=False),
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

# What is said of a cluster as a whole: its partitions and so on, and whether its scheduler answers.
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
    # Unique over all leases, so an epoch by itself tells whether its holder still leads.
    Column("epoch", BigInteger, nullable=False, unique=True),
    Column("expires_at", UtcDateTime, nullable=False),
    Column("counters", JSON, nullable=False),
)

users = Table(
    "users",
    metadata,
    Column("name", String(32), primary_key=True),
    Column("display_name", Text, nullable=False),
    Column("role", String(20), nullable=False),
    Column("default_project", String(40), nullable=False),
    Column("disabled", Boolean, nullable=False),
    Column("created_at", UtcDateTime, nullable=False),
    Column("mail", Text),
    Column("source", String(40)),
    # What the source itself calls the account: names may be given to somebody else there.
    Column("subject", Text),
    Column("password_hash", Text),
    # How often logins were ended that JupyterHub has not heard of.
    Column("hub_logouts", Integer, nullable=False, server_default=text("0")),
    Index("ix_users_source", "source", "subject", unique=True),
)

projects = Table(
    "projects",
    metadata,
    Column("name", String(40), primary_key=True),
    Column("title", Text, nullable=False),
    Column("created_at", UtcDateTime, nullable=False),
    Column("description", Prose, nullable=False, server_default=text("''")),
    Column("state", String(20), nullable=False, server_default="active"),
    Column("note", Prose),
    Column("requested_by", String(32)),
    Column("closed_by", String(20)),
    Column("expires_at", UtcDateTime),
    # So many days before its end it was last said that it comes.
    Column("reminded_days", Integer),
    Column("budget", JSON(none_as_null=True)),
    Column("extension", JSON(none_as_null=True)),
)

members = Table(
    "members",
    metadata,
    Column("user_name", String(32), ForeignKey("users.name", ondelete="CASCADE"), primary_key=True),
    Column(
        "project", String(40), ForeignKey("projects.name", ondelete="CASCADE"), primary_key=True
    ),
    Column("role", String(20), nullable=False, server_default="member"),
)

limits = Table(
    "limits",
    metadata,
    Column(
        "project", String(40), ForeignKey("projects.name", ondelete="CASCADE"), primary_key=True
    ),
    # Empty: of the project as a whole; @: what its managers hold it to within that.
    Column("user_name", String(32), primary_key=True),
    Column("data", JSON, nullable=False),
)

# What slurmctld last said of each limit: one row, so that a new job is judged without asking it.
in_use = Table(
    "in_use",
    metadata,
    Column("cluster", String(40), primary_key=True),
    Column("taken_at", UtcDateTime, nullable=False),
    Column("data", JSON, nullable=False),
)
