"""Root file system with another Debian release: created once, then used by each cluster through an
overlay.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from aitne.adapters import apt_installation
from aitne.adapters.apt_installation import Progress
from aitne.adapters.program_runner import PATH, run_program
from aitne.core.errors import SetupError
from aitne.local_system.dev_cluster_records import DESCRIPTORS
from aitne.local_system.platform_folders import cache_dir
from aitne_devcluster import packages
from aitne_devcluster.plan import DevClusterPlan
from aitne_devcluster.processes import wait_until

PACKAGES = (*packages.SLURM, "python3", "python3-venv", "python3-pip", "ca-certificates")
_MAKE_S = 1_200
_UNMOUNT_S = 5.0
_COPIED = (
    "etc/hosts",
    "etc/resolv.conf",
    "etc/pip.conf",
    "etc/ssl/certs/ca-certificates.crt",
)
"""Files that are copied from this machine because programs in the root file system need them for
network access.
"""
_KERNEL_TREES = ("/proc", "/sys", "/dev")
"""Folders that are shared together with the mounts in them. Mounts in other folders must not be
shared: a folder in `/tmp` with a mount in it could not be removed, and the cluster's own folder
would contain itself.
"""
_FOLDERS = ("/tmp", "/home", str(DESCRIPTORS))  # noqa: S108 - the nodes' own /tmp


def ensure_root_file_system(suite: str, progress: Progress) -> Path:
    """Return the path of a root file system with the Debian release ``suite`` and Slurm; create it
    if it is missing.

    Raises:
        SetupError: the file system could not be created.
    """
    digest = hashlib.sha256(" ".join(PACKAGES).encode()).hexdigest()[:12]
    base = cache_dir() / "roots" / f"{suite}-{digest}"
    if base.exists():
        return base
    apt_installation.install_missing(packages.BOOTSTRAP, progress, purpose=packages.PURPOSE)
    base.parent.mkdir(parents=True, exist_ok=True)
    with _hold_folder_lock(base.parent):
        if base.exists():
            return base
        progress(f"Making a Debian {suite} with Slurm in {base}, once …")
        partial = base.with_name(f"{base.name}.partial")
        _remove_tree(partial)
        argv = [
            # If it is killed, what it has mounted in the root is unmounted with its namespace.
            *("unshare", "--mount"),
            "mmdebstrap",
            "--variant=minbase",
            *(f"--aptopt={option}" for option in apt_installation.read_mirror_options()),
            f"--include={','.join(PACKAGES)}",
            suite,
            str(partial),
            apt_installation.read_mirror_url(),
        ]
        # With the caller's environment: that is where a proxy would be named.
        run_program(argv, env=os.environ | {"DEBIAN_FRONTEND": "noninteractive"}, timeout_s=_MAKE_S)
        partial.rename(base)
    return base


@contextmanager
def _hold_folder_lock(folder: Path) -> Iterator[None]:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def mount_root_file_system(plan: DevClusterPlan, base: Path, users: tuple[str, ...]) -> None:
    """Mount the cluster's root file system as an overlay over ``base``, and share this machine's
    folders and the accounts ``users`` with it.

    Raises:
        SetupError: the kernel refused a mount.
    """
    system = plan.system
    if system is None:
        return
    upper, work = plan.root / "upper", plan.root / "work"
    for folder in (system, upper, work):
        folder.mkdir(exist_ok=True)
    layers = f"lowerdir={base},upperdir={upper},workdir={work}"
    _run_mount("-t", "overlay", "overlay", "-o", layers, str(system))
    for tree in (*_KERNEL_TREES, *_FOLDERS, str(plan.root)):
        inside = system / tree.lstrip("/")
        inside.mkdir(parents=True, exist_ok=True)
        _run_mount("--rbind" if tree in _KERNEL_TREES else "--bind", tree, str(inside))
        # Or undoing the mount would undo this machine's own mounts below it.
        _run_mount("--make-rslave", str(inside))
    for name in _COPIED:
        if Path("/", name).exists():
            (system / name).unlink(missing_ok=True)
            (system / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(Path("/", name), system / name)
    _share_accounts(system, users)


def _run_mount(*words: str) -> None:
    run_program(["mount", *words], env={"PATH": PATH})


def _share_accounts(system: Path, users: tuple[str, ...]) -> None:
    """Give this machine's users the same uids in the root file system of the cluster's daemons. If
    a uid exists in both, it becomes the uid of this machine's user; other accounts of the root file
    system's Debian release are kept.
    """
    for name in ("passwd", "group"):
        ours = [
            line
            for line in Path("/etc", name).read_text(encoding="utf-8").splitlines()
            if _is_person(line, users)
        ]
        taken = {line.partition(":")[0] for line in ours}
        path = system / "etc" / name
        theirs = [
            line
            for line in path.read_text(encoding="utf-8").splitlines()
            if line.partition(":")[0] not in taken
        ]
        path.write_text("\n".join([*ours, *theirs]) + "\n", encoding="utf-8")


def _is_person(line: str, users: tuple[str, ...]) -> bool:
    name, _, number, *_ = line.split(":")
    return name in users or 1_000 <= int(number) < 60_000


def mounts_below(root: Path) -> list[str]:
    """Return the mount points at or below a folder, nested ones after those that contain them
    (proc(5), mountinfo).
    """
    mount_points = []
    for line in Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines():
        mount_point = line.split()[4].encode().decode("unicode_escape")
        if mount_point == str(root) or mount_point.startswith(f"{root}/"):
            mount_points.append(mount_point)
    return mount_points


def unmount_all_below(root: Path) -> None:
    """Unmount everything below a cluster's folder.

    Raises:
        SetupError: a mount is in use.
    """
    for mount_point in reversed(mounts_below(root)):
        if mount_point in mounts_below(root):
            _unmount_one(mount_point)


def _unmount_one(mount_point: str) -> None:
    refusals: list[str] = []

    def undone() -> bool:
        try:
            run_program(["umount", mount_point], env={"PATH": PATH})
        except SetupError as error:
            refusals.append(error.message)
            return False
        return True

    # The threads of a killed daemon may end a moment after it.
    if not wait_until(undone, _UNMOUNT_S, poll_s=0.1):
        raise SetupError(f"{refusals[-1]} A shell of `aitne dev cluster shell` may still use it.")


def remove_cluster_folder(root: Path) -> None:
    """Remove a cluster's folder, after checking that no file system is mounted below it.

    Raises:
        SetupError: a file system is mounted below; nothing was removed.
    """
    mount_points = mounts_below(root)
    if mount_points:
        raise SetupError(f"{mount_points[-1]} is still mounted; {root} was not removed.")
    _remove_tree(root)


def _remove_tree(root: Path) -> None:
    if root.exists():
        shutil.rmtree(root)
