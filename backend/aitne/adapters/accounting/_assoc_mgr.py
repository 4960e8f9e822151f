"""Parser of ``scontrol show assoc_mgr``: each limit with its current usage, as counted by
slurmctld."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from aitne.adapters.accounting._accounting_output_parser import parse_rows, parse_tres, parse_wall
from aitne.core.models.limits import MIB, AssociationUse, Gauge, QosUse

QOS_FIELDS = ("Name", "MaxTRESPerUser", "MaxWall")

_GAUGE = re.compile(r"(N|\d+)\((\d+)(?:\.\d+)?\)")
_USER = re.compile(r"\bUserName=(\S+)\((\d+)\)")
_NUMBER = re.compile(r"\d+")
_WITH_NUMBER = re.compile(r"^(.*)\(\d+\)$")


def _parse_gauge(text: str) -> Gauge:
    match = _GAUGE.fullmatch(text)
    if match is None:
        return Gauge(limit=None, used=0)
    limit, used = match.groups()
    return Gauge(limit=None if limit == "N" else int(limit), used=int(used))


def _parse_gauges(text: str) -> dict[str, Gauge]:
    """Parse a list such as ``cpu=N(4),mem=2048(0)``: for each resource its limit (``N``: no limit)
    and, in parentheses, its current usage. Resources that have no limit and are not in use are
    omitted.
    """
    gauges = {}
    for part in filter(None, text.split(",")):
        name, _, value = part.partition("=")
        gauge = _parse_gauge(value)
        if gauge.limit is not None or gauge.used:
            gauges[name] = gauge
    return gauges


def _parse_job_limits(text: str) -> dict[str, int]:
    """Parse limits of a single job such as ``cpu=4,mem=2048``, which have no usage; memory is in
    MiB.
    """
    limits = parse_tres(text)
    if "mem" in limits:
        limits["mem"] //= MIB
    return limits


def _remove_id(text: str) -> str:
    """Return the name without the ID in parentheses: ``ml`` for ``ml(3)``, ``alice`` for
    ``alice(1001)``.
    """
    match = _WITH_NUMBER.match(text)
    return match[1] if match else text


def _split_records(text: str, first: str) -> Iterator[list[str]]:
    """Yield the lines of each record: a line that begins with ``first``, and the indented lines
    after it.
    """
    block: list[str] = []
    for line in text.splitlines():
        if line.startswith(first):
            if block:
                yield block
            block = [line]
        elif block and line.startswith(" "):
            block.append(line)
        elif block:
            yield block
            block = []
    if block:
        yield block


def _parse_pairs(lines: list[str]) -> dict[str, str]:
    """Return all ``Name=value`` pairs of the lines. Pairs are separated by spaces; a value that is
    a list, such as GrpTRES, contains none.
    """
    return {
        name: value
        for line in lines
        for word in line.split()
        for name, equals, value in (word.partition("="),)
        if equals
    }


def parse_association_use(text: str) -> tuple[AssociationUse, ...]:
    """Parse the records of associations in the output of ``scontrol show assoc_mgr``. Associations
    that apply to a single partition only are omitted.
    """
    associations = []
    for block in _split_records(text, "ClusterName="):
        facts = _parse_pairs(block)
        if facts.get("Partition") or not facts.get("Account"):
            continue
        wall = facts.get("MaxWallPJ", "")
        associations.append(
            AssociationUse(
                account=facts["Account"],
                user=_remove_id(facts.get("UserName", "")) or None,
                parent=_remove_id(facts.get("ParentAccount", "")) or None,
                tres=_parse_gauges(facts.get("GrpTRES", "")),
                tres_minutes={
                    name: gauge
                    for name, gauge in _parse_gauges(facts.get("GrpTRESMins", "")).items()
                    if gauge.limit is not None
                },
                per_job=_parse_job_limits(facts.get("MaxTRESPJ", "")),
                grp_jobs=_parse_gauge(facts.get("GrpJobs", "")),
                grp_submitted=_parse_gauge(facts.get("GrpSubmitJobs", "")),
                max_jobs=_parse_gauge(facts.get("MaxJobs", "")),
                max_submitted=_parse_gauge(facts.get("MaxSubmitJobs", "")),
                max_wall_s=int(wall) * 60 if _NUMBER.fullmatch(wall) else None,
            )
        )
    return tuple(associations)


def parse_qos_use(text: str, limits: str) -> tuple[QosUse, ...]:
    """Return the usage and the limits of each QOS.

    ``text`` is the output of ``scontrol show assoc_mgr``, from which usage is read. ``limits`` is
    the output of ``sacctmgr show qos`` with the fields ``QOS_FIELDS``: slurmctld shows a user's
    limit only for users that have usage, so the limits are read from sacctmgr.
    """
    rows_by_name = {row["Name"]: row for row in parse_rows(limits, QOS_FIELDS)}
    names = {number: name for name, number in _USER.findall(text)}
    uses = []
    for block in _split_records(text, "QOS="):
        name = _remove_id(block[0].partition("=")[2].strip())
        below = next((n for n, line in enumerate(block) if "Account Limits" in line), len(block))
        facts = _parse_pairs(block[:below])
        row = rows_by_name.get(name, {})
        uses.append(
            QosUse(
                name=name,
                tres=_parse_gauges(facts.get("GrpTRES", "")),
                per_job=_parse_job_limits(facts.get("MaxTRESPJ", "")),
                per_user=_parse_job_limits(row.get("MaxTRESPerUser", "")),
                used_by=_parse_usage_by_user(block[below:], names),
                max_wall_s=parse_wall(row.get("MaxWall", "")),
            )
        )
    return tuple(uses)


def _parse_usage_by_user(lines: list[str], names: Mapping[str, str]) -> dict[str, dict[str, int]]:
    """Return the usage of each user, by resource. Depending on Slurm's release, ``lines`` contain a
    bare uid or ``alice(1001)`` for each user; ``names`` maps uids to user names.
    """
    usage: dict[str, dict[str, int]] = {}
    user, users = "", False
    for line in map(str.strip, lines):
        if line.startswith("User Limits"):
            users = True
        elif users and "=" not in line:
            match = _WITH_NUMBER.match(line)
            user = match[1] if match else names.get(line, line)
        elif users and line.startswith("MaxTRESPU="):
            gauges = _parse_gauges(line.removeprefix("MaxTRESPU="))
            used = {name: gauge.used for name, gauge in gauges.items() if gauge.used}
            if used:
                usage[user] = used
    return usage
