"""Files in the folder of a cluster: keys, configuration and simulated GPU devices."""

from __future__ import annotations

import os
import secrets
import socket
import stat
from pathlib import Path

from aitne.core.errors import SetupError
from aitne_devcluster import broker, config
from aitne_devcluster.plan import DevClusterPlan

_NULL_DEVICE = os.makedev(1, 3)


def read_user_ids(plan: DevClusterPlan, user: str) -> tuple[int, int]:
    """Return the uid and gid of a user in the root file system in which the daemons run. For
    ``munge`` they can differ from this machine's.

    Raises:
        SetupError: there is no such user.
    """
    passwd = (plan.system or Path("/")) / "etc" / "passwd"
    for line in passwd.read_text(encoding="utf-8").splitlines():
        name, _, uid, gid, *_ = line.split(":")
        if name == user:
            return int(uid), int(gid)
    raise SetupError(f"{passwd} has no user {user}, which the Debian package of that name creates.")


def make_cluster_files(plan: DevClusterPlan, version: tuple[int, ...]) -> None:
    """Create all files of the cluster's folder for the Slurm release ``version``. Raises
    ``OSError`` and ``SetupError``.
    """
    slurm, munge = read_user_ids(plan, "slurm"), read_user_ids(plan, "munge")
    root = plan.root
    _make_folder(root / "etc")
    # The caller of sudo may start the platform without it, which then stores its agent here.
    _make_folder(plan.software, owner=broker.get_sudo_caller_ids())
    _make_folder(plan.scratch)
    _make_folder(root / "spool")
    _make_folder(root / "dev")
    _make_folder(root / "tmp")
    for name in plan.node_names:
        _make_folder(root / "tmp" / name, mode=0o1777)
    for folder in (plan.log, plan.run):
        _make_folder(folder, owner=slurm)
    _make_folder(root / "state", owner=slurm, mode=0o700)
    _make_folder(root / "munge", owner=munge)
    _make_folder(root / "db", owner=slurm)
    _make_folder(root / "db" / "run", owner=slurm, mode=0o700)
    # A server that starts deletes the temporary tables of every other one that shares its folder.
    _make_folder(root / "db" / "tmp", owner=slurm, mode=0o700)
    _write_file(plan.jwt_key, secrets.token_bytes(32), owner=slurm, mode=0o400)
    _write_file(root / "munge" / "munge.key", secrets.token_bytes(128), owner=munge, mode=0o400)
    for number in range(plan.gpus):
        os.mknod(root / "dev" / f"nvidia{number}", stat.S_IFCHR | 0o666, _NULL_DEVICE)
        (root / "dev" / f"nvidia{number}").chmod(0o666)
    hostname = socket.gethostname().partition(".")[0]
    texts = {
        "slurm.conf": config.slurm_conf(plan, hostname),
        "gres.conf": config.gres_conf(plan),
        plan.topology.file: plan.topology.text,
        "cgroup.conf": config.cgroup_conf(version),
    }
    for name, text in texts.items():
        _write_file(root / "etc" / name, text.encode(), mode=0o644)
    _write_file(
        root / "etc" / "slurmdbd.conf",
        config.slurmdbd_conf(plan).encode(),
        owner=slurm,
        mode=0o600,
    )


def _make_folder(path: Path, *, owner: tuple[int, int] = (0, 0), mode: int = 0o755) -> None:
    path.mkdir()
    os.chown(path, *owner)
    path.chmod(mode)


def _write_file(path: Path, content: bytes, *, owner: tuple[int, int] = (0, 0), mode: int) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "wb") as stream:
        stream.write(content)
        os.fchown(descriptor, *owner)
        os.fchmod(descriptor, mode)
