"""Record that ``aitne dev cluster up`` writes: the location of a development cluster, and how to
use it.

A platform that uses the cluster, and tests, read this record; only ``aitne dev cluster`` writes it.
"""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from aitne.core.errors import NotFound
from aitne.core.models.base import Frozen, UserName

DEV_CLUSTER_SCHEDULERS = frozenset({"slurm", "slurm_cli", "pyslurm"})
"""Schedulers whose ``[slurm]`` settings are taken from a development cluster if the site has
none.
"""


class NoDevCluster(NotFound):
    """Error: no development cluster of that name is running on this machine."""

    def __init__(self, name: str) -> None:
        super().__init__("development cluster", name)
        self.message = (
            f"There is no development cluster {name} on this machine; "
            f"`sudo aitne dev cluster up --name {name}` creates one."
        )


class DevUser(Frozen):
    """Unix user of the development cluster with a Slurm account."""

    name: UserName
    account: str = Field(description="The user's default Slurm account.")
    accounts: tuple[str, ...] = Field((), description="All accounts the user is a member of.")


class DevPorts(Frozen):
    """TCP ports of the development cluster, all on the loopback interface."""

    slurmctld: int
    slurmdbd: int
    slurmrestd: int
    slurmd_first: int = Field(description="Node nI listens on this port + I - 1.")


class DevCluster(Frozen):
    """Slurm cluster that ``aitne dev cluster up`` has started on this machine."""

    name: str
    root: Path
    slurm_release: str = Field(description="Release as `slurmctld -V` prints it, such as 22.05.8.")
    slurm_conf: Path
    command_prefix: tuple[str, ...] = Field(
        (), description="Prefix of each Slurm command, which enters its root file system."
    )
    rest_url: str
    jwt_key: Path = Field(description="Readable by root and Slurm's own user alone.")
    operator: str = Field(description="The Unix user with AdminLevel=Operator.")
    broker_socket: Path | None = None
    software_dir: Path = Field(description="World-readable, and the same on every node.")
    scratch_dir: Path | None = Field(
        None,
        description="Folder of the users' areas, which the broker creates; the same on every node.",
    )
    python: str = Field(description="The Python interpreter of the nodes.")
    nodes: tuple[str, ...] = Field(description="The nodes that run a slurmd.")
    users: tuple[DevUser, ...]
    ports: DevPorts

    @property
    def scratch_pattern(self) -> str | None:
        """Path pattern of a user's scratch area for the section ``[storage]``; None if there is
        none.
        """
        return None if self.scratch_dir is None else f"{self.scratch_dir}/{{user}}"

    @property
    def run_dir(self) -> Path:
        """Folder with the pid files of the cluster's daemons: ``<daemon>.pid``, and
        ``slurmd.<node>.pid`` for the slurmd of a node.
        """
        return self.root / "run"

    @property
    def environment(self) -> dict[str, str]:
        """Environment variables with which Slurm's commands use this cluster."""
        return {"SLURM_CONF": str(self.slurm_conf)}
