"""Folder of root for a platform whose jobs run as the Unix accounts of their users (``accounts.mode``).

Standard library only: the supervisor uses it.
"""

from __future__ import annotations

from pathlib import Path


def broker_dir(data_dir: Path) -> Path:
    """Return the folder of root beside the data directory: the plan, the broker's settings, socket and
    state, and the software for jobs.
    """
    return data_dir.with_name(f"{data_dir.name}-broker")
