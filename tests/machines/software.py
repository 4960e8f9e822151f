"""Aitne's virtual environments for the machines, created with the machines' own Python.

They are made once in the base (no machine is booted for it) and kept in the user's cache directory, under a
hash of what says which packages are in them. The platform's own code is not among them: the environment is
an editable installation of ``SOURCE``, where every fleet lays a copy of this checkout.
"""

from __future__ import annotations

import ast
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote, urlparse

from tests.machines.base import Base, bind_argv, locked, machines_dir, remove_unused

CHECKOUT = Path(__file__).parents[2]
SOFTWARE = "/opt/aitne"
"""The folder of the environments on every machine, read-only."""
SOURCE = "/srv/aitne/source"
VENV = f"{SOFTWARE}/venv"
CACHE_HOME = f"{SOFTWARE}/cache"
"""The platform's ``XDG_CACHE_HOME``: the Hub's environment and the proxy are below it."""
NODE_SOFTWARE = f"{SOFTWARE}/nodes"
"""A ``[slurm] software_dir`` with the session environment in it."""

_COPIED = (
    *("backend", "containers", "jobtemplates", "frontend/dist", "pyproject.toml", "README.md"),
    *("LICENSE", "hatch_build.py", "constraints.txt", "runtime"),
)
_LOCKS = "backend/aitne/supervisor/envs"
_PASSED_ON = ("PIP_", "NPM_CONFIG_", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "NODE_EXTRA_CA_CERTS")
_ENSURE = """\
import sys
from aitne.local_system.settings_loader import load_settings
from aitne.supervisor import node_software_installation, software_environments
slurm = {"conf": "/etc/slurm/slurm.conf", "software_dir": sys.argv[1]}
node_software_installation.ensure_node_software(load_settings(scheduler="slurm", slurm=slurm), print)
software_environments.ensure_environments(print, ("hub", "proxy"))
"""


def copy_source(folder: Path) -> None:
    """Lay what runs of this checkout into ``folder``: later changes are none of the machines' business."""
    skip = shutil.ignore_patterns("__pycache__")
    for name in _COPIED:
        here, there = CHECKOUT / name, folder / name
        there.parent.mkdir(parents=True, exist_ok=True)
        if here.is_dir():
            shutil.copytree(here, there, ignore=skip)
        elif here.exists():
            shutil.copy(here, there)


def software_folder(base: Base) -> Path:
    """Return the folder to mount at ``SOFTWARE`` on each machine.

    ``ensure_software`` fills it, also while the machines run.
    """
    folders = machines_dir() / "software"
    folders.mkdir(parents=True, exist_ok=True)
    digest = hashlib.sha256(base.root.parent.name.encode() + Path(__file__).read_bytes())
    for name in ("pyproject.toml", "runtime/pyproject.toml", "constraints.txt"):
        digest.update((CHECKOUT / name).read_bytes())
    for lock in sorted(path for path in (CHECKOUT / _LOCKS).rglob("*") if path.is_file()):
        digest.update(lock.read_bytes())
    folder = folders / digest.hexdigest()[:12]
    with locked(folders / ".lock"):
        if not folder.is_dir():
            remove_unused(folders, "[0-9a-f]*")
            folder.mkdir()
    return folder


def ensure_software(base: Base, folder: Path) -> None:
    """Make in ``folder`` what is not there yet: about a minute, once.

    Raises:
        RuntimeError: pip or npm failed, with the last of what they said.
    """
    with locked(folder.parent / f".{folder.name}.lock"):
        complete = folder / ".complete"
        if complete.exists():
            return
        for left in folder.iterdir():
            shutil.rmtree(left)
        with tempfile.TemporaryDirectory(prefix=".source-", dir=folder.parent) as source:
            Path(source).chmod(0o755)
            copy_source(Path(source))
            _make(base, folder, Path(source))
        complete.touch()


def _make(base: Base, folder: Path, source: Path) -> None:
    argv = ["systemd-nspawn", "--quiet", f"--directory={base.root}", "--volatile=overlay"]
    # This machine's own network: what pip reaches here, it reaches there.
    argv += ["--register=no", "--keep-unit", "--as-pid2", "--console=pipe"]
    argv += ["--resolv-conf=replace-host", f"--machine=aitne-{folder.name}", *_registries()]
    argv += bind_argv([(folder, SOFTWARE), (source, SOURCE)])
    argv += [f"--setenv=XDG_CACHE_HOME={CACHE_HOME}"]
    install = [f"{VENV}/bin/python", "-m", "pip", "--disable-pip-version-check", "install"]
    install += ["--constraint", f"{SOURCE}/constraints.txt", "--editable", f"{SOURCE}/runtime"]
    install += ["--editable", f"{SOURCE}[server]"]
    ensure = [f"{VENV}/bin/python", "-c", _ENSURE, NODE_SOFTWARE]
    for command in (["/usr/bin/python3", "-m", "venv", VENV], install, ensure):
        done = subprocess.run([*argv, *command], capture_output=True, text=True, check=False)
        if done.returncode:
            said = f"{done.stdout}{done.stderr}"[-4000:]
            raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}:\n{said}")


def _registries() -> Iterator[str]:
    """Yield the options of `systemd-nspawn` that let pip and npm use this machine's indexes."""
    variables, files = registries()
    yield from (f"--setenv={name}={value}" for name, value in sorted(variables.items()))
    yield from bind_argv([(path, str(path)) for path in sorted(files)], read_only=True)


def registries() -> tuple[dict[str, str], set[Path]]:
    """Return the variables and files with which pip and npm use this machine's indexes."""
    variables = _pip_settings() | {
        name: value for name, value in os.environ.items() if name.upper().startswith(_PASSED_ON)
    }
    files = {Path("/etc/ssl/certs/ca-certificates.crt")}
    npmrc = Path(os.environ.get("NPM_CONFIG_USERCONFIG") or Path.home() / ".npmrc")
    if npmrc.exists():
        variables["NPM_CONFIG_USERCONFIG"] = str(npmrc)
        files.add(npmrc)
    for value in variables.values():
        for word in value.split():
            # What an index lists lies beside it.
            local = word.startswith("file://")
            path = Path(unquote(urlparse(word).path)).parent if local else Path(word)
            if path.is_absolute() and path.exists():
                files.add(path)
    return variables, files


def _pip_settings() -> dict[str, str]:
    """Return pip's settings on this machine as environment variables."""
    argv = [sys.executable, "-m", "pip", "config", "list"]
    listed = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
    settings = {}
    for line in listed.splitlines():
        name, _, value = line.partition("=")
        option = name.rpartition(".")[2].upper().replace("-", "_")
        settings[f"PIP_{option}"] = " ".join(str(ast.literal_eval(value)).split())
    return settings
