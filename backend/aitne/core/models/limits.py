"""Limits of a project, or of one member of it, on what is in use at once: what Slurm's associations
can hold."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field

from aitne.core.models.base import (
    DurationText,
    Frozen,
    MemoryText,
    ProjectName,
    Strict,
    UserName,
    UtcTime,
    read_duration,
    read_memory,
)
from aitne.core.models.project import ProjectRole

MIB = 1 << 20
GPU_TRES = "gres/gpu"
"""Slurm's name of the resource GPU."""
GPU_TYPE = r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,39}$"
QOS_NAME = r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$"
MOST = 1 << 40

_Count = Annotated[int, Field(strict=True, ge=0, le=MOST)]


def _whole(unit: int, name: str) -> AfterValidator:
    def check(value: int) -> int:
        if value % unit:
            raise ValueError(f"must be whole {name}: Slurm has no smaller unit")
        return value

    return AfterValidator(check)


_Memory = Annotated[
    int,
    Field(strict=True, ge=0, le=1 << 60),
    _whole(MIB, "MiB"),
    BeforeValidator(read_memory, json_schema_input_type=int | MemoryText),
]
_Wall = Annotated[
    int,
    Field(strict=True, ge=0, le=MOST),
    _whole(60, "minutes"),
    BeforeValidator(read_duration, json_schema_input_type=int | DurationText),
]


class Limits(Strict):
    """Maximum amounts; None means no limit. The names in brackets are sacctmgr's for an
    association."""

    max_gpus: _Count | None = Field(None, description="GPUs in use at once (GrpTRES gres/gpu).")
    max_gpus_by_type: dict[Annotated[str, Field(pattern=GPU_TYPE)], _Count] = Field(
        default_factory=dict,
        max_length=50,
        description="GPUs of a type in use at once (GrpTRES gres/gpu:type).",
    )
    max_cpus: _Count | None = Field(None, description="CPUs in use at once (GrpTRES cpu).")
    max_memory_bytes: _Memory | None = Field(
        None, description="Memory in use at once, whole MiB (GrpTRES mem)."
    )
    max_nodes: _Count | None = Field(None, description="Nodes in use at once (GrpTRES node).")
    max_jobs: _Count | None = Field(
        None, description="Jobs that run at once (of a project GrpJobs, of a member MaxJobs)."
    )
    max_submitted: _Count | None = Field(
        None,
        description="Jobs that wait or run (of a project GrpSubmitJobs, of a member MaxSubmitJobs).",
    )
    max_wall_s: _Wall | None = Field(
        None, description="Longest time limit of one job, whole minutes (MaxWall)."
    )
    gpu_hours: _Count | None = Field(
        None,
        description="GPU-hours in total (GrpTRESMins gres/gpu). On Slurm past usage decays with "
        "PriorityDecayHalfLife.",
    )
    qos: tuple[Annotated[str, Field(pattern=QOS_NAME)], ...] = Field(
        (), max_length=50, description="The QOS that its jobs may name; empty: the cluster's own."
    )

    @property
    def empty(self) -> bool:
        """Return whether no limit is set."""
        return self == Limits()


class Membership(Frozen):
    """Membership of one user in one project, with the user's role and limits there."""

    project: ProjectName
    """The project."""
    user: UserName
    limits: Limits = Limits()
    """Limits of this user here, beside the project's limits."""
    role: ProjectRole = Field(ProjectRole.MEMBER, description="Role of the user in the project.")


class ProjectLayers(Frozen):
    """All limits that are set in one project."""

    granted: Limits = Limits()
    """Limits that an administrator granted."""
    own: Limits = Limits()
    """Limits that its managers set."""
    members: dict[str, Limits] = Field(default_factory=dict)
    """Own limits of members, by user."""


class HeldLimit(Frozen):
    """Limits of a project or of one member that the scheduler itself holds."""

    project: ProjectName
    user: UserName | None = None
    """The member; None: the project as a whole."""
    limits: Limits
    gpu_s: int = 0
    """GPU-seconds used until ``HeldLimits.used_until``, where ``gpu_hours`` is limited."""


