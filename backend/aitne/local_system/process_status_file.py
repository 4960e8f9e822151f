"""Status of the platform's processes, which the supervisor writes to a file below ``run_dir`` and
the API reads for its metrics. Standard library only.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from aitne.local_system.state_file_reader import parse_state_document

_FILE = "processes.json"
_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True)
class ProcessStatus:
    """Status of one process of the platform."""

    name: str
    pid: int
    """PID of the process; 0 while it does not run."""
    restarts: int
    """Number of its restarts since the supervisor started."""
    started_at: float
    """Unix time of its last start."""
    answers: bool
    """Whether it answered the supervisor's last probe."""


@dataclass(frozen=True, slots=True)
class ProcessUsage:
    """Resource usage of one process, without its children."""

    cpu_s: float
    """CPU time in seconds since the start of the process."""
    memory_bytes: int
    """Resident memory in bytes."""


def write_process_status(run_dir: Path, processes: Sequence[ProcessStatus]) -> None:
    """Replace the file with the status of these processes. Raises ``OSError`` if it cannot be
    written.
    """
    temporary = run_dir / f"{_FILE}.new"
    temporary.write_text(json.dumps([asdict(process) for process in processes]))
    temporary.chmod(0o644)
    temporary.replace(run_dir / _FILE)


def read_process_status(run_dir: Path) -> Sequence[ProcessStatus]:
    """Return the status of all processes; empty if the file is missing or damaged."""
    try:
        return [
            parse_state_document(ProcessStatus, entry)
            for entry in json.loads((run_dir / _FILE).read_text())
        ]
    except (OSError, ValueError, TypeError):
        return ()


def read_process_usage(pid: int) -> ProcessUsage | None:
    """Return the resource usage of the process; None if it has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return None
    return ProcessUsage((int(fields[11]) + int(fields[12])) / _TICKS, int(fields[21]) * _PAGE)
