"""Results of a batch script: lines, files, environments of its processes, and Slurm's record.

Values that are new in each run, such as JobIDs, names of nodes and times, are replaced by words.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from aitne_train.topology.hostlist import expand_hostlist
from tests.support.compare_sbatch.records import ASPECTS, Record, values
from tests.support.compare_sbatch.scripts import ENVIRONMENTS

FIRST_JOB = 700_001
"""First JobID of a comparison, so that no other number looks like one."""
_MOST_BYTES = 1 << 20
_JOB = re.compile(r"(?<!\d)70\d{4}(?!\d)")
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_NODES = re.compile(r"\bn(?:\d+|\[[\d,-]+\])(?:,n(?:\d+|\[[\d,-]+\]))*(?![\w.])")
_SCRIPT = re.compile(r"/\S*/(slurm_script)\b")
_TIMES = re.compile(r"\d{4}-\d{2}-\d{2}T[\d:]+|\b\d{1,2}:\d{2}:\d{2}(?:\.\d+)?\b|\b\d+m\d+\.\d+s\b")
_WAITS_FOR_STEP = re.compile(
    r"^srun: (Job \d+ step creation temporarily disabled|Step created for )"
)
"""Pattern of lines of srun that waits until Slurm has cleared up after the step before."""
_PER_RUN = frozenset(
    {"SLURM_TASK_PID", "SLURM_SRUN_COMM_PORT", "SLURM_STEP_LAUNCHER_PORT", "SLURM_TOPOLOGY_ADDR"}
    | {"SLURM_PRIO_PROCESS", "SLURM_JOB_START_TIME", "SLURM_JOB_END_TIME", "SLURM_STEP_RESV_PORTS"}
)
"""Variables whose value is another in each run."""
_INDICES = frozenset({"SLURM_JOB_GPUS", "SLURM_STEP_GPUS", "SLURM_JOB_SHARDS"})
"""Variables that list the devices that were free; their number is compared."""


@dataclass(frozen=True)
class Outcome:
    """Results of a script; each aspect is compared as a sorted list of texts."""

    aspects: Mapping[str, Sequence[str]]
    environment: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Distinct values of each variable in the processes that wrote their environment."""


def read_outcome(
    place: Path,
    before: frozenset[str],
    records: Sequence[Record],
    logs: frozenset[str],
    ends: Sequence[str],
) -> Outcome:
    """Return what a script has left in its folder and in Slurm.

    Args:
        place: folder of the script.
        before: relative paths of the files that were there before.
        records: Slurm's records of the job, or of the tasks of an array.
        logs: relative paths, without what is new in each run, of the files with stdout and stderr.
        ends: how the job or its tasks have ended.
    """
    lines: list[str] = []
    files: list[str] = []
    seen: set[tuple[int, int]] = set()
    for path in _files(place):
        name = str(path.relative_to(place))
        if name in before or name.split("/")[0] == ENVIRONMENTS:
            continue
        generic_path = generic_name(name)
        files.append(generic_path)
        text = [
            generic(line, place)
            for line in _text(path).splitlines()
            if not _WAITS_FOR_STEP.search(line)
        ]
        if generic_path not in logs:
            files += [f"{generic_path}: {line}" for line in text]
            continue
        identity = (path.stat().st_dev, path.stat().st_ino)
        if identity not in seen:
            lines += text
        seen.add(identity)
    aspects = {
        aspect: [generic(value, place) for value in values(records, aspect)] for aspect in ASPECTS
    }
    return Outcome(
        {"lines": sorted(lines), "files": sorted(files), **aspects, "exit": sorted(ends)},
        _environment(place, (place / ENVIRONMENTS).iterdir()),
    )


def listed(place: Path) -> frozenset[str]:
    """Return the relative paths of the files of a folder."""
    return frozenset(str(path.relative_to(place)) for path in _files(place))


def generic_name(name: str) -> str:
    """Return the name of a file without what is new in each run."""
    return _NODES.sub("NODE", _JOB.sub("JOB", name))


def log_names(place: Path, records: Iterable[Record]) -> frozenset[str]:
    """Return the names of the files of stdout and stderr of a job in its folder."""
    names = set()
    for record in records:
        for field_name in ("StdOut", "StdErr"):
            path = Path(_expanded(record.get(field_name, ""), record))
            if path.is_relative_to(place):
                names.add(generic_name(str(path.relative_to(place))))
    return frozenset(names)


def _expanded(path: str, record: Record) -> str:
    """Return a path with the wildcards that Slurm leaves in the record of an array."""
    known = {
        "A": record.get("ArrayJobId", ""),
        "a": record.get("ArrayTaskId", ""),
        "x": record.get("JobName", ""),
        "j": record.get("JobId", ""),
    }
    return re.sub(
        r"%(\d*)([Aaxj])", lambda match: known[match[2]].rjust(int(match[1] or 0), "0"), path
    )


def generic(text: str, place: Path) -> str:
    """Return a text without what is new in each run."""
    text = text.replace(str(place), "FOLDER").replace("FOLDER/./", "FOLDER/")
    # Slurm keeps a path that begins with a dot.
    text = text.replace("Command=./", "Command=FOLDER/")
    text = _SCRIPT.sub(r"SPOOL/\1", text)
    text = _UUID.sub("UUID", text)
    text = _TIMES.sub("TIME", text)
    return _NODES.sub("NODES", _JOB.sub("JOB", text))


def variable(name: str, value: str, place: Path) -> str:
    """Return the value of a variable without what is new in each run."""
    if name in _PER_RUN:
        return "PER RUN"
    if name in _INDICES:
        return f"{len(value.split(','))} devices"
    if _NODES.fullmatch(value):
        return f"{len(expand_hostlist(value))} nodes"
    return generic(value, place)


def _environment(place: Path, dumps: Iterable[Path]) -> dict[str, list[str]]:
    distinct: dict[str, set[str]] = {}
    for dump in dumps:
        for entry in dump.read_text(errors="replace").split("\0"):
            name, equals, value = entry.partition("=")
            if equals and name.startswith("SLURM_"):
                distinct.setdefault(name, set()).add(variable(name, value, place))
    return {name: sorted(found) for name, found in distinct.items()}


def _files(place: Path) -> list[Path]:
    return sorted(path for path in place.rglob("*") if path.is_file())


def _text(path: Path) -> str:
    with path.open("rb") as file:
        return file.read(_MOST_BYTES).decode(errors="replace")
