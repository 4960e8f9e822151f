"""The platform's software for compute nodes in a shared folder: agent and spawner as one file each,
the environment with JupyterLab, its launcher, and the packages that notebooks use.

A job under another account on another node can read neither the platform's virtual environment nor
its interpreter. So the software for jobs is copied to ``[slurm] software_dir`` and run by the
nodes' own Python. File names contain a digest of the content: an upgrade adds new files, and
running jobs keep theirs.
"""

from __future__ import annotations

import functools
import hashlib
import os
import py_compile
import shutil
import stat
import sys
import zipfile
from collections.abc import Iterable
from contextlib import suppress
from io import BytesIO
from pathlib import Path

import aitne
from aitne.core.archive_bytecode import compile_bytecode
from aitne.core.errors import SetupError
from aitne.core.platform.node_software_paths import NodeSoftware
from aitne.core.settings import Settings
from aitne.local_system.platform_folders import cache_dir
from aitne_train import package_file_collection

_PACKAGE = Path(aitne.__file__).parent
_LAUNCHER = _PACKAGE / "session_server" / "launcher.py"
_LAB = _PACKAGE / "session_server" / "lab"
"""Folder beside the launcher with JupyterLab's defaults and the platform's JupyterLab extension."""
SESSION_LOCK = _PACKAGE / "supervisor" / "envs" / "session.txt"
"""The pinned packages of the virtual environment for JupyterLab sessions, in pip's format."""
_AGENT_MAIN = "import sys\n\nfrom aitne.agent.main import main\n\nmain(sys.argv[1:])\n"
_SPAWNER_MAIN = "from aitne_train.launcher.main import run\n\nrun()\n"
_NOTEBOOK_MAIN = """\
import runpy
import sys

# Installed packages are preferred, so this folder is searched last.
sys.path.append(sys.path.pop(0))
del sys.argv[0]
runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
"""
_NOTEBOOK_MODULES = ("lab/server/aitne_kernelspecs.py", "lab/kernel/aitne_kernel.py")
"""Modules beside the launcher that load the notebook extension in kernels; jobs that run notebooks
use them too.
"""
_NOTEBOOK_PACKAGES = ("client", "core", "local_system", "notebook")
"""Packages of the platform that notebooks use, beside the training runtime."""
_A_DATE = (1980, 1, 1, 0, 0, 0)


def own_software() -> NodeSoftware:
    """Return the software for jobs that run as the platform's own account on this machine."""
    return NodeSoftware(
        agent=(sys.executable, "-I", "-m", "aitne.agent"),
        launcher=_LAUNCHER,
        spawner=(sys.executable, "-I", str(_make_spawner_path(cache_dir() / "software"))),
        notebook=_make_notebook_path(cache_dir() / "software"),
    )


def write_own_software() -> None:
    """Write the files that ``own_software`` names but an installation does not contain: the spawner
    as a single file, and the packages that notebooks use in a folder without others. Both can be
    bind-mounted in containers.

    Raises:
        SetupError: the cache folder cannot be written to.
    """
    root = cache_dir() / "software"
    try:
        _write_spawner(_make_spawner_path(root))
        _write_notebook(_make_notebook_path(root))
    except OSError as error:
        raise SetupError(
            f"{error.filename or root} cannot be written: {error.strerror}. Free some space there."
        ) from error


