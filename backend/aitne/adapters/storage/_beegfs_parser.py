"""Parsers of the output of BeeGFS's tools, ``beegfs-ctl`` of 7.x and ``beegfs`` of 8.x. Lines that
cannot be parsed are skipped, and numbers that cannot be parsed are reported as unknown (None).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from aitne.core.models.storage_area import Quota, StorageTarget, Striping

_NUMBER = re.compile(r"(\d+(?:\.\d+)?)\s*([A-Za-z]*)\+?")
_BINARY = {"": 1, "b": 1, "byte": 1} | {
    unit: 1024**power
    for power, letter in enumerate("kmgtpe", start=1)
    for unit in (letter, f"{letter}b", f"{letter}ib")
}
_COUNT = {"": 1} | {letter: 1000**power for power, letter in enumerate("kmgt", start=1)}
_POOL = re.compile(r"Quota information for storage pool (.*) \(ID: (\d+)\):")
_STRIPE_POOL = re.compile(r"(\d+)\s+\((.*)\)")
_DESIRED = re.compile(r"desired:\s*(\d+)")
_TARGET = re.compile(
    r"\s*(\d+)\s+(\S+|Probably Offline)\s+(\S+)\s+"
    r"(\d[\d.]*\s?[A-Za-z]+)\s+(\d[\d.]*\s?[A-Za-z]+)\s"
)
_UNLIMITED = 1 << 62
"""Numbers from this one on mean that there is no limit: 8.x may print the largest number instead of
a word.
"""


@dataclass(frozen=True, slots=True)
class PoolQuota:
    """Quota of a user or group in one storage pool."""

    name: str
    """Name of the user or the group."""
    kind: str
    """``user`` or ``group``."""
    pool: str
    """The pool's name in the file system."""
    quota: Quota


def parse_size(text: str) -> int | None:
    """Return the bytes in a size such as ``601.03 GiB``, ``928.9GiB`` or ``512K``; None if it is
    unlimited or unknown.
    """
    return _parse_number(text, _BINARY)


def parse_count(text: str) -> int | None:
    """Return the number in a text such as ``836.44k``, ``17688628`` or ``12+``; None if it is
    unlimited or unknown.
    """
    return _parse_number(text, _COUNT)


def _parse_number(text: str, units: Mapping[str, int]) -> int | None:
    match = _NUMBER.fullmatch(text.strip())
    scale = None if match is None else units.get(match[2].lower())
    if match is None or scale is None:
        return None
    value = int(match[1]) * scale if match[1].isdigit() else round(float(match[1]) * scale)
    return value if value < _UNLIMITED else None


def parse_striping(text: str) -> Striping | None:
    """Parse ``beegfs-ctl --getentryinfo`` or the equal ``beegfs entry info --retro``."""
    fields: dict[str, str] = {}
    for line in text.splitlines():
        name, colon, value = line.strip().lstrip("+ ").partition(":")
        if colon:
            fields.setdefault(name.strip(), value.strip())
    if "Type" not in fields:
        return None
    desired = _DESIRED.search(fields.get("Number of storage targets", ""))
    pool = _STRIPE_POOL.search(fields.get("Storage Pool", ""))
    return Striping(
        pattern=fields["Type"],
        chunk_bytes=parse_size(fields.get("Chunksize", "")),
        targets=None if desired is None else int(desired[1]),
        pool=None if pool is None else pool[2],
    )


def parse_quota_7(text: str, kind: str) -> list[PoolQuota]:
    """Parse ``beegfs-ctl --getquota --csv``, which has one block of lines for each storage pool.
    ``kind`` is ``user`` or ``group``. A limit of 0 means no limit.
    """
    quotas, pool = [], ""
    for line in text.splitlines():
        heading = _POOL.search(line)
        if heading is not None:
            pool = heading[1]
        fields = line.split(",")
        if len(fields) != 6 or not fields[1].isdigit():
            continue
        quota = Quota(
            used_bytes=parse_size(fields[2]),
            limit_bytes=parse_size(fields[3]) or None,
            used_files=parse_count(fields[4]),
            limit_files=parse_count(fields[5]) or None,
        )
        quotas.append(PoolQuota(fields[0], kind, pool, quota))
    return quotas


def parse_quota_8(text: str) -> list[PoolQuota]:
    """Parse ``beegfs quota list-usage --output ndjson``: one JSON object per line; other lines are
    skipped.
    """
    quotas = []
    for usage in _parse_json_lines(text.splitlines()):
        used, _, limit = str(usage.get("space", "")).partition("/")
        files, _, most_files = str(usage.get("inode", "")).partition("/")
        quota = Quota(
            used_bytes=parse_size(used),
            limit_bytes=parse_size(limit),
            used_files=parse_count(files),
            limit_files=parse_count(most_files),
        )
        words = [str(usage.get(key, "")) for key in ("name", "type", "pool")]
        quotas.append(PoolQuota(words[0], words[1], words[2], quota))
    return quotas


def parse_targets_7(text: str) -> list[StorageTarget]:
    """Parse ``beegfs-ctl --listtargets --state --spaceinfo``."""
    return [
        StorageTarget(
            name=match[1],
            state=f"{match[2]}/{match[3]}",
            total_bytes=parse_size(match[4]),
            free_bytes=parse_size(match[5]),
        )
        for line in text.splitlines()
        if (match := _TARGET.match(line)) is not None
    ]


def parse_targets_8(text: str) -> list[StorageTarget]:
    """Parse ``beegfs target list --state --capacity --output json``, which has other column names
    than 7.x.
    """
    try:
        rows = json.loads(text[text.index("[") : text.rindex("]") + 1])
    except ValueError:
        return []
    return [
        StorageTarget(
            name=str(row["alias"]),
            state=f"{row.get('reachability', 'unknown')}/{row.get('consistency', 'unknown')}",
            total_bytes=parse_size(str(row.get("space", ""))),
            free_bytes=parse_size(str(row.get("space_free", row.get("sfree", "")))),
        )
        for row in rows
        if isinstance(row, dict) and "alias" in row and row.get("type", "storage") == "storage"
    ]


def select_quota(
    quotas: Iterable[PoolQuota], kind: str, name: str, pool: str | None
) -> Quota | None:
    """Return the quota of the user or group ``name`` that applies to a folder in the storage pool
    ``pool``; None if there is none.
    """
    owner_quotas = [quota for quota in quotas if quota.kind == kind and quota.name == name]
    exact = [quota for quota in owner_quotas if quota.pool == pool]
    chosen = exact or (owner_quotas if len(owner_quotas) == 1 else [])
    return chosen[0].quota if chosen else None


def _parse_json_lines(lines: Iterable[str]) -> list[dict[str, Any]]:
    documents = []
    for line in lines:
        try:
            document = json.loads(line)
        except ValueError:
            continue
        if isinstance(document, dict):
            documents.append(document)
    return documents
