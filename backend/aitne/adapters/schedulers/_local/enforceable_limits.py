"""Detection of the limits that agents can enforce on jobs on this machine, with the agent's own
program.
"""

from __future__ import annotations

import logging
import subprocess
import sys
from pathlib import Path

import aitne

_BOOT = (
    "import sys; sys.path.append(sys.argv[1]); "
    "from aitne.agent.cgroup_enforcement import probe_controllers; sys.stdout.write(' '.join(probe_controllers()))"
)
_TIMEOUT_S = 20.0

_log = logging.getLogger(__name__)


def find_agent_cgroups() -> tuple[str, ...]:
    """Return those cgroup controllers (``memory``, ``cpu``) that can limit processes of this
    account on this machine.
    """
    argv = [sys.executable, "-I", "-S", "-c", _BOOT, str(Path(aitne.__file__).parents[1])]
    try:
        process = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_S,
            check=True,
        )
    except (OSError, subprocess.SubprocessError) as error:
        _log.warning("Cannot determine whether jobs can have their own control groups: %s", error)
        return ()
    return tuple(process.stdout.split())
