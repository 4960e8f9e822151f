"""Slurm's accounting in memory: the effects of changes, without Slurm's commands."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from aitne.core.errors import NotSupported, SchedulerRejected, Unavailable
from aitne.core.models.limits import Limits, LimitUsage, Usage
from aitne.core.ports.accounting import (
    AddAccount,
    AddMember,
    Association,
    Associations,
    Change,
    JobEnergy,
    RemoveMember,
    SetDefault,
    SetGpuTypeLimit,
    SetLimit,
    SetQos,
    SlurmUser,
)


def applied(now: Associations, change: Change) -> Associations:
    """Return the associations after one change.

    Raises:
        SchedulerRejected: sacctmgr would refuse the change.
    """
    accounts = {each.account: each for each in now.accounts}
    members = {(each.account, each.user): each for each in now.members}
    users = {each.name: each for each in now.users}
    key = (change.account, getattr(change, "user", None))
    if isinstance(change, AddAccount):
        accounts[change.account] = Association(account=change.account, parent="root")
    elif change.account not in accounts:
        raise SchedulerRejected(f"There is no account {change.account}.")
    elif isinstance(change, AddMember):
        members[key] = Association(account=change.account, user=change.user)
        known = users.get(change.user)
        if known is None or known.default_account is None:
            users[change.user] = SlurmUser(name=change.user, default_account=change.account)
    elif key[1] is not None and key not in members:
        raise SchedulerRejected(f"{key[1]} is not in account {change.account}.")
    elif isinstance(change, SetDefault):
        users[change.user] = users[change.user].model_copy(
            update={"default_account": change.account}
        )
    elif isinstance(change, RemoveMember):
        del members[key]
        if not any(user == change.user for _, user in members):
            users.pop(change.user, None)
    else:
        table = accounts if key[1] is None else members
        place = change.account if key[1] is None else key
        old = table[place]  # type: ignore[index]
        table[place] = old.model_copy(update={"limits": _limited(old.limits, change)})  # type: ignore[index]
    return now.model_copy(
        update={
            "accounts": tuple(accounts.values()),
            "members": tuple(members.values()),
            "users": tuple(users.values()),
        }
    )


def _limited(limits: Limits, change: SetLimit | SetGpuTypeLimit | SetQos) -> Limits:
    if isinstance(change, SetLimit):
        return limits.model_copy(update={change.limit: change.after})
    if isinstance(change, SetQos):
        return limits.model_copy(update={"qos": change.after})
    types = {**limits.max_gpus_by_type, change.type: change.after}
    kept = {name: count for name, count in types.items() if count is not None}
    return limits.model_copy(update={"max_gpus_by_type": kept})


class MemoryAccounting:
    """An `Accounting` port in memory."""

    def __init__(self, now: Associations | None = None) -> None:
        self.now = now or Associations(cluster="test", accounts=(Association(account="root"),))
        self.used: list[Usage] = []
        self.consumed: list[JobEnergy] = []
        self.asked: list[tuple[datetime, datetime]] = []
        self.down = False
        self.none = False
        """The cluster has no accounting."""

    def _check(self) -> None:
        if self.down:
            raise Unavailable("Accounting is down because the test says so.")

    async def read_associations(self) -> Associations:
        """Return all associations that accounting holds."""
        self._check()
        return self.now

    async def apply_changes(self, changes: Sequence[Change]) -> None:
        """Apply the changes in order."""
        self._check()
        for change in changes:
            self.now = applied(self.now, change)

    async def read_usage(self, start: datetime, end: datetime) -> Sequence[Usage]:
        """Return the same usage for every period; record the period."""
        self._check()
        if self.none:
            raise NotSupported("This cluster has no accounting.")
        self.asked.append((start, end))
        return self.used

    async def read_energy(self, start: datetime, end: datetime) -> Sequence[JobEnergy]:
        """Return the energy of the jobs that ended in that time."""
        self._check()
        return [each for each in self.consumed if start <= each.ended_at <= end]

    async def read_limit_usage(self) -> LimitUsage:
        """Return usage in which no limit is used."""
        self._check()
        return LimitUsage()
