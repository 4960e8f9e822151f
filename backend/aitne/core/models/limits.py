"""Limits on the concurrent resource usage of a project or of one member; they correspond to the
limits of Slurm's associations.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field

from aitne.core.models.base import (
    MAX_MEMORY,
    MAX_MEMORY_TEXT,
    DurationText,
    Frozen,
    MemoryText,
    ProjectName,
    Strict,
    UserName,
    UtcTime,
    convert_duration,
    convert_memory,
    make_bounds_validator,
)
from aitne.core.models.project import ProjectRole

MIB = 1 << 20
GPU_TRES = "gres/gpu"
"""Name of GPUs among Slurm's trackable resources (TRES)."""
GPU_TYPE = r"^[A-Za-z0-9][A-Za-z0-9_.+-]{0,79}$"
"""Pattern of a type of GPUs whose number can be limited: one without spaces, which mean something to
sacctmgr.
"""
QOS_NAME = r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$"
MOST = 1 << 40

_Count = Annotated[int, Field(strict=True, ge=0, le=MOST)]


def _make_unit_check(unit: int, name: str) -> AfterValidator:
    def check(value: int) -> int:
        if value % unit:
            raise ValueError(f"must be whole {name}: Slurm has no smaller unit")
        return value

    return AfterValidator(check)


_Memory = Annotated[
    int,
    Field(strict=True, ge=0, le=MAX_MEMORY),
    make_bounds_validator(0, "0 MiB", MAX_MEMORY, MAX_MEMORY_TEXT),
    _make_unit_check(MIB, "MiB"),
    BeforeValidator(convert_memory, json_schema_input_type=int | MemoryText),
]
_Wall = Annotated[
    int,
    Field(strict=True, ge=0, le=MOST),
    make_bounds_validator(0, "0 minutes", MOST, "34,000 years"),
    _make_unit_check(60, "minutes"),
    BeforeValidator(convert_duration, json_schema_input_type=int | DurationText),
]


class Limits(Strict):
    """Maximum amounts; None means no limit. The names in parentheses are the options of sacctmgr
    for an association.
    """

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
    def is_empty(self) -> bool:
        """Return whether no limit is set."""
        return self == Limits()


class Membership(Frozen):
    """Membership of one user in one project, with the user's role and limits there."""

    project: ProjectName
    """Name of the project."""
    user: UserName
    limits: Limits = Limits()
    """Limits of this user in the project, in addition to the limits of the project."""
    role: ProjectRole = Field(ProjectRole.MEMBER, description="Role of the user in the project.")


class ProjectLayers(Frozen):
    """All limits that are set in one project."""

    granted: Limits = Limits()
    """Limits that an administrator granted."""
    own: Limits = Limits()
    """Limits that its managers set."""
    members: dict[str, Limits] = Field(default_factory=dict)
    """Limits of individual members, by user name."""


class HeldLimit(Frozen):
    """Limits of a project or of one member that the scheduler itself enforces."""

    project: ProjectName
    user: UserName | None = None
    """Name of the member; None: the limits of the project as a whole."""
    limits: Limits
    gpu_s: int = 0
    """GPU-seconds used until ``HeldLimits.used_until``; set only if ``gpu_hours`` is limited."""


class HeldLimits(Frozen):
    """All limits that the scheduler itself enforces."""

    entries: tuple[HeldLimit, ...] = ()
    used_until: UtcTime | None = None
    """Time until which ``gpu_s`` is counted; None if nothing was counted."""


class LimitsApplied(StrEnum):
    """When the scheduler applies changed limits of projects and members."""

    AT_ONCE = "at_once"
    """At once, because the platform passes them to the scheduler."""
    AFTER_SYNC = "after_sync"
    """When an administrator next synchronizes the accounting from which the scheduler reads
    them.
    """
    NEVER = "never"
    """Never, because the scheduler enforces no limits of projects."""


