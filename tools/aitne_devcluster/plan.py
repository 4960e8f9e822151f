"""Plan of a cluster. It is written before anything is created, so that ``down`` can remove
everything also after a crash.
"""

from __future__ import annotations

import re
from functools import cached_property
from pathlib import Path
from typing import Literal

from aitne.core.errors import InvalidInput, SetupError
from aitne.core.models.base import Frozen
from aitne.core.platform.dev_cluster_record import DevPorts
from aitne.local_system.state_file_reader import DamagedState, read_state
from aitne_devcluster.topology import DevTopology

HOME = Path("/var/lib/aitne-dev")
"""Folder of all clusters on this machine. It belongs to root; all users may enter it."""
PLAN = "plan.json"
ReleaseName = Literal["system", "trixie", "sid"]
MOST_NODES = 256
MOST_CLOUD_NODES = 5_000
MOST_GPUS = 16
NODE_PORTS_AFTER = 10
"""Offset of the first slurmd's port from the cluster's first port."""
GPU_TYPE = "h200"
NAME = re.compile(r"[a-z][a-z0-9-]{0,29}")


class DevClusterPlan(Frozen):
    """Plan of a development cluster: its properties, as requested, and the paths and ports that
    result.
    """

    name: str
    release: ReleaseName
    nodes: int
    gpus: int
    cloud_nodes: int
    port_base: int
    topology: DevTopology = DevTopology()

    @property
    def root(self) -> Path:
        """Return the folder of this cluster."""
        return HOME / self.name

    @property
    def system(self) -> Path | None:
        """Return the root file system in which the daemons run; None: this machine's own."""
        return None if self.release == "system" else self.root / "system"

    @property
    def prefix(self) -> tuple[str, ...]:
        """Return the arguments to put before a command so that it runs in the daemons' root file
        system.
        """
        return () if self.system is None else ("chroot", str(self.system))

    @property
    def slurm_conf(self) -> Path:
        """Return the path of ``slurm.conf``, which is the same inside and outside of ``system``."""
        return self.root / "etc" / "slurm.conf"

    @property
    def run(self) -> Path:
        """Return the folder of the daemons' PID files."""
        return self.root / "run"

    @property
    def log(self) -> Path:
        """Return the folder of the daemons' logs."""
        return self.root / "log"

    @property
    def munge_socket(self) -> Path:
        """Return the path of munged's socket."""
        return self.root / "munge" / "munge.sock"

    @property
    def database_socket(self) -> Path:
        """Return the path of mariadbd's socket, which only root and the user ``slurm`` can access."""
        return self.root / "db" / "run" / "mysql.sock"

    @property
    def jwt_key(self) -> Path:
        """Return the path of the key that signs tokens for slurmrestd."""
        return self.root / "etc" / "jwt.key"

    @property
    def broker_socket(self) -> Path:
        """Return the path of the broker's socket."""
        return self.run / "broker.sock"

    @property
    def rest_url(self) -> str:
        """Return the URL of the cluster's slurmrestd."""
        return f"http://127.0.0.1:{self.ports.slurmrestd}"

    @property
    def software(self) -> Path:
        """Return the folder of the software that the platform installs for all nodes."""
        return self.root / "software"

    @property
    def scratch(self) -> Path:
        """Return the folder that contains the users' storage areas. It belongs to root; the broker
        creates a folder for each user in it.
        """
        return self.root / "scratch"

    @property
    def node_names(self) -> tuple[str, ...]:
        """Return the names of the nodes that run a slurmd."""
        return names_of_nodes(self.nodes)

    @cached_property
    def ports(self) -> DevPorts:
        """Return the ports of the cluster's daemons."""
        base = self.port_base
        return DevPorts(
            slurmctld=base,
            slurmdbd=base + 1,
            slurmrestd=base + 2,
            slurmd_first=base + NODE_PORTS_AFTER,
        )

    @property
    def port_range(self) -> range:
        """Return all ports that are reserved for the cluster."""
        return list_ports(self.port_base, self.nodes)

    def write(self) -> None:
        """Write the plan to the cluster's folder. Raises ``OSError``."""
        (self.root / PLAN).write_text(self.model_dump_json(indent=2) + "\n", encoding="utf-8")


def names_of_nodes(nodes: int, prefix: str = "n") -> tuple[str, ...]:
    """Return the names of nodes; those without a slurmd have the prefix ``c``."""
    return tuple(f"{prefix}{number}" for number in range(1, nodes + 1))


def list_ports(base: int, nodes: int) -> range:
    """Return the ports that a cluster with ``nodes`` nodes uses if its first port is ``base``."""
    return range(base, base + NODE_PORTS_AFTER + nodes)


def check_request(name: str, nodes: int, gpus: int, cloud_nodes: int) -> None:
    """Check the options of ``aitne dev cluster up``. Raises ``InvalidInput``, which names the
    option and its permitted values.
    """
    check_name(name)
    for option, value, minimum, maximum in (
        ("--nodes", nodes, 1, MOST_NODES),
        ("--gpus", gpus, 0, MOST_GPUS),
        ("--cloud-nodes", cloud_nodes, 0, MOST_CLOUD_NODES),
    ):
        if not minimum <= value <= maximum:
            raise InvalidInput.field(
                option,
                f"must be between {minimum} and {maximum}",
                value=value,
                allowed=f"{minimum}-{maximum}",
            )


def check_name(name: str) -> None:
    """Raise ``InvalidInput`` unless ``name`` is safe to use as a folder's name."""
    if not NAME.fullmatch(name):
        raise InvalidInput.field(
            "--name",
            "is not a cluster's name",
            value=name,
            allowed="a letter, then up to 29 lower-case letters, digits or dashes",
        )


def read_plan(name: str) -> DevClusterPlan | None:
    """Read the plan of a cluster that is running or whose creation was interrupted; None if there
    is none.

    Raises:
        SetupError: the plan is invalid.
    """
    path = HOME / name / PLAN
    try:
        return read_state(DevClusterPlan, path)
    except FileNotFoundError:
        return None
    except DamagedState as error:
        raise SetupError(
            f"{path} is not the plan of a development cluster; "
            f"`aitne dev cluster down --name {name}` removes it with the rest of the cluster."
        ) from error
