"""Parsers of nodes, partitions and reservations, as ``scontrol --oneliner show`` prints them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime

from aitne.adapters.schedulers._slurm.squeue_parser import node_names
from aitne.adapters.schedulers._slurm.times import parse_limit, parse_time
from aitne.adapters.slurm_special_values import is_number
from aitne.core.models.cluster import GpuCount, GresCount, Node, NodeState, Partition, Reservation
from aitne.core.units import parse_slurm_gres, parse_slurm_tres

_S = NodeState
_DEFAULT_MEMORY = {
    "DefMemPerNode": "default_memory_per_node_bytes",
    "DefMemPerCPU": "default_memory_per_cpu_bytes",
}
_FREE_TEXT = re.compile(r" (?:Reason|Comment|Extra)=")
_KEY = re.compile(r" (?=[A-Za-z][A-Za-z_/]*=)")
_BUSY = frozenset({"ALLOCATED", "MIXED", "COMPLETING"})
_POWER = frozenset({"POWERED_DOWN", "POWERING_DOWN", "POWER_DOWN", "POWERING_UP", "POWER_UP"})
_BASE = {
    "IDLE": _S.IDLE,
    "PLANNED": _S.IDLE,
    "MIXED": _S.MIXED,
    "COMPLETING": _S.MIXED,
    "ALLOCATED": _S.ALLOCATED,
    "BLOCKED": _S.RESERVED,
    "MAINT": _S.RESERVED,
    "RESERVED": _S.RESERVED,
}


def parse_pairs(line: str) -> dict[str, str]:
    """Return the ``Key=value`` pairs in one line of scontrol's output.

    Values may contain spaces (``OS=Linux 6.1 #1 SMP``). If a key is repeated, its first value is
    used: free text, such as a drain reason, is at the end of the line and cannot override other
    values.
    """
    values: dict[str, str] = {}
    cut = _FREE_TEXT.search(line)
    facts, text = (line, "") if cut is None else (line[: cut.start()], line[cut.start() :])
    for part in _KEY.split(facts):
        key, _, value = part.partition("=")
        values.setdefault(key.strip(), value.strip())
    if text.startswith(" Reason="):
        values["Reason"] = text.removeprefix(" Reason=").strip()
    return values


def _parse_records(output: str, first_key: str) -> Iterator[dict[str, str]]:
    for line in output.splitlines():
        if line.startswith(f"{first_key}="):
            yield parse_pairs(line)


def node_state(words: Iterable[str]) -> NodeState:
    """Convert the words with which Slurm describes a node's state, such as ``IDLE`` and ``DRAIN``
    together, to one state. A word may have squeue's suffix (``DOWN*``).
    """
    flags = set()
    for word in words:
        plain = word.upper().rstrip("*~#!%$@^-+")
        flags.add(plain)
        if "*" in word:
            flags.add("NOT_RESPONDING")
    busy = bool(flags & _BUSY)
    if flags & {"DOWN", "ERROR", "INVAL", "INVALID_REG"}:
        return _S.DOWN
    if flags & {"DRAIN", "DRAINED", "DRAINING", "FAIL", "FAILING"}:
        return _S.DRAINING if busy or "DRAINING" in flags else _S.DRAINED
    if flags & _POWER and not busy:
        return _S.POWERED_OFF
    if "NOT_RESPONDING" in flags and not flags & _POWER:
        return _S.DOWN
    if flags & {"REBOOT_ISSUED", "MAINT", "MAINTENANCE", "RESERVED"} and not busy:
        return _S.RESERVED
    for word, state in _BASE.items():
        if word in flags and (busy is (word in _BUSY)):
            return state
    return _S.UNKNOWN


def gres_counts(text: str) -> dict[tuple[str, str | None], int]:
    """Return the count of each GRES, by (name, type), in a list such as
    ``gpu:h200:4(S:0-1),shard:8``; parts that cannot be parsed are ignored.
    """
    counts: dict[tuple[str, str | None], int] = {}
    for gres in parse_slurm_gres(text):
        key = (gres.kind, gres.type)
        counts[key] = counts.get(key, 0) + gres.count
    return counts


def _parse_used_gres(
    fields: dict[str, str], total: dict[tuple[str, str | None], int]
) -> dict[tuple[str, str | None], int]:
    """Return the allocated count of each GRES: from AllocTRES if the site counts the GRES as TRES,
    else from GresUsed.

    For shards, GresUsed of 22.05 is the number of their GPUs, not of the shards.
    """
    used = gres_counts(fields.get("GresUsed", ""))
    for gres in parse_slurm_tres(fields.get("AllocTRES", "")):
        types = [gres_type for known_kind, gres_type in total if known_kind == gres.kind]
        if gres.type is not None:
            used[(gres.kind, gres.type)] = gres.count
        elif len(types) == 1:
            used[(gres.kind, types[0])] = gres.count
    return used


def parse_nodes(output: str, cluster: str, seen_at: datetime) -> tuple[Node, ...]:
    """Parse the output of ``scontrol --details --oneliner show node``."""
    return tuple(
        _parse_node(fields, cluster, seen_at) for fields in _parse_records(output, "NodeName")
    )


def _parse_node(fields: dict[str, str], cluster: str, seen_at: datetime) -> Node:
    total = gres_counts(fields.get("Gres", ""))
    used = _parse_used_gres(fields, total)
    word = fields.get("State", "UNKNOWN")
    state = node_state(word.split("+"))
    name, address = fields["NodeName"], fields.get("NodeAddr")
    return Node(
        name=name,
        cluster=cluster,
        state=state,
        reason=fields.get("Reason") or None,
        cpu_total=_parse_number(fields.get("CPUEfctv") or fields.get("CPUTot")),
        cpu_used=_parse_number(fields.get("CPUAlloc")),
        memory_total_bytes=_parse_number(fields.get("RealMemory")) << 20,
        memory_used_bytes=_parse_number(fields.get("AllocMem")) << 20,
        gpus=tuple(
            GpuCount(type=kind, total=count, used=used.get((gres, kind), 0))
            for (gres, kind), count in total.items()
            if gres == "gpu"
        ),
        gres=tuple(
            GresCount(
                name=gres if kind is None else f"{gres}:{kind}",
                total=count,
                used=used.get((gres, kind), 0),
            )
            for (gres, kind), count in total.items()
            if gres != "gpu"
        ),
        features=_parse_names(fields.get("AvailableFeatures")) or (),
        partitions=_parse_names(fields.get("Partitions")) or (),
        # Nodes with changed values are stored anew, hence not each watt.
        power_w=round(_parse_number(fields.get("CurrentWatts")), -1) or None,
        address=address if address and address != name else None,
        scheduler_state=word,
        seen_at=seen_at,
    )


def default_amounts(
    values: Mapping[str, str], defaults: Mapping[str, int] | None = None
) -> dict[str, int]:
    """Return the default amounts of memory and CPUs of a partition, or of the whole cluster, by the
    name of their field in ``Partition``.

    Args:
        values: values of ``scontrol show partition`` or ``scontrol show config``.
        defaults: amounts of the whole cluster, which apply where the partition sets none.
    """
    own = {
        name: int(values[key]) << 20
        for key, name in _DEFAULT_MEMORY.items()
        if values.get(key, "").isdecimal() and int(values[key])
    }
    for word in values.get("JobDefaults", "").split(","):
        key, _, number = word.partition("=")
        if key == "DefMemPerGPU" and number.isdecimal():
            own["default_memory_per_gpu_bytes"] = int(number) << 20
        if key == "DefCpuPerGPU" and number.isdecimal() and int(number):
            own["default_cpus_per_gpu"] = int(number)
    inherited = dict(defaults or {})
    if own.keys() & _DEFAULT_MEMORY.values():
        # A partition has one amount, per node or per CPU.
        for name in _DEFAULT_MEMORY.values():
            inherited.pop(name, None)
    return inherited | own


def parse_partitions(
    output: str, defaults: Mapping[str, int] | None = None
) -> tuple[Partition, ...]:
    """Parse the output of ``scontrol --oneliner show partition``. ``defaults`` are the default
    amounts of the whole cluster.
    """
    return tuple(
        Partition(
            name=fields["PartitionName"],
            up=fields.get("State", "UP") in ("UP", "DRAIN"),
            accepts_jobs=fields.get("State", "UP") in ("UP", "DOWN"),
            default=fields.get("Default") == "YES",
            nodes=node_names(fields.get("Nodes", "")),
            max_time_s=parse_limit(fields.get("MaxTime", "")),
            default_time_s=parse_limit(fields.get("DefaultTime", "")),
            **default_amounts(fields, defaults),
            max_nodes=_parse_number(fields.get("MaxNodes")) or None,
            min_nodes=max(1, _parse_number(fields.get("MinNodes"))),
            allow_accounts=_parse_names(fields.get("AllowAccounts")),
            deny_accounts=_parse_names(fields.get("DenyAccounts")) or (),
            allow_qos=_parse_names(fields.get("AllowQos")),
            allow_groups=_parse_names(fields.get("AllowGroups")),
            exclusive=fields.get("OverSubscribe") == "EXCLUSIVE",
        )
        for fields in _parse_records(output, "PartitionName")
    )


def parse_reservations(output: str) -> tuple[Reservation, ...]:
    """Parse the output of ``scontrol --oneliner show reservation``. Without reservations, the
    output is a sentence, for which the result is empty.
    """
    return tuple(
        Reservation(
            name=fields["ReservationName"],
            starts_at=parse_time(fields.get("StartTime", "")),
            ends_at=parse_time(fields.get("EndTime", "")),
            nodes=node_names(fields.get("Nodes", "")),
            accounts=_parse_names(fields.get("Accounts")) or (),
            users=_parse_names(fields.get("Users")) or (),
        )
        for fields in _parse_records(output, "ReservationName")
    )


def _parse_number(text: str | None) -> int:
    number = int(text) if text and text.isdecimal() else 0
    return number if is_number(number) else 0


def _parse_names(text: str | None) -> tuple[str, ...] | None:
    """Parse a comma-separated list of names; None for ``ALL`` or a missing value."""
    if not text or text in ("ALL", "(null)", "N/A"):
        return None
    return tuple(text.split(","))
