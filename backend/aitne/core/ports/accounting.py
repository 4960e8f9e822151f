"""Accounting: permissions and usage. In Slurm: slurmdbd's associations and jobs."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Literal, Protocol

from pydantic import Field, TypeAdapter

from aitne.core.models.base import Frozen
from aitne.core.models.limits import GPU_TYPE, QOS_NAME, Limits, LimitUsage, Usage

AccountName = Annotated[str, Field(pattern=r"^[a-z0-9_][a-z0-9_.-]{0,63}$")]
"""An account of Slurm, which keeps them in small letters."""
UnixName = Annotated[str, Field(pattern=r"^[a-z_][a-z0-9_.-]{0,31}$")]
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
"""Slurm's own account above all others: no project."""


class Association(Frozen):
    """One account (``user`` None), or one user in it, with its own limits, none inherited."""

    account: str
    user: str | None = None
    parent: str | None = None
    limits: Limits = Limits()


class SlurmUser(Frozen):
    """A user that accounting knows."""

    name: str
    default_account: str | None
    admin_level: str = "None"

    @property
    def privileged(self) -> bool:
        """Return whether it may see or change the data of others."""
        return self.admin_level.lower() not in ("none", "not set", "")


class Associations(Frozen):
    """Everything that accounting holds about this cluster. Associations of a partition are left
    out."""

    cluster: str
    accounts: tuple[Association, ...] = ()
    members: tuple[Association, ...] = ()
    users: tuple[SlurmUser, ...] = ()
    tres: frozenset[str] = frozenset()
    """Resources that are counted, such as ``cpu`` and ``gres/gpu``."""


class AddAccount(Frozen):
    """Creation of an account below the root account."""

    kind: Literal["add_account"] = "add_account"
    account: AccountName


class AddMember(Frozen):
    """Addition of a user to an account."""

    kind: Literal["add_member"] = "add_member"
    account: AccountName
    user: UnixName


class RemoveMember(Frozen):
    """Removal of a user from an account. It fails while the user has jobs there."""

    kind: Literal["remove_member"] = "remove_member"
    account: AccountName
    user: UnixName


class SetDefault(Frozen):
    """Change of a user's default account, for jobs that name none."""

    kind: Literal["set_default"] = "set_default"
    account: AccountName
    user: UnixName
    before: str | None


class SetLimit(Frozen):
    """Change of one limit of an account, or of one user in it. None means no limit."""

    kind: Literal["set_limit"] = "set_limit"
    account: AccountName
    user: UnixName | None = None
    limit: LimitName
    before: int | None
    after: Annotated[int, Field(ge=0)] | None


class SetGpuTypeLimit(Frozen):
    """Change of the limit of GPUs of one type in use at once."""

    kind: Literal["set_gpu_type_limit"] = "set_gpu_type_limit"
    account: AccountName
    user: UnixName | None = None
    type: Annotated[str, Field(pattern=GPU_TYPE)]
    before: int | None
    after: Annotated[int, Field(ge=0)] | None


class SetQos(Frozen):
    """Change of the QOS that jobs may name; an empty list means the QOS of the account above."""

    kind: Literal["set_qos"] = "set_qos"
    account: AccountName
    user: UnixName | None = None
    before: tuple[str, ...]
    after: tuple[Annotated[str, Field(pattern=QOS_NAME)], ...]


Change = AddAccount | AddMember | RemoveMember | SetDefault | SetLimit | SetGpuTypeLimit | SetQos
CHANGE: TypeAdapter[Change] = TypeAdapter(Annotated[Change, Field(discriminator="kind")])


class Accounting(Protocol):
    """Accounting of a cluster. All methods may raise ``Unavailable`` (it does not answer) and
    ``NotSupported`` (this cluster keeps no accounts)."""

    async def read(self) -> Associations:
        """Return all associations, accounts and users that accounting holds now."""
        ...

    async def apply(self, changes: Sequence[Change]) -> None:
        """Make the changes in this order. The first failure ends the call; the changes before it
        remain made.

        Raises:
            NotAllowed: the account in use is no administrator of accounting, or the broker does not
                act for a user any more.
            SchedulerRejected: the scheduler rejected a change, which the message names.
        """
        ...

    async def usage(self, start: datetime, end: datetime) -> Sequence[Usage]:
        """Return the usage between the two times, by account and user; running jobs count up to
        now."""
        ...

    async def in_use(self) -> LimitUsage:
        """Return the limits that hold now and how much of each is in use."""
        ...
