"""What the command line says to the supervisor: start a platform, ask for its state, end it.

``up`` and ``down`` never ask anything. All functions raise ``SetupError`` with a sentence that says
what to do when the platform cannot be started or reached.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from aitne.core.settings import Settings

Progress = Callable[[str], None]


def up(
    settings: Settings,
    *,
    detach: bool,
    progress: Progress,
    on_ready: Callable[[], None] | None = None,
) -> None:
    """Start the platform and return when it is ready (``detach``) or when it has ended.

    ``progress`` gets one line per step; ``on_ready`` is called once ``/readyz`` says 200, also when
    the platform ran already. In the foreground Ctrl-C ends the platform with its jobs, a second
    Ctrl-C at once; SIGTERM ends it and leaves the jobs running.

    Raises:
        SetupError: something is missing, taken or wrong; the message says what to do.
    """
    raise NotImplementedError


def down(data_dir: Path, *, keep_jobs: bool, progress: Progress = lambda line: None) -> bool:
    """End the platform, and its sessions and jobs unless ``keep_jobs``. False: none was running."""
    raise NotImplementedError


def status(data_dir: Path) -> dict[str, Any] | None:
    """What the supervisor says of itself and its children; None: it does not run.

    ``{"state": "starting" | "ready" | "degraded" | "stopping", "url", "sessions_url", "data_dir",
    "pid", "since", "processes": [{"name", "pid", "port", "memory_bytes", "restarts", "since"}]}``
    """
    raise NotImplementedError


def current() -> Path | None:
    """The data directory of the platform that ``up`` started last; None: none was."""
    raise NotImplementedError
