"""Changes to the accounts of Slurm that make them match the platform's projects.

Pure. The only removals are those of users from accounts that are projects; accounts, users and
limits that the platform does not know are not changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from aitne.core.models.limits import Limits
from aitne.core.ports.accounting import (
    ROOT,
    AddAccount,
    AddMember,
    Associations,
    Change,
    LimitName,
    RemoveMember,
    SetDefault,
    SetGpuTypeLimit,
    SetLimit,
    SetQos,
)

SINGLE: tuple[LimitName, ...] = (
    *("max_gpus", "max_cpus", "max_memory_bytes", "max_nodes"),
    *("max_jobs", "max_submitted", "max_wall_s", "gpu_hours"),
)


@dataclass(frozen=True, slots=True)
class AccountingTarget:
    """Accounts, members and limits that accounting should have. Users are given by their Unix
    names.
    """

    accounts: Mapping[str, Limits] = field(default_factory=dict)
    members: Mapping[tuple[str, str], Limits] = field(default_factory=dict)
    """Limits of each member, by account and user."""
    defaults: Mapping[str, str] = field(default_factory=dict)
    """Default account of each user, of which the user is a member."""
    untouched: frozenset[str] = frozenset()
    """Users that are never removed from an account."""


def map_lowered_names(target: AccountingTarget, current: Associations) -> dict[str, str]:
    """Return the users of the target whose names Slurm stores in lower case, by the name in Slurm.
    It does so unless ``SlurmdbdParameters`` contains ``PreserveCaseUser``.
    """
    targets = {user for _, user in target.members} | set(target.defaults)
    stored = {user.name for user in current.users} | {
        member.user for member in current.members if member.user
    }
    return {
        user.lower(): user
        for user in sorted(targets - stored)
        if user.lower() != user and user.lower() in stored - targets
    }


def list_changes(target: AccountingTarget, current: Associations) -> list[Change]:
    """Return the changes that turn ``current`` into ``target``, in an order in which they can be
    made.
    """
    accounts = {account.account: account for account in current.accounts}
    lowered = map_lowered_names(target, current)
    members = {
        (member.account, lowered.get(member.user, member.user)): member
        for member in current.members
        if member.user
    }
    defaults = {lowered.get(user.name, user.name): user.default_account for user in current.users}
    changes: list[Change] = []
    for account in sorted(target.accounts.keys() - accounts.keys() - {ROOT}):
        changes.append(AddAccount(account=account))
    missing = target.members.keys() - members.keys()
    # The first account that a new user is added to becomes the default one.
    for account, user in sorted(
        missing, key=lambda key: (key[1], target.defaults.get(key[1]) != key[0], key[0])
    ):
        changes.append(AddMember(account=account, user=user))
        if not defaults.get(user):
            defaults[user] = account
    for user, account in sorted(target.defaults.items()):
        if defaults.get(user) != account:
            changes.append(SetDefault(account=account, user=user, before=defaults.get(user)))
    for account, limits in sorted(target.accounts.items()):
        present = accounts[account].limits if account in accounts else Limits()
        changes += _list_limit_changes(account, None, present, limits)
    for (account, user), limits in sorted(target.members.items()):
        key = (account, user)
        present = members[key].limits if key in members else Limits()
        changes += _list_limit_changes(account, user, present, limits)
    for key in sorted(members.keys() - target.members.keys()):
        account, user = key
        ours = account in target.accounts and account != ROOT
        if ours and user is not None and user not in target.untouched:
            changes.append(RemoveMember(account=account, user=user))
    return changes


def _list_limit_changes(
    account: str, user: str | None, now: Limits, target: Limits
) -> Iterator[Change]:
    for name in SINGLE:
        before, after = getattr(now, name), getattr(target, name)
        if before != after:
            yield SetLimit(account=account, user=user, limit=name, before=before, after=after)
    for kind in sorted(now.max_gpus_by_type.keys() | target.max_gpus_by_type.keys()):
        before, after = now.max_gpus_by_type.get(kind), target.max_gpus_by_type.get(kind)
        if before != after:
            yield SetGpuTypeLimit(account=account, user=user, type=kind, before=before, after=after)
    after_qos, before_qos = tuple(sorted(set(target.qos))), tuple(sorted(set(now.qos)))
    if after_qos != before_qos:
        yield SetQos(account=account, user=user, before=before_qos, after=after_qos)
