"""Debian packages that a cluster needs if it runs in this machine's own root file system."""

from __future__ import annotations

SLURM = (
    "slurmctld",
    "slurmd",
    "slurm-client",
    "slurmdbd",
    "slurmrestd",
    "munge",
    # Programs alone: mariadb-server would start a database service on this machine.
    "mariadb-server-core",
    "mariadb-client-core",
    "slurm-wlm-basic-plugins",
    "slurm-wlm-jwt-plugin",
    "slurm-wlm-mysql-plugin",
)
BOOTSTRAP = ("mmdebstrap",)
PURPOSE = "The development cluster"
