"""The folder that all nodes share: the agent as one file, JupyterLab's environment, its launcher.

A job of another account on another node can read neither the platform's virtual environment nor its
interpreter. So what runs there is copied to ``[slurm] software_dir`` and run by the nodes' own Python.
The names hold a digest of the content: an upgrade adds files, and what runs keeps the ones it began with.
"""

from __future__ import annotations

import hashlib
import os
import stat
import sys
import zipfile
from collections.abc import Iterable
from io import BytesIO
from pathlib import Path

import aitne
from aitne.core.errors import SetupError
from aitne.core.node_software import NodeSoftware
from aitne.core.settings import Settings

_PACKAGE = Path(aitne.__file__).parent
_LAUNCHER = _PACKAGE / "hub" / "launcher.py"
_OVERRIDES = _PACKAGE / "hub" / "lab" / "overrides.json"
SESSION_LOCK = _PACKAGE / "supervisor" / "envs" / "session.txt"
"""What the session environment holds, in pip's words."""
_MAIN = "import sys\n\nfrom aitne.agent.main import main\n\nmain(sys.argv[1:])\n"
_A_DATE = (1980, 1, 1, 0, 0, 0)


def own_software() -> NodeSoftware:
    """For jobs that run as the platform's own account on this machine."""
    return NodeSoftware(agent=(sys.executable, "-I", "-m", "aitne.agent"), launcher=_LAUNCHER)


class SoftwareFolder:
    """``[slurm] software_dir``. Constructing it writes nothing."""

    def __init__(self, settings: Settings) -> None:
        """Raises ``SetupError`` when the settings do not say where it is."""
        if settings.slurm.software_dir is None:
            raise SetupError(
                "Slurm's nodes need the agent and the session environment in a folder that they all "
                "share: set `software_dir` in the [slurm] section of aitne.toml, such as "
                '"/shared/aitne/software".'
            )
        self.root = settings.slurm.software_dir
        self._python = settings.slurm.python

    @property
    def agent(self) -> Path:
        """The agent, as a file that any Python from 3.9 on runs."""
        return self.root / f"agent-{_digest(_agent_files().values())}.pyz"

    @property
    def launcher(self) -> Path:
        """What becomes the single-user server, in a folder of its own with JupyterLab's defaults."""
        content = (_LAUNCHER.read_bytes(), _OVERRIDES.read_bytes())
        return self.root / f"lab-{_digest(content)}" / _LAUNCHER.name

    @property
    def session_env(self) -> Path:
        """The virtual environment with JupyterLab."""
        content = (SESSION_LOCK.read_bytes(), self._python.encode())
        return self.root / f"session-{_digest(content)}"

    def software(self) -> NodeSoftware:
        """What jobs are told."""
        return NodeSoftware(
            agent=(self._python, "-I", str(self.agent)),
            launcher=self.launcher,
        )

    def has_files(self) -> bool:
        """Whether agent and launcher are there."""
        return self.agent.is_file() and self.launcher.is_file()

    def check_owner(self) -> None:
        """Pass if nobody but who owns the folder can put anything there: all users' jobs run it.

        Raises:
            SetupError: anybody could, or a stranger was there first.
        """
        parts = [self.root, *self.root.parents]
        for path in (*parts, self.agent, self.launcher.parent, self.launcher, self.session_env):
            try:
                mode = path.stat().st_mode
            except OSError:  # not there, or nothing that could be run
                continue
            if not mode & stat.S_IWOTH:
                continue
            if not (path in parts[1:] and mode & stat.S_ISVTX):
                raise SetupError(
                    f"Anybody can change {path}, and what lies in [slurm] software_dir runs in all "
                    f"users' jobs. Run `chmod o-w {path}`, or set another folder."
                )
            below = parts[parts.index(path) - 1]
            if below.exists() and below.stat().st_uid not in (0, os.geteuid()):
                raise SetupError(
                    f"{below} lies where anybody can make folders and belongs to uid "
                    f"{below.stat().st_uid}; what lies in [slurm] software_dir runs in all users' jobs. "
                    "Set a folder that only root or the platform's account can make."
                )

    def write_files(self) -> None:
        """Write agent and launcher, readable for everyone. What is there stays.

        Raises:
            SetupError: the folder cannot be written to.
        """
        try:
            _folder(self.root)
            if not self.agent.is_file():
                _write(self.agent, agent_archive())
            _folder(self.launcher.parent)
            _folder(self.launcher.parent / _OVERRIDES.parent.name)
            overrides = self.launcher.parent / _OVERRIDES.parent.name / _OVERRIDES.name
            _write(overrides, _OVERRIDES.read_bytes())
            if not self.launcher.is_file():
                _write(self.launcher, _LAUNCHER.read_bytes())
        except OSError as error:
            raise SetupError(self.why_not(error)) from error

    def why_not(self, error: OSError) -> str:
        """A sentence about a folder that cannot be written to."""
        return (
            f"{error.filename or self.root} cannot be written: {error.strerror}. Let the account that "
            "owns [slurm] software_dir run `aitne admin software` once, on a machine that sees it; "
            "everyone else only reads it."
        )


def agent_archive() -> bytes:
    """The agent as a zip archive that Python runs (https://docs.python.org/3/library/zipapp.html)."""
    buffer = BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in _agent_files().items():
            archive.writestr(zipfile.ZipInfo(name, _A_DATE), content, zipfile.ZIP_DEFLATED)
    return buffer.getvalue()


def _agent_files() -> dict[str, bytes]:
    modules = sorted((_PACKAGE / "agent").glob("*.py"))
    return {
        "__main__.py": _MAIN.encode(),
        "aitne/__init__.py": b"",
        **{f"aitne/agent/{path.name}": path.read_bytes() for path in modules},
    }


def _digest(content: Iterable[bytes]) -> str:
    digest = hashlib.sha256()
    for part in content:
        digest.update(hashlib.sha256(part).digest())
    return digest.hexdigest()[:12]


def _folder(path: Path) -> None:
    if not path.is_dir():
        path.mkdir(parents=True)
        path.chmod(0o755)


def _write(path: Path, content: bytes) -> None:
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.write_bytes(content)
    temporary.chmod(0o644)
    temporary.replace(path)
