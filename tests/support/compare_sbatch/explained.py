"""Differences that a note of the import explains."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from aitne.core.jobs.sbatch_conversion_state import Note

_PLACES = (
    "nodes|tasks|total|environment SLURM_(.*NODES|.*NODELIST|.*NODE|N?TASKS.*|NPROCS|STEP_.*|JOB_CPUS.*|.*PROCID|"
    "DISTRIBUTION|LOCALID|NODEID|GTIDS|TASKS_PER_NODE|TRES_BIND)"
)
_OUTPUT = "lines|files|exit"
_EXPLAINED: Mapping[str, str] = {
    "--ntasks": f"{_PLACES}|lines|files",
    "--nodes": f"{_PLACES}|lines|files",
    "--ntasks-per-gpu": f"{_PLACES}|{_OUTPUT}|memory",
    "--mem": f"memory|total|environment SLURM_MEM_.*|{_OUTPUT}",
    "--signal": _OUTPUT,
    "--error": "lines|files",
    "--output": "lines|files",
    "--open-mode": "lines|files|environment SLURM_OPEN_MODE",
    "SLURM_SUBMIT_DIR": f"environment SLURM_SUBMIT_DIR|{_OUTPUT}",
    "Command=": f"command|{_OUTPUT}",
    "scancel --batch": _OUTPUT,
    "args": _OUTPUT,
    "#SBATCH": "",
    "--mail-type": "",
    "--mail-user": "",
}
"""Patterns of the aspects that may differ because of the option that a note is about; other options may
change all of them.
"""


def is_explained(aspect: str, notes: Sequence[Note]) -> bool:
    """Return whether a note says why an aspect differs."""
    return any(re.fullmatch(_EXPLAINED.get(note.option, ".*"), aspect) for note in notes)
