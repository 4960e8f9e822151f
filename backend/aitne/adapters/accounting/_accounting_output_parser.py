"""Arguments of sacctmgr, and parsers of the output of sacctmgr, sacct and scontrol.

Sources: sacctmgr(1), sacct(1), scontrol(1) of Slurm 22.05 to 26.05.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime

from aitne.adapters.slurm_special_values import is_number
from aitne.core.models.limits import GPU_TYPE, MIB, MOST, QOS_NAME, Limits, Usage
from aitne.core.ports.accounting import (
    AddAccount,
    AddMember,
    Association,
    Change,
    JobEnergy,
    RemoveMember,
    SetDefault,
    SetGpuTypeLimit,
    SetLimit,
    SetQos,
    SlurmUser,
)

ASSOCIATION_FIELDS = (
    *("Account", "User", "Partition", "ParentName", "GrpTRES", "GrpTRESMins", "GrpJobs"),
    *("GrpSubmit", "MaxJobs", "MaxSubmit", "MaxWall", "QOS"),
)
USER_FIELDS = ("User", "DefaultAccount", "AdminLevel")
USAGE_FIELDS = ("JobIDRaw", "Account", "User", "ElapsedRaw", "End", "AllocTRES")
ENERGY_FIELDS = ("JobID", "End", "ConsumedEnergyRaw")

GPU = "gres/gpu"
_SUFFIXES = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40, "P": 1 << 50}
_AMOUNT = re.compile(r"(\d+)(?:\.(\d+))?([KMGTP]?)B?", re.IGNORECASE)
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d", re.ASCII)
_WALL = re.compile(r"(?:(\d+)-)?(\d+):(\d+):(\d+)")
_COUNT_LIMITS = {"max_gpus": GPU, "max_cpus": "cpu", "max_nodes": "node"}


def parse_rows(text: str, fields: tuple[str, ...]) -> Iterator[Mapping[str, str]]:
    """Yield the lines of a command's output in the format ``-nP`` as mappings from ``fields`` to
    values; a line with fewer columns is skipped.
    """
    for line in text.splitlines():
        cells = line.split("|")
        if len(cells) >= len(fields):
            yield dict(zip(fields, cells, strict=False))


def parse_tres(text: str) -> dict[str, int]:
    """Parse a list of TRES such as ``cpu=8,mem=20G,gres/gpu=2`` to amounts by name. Memory is
    returned in bytes; a number without a suffix is in MiB. An amount that Slurm does not know is
    omitted.
    """
    amounts = {}
    for part in filter(None, text.split(",")):
        name, _, value = part.partition("=")
        match = _AMOUNT.fullmatch(value)
        if match is None:
            continue
        whole, fraction, suffix = match.groups()
        unit = _SUFFIXES[suffix.upper()]
        if name == "mem" and not suffix:
            unit = MIB
        amount = int(whole) * unit
        if fraction:
            amount += int(fraction) * unit // 10 ** len(fraction)
        if is_number(amount):
            amounts[name] = amount
    return amounts


def parse_wall(text: str) -> int | None:
    """Convert ``1-02:30:00`` to seconds; None if the text is not a duration."""
    match = _WALL.fullmatch(text)
    if match is None:
        return None
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds


def _parse_number(text: str) -> int | None:
    """Return a number; None for another text, and if it says that there is none."""
    number = int(text) if text.isdecimal() and len(text) <= 20 else None
    return number if number is not None and is_number(number) else None


def parse_associations(text: str) -> tuple[tuple[Association, ...], tuple[Association, ...]]:
    """Parse ``sacctmgr show assoc WOPLimits`` with the fields ``ASSOCIATION_FIELDS``; return the
    associations of accounts, and those of users in accounts.
    """
    accounts: list[Association] = []
    members: list[Association] = []
    for row in parse_rows(text, ASSOCIATION_FIELDS):
        if row["Partition"] or not row["Account"]:
            continue
        association = Association(
            account=row["Account"],
            user=row["User"] or None,
            parent=row["ParentName"] or None,
            limits=_parse_limits(row),
        )
        (members if row["User"] else accounts).append(association)
    return tuple(accounts), tuple(members)


def _parse_limits(row: Mapping[str, str]) -> Limits:
    at_once = parse_tres(row["GrpTRES"])
    minutes = parse_tres(row["GrpTRESMins"]).get(GPU)
    is_member = bool(row["User"])
    wall = parse_wall(row["MaxWall"])
    memory = at_once.get("mem")
    return Limits(
        max_gpus=_cap_count(at_once.get(GPU)),
        max_gpus_by_type={
            name.removeprefix(f"{GPU}:"): min(count, MOST)
            for name, count in at_once.items()
            if name.startswith(f"{GPU}:") and re.match(GPU_TYPE, name.removeprefix(f"{GPU}:"))
        },
        max_cpus=_cap_count(at_once.get("cpu")),
        max_memory_bytes=None if memory is None else min(memory, 1 << 60) // MIB * MIB,
        max_nodes=_cap_count(at_once.get("node")),
        max_jobs=_cap_count(_parse_number(row["MaxJobs" if is_member else "GrpJobs"])),
        max_submitted=_cap_count(_parse_number(row["MaxSubmit" if is_member else "GrpSubmit"])),
        max_wall_s=None if wall is None else min(wall, MOST) // 60 * 60,
        gpu_hours=_cap_count(None if minutes is None else minutes // 60),
        qos=tuple(sorted(name for name in row["QOS"].split(",") if re.match(QOS_NAME, name))),
    )


def _cap_count(count: int | None) -> int | None:
    return None if count is None else min(count, MOST)


def parse_users(text: str) -> tuple[SlurmUser, ...]:
    """Parse the output of ``sacctmgr show user`` with the fields ``USER_FIELDS``."""
    return tuple(
        SlurmUser(
            name=row["User"],
            default_account=row["DefaultAccount"] or None,
            admin_level=row["AdminLevel"],
        )
        for row in parse_rows(text, USER_FIELDS)
        if row["User"]
    )


def parse_counted_resources(text: str) -> frozenset[str]:
    """Return the names of the resources in the output of ``sacctmgr show tres format=Type,Name``,
    such as ``cpu`` and ``gres/gpu:a100``.
    """
    tres_rows = parse_rows(text, ("Type", "Name"))
    return frozenset("/".join(filter(None, (row["Type"], row["Name"]))) for row in tres_rows)


def parse_usage(text: str, end: str) -> tuple[Usage, ...]:
    """Return the usage by account and user from the output of ``sacct -X -T -D`` with
    ``USAGE_FIELDS``, up to the time ``end``.

    Every run of a requeued job has a line of its own: the time of all runs is counted, but the job
    only once. The energy of a run belongs to the period in which the run ended; before that, sacct
    prints ``end`` as the run's end.
    """
    energy_j: dict[tuple[str, str], int] = defaultdict(int)
    seconds: dict[tuple[str, str], dict[str, int]] = defaultdict(lambda: defaultdict(int))
    jobs: dict[tuple[str, str], set[str]] = defaultdict(set)
    for row in parse_rows(text, USAGE_FIELDS):
        elapsed = _parse_number(row["ElapsedRaw"]) or 0
        allocated = parse_tres(row["AllocTRES"])
        if not elapsed or not allocated or not row["User"]:
            continue
        key = (row["Account"], row["User"])
        jobs[key].add(row["JobIDRaw"])
        if row["End"] != end:
            energy_j[key] += _energy_j(allocated.get("energy"))
        typed = {name: n for name, n in allocated.items() if name.startswith(f"{GPU}:")}
        spent = {"cpu": allocated.get("cpu", 0), **typed}
        # If a site counts only GPU types, Slurm reports no total.
        spent[GPU] = max(allocated.get(GPU, 0), sum(typed.values()))
        for name, count in spent.items():
            seconds[key][name] += count * elapsed
    return tuple(
        Usage(
            account=account,
            user=user,
            cpu_s=spent["cpu"],
            gpu_s=spent[GPU],
            gpu_s_by_type={
                name.removeprefix(f"{GPU}:"): amount
                for name, amount in sorted(spent.items())
                if name.startswith(f"{GPU}:") and amount
            },
            jobs=len(jobs[account, user]),
            energy_j=energy_j[account, user] or None,
        )
        for (account, user), spent in sorted(seconds.items())
    )


def _energy_j(amount: int | None) -> int:
    """Return the energy of a job; 0 if it was not measured."""
    return amount if amount is not None and amount < MOST else 0


def parse_energy(text: str) -> tuple[JobEnergy, ...]:
    """Return the energy of ended jobs from the output of ``sacct -X`` with ``ENERGY_FIELDS`` in UTC.
    Slurm prints 0, an empty field or a number without meaning if nothing was measured.
    """
    found = []
    for row in parse_rows(text, ENERGY_FIELDS):
        energy_j = _energy_j(_parse_number(row["ConsumedEnergyRaw"]))
        if energy_j and _TIME.fullmatch(row["End"]):
            ended_at = datetime.fromisoformat(row["End"]).replace(tzinfo=UTC)
            found.append(JobEnergy(scheduler_id=row["JobID"], ended_at=ended_at, energy_j=energy_j))
    return tuple(found)


def parse_config(text: str, names: Iterable[str]) -> dict[str, str]:
    """Return the values of ``names`` in the output of ``scontrol show config``; an empty text for
    ``(null)`` and missing names.
    """
    values = dict.fromkeys(names, "")
    for line in text.splitlines():
        name, equals, value = line.partition("=")
        if equals and name.strip() in values:
            values[name.strip()] = "" if value.strip() == "(null)" else value.strip()
    return values


def make_sacctmgr_arguments(change: Change, cluster: str) -> list[str]:
    """Return the arguments of sacctmgr that make the change. They include ``-i``, which disables
    the confirmation prompt. The names in ``change`` were validated when it was created.
    """
    match change:
        case AddAccount():
            name = f"Name={change.account}"
            return ["add", "account", name, f"Cluster={cluster}", "Parent=root"]
        case AddMember():
            account = f"Account={change.account}"
            return ["add", "user", f"Name={change.user}", f"Cluster={cluster}", account]
        case RemoveMember():
            return [
                "delete",
                "user",
                "where",
                *_make_member_condition(change.account, change.user, cluster),
            ]
        case SetDefault():
            conditions = [f"Name={change.user}", f"Cluster={cluster}"]
            return [
                "modify",
                "user",
                "where",
                *conditions,
                "set",
                f"DefaultAccount={change.account}",
            ]
        case SetLimit():
            return _make_modify_arguments(
                change.account, change.user, cluster, _format_setting(change)
            )
        case SetGpuTypeLimit():
            setting = f"GrpTRES={GPU}:{change.type}={_to_slurm_limit(change.after)}"
            return _make_modify_arguments(change.account, change.user, cluster, setting)
        case SetQos():
            return _make_modify_arguments(
                change.account, change.user, cluster, f"QOS={','.join(change.after)}"
            )


def _make_member_condition(account: str, user: str, cluster: str) -> list[str]:
    return [f"Name={user}", f"Account={account}", f"Cluster={cluster}"]


def _make_modify_arguments(account: str, user: str | None, cluster: str, setting: str) -> list[str]:
    if user is None:
        selection = ["account", "where", f"Name={account}", f"Cluster={cluster}"]
    else:
        selection = ["user", "where", *_make_member_condition(account, user, cluster)]
    return ["modify", *selection, "set", setting]


def _to_slurm_limit(value: int | None) -> int:
    return -1 if value is None else value


def _format_setting(change: SetLimit) -> str:
    """Return one limit as an assignment for sacctmgr, with Slurm's name and unit; a limit that is
    removed has the value -1.
    """
    value, name = _to_slurm_limit(change.after), change.limit
    is_set = change.after is not None
    if name in _COUNT_LIMITS:
        return f"GrpTRES={_COUNT_LIMITS[name]}={value}"
    if name == "max_memory_bytes":
        return f"GrpTRES=mem={f'{value // MIB}M' if is_set else -1}"
    if name == "gpu_hours":
        return f"GrpTRESMins={GPU}={value * 60 if is_set else -1}"
    if name == "max_wall_s":
        return f"MaxWall={value // 60 if is_set else -1}"
    is_member = change.user is not None
    if name == "max_jobs":
        return f"{'MaxJobs' if is_member else 'GrpJobs'}={value}"
    return f"{'MaxSubmitJobs' if is_member else 'GrpSubmitJobs'}={value}"
