"""Environments besides the platform's own: JupyterHub, JupyterLab for sessions, and the proxy
(Node.js).

Each is created once per lock file and Python version below ``cache_dir()/envs`` and shared by all
platforms of this user. For a platform that root starts under an account of its own they are in
``SYSTEM_ENVS``, where every account can read them. A virtual environment cannot be moved, so it is
built in place: a lock admits one builder at a time, and the file ``.complete`` is written last; an
environment without it is created again. Packages that a job has changed since then are installed
again.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path

from aitne.adapters.folder_creation_lock import lock_folder_creation
from aitne.core.byte_size_format import describe_bytes
from aitne.core.errors import SetupError
from aitne.local_system.platform_folders import cache_dir
from aitne.supervisor import offline_bundle, uv_package_installation
from aitne.supervisor.environment_integrity import list_changed_packages
from aitne.supervisor.nodejs_lookup import find_nodejs

LOCKS = Path(__file__).parent / "envs"
NAMES = ("session", "hub", "proxy")
SYSTEM_ENVS = Path("/var/cache/aitne/envs")
NEEDED_BYTES = 2 * 1024**3
"""Free disk space in bytes that is required for the three environments, including the downloads."""
REPORT_EVERY_S = 3.0

Progress = Callable[[str], None]


def session_env_dir() -> Path:
    """Return the folder of the environment with JupyterLab.

    Notebooks, and jobs without an image, can also import numpy, scikit-learn and matplotlib from
    it.
    """
    return _env_dir("session")


def hub_env_dir(root: Path | None = None) -> Path:
    """Return the folder of the virtual environment with JupyterHub. ``root`` is the folder that
    contains the environments; None: this user's default folder.
    """
    return _env_dir("hub", root)


def proxy_command(root: Path | None = None) -> list[str]:
    """Return the command that starts the proxy, without its arguments. ``root`` is the folder that
    contains the environments; None: this user's default folder.

    Raises:
        SetupError: no sufficiently recent Node.js is installed.
    """
    script = (
        _env_dir("proxy", root) / "node_modules/configurable-http-proxy/bin/configurable-http-proxy"
    )
    return [str(find_nodejs().program), str(script)]


def is_complete(name: str, root: Path | None = None) -> bool:
    """Return True if the environment is complete and its program can be executed."""
    folder = _env_dir(name, root)
    if os.environ.get(_get_override_name(name)):
        return folder.is_dir()
    probe = folder / ("node_modules" if name == "proxy" else "bin/python")
    return (folder / ".complete").exists() and os.access(probe, os.X_OK)


def ensure_environments(
    progress: Progress, names: Sequence[str] = NAMES, root: Path | None = None
) -> None:
    """Create the missing environments in parallel, and install changed packages of the others again;
    ``progress`` is called with one line per step. ``root`` is the folder that contains the environments; None: this user's default folder.

    Raises:
        SetupError: an environment could not be created; the message ends with the output of pip or
            npm.
    """
    missing = [name for name in names if not is_complete(name, root)]
    for name in names:
        if name not in (*missing, "proxy") and not os.environ.get(_get_override_name(name)):
            folder = _env_dir(name, root)
            repair_venv(name, folder, [sys.executable], progress)
    if not missing:
        return
    for name in missing:
        if os.environ.get(_get_override_name(name)):
            raise SetupError(
                f"{_get_override_name(name)} names {_env_dir(name, root)}, which is not a folder. "
                "Correct the variable, or unset it to have the environment created."
            )
    folder = _get_env_root(root)
    _check_space(folder)
    progress(
        f"Creating the {_format_names(missing)} environment{'s' if len(missing) > 1 else ''} in "
        f"{folder}; this is done once and takes a few minutes."
    )
    progress(f"Packages come from {_describe_sources(missing)}.")
    with ThreadPoolExecutor(len(missing)) as pool:
        for result in [pool.submit(_ensure_environment, name, root, progress) for name in missing]:
            result.result()


def _ensure_environment(name: str, root: Path | None, progress: Progress) -> None:
    began = time.monotonic()

    def say(step: str) -> None:
        progress(f"{name} environment: {step} ({time.monotonic() - began:.0f} s)")

    folder = _env_dir(name, root)
    with lock_folder_creation(folder, lambda: say("another process creates it; waiting")):
        if is_complete(name, root):
            return
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        if name == "proxy":
            say("installing")
            install_proxy(folder)
        else:
            make_venv(name, folder, [sys.executable], say)
        (folder / ".complete").touch()
    say("ready")


def make_venv(name: str, folder: Path, python: Sequence[str], say: Progress) -> None:
    """Create the virtual environment ``name`` in ``folder`` and install the packages in its lock
    file.

    ``python`` is the command of the interpreter; it may run the interpreter in another root file
    system.

    Raises:
        SetupError: the environment could not be created; the message ends with the output of pip.
    """
    lock = LOCKS / f"{name}.txt"
    total = len(lock.read_text().split())
    say("creating")
    own_pip = _can_use_own_pip(python)
    without_pip = ["--without-pip"] if own_pip else []
    _run_install_command(
        name, [*python, "-m", "venv", *without_pip, str(folder)], lambda line: None
    )
    # Another root file system does not have the lock file.
    packages = ["-r", str(lock)] if len(python) == 1 else lock.read_text().split()
    if own_pip and _install_with_uv(
        name, folder, packages, lambda: say(f"installing {total} packages"), say
    ):
        return
    collected = 0
    last = time.monotonic()

    def watch(line: str) -> None:
        nonlocal collected, last
        collected += line.startswith(("Collecting ", "Processing "))  # the second: files
        if line.startswith("Installing collected packages"):
            say(f"installing {total} packages")
        elif time.monotonic() - last > REPORT_EVERY_S:
            last = time.monotonic()
            say(f"fetching, {min(collected, total)} of {total} packages")

    _run_install_command(name, _make_pip_command(python, folder, packages), watch)


def repair_venv(name: str, folder: Path, python: Sequence[str], say: Progress) -> bool:
    """Install the packages again that were changed in the virtual environment ``name`` in
    ``folder`` since it was created with the interpreter ``python``; the others, and packages that
    its lock file does not name, stay. Return False, after a line with the reason, if they cannot be
    installed: a platform without a way to a package index starts with what still works.
    """
    lock = LOCKS / f"{name}.txt"
    if not list_changed_packages(folder, lock):
        return True
    try:
        with lock_folder_creation(folder, lambda: say("another process repairs it; waiting")):
            _install_changed(name, folder, python, say)
    except (SetupError, OSError) as error:
        say(
            f"{error} What needs these packages may fail; `aitne admin doctor` names the command that "
            "installs them."
        )
        return False
    return True


def _install_changed(name: str, folder: Path, python: Sequence[str], say: Progress) -> None:
    lines = list_changed_packages(folder, LOCKS / f"{name}.txt")
    if not lines:
        return
    say(
        f"The {name} environment in {folder} was changed since it was created; these packages are "
        f"installed again: {', '.join(lines)}. Packages of your own belong in an environment of your "
        "own: `python3 -m venv FOLDER`, and `environment.venv` in the job file."
    )
    packages = ["--no-deps", "--force-reinstall", *lines]
    if not _can_use_own_pip(python) or not _install_with_uv(
        name, folder, packages, lambda: None, say
    ):
        _run_install_command(name, _make_pip_command(python, folder, packages), lambda line: None)


def repair_command(folder: Path, lines: Sequence[str]) -> str:
    """Return the command that installs packages of a virtual environment on this machine again."""
    packages = ["--no-deps", "--force-reinstall", *lines]
    return shlex.join(_make_pip_command([sys.executable], folder, packages))


def _can_use_own_pip(python: Sequence[str]) -> bool:
    """Return whether the platform's own pip installs packages for the interpreter: it serves any
    that runs here, also one without pip.
    """
    return find_spec("pip") is not None and len(python) == 1


def _make_pip_command(python: Sequence[str], folder: Path, packages: Sequence[str]) -> list[str]:
    """Return the command with which pip installs packages in the virtual environment."""
    made = str(folder / "bin/python")
    own = [sys.executable, "-m", "pip", "--python", made]
    pip = own if _can_use_own_pip(python) else [*python[:-1], made, "-m", "pip"]
    # pip compiles what it installs: without the compiled files a session starts in twice the time.
    options = ["--disable-pip-version-check", "--no-input", "--progress-bar", "off"]
    return [*pip, "install", *options, "--prefer-binary", *packages]


def _install_with_uv(
    name: str,
    folder: Path,
    packages: Sequence[str],
    report_start: Callable[[], None],
    say: Progress,
) -> bool:
    """Install packages with uv; return False if that failed and pip should be used. ``report_start`` is
    called before uv starts.
    """
    prepared = uv_package_installation.make_install_command(
        str(folder / "bin/python"), packages, compiled=True
    )
    if prepared is None:
        return False
    argv, environ = prepared
    report_start()
    try:
        _run_install_command(name, argv, lambda line: None, environ=environ)
    except SetupError:
        # pip may succeed, and its messages about the same problem are better known.
        say("uv has failed; trying pip")
        return False
    return True


def install_proxy(folder: Path) -> None:
    """Install the packages of the proxy in ``folder``, which may exist. Raises ``SetupError``."""
    packed = offline_bundle.find_proxy_packages()
    if packed is not None:
        shutil.copytree(packed, folder, dirs_exist_ok=True)
        return
    folder.mkdir(exist_ok=True)
    for file in ("package.json", "package-lock.json"):
        shutil.copy(LOCKS / "proxy" / file, folder)
    options = ["--no-audit", "--no-fund", "--ignore-scripts", "--omit=dev"]
    argv = find_nodejs().npm_argv(["ci", "--prefix", str(folder), *options])
    _run_install_command("proxy", argv, lambda line: None, cwd=folder)


def _run_install_command(
    name: str,
    argv: Sequence[str],
    watch: Progress,
    cwd: Path | None = None,
    environ: Mapping[str, str] | None = None,
) -> None:
    tail: deque[str] = deque(maxlen=12)
    with subprocess.Popen(
        argv,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        cwd=cwd,
        env=environ,
        umask=0o022,
    ) as process:
        assert process.stdout is not None  # noqa: S101 (a pipe was requested)
        for line in process.stdout:
            watch(line.rstrip())
            if line.strip() and not line.startswith("WARNING"):
                tail.append(line.rstrip())
    if process.returncode:
        raise SetupError(
            f"The packages of the {name} environment could not be installed: "
            f"{Path(argv[0]).name} {' '.join(argv[1:3])} ended with status {process.returncode}. "
            "Its output:\n  " + "\n  ".join(tail) + "\nCheck that this machine reaches its package "
            "indexes (pip and npm settings) and that the disk is not full, then try again; "
            f"or set {_get_override_name(name)} to an environment with the packages of "
            f"{LOCKS / (name if name == 'proxy' else name + '.txt')}."
        )


def _describe_sources(names: Sequence[str]) -> str:
    """Return a description of the places from which the packages of these environments are
    downloaded.
    """
    packed = offline_bundle.find_proxy_packages()
    if packed is not None:
        return f"the bundle {packed.parent}"
    sources = uv_package_installation.list_package_indexes() if set(names) - {"proxy"} else []
    if "proxy" in names:
        argv = find_nodejs().npm_argv(["config", "get", "registry"])
        answer = subprocess.run(argv, capture_output=True, text=True, check=False)
        sources.append(answer.stdout.strip() or "the registry of npm")
    return _format_names([uv_package_installation.without_password(source) for source in sources])


def _check_space(root: Path) -> None:
    try:
        root.mkdir(parents=True, exist_ok=True)
        free = shutil.disk_usage(root).free
    except OSError as error:
        raise SetupError(
            f"{root} cannot be created: {error.strerror}. Set XDG_CACHE_HOME to a folder "
            "that you may write to."
        ) from error
    if free < NEEDED_BYTES:
        raise SetupError(
            f"The environments need {describe_bytes(NEEDED_BYTES)} in {root}, where "
            f"{describe_bytes(free, 'down')} are free. Make room, or set XDG_CACHE_HOME to another disk."
        )


def _get_env_root(root: Path | None) -> Path:
    return root or cache_dir() / "envs"


def _get_override_name(name: str) -> str:
    return f"AITNE_{name.upper()}_ENV"


def _env_dir(name: str, root: Path | None = None) -> Path:
    override = os.environ.get(_get_override_name(name))
    if override:
        return Path(override).expanduser().absolute()
    digest = hashlib.sha256(f"{os.uname().machine}\n".encode())
    if name == "proxy":
        digest.update((LOCKS / "proxy" / "package-lock.json").read_bytes())
    else:
        digest.update(f"{sys.version_info[:2]}\n".encode() + (LOCKS / f"{name}.txt").read_bytes())
    return _get_env_root(root) / f"{name}-{digest.hexdigest()[:12]}"


def _format_names(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
