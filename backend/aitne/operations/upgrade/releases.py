"""Releases installed side by side below the root of an installation.

The root is the virtual environment of the first installation, such as ``/opt/aitne``. Later
releases are virtual environments ``releases/VERSION`` in it. The link ``current`` names the selected
release, and the programs in the root's ``bin`` are links through it. So units and users keep their
paths, one rename selects a release, and a release is kept for as long as processes run from it.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from urllib.parse import unquote, urlsplit

from aitne.core.errors import SetupError
from aitne.supervisor import uv_package_installation

PROGRAMS = ("aitne", "aitne-broker", "aitne-run", "aitne-train")
COMPLETE = ".complete"
"""File in a release that is written last; a release without it is installed again."""

RUNTIME = "aitne-train"
_REQUIREMENT = re.compile(r"(?P<name>[\w.-]+)(?:\[(?P<extras>[^\]]*)\])?")

Progress = Callable[[str], None]


def own_root() -> Path:
    """Return the root of the installation that runs this process.

    Raises:
        SetupError: it is not a virtual environment with an installed release.
    """
    prefix = Path(sys.prefix)
    if sys.prefix == sys.base_prefix:
        raise SetupError(
            "Aitne is not installed in a virtual environment, and the system's Python is not changed. "
            "Install it as the handbook describes (docs/handbook/upgrade.md)."
        )
    try:
        origin = json.loads(distribution("aitne").read_text("direct_url.json") or "{}")
    except PackageNotFoundError:
        origin = {"dir_info": {"editable": True}}
    if origin.get("dir_info", {}).get("editable"):
        raise SetupError(
            f"{prefix} runs Aitne from a source tree. Update that tree with git, then run `make up`."
        )
    return prefix.parent.parent if prefix.parent.name == "releases" else prefix


def installed_extras(installed: Distribution | None = None) -> list[str]:
    """Return the extras of the installed release, None: of this process, all of whose packages are
    installed, such as ``server`` and ``ldap``; ``server`` is always one.
    """
    return sorted({"server", *_complete_extras(installed or distribution("aitne"))})


def _complete_extras(installed: Distribution) -> set[str]:
    """Return the extras of a distribution all of whose packages are installed, with the extras of the
    training runtime that they name (``aitne-train[torch]``).
    """
    extras = dict.fromkeys(installed.metadata.get_all("Provides-Extra") or [], True)
    for requirement in installed.requires or []:
        required = _REQUIREMENT.match(requirement)
        extra = re.search(r"""extra == ['"]([\w.-]+)['"]""", requirement)
        if required is not None and extra is not None and not _is_installed(**required.groupdict()):
            extras[extra[1]] = False
    return {extra for extra, complete in extras.items() if complete}


