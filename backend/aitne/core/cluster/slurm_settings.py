"""Settings of a Slurm cluster, the section ``[slurm]``."""

from __future__ import annotations

import ipaddress
from pathlib import Path

from pydantic import Field, field_validator

from aitne.core.models.base import Strict

LAYOUT_OPTIONS = (
    "--cores-per-socket",
    "--distribution",
    "--extra-node-info",
    "--gpu-bind",
    "--gres-flags",
    "--hint",
    "--mem-bind",
    "--ntasks-per-core",
    "--ntasks-per-socket",
    "--sockets-per-node",
    "--threads-per-core",
    "--tres-bind",
)
"""Options of sbatch about how a job's tasks are laid out on the CPUs and GPUs that it gets, which
harm no other job.
"""


class SlurmSettings(Strict):
    """A Slurm cluster. Needed only with `scheduler = "slurm"` or `"slurm_cli"`."""

    conf: Path | None = Field(
        None, description="`slurm.conf`, for `SLURM_CONF`; unset: Slurm's default."
    )
    command_prefix: list[str] = Field(
        default_factory=list,
        description='Put before every command of Slurm, such as `["chroot", "/srv/slurm"]`.',
    )
    rest_url: str | None = Field(
        None,
        description="slurmrestd, `http://host:port` or `unix:/path`; unset: only the commands "
        "are used.",
    )
    jwt_key: Path | None = Field(
        None, description="The key of auth/jwt (HS256), read only by the broker."
    )
    operator: str | None = Field(
        None,
        description="The Unix account (AdminLevel Operator) that polls; unset: the process's own.",
    )
    jobs_dir: str = Field(
        "{home}/.aitne/jobs",
        description="Folder of a user's job folders, on a file system that all nodes share; "
        "`{home}` and `{user}` are filled in.",
    )
    spare_jobs_dir: str | None = Field(
        None,
        description="Folder of a session's files where no space is left in `jobs_dir`, so that its user can "
        "delete files: on another file system that all nodes share, such as "
        "`/scratch/{user}/.aitne/jobs`. Unset: none; with accounts.mode own `/var/tmp/aitne-{user}`.",
    )
    software_dir: Path | None = Field(
        None, description="Folder in which all nodes find the agent and the session environment."
    )
    python: str = Field("/usr/bin/python3", description="The interpreter (3.9 or newer) on nodes.")
    agent_host: str = Field(
        "node",
        description="Listening address of sessions: `node` (the node's own address), a network "
        "such as `10.1.0.0/16`, or an address.",
    )
    portal_address: str | None = Field(
        None, description="The portal's URL as nodes reach it; unset: its public one."
    )
    sessions_address: str | None = Field(
        None, description="The sessions' URL as nodes reach it; unset: its public one."
    )
    extra: list[str] = Field(
        list(LAYOUT_OPTIONS),
        description="Options of sbatch that a job file may pass in `slurm.extra`; a list here replaces the "
        "default, which has those about the layout of tasks and their binding to CPUs, GPUs and memory.",
    )
    import_users: bool = Field(
        False, description="Create portal accounts and projects from Slurm's users and accounts."
    )
    dev_cluster: str | None = Field(
        None, description="Use the cluster of this name that `aitne dev cluster up` created."
    )

    @field_validator("agent_host")
    @classmethod
    def _check_agent_host(cls, value: str) -> str:
        if value != "node":
            ipaddress.ip_network(value, strict=False)  # of an address it makes a network of one
        return value
