"""What the supervisor runs, worked out beforehand: it reads this as JSON and needs no settings.

The plan lies in ``run/plan.json``, readable for its user alone: it holds the environment of whoever
started the platform. Of the platform's own secrets it names the files. Standard library only.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path

from aitne.core.hung_processes import HUNG_AFTER_S

FILE = "plan.json"
SOCKET = "supervisor.sock"
FAILURE = "failure"
"""Why the platform could not start, for whoever started it."""
LIVE = "live"
"""There while jobs may run: from a start until a ``down`` has ended them all."""
END_WITHIN_S = 6.0
DRAIN_WITHIN_S = 45.0


@dataclass(frozen=True, slots=True)
class ChildPlan:
    """One process to keep running."""

    name: str
    argv: list[str]
    env: dict[str, str] = field(default_factory=dict)
    secret_env: dict[str, str] = field(default_factory=dict)
    """Variable -> file in the secrets folder."""
    port: int | None = None
    probe: str | None = None
    """``http://…`` that answers below 500 when the process is of use; None: it is once it lives."""
    heartbeat: bool = False
    """Writes to a pipe that ``HEARTBEAT_VARIABLE`` names, in place of answering a probe."""
    hung_after_s: float = HUNG_AFTER_S
    """Killed and started again when it has not answered for so long."""
    probe_secret: str | None = None
    """File in the secrets folder whose content goes with the probe as a token."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything that the supervisor has to know."""

    data_dir: str
    url: str
    sessions_url: str
    ready_url: str
    hub_url: str
    base_env: dict[str, str]
    init: list[str]
    drain: list[str]
    """Ends the platform's jobs; empty where they belong to a cluster, which goes on without it."""
    children: list[ChildPlan]

    def write(self, run_dir: Path) -> Path:
        """Leave it for the supervisor."""
        path = run_dir / FILE
        temporary = path.with_suffix(".new")
        temporary.touch(mode=0o600)
        temporary.write_text(json.dumps(asdict(self), indent=1))
        temporary.replace(path)
        return path

    @classmethod
    def read(cls, run_dir: Path) -> Plan:
        """What ``write`` left. Raises ``OSError`` or ``ValueError`` when that is not there."""
        values = json.loads((run_dir / FILE).read_text())
        children = [ChildPlan(**child) for child in values.pop("children")]
        return cls(children=children, **values)
