"""An image without programs that is quickly built: the node's /usr is mounted over its own."""

from __future__ import annotations

import fcntl
import logging
import os
import shutil
import subprocess
import tarfile
import tempfile
from io import BytesIO
from pathlib import Path

from aitne.core.errors import AitneError
from aitne.core.ports.runtime import Bind
from aitne_apptainer.installation import ensure_apptainer
from tests.support.requirements import lacking

USR = Bind(source="/usr", target="/usr")
"""The bind mount that a container of the skeleton needs to run a program."""
_FOLDERS = ("usr", "sbin", "etc", "proc", "sys", "dev", "run", "tmp", "home", "root", "opt", "mnt")
_OPEN = ("tmp", "var/tmp")
_FILES = {
    "etc/passwd": "root:x:0:0:root:/root:/bin/sh\n",
    "etc/group": "root:x:0:\n",
    "etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
    "etc/hosts": "127.0.0.1 localhost\n",
    "etc/resolv.conf": "",
}
_OF_THE_NODE = ("etc/ld.so.conf", "etc/ld.so.conf.d", "etc/ld.so.cache", "etc/alternatives")


def need_apptainer() -> None:
    """Have Apptainer, or skip: root installs it as ``aitne admin image build`` does."""
    if shutil.which("apptainer") is None and os.geteuid() == 0:
        # One at a time: pytest may have several workers.
        with open(Path(tempfile.gettempdir(), "aitne-tests-install.lock"), "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            try:
                ensure_apptainer(logging.getLogger(__name__).info)
            except AitneError as error:
                lacking("apptainer", error.message)
    if shutil.which("apptainer") is None:
        lacking("apptainer", "Apptainer is not installed, and only root could do that")


def make_skeleton(folder: Path) -> None:
    """Write the files of the skeleton image."""
    for name in (*_FOLDERS, "var"):
        (folder / name).mkdir(parents=True)
    for name in _OPEN:
        (folder / name).mkdir(exist_ok=True)
        (folder / name).chmod(0o1777)
    for name in ("bin", "lib", "lib64"):
        (folder / name).symlink_to(f"usr/{name}")
    for name, text in _FILES.items():
        (folder / name).write_text(text)
    for name in _OF_THE_NODE:
        there = Path("/", name)
        if there.is_dir():
            shutil.copytree(there, folder / name, symlinks=True)
        elif there.exists():
            shutil.copy2(there, folder / name)


def build_sif(folder: Path) -> Path:
    """Build a SIF of the skeleton in ``folder``."""
    tree, sif = folder / "skeleton", folder / "skeleton.sif"
    make_skeleton(tree)
    made = subprocess.run(
        ["apptainer", "-q", "build", str(sif), str(tree)],
        env={**os.environ, "APPTAINER_CACHEDIR": str(folder / "cache")},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert made.returncode == 0, made.stderr
    sif.chmod(0o644)
    return sif


def skeleton_archive(folder: Path) -> bytes:
    """Return the skeleton as a tar archive for `docker import`."""
    make_skeleton(folder)
    buffer = BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        archive.add(folder, arcname=".")
    return buffer.getvalue()
