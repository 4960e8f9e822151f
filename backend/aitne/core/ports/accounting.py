"""Accounting of a cluster: accounts, limits and usage. In Slurm, these are the associations and
jobs of slurmdbd.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Literal, Protocol

from pydantic import Field, TypeAdapter

from aitne.core.models.base import Frozen, ProjectName, UserName, UtcTime
from aitne.core.models.limits import GPU_TYPE, QOS_NAME, Limits, LimitUsage, Usage

LimitName = Literal[
    "max_gpus",
    "max_cpus",
    "max_memory_bytes",
    "max_nodes",
    "max_jobs",
    "max_submitted",
    "max_wall_s",
    "gpu_hours",
]
ROOT = "root"
"""Name of the Slurm account that is the parent of all others; no project may have it."""


class Association(Frozen):
    """Slurm's association: an account (``user`` is None), or one user's membership in it, with the
    limits set on it directly. Limits inherited from a parent account are not included.
    """

    account: str
    user: str | None = None
    parent: str | None = None
    limits: Limits = Limits()


class SlurmUser(Frozen):
    """A user in Slurm's accounting, with the default account and the administrative level."""

    name: str
    default_account: str | None
    admin_level: str = "None"

    @property
    def is_privileged(self) -> bool:
        """Return whether accounting lets this user see or change the data of other users."""
        return self.admin_level.lower() not in ("none", "not set", "")


class Associations(Frozen):
    """All accounts, members, users and counted resources that accounting holds for this cluster,
    without associations that apply to a single partition only.
    """

    cluster: str
    accounts: tuple[Association, ...] = ()
    members: tuple[Association, ...] = ()
    users: tuple[SlurmUser, ...] = ()
    tres: frozenset[str] = frozenset()
    """Names of the resources (TRES) that are counted, such as ``cpu`` and ``gres/gpu``."""


class AddAccount(Frozen):
    """Request to accounting: create an account below the root account."""

    kind: Literal["add_account"] = "add_account"
    account: ProjectName


class AddMember(Frozen):
    """Request to accounting: add a user to an account."""

    kind: Literal["add_member"] = "add_member"
    account: ProjectName
    user: UserName


class RemoveMember(Frozen):
    """Request to accounting: remove a user from an account. It fails while the user has
    jobs there.
    """

    kind: Literal["remove_member"] = "remove_member"
    account: ProjectName
    user: UserName


class SetDefault(Frozen):
    """Request to accounting: make ``account`` the default for the user's jobs that name no account.
    ``before`` is the previous default.
    """

    kind: Literal["set_default"] = "set_default"
    account: ProjectName
    user: UserName
    before: str | None


class SetLimit(Frozen):
    """Request to accounting: change one limit of an account or, with ``user``, of one member, from
    ``before`` to ``after``; None means no limit.
    """

    kind: Literal["set_limit"] = "set_limit"
    account: ProjectName
    user: UserName | None = None
    limit: LimitName
    before: int | None
    after: Annotated[int, Field(ge=0)] | None


class SetGpuTypeLimit(Frozen):
    """Request to accounting: change how many GPUs of one type an account or, with ``user``, one
    member may use at once, from ``before`` to ``after``; None means no limit.
    """

    kind: Literal["set_gpu_type_limit"] = "set_gpu_type_limit"
    account: ProjectName
    user: UserName | None = None
    type: Annotated[str, Field(pattern=GPU_TYPE)]
    before: int | None
    after: Annotated[int, Field(ge=0)] | None


class SetQos(Frozen):
    """Request to accounting: change which QOS the jobs of an account or, with ``user``, of one
    member may name. An empty list means those of the parent account.
    """

    kind: Literal["set_qos"] = "set_qos"
    account: ProjectName
    user: UserName | None = None
    before: tuple[str, ...]
    after: tuple[Annotated[str, Field(pattern=QOS_NAME)], ...]


Change = AddAccount | AddMember | RemoveMember | SetDefault | SetLimit | SetGpuTypeLimit | SetQos
CHANGE: TypeAdapter[Change] = TypeAdapter(Annotated[Change, Field(discriminator="kind")])


class JobEnergy(Frozen):
    """Energy of the nodes of an ended job while its last run was on them."""

    scheduler_id: str
    """ID in the scheduler; for a task of an array with its index, such as ``4_2``."""
    ended_at: UtcTime
    energy_j: int = Field(gt=0)


class Accounting(Protocol):
    """Port to the accounting of a cluster, such as slurmdbd: limits and usage of accounts and
    users.

    All methods may raise ``Unavailable`` (accounting does not answer) and ``NotSupported`` (this
    cluster has no accounting).
    """

    async def read_associations(self) -> Associations:
        """Return all associations, accounts and users that accounting holds now."""
        ...

    async def apply_changes(self, changes: Sequence[Change]) -> None:
        """Make the changes in this order. The call stops at the first failure; earlier changes are
        not undone.

        Raises:
            NotAllowed: the account in use is not an administrator of accounting, or the broker must not
                act for one of the users.
            SchedulerRejected: the scheduler rejected a change, which the message names.
        """
        ...

    async def read_usage(self, start: datetime, end: datetime) -> Sequence[Usage]:
        """Return the usage between ``start`` and ``end``, by account and user; a running job is
        counted until now.
        """
        ...

    async def read_energy(self, start: datetime, end: datetime) -> Sequence[JobEnergy]:
        """Return the energy of the jobs that ended between ``start`` and ``end``, as far as the
        scheduler measures it.
        """
        ...

    async def read_limit_usage(self) -> LimitUsage:
        """Return the limits in force, and the current use of each."""
        ...
