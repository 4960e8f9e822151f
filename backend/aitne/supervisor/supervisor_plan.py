"""Plan of the processes that the supervisor runs.

The supervisor reads it as JSON and needs no other settings.

The plan is in ``run/plan.json``, or, if users have accounts of their own, in root's folder beside
the data directory. Only the user who started the platform can read it, since it contains that
user's environment. It contains only the file names of the platform's secrets. Standard library
only.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path

from aitne.core.platform.broker_folder import broker_dir
from aitne.local_system.hung_restart_records import HUNG_AFTER_S
from aitne.local_system.state_file_reader import read_state
from aitne.supervisor.process_account import ProcessAccount

FILE = "plan.json"
SOCKET = "supervisor.sock"
FAILURE = "failure"
"""File with the reason why the platform could not start, for the user who started it."""
LIVE = "live"
"""File that exists while jobs may be running: from the start of the platform until ``down`` has
ended all jobs. It contains the setting ``accounts.mode``.
"""
END_WITHIN_S = 6.0
DRAIN_WITHIN_S = 45.0


def plan_dir(data_dir: Path) -> Path:
    """Return the folder of the plan: ``run`` in the data directory. If this process is root and the
    data directory belongs to the platform's account, it is root's folder beside the data directory.
    """
    if os.geteuid() == 0 and data_dir.stat().st_uid != 0:
        return broker_dir(data_dir)
    return data_dir / "run"


@dataclass(frozen=True, slots=True)
class ChildPlan:
    """Description of a process that the supervisor starts and restarts."""

    name: str
    """Name of the process, such as ``api``; its log file has the same name."""
    argv: list[str]
    """Program and arguments."""
    env: dict[str, str] = field(default_factory=dict)
    """Environment variables in addition to those of all processes."""
    secret_env: dict[str, str] = field(default_factory=dict)
    """Environment variables with secrets: the name of a file in the secrets folder, by variable."""
    port: int | None = None
    """TCP port that the process listens on; None: it listens on none."""
    probe: str | None = None
    """URL ``http://…`` that returns a status below 500 when the process is ready.

    None means that the process is ready as soon as it runs.
    """
    probe_socket: str | None = None
    """UNIX socket in the folder ``run`` to which probes connect; None: the host and port of ``probe``."""
    heartbeat: bool = False
    """True if the process regularly writes to the pipe in ``HEARTBEAT_VARIABLE`` instead of
    answering a probe.
    """
    hung_after_s: float = HUNG_AFTER_S
    """Seconds without an answer after which the process is killed and restarted."""
    probe_secret: str | None = None
    """File in the secrets folder with the token for the probe; None: the probe needs none."""
    as_root: bool = False
    """True if the process runs as root even if the plan has an ``account``; its environment is then
    ``env`` only.
    """


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
    """Environment variables of all processes except those that run as root."""
    init: list[str]
    """Command that prepares the data directory before the processes are started."""
    drain: list[str]
    """Command that ends the platform's jobs.

    It is empty if the jobs run on a cluster, where they continue.
    """
    children: list[ChildPlan]
    held: tuple[str, ...] = ()
    """Names of the processes, and ``init``, that load their modules and then wait until the
    supervisor lets them continue (``aitne.local_system.held_process_start``).
    """
    account: ProcessAccount | None = None
    """Account under which a supervisor that is root runs the processes; None: the supervisor's own.
    """

    @property
    def accounts_mode(self) -> str:
        """Return the setting ``accounts.mode`` with which the plan was made, which is written to
        the file ``LIVE``.
        """
        return "shared" if self.account is None else "own"

    def write(self, folder: Path) -> Path:
        """Write the plan to ``folder``, where the supervisor reads it; return the path of the file."""
        path = folder / FILE
        temporary = path.with_suffix(".new")
        temporary.touch(mode=0o600)
        temporary.write_text(json.dumps(asdict(self), indent=1))
        temporary.replace(path)
        return path

    @classmethod
    def read(cls, folder: Path) -> SupervisorPlan:
        """Read the plan in ``folder``.

        Raises ``OSError``, or ``DamagedState`` if there is no valid plan.
        """
        return read_state(cls, folder / FILE)
