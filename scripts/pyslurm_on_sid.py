"""Build pyslurm for Slurm 26.05 in a Debian sid, and hold the adapter ``pyslurm`` to the schedulers' contract there.

    sudo python scripts/pyslurm_on_sid.py [pytest's options]

The sid is the root of ``aitne dev cluster up --slurm sid``. Compiler, libslurm's headers and a virtual environment
with pyslurm are laid over it once and kept in the user's cache folder. The tests run in there as root, with a
cluster that they start themselves; everything is in namespaces of its own, so nothing is left when this ends.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.machines.software import registries

from aitne.dev import roots
from aitne.host.folders import cache_dir

CHECKOUT = Path(__file__).resolve().parent.parent
PYSLURM = "pyslurm==25.11.2"
PACKAGES = ("gcc", "libc6-dev", "python3-dev", "libslurm-dev")
SHIM = "/opt/aitne/shim"
VENV = "/opt/aitne/venv"
SOURCE = "/srv/aitne/source"
VERSION_H = """\
#ifndef _SLURM_VERSION_H_
#define _SLURM_VERSION_H_
#define SLURM_VERSION_NUMBER 0x190b00
#define SLURM_VERSION_NUM(a,b,c) (((a) << 16) + ((b) << 8) + (c))
#define SLURM_VERSION_MAJOR(a)   (((a) >> 16) & 0xff)
#define SLURM_VERSION_MINOR(a)   (((a) >>  8) & 0xff)
#define SLURM_VERSION_MICRO(a)    ((a)        & 0xff)
#endif
"""
"""Claims Slurm 25.11, the only one that pyslurm's set-up takes; all else comes from the real headers."""
BUILD = {
    "SLURM_LIB_DIR": "/usr/lib/x86_64-linux-gnu",
    "SLURM_INCLUDE_DIR": SHIM,
    # What 26.05 has renamed or dropped since 25.11.
    "CFLAGS": "-O0 -g0 -DSLURM_BACKWARD_COMPAT -Dslurm_free_ctl_conf=slurm_free_conf "
    "-DESLURM_ERROR_ON_DESC_TO_RECORD_COPY=-1",
}
TEST_TOOLS = re.compile(r"(hypothesis|jsonschema|psutil|pytest|websockets)")
TESTS = ("tests/contract/schedulers", "-k", "pyslurm", "-q", "-rfE", "-p", "no:cacheprovider")
_LONG_S = 1_200


def main() -> int:
    """Build the environment if needed and run the tests; return pytest's exit status."""
    if os.geteuid() != 0:
        sys.exit("This needs root: it mounts a root file system and starts Slurm's daemons.")
    base = roots.ensure("sid", say)
    wanted = repr((base.name, PACKAGES, PYSLURM, VERSION_H, BUILD, requirements()))
    layers = made(cache_dir() / "pyslurm")
    layer = layers / hashlib.sha256(wanted.encode()).hexdigest()[:12]
    if not layer.exists():
        with tempfile.TemporaryDirectory(prefix="making-", dir=layers) as folder:
            if status := in_namespaces("build", folder, str(base)):
                return status
            Path(folder, "upper").rename(layer)
    with tempfile.TemporaryDirectory(prefix="testing-", dir=layers) as folder:
        return in_namespaces("test", folder, f"{layer}:{base}", *sys.argv[1:])


def in_namespaces(*words: str) -> int:
    """Run the command `inside` in mount and PID namespaces of its own.

    Its mounts and processes are visible to no other process and end with it.
    """
    namespaces = ("--mount", "--pid", "--fork", "--kill-child")
    argv = ["unshare", *namespaces, sys.executable, __file__, *words]
    return subprocess.run(argv, check=False).returncode


def inside(verb: str, folder: str, lower: str, *words: str) -> int:
    """Build or test in a root over ``lower``, as the first process of the namespaces."""
    root = overlay(Path(folder), lower)
    if verb == "build":
        return build(root)
    mount("-t", "tmpfs", "tmpfs", str(made(root / "tmp")))
    (root / "tmp").chmod(0o1777)
    argv = ["python", "-m", "pytest", *TESTS, *words]
    say(" ".join(argv))
    return run_inside(root, [f"{VENV}/bin/python", *argv[1:]], {"AITNE_REQUIRE": "slurm"})


