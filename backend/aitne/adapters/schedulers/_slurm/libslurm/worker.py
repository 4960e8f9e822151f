"""Process that runs pyslurm: for each line ``jobs`` on stdin it writes the records of all of the
platform's jobs.

It is a separate process because libslurm exits when slurm.conf is invalid, because pyslurm changes
how the program binds libraries, and because pyslurm blocks all Python threads while it waits for
slurmctld. It is run by its path and imports nothing but pyslurm.

It writes one JSON value per line: first ``WorkerHello``, then for each query the records, followed
by ``{"end": null}``, or ``{"end": "reason"}`` if the query failed.
"""

from __future__ import annotations

import ctypes
import importlib
import json
import sys
from typing import Any

FIELDS = (
    "id",
    "comment",
    "user_name",
    "state",
    "state_reason",
    "allocated_nodes",
    "partition",
    "priority",
    "submit_time",
    "start_time",
    "end_time",
    "time_limit",
    "exit_code",
    "exit_code_signal",
    "requeue_count",
    "dependencies",
    "array_id",
    "array_task_id",
    "array_tasks_waiting",
)
OURS = "aitne:"
"""Prefix of the comments of the platform's jobs; only these jobs are reported."""


def make_record(job: Any) -> dict[str, Any]:
    """Return one of pyslurm's jobs as JSON-compatible data."""
    return {field: getattr(job, field) for field in FIELDS}


def get_interface_number() -> int:
    """Return the interface number of the libslurm that pyslurm has loaded; each release of Slurm
    increases it by one. The loaded release can differ from the one for which pyslurm was compiled.
    """
    library = ctypes.CDLL(None)
    library.slurm_api_version.restype = ctypes.c_long
    return int(library.slurm_api_version()) >> 16


def list_missing_names(pyslurm: Any) -> list[str]:
    """Return the names that this module uses but the installed pyslurm lacks."""
    names = [f"Job.{field}" for field in FIELDS]
    names += ["Job", "Jobs.load", "PyslurmError"]
    return [name for name in sorted(names) if not _has_attribute(pyslurm, name)]


def _has_attribute(thing: Any, dotted: str) -> bool:
    for name in dotted.split("."):
        thing = getattr(thing, name, None)
    return thing is not None


def _write_message(thing: Any) -> None:
    sys.stdout.write(f"{json.dumps(thing)}\n")


def main() -> None:
    """Write the first message (``WorkerHello``), then answer queries until stdin ends."""
    # pyslurm has no type annotations.
    pyslurm: Any = importlib.import_module("pyslurm")
    lacks = list_missing_names(pyslurm)
    _write_message(
        {"pyslurm": pyslurm.__version__, "interface": get_interface_number(), "missing": lacks}
    )
    sys.stdout.flush()
    for _ in sys.stdin:
        try:
            for job in pyslurm.Jobs.load().values():
                if (job.comment or "").startswith(OURS):
                    _write_message(make_record(job))
        except pyslurm.PyslurmError as error:
            _write_message({"end": str(error) or type(error).__name__})
        else:
            _write_message({"end": None})
        sys.stdout.flush()


if __name__ == "__main__":
    main()
