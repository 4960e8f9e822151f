"""Plan of the processes that the supervisor runs.

The supervisor reads it as JSON and needs no settings.

The plan is in ``run/plan.json``, or with accounts of their own for users in the folder of root beside
the data directory. Only its user can read it: it holds the environment of the user who started the
platform. The platform's own secrets appear as file names only. Standard library
only.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path

from aitne.core.platform.own_accounts import broker_dir
from aitne.host.hung_processes import HUNG_AFTER_S
from aitne.supervisor.identity import ProcessAccount

FILE = "plan.json"
SOCKET = "supervisor.sock"
FAILURE = "failure"
"""File that tells the user who started the platform why it could not start."""
LIVE = "live"
"""File that exists while jobs may run: from a start until a ``down`` has ended them all. It holds
the setting ``accounts.mode``."""
END_WITHIN_S = 6.0
DRAIN_WITHIN_S = 45.0


def plan_dir(data_dir: Path) -> Path:
    """Return the folder of the plan: below the data directory, or for root, if that belongs to the
    platform's account, the folder of root beside it.
    """
    if os.geteuid() == 0 and data_dir.stat().st_uid != 0:
        return broker_dir(data_dir)
    return data_dir / "run"


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
    as_root: bool = False
    """Whether it runs as root, with ``env`` alone, though the plan has an ``account``."""


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
    account: ProcessAccount | None = None
    """Account that a supervisor of root runs the processes as; None: they run as the supervisor does."""

    @property
    def mode(self) -> str:
        """The setting ``accounts.mode`` that the plan was made with, for the file ``LIVE``."""
        return "shared" if self.account is None else "own"

    def write(self, folder: Path) -> Path:
        """Write the plan into ``folder`` for the supervisor to read; return the path of the file."""
        path = folder / FILE
        temporary = path.with_suffix(".new")
        temporary.touch(mode=0o600)
        temporary.write_text(json.dumps(asdict(self), indent=1))
        temporary.replace(path)
        return path

    @classmethod
    def read(cls, folder: Path) -> SupervisorPlan:
        """Read the plan that ``write`` left.

        Raises ``OSError`` or ``ValueError`` if there is none.
        """
        values = json.loads((folder / FILE).read_text())
        children = [ChildPlan(**child) for child in values.pop("children")]
        account = values.pop("account")
        return cls(
            children=children,
            account=None if account is None else ProcessAccount(**account),
            **values,
        )
