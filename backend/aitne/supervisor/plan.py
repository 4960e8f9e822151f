"""Plan of the processes that the supervisor runs.

The supervisor reads it as JSON and needs no settings.

The plan is in ``run/plan.json``, which only its user can read: it holds the environment of the user
who started the platform. The platform's own secrets appear as file names only. Standard library
only.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path

from aitne.host.hung_processes import HUNG_AFTER_S

FILE = "plan.json"
SOCKET = "supervisor.sock"
FAILURE = "failure"
"""File that tells the user who started the platform why it could not start."""
LIVE = "live"
"""File that exists while jobs may run: from a start until a ``down`` has ended them all."""
END_WITHIN_S = 6.0
DRAIN_WITHIN_S = 45.0


@dataclass(frozen=True, slots=True)
class ChildPlan:
    """Description of a process that the supervisor keeps running: command, environment and health
    probe.
    """

    name: str
    argv: list[str]
    env: dict[str, str] = field(default_factory=dict)
    secret_env: dict[str, str] = field(default_factory=dict)
    """File in the secrets folder, by variable."""
    port: int | None = None
    probe: str | None = None
    """URL ``http://…`` that answers below 500 when the process is ready.

    None means that the process is ready once it runs.
    """
    heartbeat: bool = False
    """Whether it writes to the pipe in ``HEARTBEAT_VARIABLE`` instead of answering a probe."""
    hung_after_s: float = HUNG_AFTER_S
    """Seconds without an answer after which it is killed and restarted."""
    probe_secret: str | None = None
    """File in the secrets folder with the token of the probe."""


@dataclass(frozen=True, slots=True)
class SupervisorPlan:
    """Everything that the supervisor needs to run a platform: addresses, environment and processes.
    ``aitne up`` writes it to a file, which the supervisor reads.
    """

    data_dir: str
    url: str
    sessions_url: str
    ready_url: str
    hub_url: str
    base_env: dict[str, str]
    init: list[str]
    drain: list[str]
    """Command that ends the platform's jobs.

    Empty if they belong to a cluster, where they continue.
    """
    children: list[ChildPlan]

    def write(self, run_dir: Path) -> Path:
        """Write the plan into ``run_dir`` for the supervisor to read; return the path of the file."""
        path = run_dir / FILE
        temporary = path.with_suffix(".new")
        temporary.touch(mode=0o600)
        temporary.write_text(json.dumps(asdict(self), indent=1))
        temporary.replace(path)
        return path

    @classmethod
    def read(cls, run_dir: Path) -> SupervisorPlan:
        """Read the plan that ``write`` left.

        Raises ``OSError`` or ``ValueError`` if there is none.
        """
        values = json.loads((run_dir / FILE).read_text())
        children = [ChildPlan(**child) for child in values.pop("children")]
        return cls(children=children, **values)
