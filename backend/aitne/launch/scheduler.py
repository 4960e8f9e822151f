"""Queries to Slurm: the allocation of this process, and the available MPI plug-ins."""

from __future__ import annotations

import re
import subprocess

from aitne.launch import hosts
from aitne.launch.errors import LaunchError

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing costs as much time as the launcher's own code
    from collections.abc import Mapping

_ASK_S = 30.0
_PLUGIN = re.compile(r"[a-z][a-z0-9_]*")


def allocation(environ: Mapping[str, str]) -> list[hosts.Host] | None:
    """Return the nodes of this Slurm job with the number of ranks on each; None outside of a Slurm
    job.

    Raises:
        LaunchError: Slurm's variables or commands do not show the nodes and numbers of ranks.
    """
    names = environ.get("SLURM_JOB_NODELIST") or environ.get("SLURM_NODELIST")
    text = environ.get("SLURM_TASKS_PER_NODE")
    if "SLURM_JOB_ID" not in environ or not names or not text:
        return None
    tasks = hosts.counts(text)
    if len(tasks) == 1 and "[" not in names and "," not in names:
        return [hosts.Host(names, tasks[0])]
    nodes = _asked(["scontrol", "show", "hostnames", names]).split()
    if len(nodes) != len(tasks):
        raise LaunchError(
            f"Slurm's variables contradict each other: {names} are {len(nodes)} nodes, and SLURM_TASKS_PER_NODE "
            f"({text}) describes {len(tasks)}. Start aitne-run where the job itself runs"
        )
    return [hosts.Host(name, tasks[number]) for number, name in enumerate(nodes)]


def topology() -> str:
    """Return what Slurm shows about the topology of the network. Raises ``LaunchError``."""
    return _asked(["scontrol", "show", "topology"])


def mpi_plugins() -> list[str]:
    """Return the values that ``srun --mpi`` accepts on this cluster. Raises ``LaunchError``."""
    return plugins(_asked(["srun", "--mpi=list"]))


def plugins(text: str) -> list[str]:
    """Return the names of MPI plug-ins in the output of ``srun --mpi=list``, which differs between
    releases."""
    types: list[str] = []
    for line in text.splitlines():
        for word in line.partition("available:")[2].split(",") if "available:" in line else [line]:
            name = word.strip().rpartition("srun: ")[2].strip()
            if _PLUGIN.fullmatch(name) and name not in types:
                types.append(name)
    return types


def pmix(types: list[str]) -> str:
    """Return the newest PMIx plug-in in the list ``types``. Raises ``LaunchError`` if it has
    none."""
    pmix_types = sorted(
        (name for name in types if name.startswith("pmix")), key=lambda name: (len(name), name)
    )
    if not pmix_types:
        raise LaunchError(
            f"MPI needs PMIx, and Slurm here has no plug-in for it (srun --mpi=list: {', '.join(types) or 'nothing'}). "
            "Use --launcher mpirun, or another --transport than mpi and horovod"
        )
    return "pmix" if "pmix" in pmix_types else pmix_types[-1]


def _asked(argv: list[str]) -> str:
    try:
        process = subprocess.run(
            argv,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=_ASK_S,
            check=False,
            text=True,
        )
    except FileNotFoundError as error:
        raise LaunchError(
            f"{argv[0]} is not installed: run aitne-run where Slurm's commands are, or use --launcher local"
        ) from error
    except subprocess.TimeoutExpired as error:
        raise LaunchError(f"{' '.join(argv)} has not answered within {_ASK_S:g} s") from error
    if process.returncode:
        raise LaunchError(f"{' '.join(argv)} has failed: {process.stdout.strip()[-500:]}")
    return process.stdout