class Releases:
    """The releases below a root."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._current = root / "current"

    def folder(self, version: str) -> Path:
        """Return the folder of a release, which may not exist."""
        return self.root / "releases" / version

    @property
    def selected(self) -> str | None:
        """Number of the selected release; None if the root has only its own."""
        try:
            return os.path.basename(os.readlink(self._current))
        except FileNotFoundError:
            return None

    def program(self, version: str) -> Path:
        """Return the program ``aitne`` of a release."""
        own = self.folder(version) / "bin" / "aitne"
        return own if own.exists() else self.root / "bin" / "aitne"

    def adopt(self, version: str) -> None:
        """Make the root's own release ``version`` one that can be selected. It can be repeated.

        Raises:
            SetupError: the root cannot be written.
        """
        try:
            programs = self.folder(version) / "bin"
            programs.mkdir(parents=True, exist_ok=True)
            for name in PROGRAMS:
                program, copy = self.root / "bin" / name, programs / name
                if program.exists() and not program.is_symlink():
                    temporary = copy.with_name(f".{name}.new")
                    shutil.copy2(program, temporary)
                    temporary.replace(copy)
            if self.selected is None:
                self.select(version)
            for name in PROGRAMS:
                program = self.root / "bin" / name
                if program.exists() and not program.is_symlink():
                    _replace_link(program, f"../current/bin/{name}")
        except OSError as error:
            raise self._make_not_writable_error(error) from error

    def select(self, version: str) -> None:
        """Make a release the one that is started from now on. Raises ``OSError``."""
        _replace_link(self._current, f"releases/{version}")

    def install(self, version: str, requirement: str, progress: Progress) -> None:
        """Install a release beside the others, unless it is complete; its dependencies have the
        versions that it was tested with.

        Args:
            version: number of the release.
            requirement: what is installed, as a requirement of pip.
            progress: called with one line per step.

        Raises:
            SetupError: it could not be installed; nothing that runs has changed.
        """
        folder = self.folder(version)
        if (folder / COMPLETE).exists():
            progress(f"Release {version} is installed in {folder}.")
            return
        try:
            shutil.rmtree(folder, ignore_errors=True)
            folder.parent.mkdir(exist_ok=True)
        except OSError as error:
            raise self._make_not_writable_error(error) from error
        progress(f"Installing release {version} in {folder}.")
        base = Path(sys.base_prefix) / "bin" / f"python{sys.version_info[0]}.{sys.version_info[1]}"
        python = folder / "bin" / "python"
        _run_command([str(base if base.exists() else sys.executable), "-m", "venv", str(folder)])
        _install_packages(python, ["--no-deps", requirement])
        pinned = [
            option
            for file in folder.glob("lib/python*/site-packages/aitne/_data/constraints.txt")
            for option in ("--constraint", str(file))
        ]
        _install_packages(python, [*pinned, *make_find_links_options(requirement), requirement])
        found = _run_command(
            [str(python), "-P", "-c", "import aitne; print(aitne.__version__)"]
        ).strip()
        if found != version:
            raise SetupError(
                f"{requirement} contains release {found}, not {version}. Nothing that runs has changed."
            )
        (folder / COMPLETE).touch()

    def prune(self, *keep: str) -> None:
        """Remove the installed releases other than those named, the root's own, and those from which
        processes run, such as the runners of jobs and a broker that was not restarted.
        """
        used = _list_running_programs()
        for folder in (self.root / "releases").iterdir():
            own = f"{folder}{os.sep}"
            if folder.name in keep or any(own in program for program in used):
                continue
            if (folder / COMPLETE).exists():
                (folder / COMPLETE).unlink()
                shutil.rmtree(folder, ignore_errors=True)

    def _make_not_writable_error(self, error: OSError) -> SetupError:
        return SetupError(
            f"{error.filename or self.root} cannot be written: {error.strerror}. Run the command as "
            f"the owner of {self.root}."
        )


def make_find_links_options(requirement: str) -> list[str]:
    """Return the options of pip with which the folder of a wheel is searched for the training runtime's;
    none if the requirement is not a file.
    """
    _, _, address = requirement.partition(" @ ")
    path = Path(unquote(urlsplit(address).path))
    return ["--find-links", str(path.parent)] if address else []


def _is_installed(name: str, extras: str | None) -> bool:
    try:
        installed = distribution(name)
    except PackageNotFoundError:
        return False
    named = set(re.findall(r"[\w.-]+", extras or ""))
    return name != RUNTIME or named <= _complete_extras(installed)


def _list_running_programs() -> list[str]:
    """Return the command lines and executables of all processes that this account may see."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        # It may have ended, and only root and its account see its executable.
        with suppress(OSError):
            found.append((process / "cmdline").read_text(errors="replace"))
            found.append(os.readlink(process / "exe"))
    return found


def _replace_link(path: Path, target: str) -> None:
    temporary = path.with_name(f".{path.name}.new")
    temporary.unlink(missing_ok=True)
    temporary.symlink_to(target)
    temporary.replace(path)


def _install_packages(python: Path, arguments: Sequence[str]) -> None:
    prepared = uv_package_installation.make_install_command(str(python), arguments, compiled=True)
    pip = [str(python), "-m", "pip", "--disable-pip-version-check", "install", *arguments]
    _run_command(*(prepared or (pip, dict(os.environ))))


def _run_command(argv: Sequence[str], environ: dict[str, str] | None = None) -> str:
    done = subprocess.run(
        argv, env=environ, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    if done.returncode:
        last = (done.stderr or done.stdout).strip().splitlines()[-8:]
        raise SetupError(
            f"{Path(argv[0]).name} {' '.join(argv[1:3])} ended with status {done.returncode}:\n  "
            + "\n  ".join(last)
            + "\nCheck the package indexes of this machine and its disk, then run the command again. "
            "Nothing that runs has changed."
        )
    return done.stdout
