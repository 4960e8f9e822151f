"""Hung processes: when one counts as hung, and the record of each restart.

The supervisor leaves a file for each restart in ``run/hung`` and the API moves it into the
database, which may be away at the time of the restart. The totals stay. Standard library only.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path

HUNG_AFTER_S = 30.0
"""A process that answered before is killed when it has not answered for so long."""
START_WITHIN_S = 300.0
"""The same for a process that has not answered since its start."""
IDLE_SHARE = 1.5
"""A process that has not answered since its start is also killed when it has done nothing for this
many times as long as one that answered before may be silent: 45 s."""
HEARTBEAT_VARIABLE = "AITNE_HEARTBEAT_FD"
"""Names the descriptor of a pipe to which a process without a port writes."""
_FOLDER = "hung"
_TOTALS = "totals"


@dataclass(frozen=True, slots=True)
class HungRestart:
    """A process that was killed and started again because it did not answer."""

    process: str
    time: str
    """ISO 8601, of the kill."""
    silent_s: float
    """Seconds without an answer."""


def leave(run_dir: Path, restart: HungRestart) -> None:
    """Write the record and count it. Raises ``OSError`` on a full disk."""
    folder = run_dir / _FOLDER
    folder.mkdir(mode=0o700, exist_ok=True)
    counts = totals(run_dir)
    counts[restart.process] = counts.get(restart.process, 0) + 1
    _replace(folder / _TOTALS, json.dumps(counts))
    _replace(folder / f"{time.time_ns()}.json", json.dumps(asdict(restart)))


def left(run_dir: Path) -> Iterator[tuple[Path, HungRestart]]:
    """Yield the records, oldest first; the reader removes each file that it has stored.

    A damaged record is renamed to ``*.damaged`` and left out.
    """
    for path in sorted((run_dir / _FOLDER).glob("*.json")):
        try:
            restart = _restart(path.read_text())
        except ValueError:
            path.rename(path.with_suffix(".damaged"))
            continue
        yield path, restart


def totals(run_dir: Path) -> dict[str, int]:
    """Count the restarts since the data directory was made, by process; from 0 if the file is
    damaged."""
    try:
        counts = json.loads((run_dir / _FOLDER / _TOTALS).read_text())
    except (FileNotFoundError, ValueError):
        return {}
    if not isinstance(counts, dict):
        return {}
    return {name: count for name, count in counts.items() if type(count) is int}


def _restart(text: str) -> HungRestart:
    """Parse a record. Raises ``ValueError`` for one that is damaged."""
    match json.loads(text):
        case {"process": str(process), "time": str(at), "silent_s": float() | int() as silent_s}:
            datetime.fromisoformat(at)
            return HungRestart(process, at, silent_s)
    raise ValueError("The record of a restart is damaged.")


def _replace(path: Path, text: str) -> None:
    temporary = path.with_suffix(".new")
    temporary.write_text(text)
    temporary.replace(path)