class Usage(Frozen):
    """Usage of one user's jobs in one project during a period."""

    account: str
    user: str
    cpu_s: int
    """CPU-seconds that were allocated."""
    gpu_s: int
    """GPU-seconds that were allocated: two GPUs for an hour are 7200."""
    gpu_s_by_type: dict[str, int] = Field(default_factory=dict)
    jobs: int
    """Number of jobs that ran in that period; a job that was requeued counts once."""
    energy_j: int | None = None
    """Energy of the nodes of the jobs that ended in that period, by the scheduler's energy plugin;
    None: not measured.
    """


class Gauge(Frozen):
    """Use and limit of one resource."""

    limit: int | None
    """Maximum amount; None: no limit."""
    used: int
    """Amount in use."""


class AssociationUse(Frozen):
    """Limits of an account, or of one user in an account, with the current use of each as counted
    by slurmctld.
    """

    account: str
    user: str | None = None
    """Name of the user; None: the account as a whole."""
    parent: str | None = None
    """Parent account; None for the root account."""
    tres: dict[str, Gauge] = Field(default_factory=dict)
    """GrpTRES by Slurm's name; ``mem`` in MiB. Resources that are neither limited nor in use are
    omitted.
    """
    tres_minutes: dict[str, Gauge] = Field(default_factory=dict)
    """GrpTRESMins by Slurm's name, in minutes; only resources with such a limit."""
    per_job: dict[str, int] = Field(default_factory=dict)
    """MaxTRESPerJob by Slurm's name; ``mem`` in MiB."""
    grp_jobs: Gauge = Gauge(limit=None, used=0)
    """GrpJobs: running jobs of the account."""
    grp_submitted: Gauge = Gauge(limit=None, used=0)
    """GrpSubmitJobs: pending and running jobs of the account."""
    max_jobs: Gauge = Gauge(limit=None, used=0)
    """Limit and number of running jobs of this user alone."""
    max_submitted: Gauge = Gauge(limit=None, used=0)
    """Limit and number of pending and running jobs of this user alone."""
    max_wall_s: int | None = None
    """Maximum time limit of a job in seconds; None: no limit."""


class QosUse(Frozen):
    """Limits of one QOS, and the current use of each, as slurmctld counts it."""

    name: str
    tres: dict[str, Gauge] = Field(default_factory=dict)
    """GrpTRES by Slurm's name; ``mem`` in MiB."""
    per_job: dict[str, int] = Field(default_factory=dict)
    """MaxTRESPerJob by Slurm's name; ``mem`` in MiB."""
    per_user: dict[str, int] = Field(default_factory=dict)
    """MaxTRESPerUser by Slurm's name."""
    used_by: dict[str, dict[str, int]] = Field(default_factory=dict)
    """TRES in use by each user, by user name and then Slurm's name."""
    max_wall_s: int | None = None
    """Maximum time limit of a job in seconds; None: no limit."""


class LimitUsage(Frozen):
    """Limits of associations and QOS with their current use, all from one query of slurmctld."""

    enforced: frozenset[str] = frozenset()
    """Values in Slurm's setting ``AccountingStorageEnforce``, such as ``associations``, ``limits``
    and ``qos``.
    """
    associations: tuple[AssociationUse, ...] = ()
    qos: tuple[QosUse, ...] = ()

    def find_association(self, account: str, user: str | None = None) -> AssociationUse | None:
        """Return the association of the account or, with ``user``, of that user in it; None if
        there is none.
        """
        for association in self.associations:
            if association.account == account and association.user == user:
                return association
        return None

    def list_association_chain(self, account: str, user: str) -> tuple[AssociationUse, ...]:
        """Return the associations of the user in the account, of the account, and of its parent
        accounts, in this order.
        """
        associations = [
            association
            for association in (self.find_association(account, user),)
            if association is not None
        ]
        above: str | None = account
        while above is not None:
            association = self.find_association(above)
            if association is None or association in associations:
                break
            associations.append(association)
            above = association.parent
        return tuple(associations)

    def list_members(self, account: str) -> tuple[AssociationUse, ...]:
        """Return the associations of one account's members."""
        return tuple(
            association
            for association in self.associations
            if association.account == account and association.user is not None
        )