class HeldLimits(Frozen):
    """All limits that the scheduler itself holds."""

    entries: tuple[HeldLimit, ...] = ()
    used_until: UtcTime | None = None
    """Time until which ``gpu_s`` counts; None: nothing is counted."""


class LimitsApplied(StrEnum):
    """When the scheduler applies changed limits of projects and members."""

    AT_ONCE = "at_once"
    """The scheduler takes them from the platform."""
    AFTER_SYNC = "after_sync"
    """The scheduler takes them from its accounting, which an administrator synchronizes."""
    NEVER = "never"
    """The scheduler holds no limits of projects."""


class Usage(Frozen):
    """Usage of one user's jobs in one project during a period."""

    account: str
    user: str
    cpu_s: int
    """CPU-seconds allocated."""
    gpu_s: int
    """GPU-seconds allocated: two GPUs for an hour are 7200."""
    gpu_s_by_type: dict[str, int] = Field(default_factory=dict)
    jobs: int
    """Jobs that ran in that time, each counted once however often it was requeued."""


class Gauge(Frozen):
    """Amount of a resource that is in use, and its limit."""

    limit: int | None
    used: int


class AssociationUse(Frozen):
    """Limits of one account, or of one user in it, and how much of each is in use, as slurmctld
    counts.
    """

    account: str
    user: str | None = None
    parent: str | None = None
    tres: dict[str, Gauge] = Field(default_factory=dict)
    """GrpTRES by Slurm's name; ``mem`` in MiB. What is neither limited nor in use is left out."""
    tres_minutes: dict[str, Gauge] = Field(default_factory=dict)
    """GrpTRESMins, in minutes, where there is such a limit."""
    per_job: dict[str, int] = Field(default_factory=dict)
    """MaxTRESPerJob."""
    grp_jobs: Gauge = Gauge(limit=None, used=0)
    grp_submitted: Gauge = Gauge(limit=None, used=0)
    max_jobs: Gauge = Gauge(limit=None, used=0)
    """Limit and number of jobs of this user alone."""
    max_submitted: Gauge = Gauge(limit=None, used=0)
    max_wall_s: int | None = None


class QosUse(Frozen):
    """Limits of one QOS, and how much of each is in use, as slurmctld counts."""

    name: str
    tres: dict[str, Gauge] = Field(default_factory=dict)
    per_job: dict[str, int] = Field(default_factory=dict)
    per_user: dict[str, int] = Field(default_factory=dict)
    """MaxTRESPerUser."""
    used_by: dict[str, dict[str, int]] = Field(default_factory=dict)
    """TRES in use, by user."""
    max_wall_s: int | None = None


class LimitUsage(Frozen):
    """Limits and what is in use of them, all from one query of slurmctld."""

    enforced: frozenset[str] = frozenset()
    """Words of ``AccountingStorageEnforce``: associations, limits, qos, …"""
    associations: tuple[AssociationUse, ...] = ()
    qos: tuple[QosUse, ...] = ()

    def of(self, account: str, user: str | None = None) -> AssociationUse | None:
        """Return the association of that account, or of that user in it, or None if there is none."""
        for association in self.associations:
            if association.account == account and association.user == user:
                return association
        return None

    def chain(self, account: str, user: str) -> tuple[AssociationUse, ...]:
        """Return the associations of the user in the account, of the account, and of the accounts
        above it."""
        associations = [
            association for association in (self.of(account, user),) if association is not None
        ]
        above: str | None = account
        while above is not None:
            association = self.of(above)
            if association is None or association in associations:
                break
            associations.append(association)
            above = association.parent
        return tuple(associations)

    def users_of(self, account: str) -> tuple[AssociationUse, ...]:
        """Return the associations of one account's members."""
        return tuple(
            association
            for association in self.associations
            if association.account == account and association.user is not None
        )
