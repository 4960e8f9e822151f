"""Queries to Slurm and MPI: the allocation of this process, the topology, and the MPI that is available."""

from __future__ import annotations

import os
import re
import subprocess

from aitne_train.launcher import hosts
from aitne_train.launcher.errors import LaunchError

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing costs as much time as the launcher's own code
    from collections.abc import Mapping, Sequence

_ASK_S = 30.0
_CONF_FOLDERS = ("/etc/slurm", "/run/slurm/conf")
"""Folders of Slurm's configuration in the order in which Slurm looks for ``slurm.conf``; the last is
that of nodes which get it from slurmctld (configless)."""
_TOPOLOGY_FILES = ("topology.yaml", "topology.conf")
"""Names of files with the topology; Slurm ignores the second where the first exists."""
_OF_PARTITION = re.compile(r"(?:^|\s)Topology=(\S+)")
_LOAD_ERROR = "slurm_load_topo error"
_PLUGIN = re.compile(r"[a-z][a-z0-9_]*")


def read_allocation(environ: Mapping[str, str]) -> list[hosts.Host] | None:
    """Return the nodes of this Slurm job with the number of ranks on each; None outside of a Slurm
    job.

    Raises:
        LaunchError: Slurm's variables or commands do not show the nodes and numbers of ranks.
    """
    names = environ.get("SLURM_JOB_NODELIST") or environ.get("SLURM_NODELIST")
    text = environ.get("SLURM_TASKS_PER_NODE")
    if "SLURM_JOB_ID" not in environ or not names or not text:
        return None
    tasks = hosts.parse_task_counts(text)
    if len(tasks) == 1 and "[" not in names and "," not in names:
        return [hosts.Host(names, tasks[0])]
    nodes = _run_query(["scontrol", "show", "hostnames", names]).split()
    if len(nodes) != len(tasks):
        raise LaunchError(
            f"Slurm's variables contradict each other: {names} are {len(nodes)} nodes, and SLURM_TASKS_PER_NODE "
            f"({text}) describes {len(tasks)}. Start aitne-run where the job itself runs"
        )
    return [hosts.Host(name, tasks[number]) for number, name in enumerate(nodes)]


def query_topology(environ: Mapping[str, str]) -> str:
    """Return what Slurm shows about the topology of the network for this job.

    Raises:
        LaunchError: Slurm does not answer.
    """
    name = query_partition_topology(environ)
    text = _run_query(["scontrol", "show", "topology", *([name] if name else [])])
    if _LOAD_ERROR in text:  # scontrol exits with 0 all the same
        raise LaunchError(f"scontrol show topology has failed: {text.strip()[-500:]}")
    return text


def query_partition_topology(environ: Mapping[str, str]) -> str | None:
    """Return the name of the topology that the partition of this job has instead of the cluster's
    default (``Topology=`` of Slurm 25.05 and later); None if it has none.

    Raises:
        LaunchError: Slurm does not answer.
    """
    partition = environ.get("SLURM_JOB_PARTITION")
    if not partition:
        return None
    shown = _run_query(["scontrol", "--all", "--oneliner", "show", "partition", partition])
    match = _OF_PARTITION.search(shown)
    return None if match is None else match.group(1)


def find_topology_file(
    environ: Mapping[str, str], folders: Sequence[str] = _CONF_FOLDERS
) -> str | None:
    """Return the path of the file from which Slurm on this machine reads the topology; None if
    there is none.

    Args:
        environ: environment variables; ``SLURM_CONF`` names the ``slurm.conf``, beside which the
            file is.
        folders: folders in which ``slurm.conf`` may be if the variable is not set.
    """
    conf = environ.get("SLURM_CONF")
    if conf:
        folders = [os.path.dirname(conf)]
    paths = [os.path.join(folder, "slurm.conf") for folder in folders]
    # Without a slurm.conf, the file may have been copied there alone.
    chosen = [os.path.dirname(path) for path in paths if os.path.exists(path)][:1] or folders
    for folder in chosen:
        for name in _TOPOLOGY_FILES:
            path = os.path.join(folder, name)
            if os.path.isfile(path):
                return path
    return None


def query_mpi_plugins() -> list[str]:
    """Return the values that ``srun --mpi`` accepts on this cluster. Raises ``LaunchError``."""
    return parse_mpi_plugins(_run_query(["srun", "--mpi=list"]))


def is_open_mpi() -> bool:
    """Return whether the installed ``mpirun`` is that of Open MPI. Raises ``LaunchError``."""
    return "Open MPI" in _run_query(["mpirun", "--version"])


def parse_mpi_plugins(text: str) -> list[str]:
    """Return the names of MPI plug-ins in the output of ``srun --mpi=list``, which differs between
    releases."""
    types: list[str] = []
    for line in text.splitlines():
        for word in line.partition("available:")[2].split(",") if "available:" in line else [line]:
            name = word.strip().rpartition("srun: ")[2].strip()
            if _PLUGIN.fullmatch(name) and name not in types:
                types.append(name)
    return types


def choose_pmix(types: list[str]) -> str:
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


def _run_query(argv: list[str]) -> str:
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