class SoftwareFolder:
    """The folder ``[slurm] software_dir``, from which nodes run the platform's software for jobs.
    Constructing the object writes nothing.
    """

    def __init__(self, settings: Settings) -> None:
        """Read the path of the folder from the settings. Raises ``SetupError`` if ``[slurm]
        software_dir`` is not set.
        """
        if settings.slurm.software_dir is None:
            raise SetupError(
                "The nodes need the agent and the session environment in a folder that they all "
                "share: set `software_dir` in the [slurm] section of aitne.toml, such as "
                '"/shared/aitne/software".'
            )
        self.root = settings.slurm.software_dir
        self._python = settings.slurm.python

    @property
    def agent(self) -> Path:
        """Path of the agent, a single file that runs with any Python from 3.9 on."""
        return self.root / f"agent-{_compute_digest(_agent_files().values())}.pyz"

    @property
    def spawner(self) -> Path:
        """Path of the program that starts a node's ranks, in a folder of its own, which is
        bind-mounted in containers.
        """
        return _make_spawner_path(self.root)

    @property
    def launcher(self) -> Path:
        """Path of the launcher of JupyterLab sessions, in a folder of its own with JupyterLab's
        defaults.
        """
        content = (_LAUNCHER.read_bytes(), *_lab_files().values())
        return self.root / f"lab-{_compute_digest(content)}" / _LAUNCHER.name

    @property
    def notebook(self) -> Path:
        """Path of the folder with the packages that notebooks and their ranks use."""
        return _make_notebook_path(self.root)

    @property
    def session_env(self) -> Path:
        """The virtual environment with JupyterLab."""
        content = (SESSION_LOCK.read_bytes(), self._python.encode())
        return self.root / f"session-{_compute_digest(content)}"

    def software(self) -> NodeSoftware:
        """Return the commands and paths of the software for jobs."""
        return NodeSoftware(
            agent=(self._python, "-I", str(self.agent)),
            launcher=self.launcher,
            spawner=(self._python, "-I", str(self.spawner)),
            notebook=self.notebook,
        )

    def has_files(self) -> bool:
        """Return True if agent, launcher, spawner and the packages for notebooks exist."""
        files = (self.agent, self.launcher, self.spawner)
        return all(path.is_file() for path in files) and self.notebook.is_dir()

    def check_owner(self) -> None:
        """Check that only the folder's owner can write to it, because the jobs of all users run the
        programs in it.

        Raises:
            SetupError: other users can write to the folder, or an unexpected account owns it.
        """
        parts = [self.root, *self.root.parents]
        ours = (self.agent, self.launcher.parent, self.launcher, self.session_env, self.notebook)
        for path in (*parts, *ours, self.spawner.parent, self.spawner):
            try:
                mode = path.stat().st_mode
            except OSError:  # missing, or nothing that could be run
                continue
            if not mode & stat.S_IWOTH:
                continue
            if not (path in parts[1:] and mode & stat.S_ISVTX):
                raise SetupError(
                    f"Any user can change {path}, and the files in [slurm] software_dir run in all "
                    f"users' jobs. Run `chmod o-w {path}`, or set another folder."
                )
            below = parts[parts.index(path) - 1]
            if below.exists() and below.stat().st_uid not in (0, os.geteuid()):
                raise SetupError(
                    f"{below} is where any user can create folders and belongs to uid "
                    f"{below.stat().st_uid}; the files in [slurm] software_dir run in all users' "
                    "jobs. Set a folder that only root or the platform's account can create."
                )

    def write_files(self) -> None:
        """Write agent, spawner, launcher and the packages for notebooks, readable for all users.
        Existing ones are kept.

        Raises:
            SetupError: the folder cannot be written to.
        """
        try:
            _create_folder(self.root)
            if not self.agent.is_file():
                _write_file(self.agent, agent_archive())
            _write_spawner(self.spawner)
            _write_notebook(self.notebook)
            _create_folder(self.launcher.parent)
            for name, content in _lab_files().items():
                path = self.launcher.parent / name
                for parent in reversed(path.relative_to(self.launcher.parent).parents):
                    _create_folder(self.launcher.parent / parent)
                _write_file(path, content)
            if not self.launcher.is_file():
                _write_file(self.launcher, _LAUNCHER.read_bytes())
        except OSError as error:
            raise SetupError(self.explain_write_error(error)) from error

    def explain_write_error(self, error: OSError) -> str:
        """Return a sentence that explains ``error``, which occurred when the folder was written to,
        and what to do.
        """
        return (
            f"{error.filename or self.root} cannot be written: {error.strerror}. Let the account that "
            "owns [slurm] software_dir run `aitne admin software` once, on a machine that sees it; "
            "all other accounts only read it."
        )


def _lab_files() -> dict[str, bytes]:
    """Return the contents of JupyterLab's defaults and extension by their paths relative to the
    launcher's folder.
    """
    return {
        str(path.relative_to(_LAB.parent)): path.read_bytes()
        for path in sorted(_LAB.rglob("*"))
        if path.is_file() and path.suffix != ".pyc"
    }


def agent_archive() -> bytes:
    """Return the agent as a zip archive that Python runs
    (https://docs.python.org/3/library/zipapp.html).
    """
    return _make_archive(_agent_files())