def say(text: str) -> None:
    """Print a progress message."""
    print(text, flush=True)


def build(root: Path) -> int:
    """Install packages, the environment and pyslurm in the root.

    Returns:
        The exit status of the command that failed, or 0.
    """
    variables, files = registries()
    for path in sorted(files):
        bind(path, root / str(path).lstrip("/"))
    apt = {"DEBIAN_FRONTEND": "noninteractive"}
    header = root / SHIM.lstrip("/") / "slurm" / "slurm_version.h"
    header.parent.mkdir(parents=True)
    header.write_text(VERSION_H)
    pip = [f"{VENV}/bin/python", "-m", "pip", "--disable-pip-version-check", "install", "-q"]
    constraints = ["--constraint", f"{SOURCE}/constraints.txt"]
    for argv, env in (
        (["apt-get", "-q", "update"], apt),
        (["apt-get", "-q", "-y", "install", "--no-install-recommends", *PACKAGES], apt),
        (["apt-get", "clean"], apt),
        (["python3", "-m", "venv", VENV], {}),
        ([*pip, "--no-binary", "pyslurm", PYSLURM], variables | BUILD),
        ([*pip, *constraints, *requirements()], variables),
    ):
        say(f"In the sid: {' '.join(argv[:12])}")
        if status := run_inside(root, argv, env):
            say(f"That ended with {status}.")
            return status
    for packages in (root / VENV.lstrip("/")).glob("lib/python3.*/site-packages"):
        (packages / "aitne.pth").write_text(f"{SOURCE}/backend\n{SOURCE}/runtime\n")
    return 0


def requirements() -> list[str]:
    """Return the dependencies of the platform and its tests; the platform runs from its checkout."""
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]
    optional = project["optional-dependencies"]
    tools = [each for each in optional["dev"] if TEST_TOOLS.match(each)]
    return [*project["dependencies"], *optional["server"], *tools]


def overlay(folder: Path, lower: str) -> Path:
    """Mount a root over ``lower``, with this machine's devices and this checkout.

    Changes stay in ``folder``.
    """
    root, upper, work = (made(folder / name) for name in ("root", "upper", "work"))
    mount(
        "-t",
        "overlay",
        "overlay",
        "-o",
        f"lowerdir={lower},upperdir={upper},workdir={work}",
        str(root),
    )
    mount("-t", "proc", "proc", str(made(root / "proc")))
    for tree in ("/dev", "/sys"):
        mount("--rbind", tree, str(made(root / tree.lstrip("/"))))
    bind(CHECKOUT, root / SOURCE.lstrip("/"))
    for name in ("etc/hosts", "etc/resolv.conf"):
        (root / name).unlink(missing_ok=True)
        shutil.copy(Path("/", name), root / name)
    return root


def bind(here: Path, there: Path) -> None:
    """Show ``here`` at ``there``."""
    if here.is_dir():
        made(there)
    elif not there.exists():
        made(there.parent)
        there.touch()
    mount("--bind", str(here), str(there))


def made(folder: Path) -> Path:
    """Create the folder if it is missing, and return it."""
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def mount(*words: str) -> None:
    """Run mount(8), which prints errors to stderr."""
    subprocess.run(["mount", *words], check=True)


def run_inside(root: Path, argv: Sequence[str], env: Mapping[str, str]) -> int:
    """Run a program to its end in the root; its exit status."""
    basics = {
        "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "HOME": "/root",
        "LANG": "C.UTF-8",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    inside = ["env", f"--chdir={SOURCE}", *argv]
    program = subprocess.Popen(["chroot", str(root), *inside], env={**basics, **env})
    while True:
        # Orphaned processes become children of the namespace's first process.
        pid, status = os.wait()
        if pid == program.pid:
            program.returncode = os.waitstatus_to_exitcode(status)
            return program.returncode


if __name__ == "__main__":
    sys.exit(inside(*sys.argv[1:]) if os.getpid() == 1 else main())
