"""Records of hung processes, and the time after which a process counts as hung.

The supervisor writes a file for each restart to ``run/hung``. The API copies it to the database,
which may be unavailable at the time of the restart. The total numbers are in a separate file.
Standard library only.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path

from aitne.local_system.state_file_reader import read_state

HUNG_AFTER_S = 30.0
"""Seconds without an answer after which a process is killed, if it has answered since its start."""
START_WITHIN_S = 300.0
"""Seconds after its start after which a process is killed if it has not answered at all."""
IDLE_SHARE = 1.5
"""Factor for idle processes: one that has not answered since its start is also killed if it has
done no work for this many times ``HUNG_AFTER_S`` (45 s).
"""
HEARTBEAT_VARIABLE = "AITNE_HEARTBEAT_FD"
"""Environment variable with the file descriptor of the pipe to which a process without a port
writes its heartbeat.
"""
_FOLDER = "hung"
_TOTALS = "totals"


@dataclass(frozen=True, slots=True)
class HungRestart:
    """Record of a process that was killed and started again because it did not answer."""

    process: str
    time: str
    """Time of the kill in ISO 8601."""
    silent_s: float
    """Seconds for which the process had not answered."""


def record_restart(run_dir: Path, restart: HungRestart) -> None:
    """Write the record of a restart to a file of its own, and increment the process's number of
    restarts.

    Raises:
        OSError: the file cannot be written, for example because the disk is full.
    """
    folder = run_dir / _FOLDER
    folder.mkdir(mode=0o700, exist_ok=True)
    counts = read_restart_counts(run_dir)
    counts[restart.process] = counts.get(restart.process, 0) + 1
    _replace_file(folder / _TOTALS, json.dumps(counts))
    _replace_file(folder / f"{time.time_ns()}.json", json.dumps(asdict(restart)))


def list_restart_records(run_dir: Path) -> Iterator[tuple[Path, HungRestart]]:
    """Yield the records with their files, oldest first; the caller deletes each file after storing
    its record.

    A damaged record is renamed to ``*.damaged`` and skipped.
    """
    for path in sorted((run_dir / _FOLDER).glob("*.json")):
        try:
            restart = _parse_restart(path)
        except ValueError:
            path.rename(path.with_suffix(".damaged"))
            continue
        yield path, restart


def read_restart_counts(run_dir: Path) -> dict[str, int]:
    """Return the number of restarts of each process since the data directory was created, by name
    of the process; empty if the file is missing or damaged.
    """
    try:
        counts = json.loads((run_dir / _FOLDER / _TOTALS).read_text())
    except (FileNotFoundError, ValueError):
        return {}
    if not isinstance(counts, dict):
        return {}
    return {name: count for name, count in counts.items() if type(count) is int}


def _parse_restart(path: Path) -> HungRestart:
    restart = read_state(HungRestart, path)
    datetime.fromisoformat(restart.time)
    return restart


def _replace_file(path: Path, text: str) -> None:
    temporary = path.with_suffix(".new")
    temporary.write_text(text)
    temporary.replace(path)