def _make_archive(files: dict[str, bytes]) -> bytes:
    """Return an archive of modules, with bytecode for this version of Python: compiling them takes
    longer than what they do at the start of a job. Other versions use the source.
    """
    buffer = BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            for path, data in ((name, content), (f"{name}c", compile_bytecode(name, content))):
                archive.writestr(zipfile.ZipInfo(path, _A_DATE), data, zipfile.ZIP_DEFLATED)
    return buffer.getvalue()


def _agent_files() -> dict[str, bytes]:
    return {
        "__main__.py": _AGENT_MAIN.encode(),
        "aitne/__init__.py": b"",
        **_read_package_modules("agent"),
        **package_file_collection.collect_launcher_files(),
    }


def _spawner_files() -> dict[str, bytes]:
    places = f"NOTEBOOK = {_make_notebook_path(Path()).name!r}\n".encode()
    return {
        "__main__.py": _SPAWNER_MAIN.encode(),
        **package_file_collection.collect_launcher_files(),
        "aitne_train/launcher/platform_software_paths.py": places,
    }


def _read_package_modules(name: str) -> dict[str, bytes]:
    """Return the modules of one of the platform's packages, by their paths in an archive."""
    paths = sorted((_PACKAGE / name).rglob("*.py"))
    return {str(path.relative_to(_PACKAGE.parent)): path.read_bytes() for path in paths}


def _make_spawner_path(root: Path) -> Path:
    return root / f"launcher-{_compute_digest(_spawner_files().values())}" / "launcher.pyz"


def _write_spawner(path: Path) -> None:
    if not path.is_file():
        _create_folder(path.parent)
        _write_file(path, _make_archive(_spawner_files()))


@functools.cache
def _notebook_digest() -> str:
    return _compute_digest(
        part for name, data in _notebook_files().items() for part in (name.encode(), data)
    )


def _notebook_files() -> dict[str, bytes]:
    """Return the contents of the packages that notebooks and their ranks use, by their paths."""
    return {
        "__main__.py": _NOTEBOOK_MAIN.encode(),
        **{name: (_LAB.parent / name).read_bytes() for name in _NOTEBOOK_MODULES},
        "aitne/__init__.py": (_PACKAGE / "__init__.py").read_bytes(),
        **{
            path: data
            for name in _NOTEBOOK_PACKAGES
            for path, data in _read_package_modules(name).items()
        },
        **package_file_collection.collect_all_files(),
    }


def _make_notebook_path(root: Path) -> Path:
    return root / f"notebook-{_notebook_digest()}"


def _write_notebook(path: Path) -> None:
    """Write the packages for notebooks, complete or not at all, with bytecode for this version of
    Python, which nodes mostly have too: users cannot write it there.
    """
    if path.is_dir():
        return
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    shutil.rmtree(temporary, ignore_errors=True)
    _create_folder(path.parent)
    try:
        for name, content in _notebook_files().items():
            file = temporary / name
            for parent in reversed(file.relative_to(temporary).parents):
                _create_folder(temporary / parent)
            _write_file(file, content)
            if file.suffix == ".py":
                _write_bytecode(file, path / name)
        temporary.rename(path)
    except OSError:
        shutil.rmtree(temporary, ignore_errors=True)
        if not path.is_dir():  # else another platform was faster
            raise


def _write_bytecode(file: Path, shown: Path) -> None:
    # By hash and unchecked: the name of the folder already stands for its content.
    mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
    made = py_compile.compile(str(file), dfile=str(shown), doraise=True, invalidation_mode=mode)
    Path(str(made)).parent.chmod(0o755)
    Path(str(made)).chmod(0o644)


def _compute_digest(content: Iterable[bytes]) -> str:
    digest = hashlib.sha256()
    for part in content:
        digest.update(hashlib.sha256(part).digest())
    return digest.hexdigest()[:12]


def _create_folder(path: Path) -> None:
    if not path.is_dir():
        # Another platform that starts at the same time may make it first.
        with suppress(FileExistsError):
            path.mkdir(parents=True)
            path.chmod(0o755)


def _write_file(path: Path, content: bytes) -> None:
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.write_bytes(content)
    temporary.chmod(0o644)
    temporary.replace(path)
