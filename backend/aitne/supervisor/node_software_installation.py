"""Installation of the software that jobs need on the nodes, in the folder that all nodes share: the
agent, JupyterLab, and its launcher.

The environment with JupyterLab is created once with the nodes' own interpreter, with the same lock
and marker file as the other environments (see ``environments``). All users can read it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from aitne.adapters.folder_creation_lock import lock_folder_creation
from aitne.adapters.node_software_folder import SoftwareFolder
from aitne.core.byte_size_format import describe_bytes
from aitne.core.errors import SetupError
from aitne.core.settings import Settings
from aitne.supervisor.software_environments import NEEDED_BYTES, Progress, make_venv, repair_venv

MARKER = ".complete"
"""File in the environment with the version of the Python with which it was created."""
OLDEST_FOR_SESSIONS = (3, 11)
ANSWER_WITHIN_S = 30.0
_SAY_VERSION = "import sys; print('%d.%d' % sys.version_info[:2])"


def get_node_session_env(settings: Settings) -> Path:
    """Return the path of the environment with JupyterLab on the nodes: ``AITNE_SESSION_ENV`` if it
    is set, otherwise the one in the shared folder.

    Raises ``SetupError``.
    """
    override = os.environ.get("AITNE_SESSION_ENV")
    return Path(override).absolute() if override else SoftwareFolder(settings).session_env


def ensure_node_software(settings: Settings, progress: Progress) -> bool:
    """Create the environments that are missing or were made with another Python, and install changed
    packages again; ``progress`` is called with one line per step. Return False if changed packages
    could not be installed.

    Raises:
        SetupError: the software cannot be created here; the message contains the reason and what to
            do.
    """
    folder = SoftwareFolder(settings)
    folder.check_owner()
    if not folder.has_files():
        folder.write_files()
        progress(f"The agent for the nodes is in {folder.root}.")
    if override := os.environ.get("AITNE_SESSION_ENV"):
        if not (Path(override) / "bin" / "python").exists():
            raise SetupError(
                f"AITNE_SESSION_ENV names {override}, which is not a virtual environment. Correct the "
                "variable, or unset it to have the environment created."
            )
        return True
    python = [*settings.slurm.command_prefix, settings.slurm.python]
    version = _query_python_version(python)
    if _read_python_version(folder.session_env) == version:
        return repair_venv("session", folder.session_env, python, progress)
    _check_version(settings, version)
    _make_session_env(folder, python, version, progress)
    return True


def _make_session_env(
    folder: SoftwareFolder, python: Sequence[str], version: str, progress: Progress
) -> None:
    began = time.monotonic()
    env = folder.session_env

    def say(step: str) -> None:
        progress(f"session environment for the nodes: {step} ({time.monotonic() - began:.0f} s)")

    try:
        with lock_folder_creation(env, lambda: say("another process creates it; waiting")):
            if _read_python_version(env) == version:
                return
            _check_space(folder.root)
            say(f"creating it in {env}; this is done once and takes a few minutes")
            if env.exists():
                shutil.rmtree(env)
            env.mkdir(parents=True)
            env.chmod(0o755)
            _check_venv(python)
            make_venv("session", env, python, say)
            (env / MARKER).write_text(f"{version}\n")
    except OSError as error:
        raise SetupError(folder.explain_write_error(error)) from error
    say("ready")


def _read_python_version(env: Path) -> str | None:
    try:
        return (env / MARKER).read_text().strip()
    except OSError:
        return None


def _query_python_version(python: Sequence[str]) -> str:
    process = _run_python(python, _SAY_VERSION)
    if process.returncode:
        raise SetupError(
            f"The nodes' Python does not run: {' '.join(python)} ended with status "
            f"{process.returncode}: {process.stderr.strip()[-300:]}. Set `python` (and `command_prefix`) in "
            "the [slurm] section to an interpreter that every node has."
        )
    return process.stdout.strip()


def _check_version(settings: Settings, version: str) -> None:
    if tuple(map(int, version.split("."))) < OLDEST_FOR_SESSIONS:
        oldest = ".".join(map(str, OLDEST_FOR_SESSIONS))
        raise SetupError(
            f"Sessions need Python {oldest} or newer on the nodes; {settings.slurm.python} is "
            f"{version}. Install one and set `python` in the [slurm] section, or set "
            "AITNE_SESSION_ENV to an environment with JupyterLab and JupyterHub that every node sees."
        )


def _check_venv(python: Sequence[str]) -> None:
    # Behind a prefix the environment's own pip is used, which comes with ensurepip.
    needed = "import venv" if len(python) == 1 else "import venv, ensurepip"
    if _run_python(python, needed).returncode:
        raise SetupError(
            f"{' '.join(python)} cannot create virtual environments. On Debian and Ubuntu: "
            f"{' '.join([*python[:-1], 'apt-get install python3-venv'])}. Then try again."
        )


def _run_python(python: Sequence[str], program: str) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            [*python, "-I", "-c", program],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=ANSWER_WITHIN_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return subprocess.CompletedProcess([*python], 127, "", str(error))


def _check_space(root: Path) -> None:
    free = shutil.disk_usage(root).free
    if free < NEEDED_BYTES:
        raise SetupError(
            f"The session environment needs {describe_bytes(NEEDED_BYTES)} in {root}, where "
            f"{describe_bytes(free, 'down')} are free. Make room, or set another [slurm] software_dir."
        )
