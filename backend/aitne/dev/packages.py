"""Debian's packages that a cluster on this machine's own release needs."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable

from aitne.core.errors import SetupError
from aitne.dev.processes import tail

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
Progress = Callable[[str], None]
_INSTALL_S = 900


def ensure(packages: tuple[str, ...], progress: Progress) -> None:
    """Install those that are missing, asking nothing.

    Raises:
        SetupError: this is no Debian, or apt-get failed.
    """
    if shutil.which("dpkg-query") is None or shutil.which("apt-get") is None:
        raise SetupError(
            "The development cluster is made from Debian's packages, and this machine has no apt-get."
        )
    missing = [name for name in packages if not _installed(name)]
    if not missing:
        return
    progress(f"Installing {', '.join(missing)} …")
    _apt("update")
    _apt("install", "-y", "--no-install-recommends", *missing)


def _installed(package: str) -> bool:
    asked = subprocess.run(
        ["dpkg-query", "--show", "--showformat=${db:Status-Status}", package],
        capture_output=True,
        text=True,
        check=False,
    )
    return asked.stdout == "installed"


def _apt(*words: str) -> None:
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    argv = ["apt-get", "-qq", "-o", "DPkg::Lock::Timeout=300", *words]
    try:
        done = subprocess.run(
            argv,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=_INSTALL_S,
        )
    except subprocess.TimeoutExpired as error:
        raise SetupError(f"apt-get {words[0]} did not end within {_INSTALL_S} s.") from error
    if done.returncode:
        said = tail((done.stderr or done.stdout).splitlines())
        raise SetupError(f"apt-get {words[0]} failed ({done.returncode}): {said}")
