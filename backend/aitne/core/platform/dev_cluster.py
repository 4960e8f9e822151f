"""The record that ``aitne dev cluster up`` leaves: where a development cluster is and how to use
it.

A platform that starts on the cluster, and tests against it, read this record; only
``aitne dev cluster`` writes it.
"""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from aitne.core.errors import NotFound
from aitne.core.models.base import Frozen, UserName

DEV_CLUSTER_SCHEDULERS = frozenset({"slurm", "slurm_cli", "pyslurm"})
"""Schedulers whose ``[slurm]`` settings come from a development cluster if the site has none."""


class NoDevCluster(NotFound):
    """No development cluster of that name runs on this machine."""

    def __init__(self, name: str) -> None:
        super().__init__("development cluster", name)
        self.message = (
            f"There is no development cluster {name} on this machine; "
            f"`sudo aitne dev cluster up --name {name}` creates one."
        )


class DevUser(Frozen):
    """A Unix user of the cluster with a Slurm account."""

    name: UserName
    account: str = Field(description="The user's default Slurm account.")
    accounts: tuple[str, ...] = Field((), description="All accounts the user is a member of.")


class DevPorts(Frozen):
    """The TCP ports of the cluster, all on loopback."""

    slurmctld: int
    slurmdbd: int
    slurmrestd: int
    slurmd_first: int = Field(description="Node nI listens on this port + I - 1.")


class DevCluster(Frozen):
    """A Slurm that ``aitne dev cluster up`` started on this machine."""

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
        """The path of a user's area as ``[storage]`` writes it."""
        return None if self.scratch_dir is None else f"{self.scratch_dir}/{{user}}"

    @property
    def run_dir(self) -> Path:
        """Folder of each daemon's ``<daemon>.pid``; a node's is ``slurmd.<node>.pid``."""
        return self.root / "run"

    @property
    def environment(self) -> dict[str, str]:
        """The variables with which Slurm's commands find this cluster."""
        return {"SLURM_CONF": str(self.slurm_conf)}
