"""Folder owned by root for a platform whose jobs run under the Unix accounts of their users
(``accounts.mode``).

Standard library only, because the supervisor uses it.
"""

from __future__ import annotations

from pathlib import Path


def broker_dir(data_dir: Path) -> Path:
    """Return the folder, owned by root, next to the data directory. It contains the plan, the
    broker's settings, socket and state, and the software for jobs.
    """
    return data_dir.with_name(f"{data_dir.name}-broker")
