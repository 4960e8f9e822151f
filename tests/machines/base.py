"""The Debian system that all machines share, read-only below an overlay of each machine's own.

It is made once with mmdebstrap (half a minute) and kept in the user's cache directory under a hash of
this file, which lists its packages. Nothing of a cluster is in it: no keys but the one for SSH, no
users, no service that starts by itself apart from the network and sshd.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from aitne.local_system.platform_folders import cache_dir

SUITE = "trixie"
HOST_PACKAGES = {
    "systemd-container": "systemd-nspawn",
    "mmdebstrap": "mmdebstrap",
    "iproute2": "ip",
    "iptables": "iptables",
    "openssh-client": "ssh",
}
"""The Debian packages that the host needs, each with a program that shows that it is installed."""

PACKAGES = (
    *("systemd", "systemd-sysv", "dbus", "iproute2", "iputils-ping", "openssh-server"),
    *("sudo", "ca-certificates", "procps", "curl", "python3", "python3-venv", "python3-pip"),
    *("munge", "slurm-wlm", "slurmctld", "slurmd", "slurm-client", "slurmdbd", "slurmrestd"),
    *("slurm-wlm-basic-plugins", "slurm-wlm-jwt-plugin", "slurm-wlm-mysql-plugin"),
    "mariadb-server",
)

# A test says which machine runs what; the timers would only take processor time away from it.
DISABLED = (
    *("mariadb.service", "munge.service", "slurmctld.service", "slurmd.service"),
    *("slurmdbd.service", "slurmrestd.service", "apt-daily.timer", "apt-daily-upgrade.timer"),
    *("dpkg-db-backup.timer", "fstrim.timer"),
)
# nspawn's console is a log without logins.
MASKED = ("console-getty.service",)
ENABLED = ("systemd-networkd.service", "systemd-networkd-wait-online.service", "ssh.service")


@dataclass(frozen=True, slots=True)
class Base:
    """A root file system, ready to be the lower half of an overlay."""

    root: Path
    ssh_key: Path


def machines_dir() -> Path:
    """Return the folder of bases, software and running fleets."""
    return cache_dir() / "machines"


def install_host_packages() -> None:
    """Install with apt-get what this machine lacks; needs root.

    Raises:
        subprocess.CalledProcessError: apt-get failed; its own words are on standard error.
    """
    missing = [name for name, program in HOST_PACKAGES.items() if shutil.which(program) is None]
    if not missing:
        return
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for argv in (
        ["apt-get", "-qq", "update"],
        ["apt-get", "-qq", "install", "-y", "--no-install-recommends", *missing],
    ):
        subprocess.run(argv, env=environment, stdout=subprocess.DEVNULL, check=True)


def ensure_base() -> Base:
    """Return the base of this module's version; create it when it is missing and remove unused ones.

    Raises:
        RuntimeError: the machine's sources name no Debian archive.
        subprocess.CalledProcessError: mmdebstrap failed.
    """
    install_host_packages()
    bases = machines_dir() / "bases"
    bases.mkdir(parents=True, exist_ok=True)
    name = f"{SUITE}-{hashlib.sha256(Path(__file__).read_bytes()).hexdigest()[:12]}"
    with locked(bases / ".lock"):
        folder = bases / name
        if not (folder / "root").is_dir():
            remove_unused(bases, f"{SUITE}-*")
            _make(folder)
    return Base(folder / "root", folder / "ssh_key")


@contextmanager
def in_use(folder: Path) -> Iterator[None]:
    """Keep other runs from removing a base or an installation of software."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        yield
    finally:
        os.close(descriptor)


def bind_argv(binds: Sequence[tuple[Path, str]], *, read_only: bool = False) -> list[str]:
    """Return the options of `systemd-nspawn` that mount folders of this machine in another one."""
    option = "--bind-ro" if read_only else "--bind"
    return [f"{option}={_escaped(str(here))}:{_escaped(there)}" for here, there in binds]


def _escaped(path: str) -> str:
    return path.replace("\\", "\\\\").replace(":", "\\:")


def _make(folder: Path) -> None:
    with tempfile.TemporaryDirectory(prefix=".make-", dir=folder.parent) as scratch:
        part = Path(scratch) / "made"
        root = part / "root"
        part.mkdir()
        argv = ["mmdebstrap", "--quiet", "--variant=minbase", f"--include={','.join(PACKAGES)}"]
        subprocess.run([*argv, SUITE, str(root), _mirror()], check=True)
        key = part / "ssh_key"
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
        ssh = root / "root/.ssh"
        ssh.mkdir(mode=0o700, exist_ok=True)
        shutil.copy(key.with_suffix(".pub"), ssh / "authorized_keys")
        systemctl = ["systemctl", f"--root={root}", "--quiet"]
        for verb, units in (("disable", DISABLED), ("mask", MASKED), ("enable", ENABLED)):
            subprocess.run([*systemctl, verb, *units], check=True)
        # Each machine makes its own identity at its first boot, and its fleet says how names resolve.
        (root / "etc/machine-id").write_text("")
        (root / "etc/resolv.conf").unlink(missing_ok=True)
        part.rename(folder)


def _mirror() -> str:
    """Return the Debian archive that this machine uses."""
    argv = ["apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages"]
    found = subprocess.run(argv, capture_output=True, text=True, check=True).stdout.split()
    if not found:
        raise RuntimeError("This machine's apt sources name no archive: see /etc/apt/sources.list")
    return found[0]


def remove_unused(parent: Path, pattern: str) -> None:
    """Remove the matching folders that no process has locked; each has some hundred megabytes."""
    for folder in parent.glob(pattern):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            with suppress(BlockingIOError):
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder)
        finally:
            os.close(descriptor)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Let one run in at a time."""
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
