"""Put the real Horovod into an environment that has PyTorch: ``horovod_wheel.py [ENVIRONMENT]``.

Its last release does not compile against today's PyTorch as it is shipped: the headers want C++20,
which a wrapper around the compiler says. Building takes minutes, so the wheel is kept in the user's
cache, in a folder named after all that it depends on; an image takes it from there.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from aitne.adapters import apt_installation
from aitne.core.errors import SetupError
from aitne.local_system.platform_folders import cache_dir

VERSION = "0.28.1"
NEEDS = ("cloudpickle", "packaging", "psutil", "pyyaml")
"""The packages that Horovod imports, besides PyTorch."""
TOOLS = ("g++", "make", "cmake", "openmpi-bin", "libopenmpi-dev")
BUILD_NEEDS = ("cffi", "packaging", "setuptools<81", "wheel")
"""Later setuptools have no pkg_resources, which its setup.py imports."""
FEATURES = {
    "HOROVOD_WITH_PYTORCH": "1",
    "HOROVOD_WITH_MPI": "1",
    "HOROVOD_WITH_GLOO": "1",
    "HOROVOD_WITHOUT_TENSORFLOW": "1",
    "HOROVOD_WITHOUT_MXNET": "1",
}
ROOT = Path(__file__).resolve().parents[1]
_ASK = (
    "import json, sys, torch; print(json.dumps([torch.__version__.partition('+')[0], "
    "f'cp{sys.version_info[0]}{sys.version_info[1]}', torch.__path__[0]]))"
)


def print_progress(text: str) -> None:
    """Print a progress message to standard error."""
    print(text, file=sys.stderr)


def read_open_mpi_version() -> str:
    """Return the version of this machine's Open MPI.

    Raises:
        SetupError: Open MPI is not installed.
    """
    program = shutil.which("ompi_info")
    found = program and re.search(
        r"v(\d+\.\d+\.\d+)", subprocess.run([program], capture_output=True, text=True).stdout
    )
    if not found:
        raise SetupError("Horovod is built against Open MPI: apt-get install " + " ".join(TOOLS))
    return found[1]


def find_wheel_folder(python: Path) -> tuple[Path, Path]:
    """Return the folder for this interpreter's wheel and the folder of its PyTorch.

    Raises:
        SetupError: the interpreter has no PyTorch.
    """
    asked = subprocess.run([python, "-c", _ASK], capture_output=True, text=True)
    if asked.returncode != 0:
        raise SetupError(f"{python} has no PyTorch: make distrib")
    torch, tag, place = json.loads(asked.stdout)
    name = f"horovod-{VERSION}-torch{torch}-{tag}-openmpi{read_open_mpi_version()}"
    return cache_dir() / "wheels" / name, Path(place).parent


def build_wheel(python: Path, packages: Path, target: Path) -> None:
    """Make the wheel in ``target``, beside the PyTorch in ``packages``.

    Raises ``CalledProcessError``.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="horovod-", dir=target.parent) as work:
        venv, made = Path(work) / "venv", Path(work) / "made"
        subprocess.run([python, "-m", "venv", venv], check=True)
        pip = [venv / "bin" / "python", "-m", "pip", "--disable-pip-version-check", "--quiet"]
        subprocess.run([*pip, "install", *BUILD_NEEDS], check=True)
        # The build sees the PyTorch that it is for, without a second copy of it.
        [site] = venv.glob("lib/python*/site-packages")
        (site / "torch.pth").write_text(f"{packages}\n")
        compiler = Path(work) / "c++20"
        compiler.write_text(f'#!/bin/sh\nexec {shutil.which("g++")} "$@" -std=c++20 -g0\n')
        compiler.chmod(0o755)
        environ = {
            **os.environ,
            **FEATURES,
            "CXX": str(compiler),
            "MAKEFLAGS": f"-j{len(os.sched_getaffinity(0))}",
            "PATH": f"{venv / 'bin'}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
        }
        words = ["--no-binary", "horovod", "--no-deps", "--no-build-isolation", "--no-cache-dir"]
        subprocess.run(
            ["nice", *pip, "wheel", *words, "-w", made, f"horovod=={VERSION}"],
            env=environ,
            check=True,
        )
        made.rename(target)


def main() -> int:
    """Build the wheel unless there is one, and install it."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("environment", nargs="?", type=Path, default=ROOT / ".venv")
    parser.add_argument("--build", action="store_true", help="only make the wheel, and say where")
    asked = parser.parse_args()
    python = asked.environment / "bin" / "python"
    try:
        if os.geteuid() == 0 and apt_installation.has_apt():
            apt_installation.install_missing(TOOLS, print_progress, purpose="Horovod's wheel")
        target, packages = find_wheel_folder(python)
        if not list(target.glob("horovod-*.whl")):
            print_progress(
                f"Building Horovod {VERSION} for {target.name}, which takes about 5 minutes …"
            )
            build_wheel(python, packages, target)
        [wheel] = target.glob("horovod-*.whl")
        if asked.build:
            print(wheel)
            return 0
        pip = [python, "-m", "pip", "--disable-pip-version-check", "--quiet", "install"]
        pinned = ["--constraint", ROOT / "constraints.txt"]
        subprocess.run([*pip, *pinned, *NEEDS], check=True)
        subprocess.run([*pip, "--no-deps", wheel], check=True)
    except SetupError as error:
        print_progress(error.message)
        return 1
    except subprocess.CalledProcessError as error:
        print_progress(f"Horovod is not installed: {error}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
