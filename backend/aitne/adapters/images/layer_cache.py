"""Layers of which images consist, kept in a cache between builds.

``debian-<digest>`` is a root file system made by mmdebstrap, ``python-<digest>`` a virtual
environment that was made inside of it. The digest is that of the package lists, so images with the
same lists share a layer. A layer is used for 30 days; then it is made again to include Debian's
security fixes.
"""

from __future__ import annotations

import ast
import hashlib
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from aitne.adapters import apt_installation
from aitne.adapters.folder_creation_lock import lock_folder_creation
from aitne.adapters.images import build_definition, wheels
from aitne.adapters.images.image_build_log import Work
from aitne.adapters.images.recipes import SUITE, Recipe
from aitne.core.byte_size_format import describe_bytes
from aitne.core.errors import SetupError
from aitne.local_system.platform_folders import cache_dir

FORMAT = 1
"""Part of the digests. It is increased when a change of this module makes different layers from the
same lists.
"""
FRESH_S = 30 * 86_400
NEEDED_BYTES = {"debian": 1 << 30, "python": 4 << 30}
"""Free disk space in bytes that is required for making a layer, including its downloads."""
REPORT_EVERY_S = 10.0
CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
_LEFT_OUT = ("man", "doc", "info", "locale", "lintian")
"""Folders below /usr/share that are omitted because containers do not need them."""
_MADE = ".made"
_SCRATCH, _DOWNLOADS = "/tmp", "/mnt"  # noqa: S108 - in the image, which no other user can write to


@dataclass(frozen=True, slots=True)
class Layers:
    """Paths of the layers from which an image is built: Debian's packages and, optionally, Python
    packages.
    """

    debian: Path
    python: Path | None = None

    def folders(self) -> Iterator[tuple[str, Path]]:
        """Yield the name of each layer in the build definition, with the layer's folder."""
        yield build_definition.DEBIAN, self.debian
        if self.python is not None:
            yield build_definition.PYTHON, self.python


def get_cache_folder() -> Path:
    """Return the cache folder of layers, downloads and logs, all of which can be recreated."""
    return cache_dir() / "images"


def make_layer_names(recipe: Recipe) -> tuple[str, str | None]:
    """Return the names of the image's two layers in the cache; the second is None if the image has
    no Python packages.
    """
    base = f"debian-{_compute_digest(SUITE, platform.machine(), *recipe.debian)}"
    if recipe.python_prefix is None:
        return base, None
    wheel_ids = [f"{name}={wheels.compute_wheel_digest(name)}" for name in recipe.wheels]
    lists = (base, recipe.python_prefix, *recipe.python, recipe.constraints, *wheel_ids)
    return base, f"python-{_compute_digest(*lists)}"


def find_missing_layers(recipe: Recipe) -> tuple[str, ...]:
    """Return the kinds of the image's layers that are not in the cache: ``debian`` and ``python``,
    one of them, or none.
    """
    names = [name for name in make_layer_names(recipe) if name is not None]
    return tuple(
        name.partition("-")[0] for name in names if not _is_fresh(get_cache_folder() / name)
    )


def make_layers(recipe: Recipe, apptainer: str, work: Work) -> Layers:
    """Return the layers of an image. Layers that are not in the cache are made first; if another
    build is making the same layer, the call waits for it.

    Args:
        recipe: recipe of the image.
        apptainer: path of the program Apptainer, which runs pip in the image.
        work: the build, for progress and log.

    Raises:
        SetupError: a layer could not be made; the message names the log.
    """
    base_name, python_name = make_layer_names(recipe)
    base = get_cache_folder() / base_name
    with lock_folder_creation(
        base, lambda: work.report_step("Another build makes the Debian layer; waiting")
    ):
        if not _is_fresh(base):
            _check_space("debian")
            with _replace_folder(base, work) as partial:
                _make_debian(recipe, partial, work)
        os.utime(base)
    if python_name is None:
        return Layers(base / "root")
    python = get_cache_folder() / python_name
    with lock_folder_creation(
        python, lambda: work.report_step("Another build makes the Python layer; waiting")
    ):
        if not _is_fresh(python):
            _check_space("python")
            with _replace_folder(python, work) as partial:
                _make_python(recipe, base / "root", partial, apptainer, work)
        os.utime(python)
    return Layers(base / "root", python / "root")


def find_stale_folders() -> list[Path]:
    """Return the folders in the cache that can be deleted: layers that no build has used for 30
    days, and remains of failed builds that are older than 30 days.
    """
    stale_layers = []
    for path in sorted(get_cache_folder().glob("*-*")):
        if path.is_dir() and time.time() - path.stat().st_mtime > FRESH_S:
            stale_layers.append(path)
    return stale_layers


def _is_fresh(layer: Path) -> bool:
    try:
        return time.time() - (layer / _MADE).stat().st_mtime < FRESH_S
    except OSError:
        return False


@contextmanager
def _replace_folder(layer: Path, work: Work) -> Iterator[Path]:
    """Yield an empty folder, which replaces ``layer`` when the ``with`` block succeeds and is
    removed when it fails.

    The folder is always new, because processes of a killed build may still write to an existing
    one.
    """
    name = f"partial-{layer.name}"
    with work.convert_errors("Making room for a layer"):
        for remains in layer.parent.glob(f"{name}*"):
            shutil.rmtree(remains, ignore_errors=True)
        layer.parent.mkdir(parents=True, exist_ok=True)
        partial = Path(tempfile.mkdtemp(prefix=f"{name}.", dir=layer.parent))
        partial.chmod(0o755)
    try:
        yield partial
        (partial / _MADE).touch()
        remove_tree(layer)
        partial.rename(layer)
    except BaseException:
        with suppress(OSError):
            remove_tree(partial)
        raise


def remove_tree(folder: Path) -> None:
    """Remove a folder if it exists. Raises ``OSError``."""
    if folder.exists():
        shutil.rmtree(folder)


def _make_debian(recipe: Recipe, folder: Path, work: Work) -> None:
    apt_installation.install_missing(("mmdebstrap",), work.report_step, purpose="An image")
    work.report_step(f"Making the Debian layer of {len(recipe.debian)} packages and what they need")
    options = ["force-unsafe-io"]
    options += [f"path-exclude=/usr/share/{name}/*" for name in _LEFT_OUT]
    argv = [
        "mmdebstrap",
        "--quiet",
        "--mode=root",
        "--variant=essential",
        *(f"--aptopt={option}" for option in apt_installation.read_mirror_options()),
        *(f"--dpkgopt={option}" for option in options),
        f"--include={','.join(recipe.debian)}",
        SUITE,
        str(folder / "root"),
        apt_installation.read_mirror_url(),
    ]
    # With the caller's environment: that is where a proxy would be named.
    env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    work.run(argv, what="Making the Debian layer", env=env, timeout_s=1_800)
    with work.convert_errors("Cleaning the Debian layer"):
        _clean_root(folder / "root")


def _clean_root(root: Path) -> None:
    """Remove or reset files that depend on the building machine or are of no use in a container."""
    for name in ("dev", "run", "tmp", "var/tmp", "var/cache", "var/log", "var/lib/apt/lists"):
        for path in (root / name).iterdir() if (root / name).is_dir() else ():
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink()
    for name in ("apt/apt.conf.d/99mmdebstrap", "dpkg/dpkg.cfg.d/99mmdebstrap", "hostname"):
        (root / "etc" / name).unlink(missing_ok=True)
    for name, text in (
        ("apt/sources.list", ""),  # the machine's own mirror is of no use elsewhere
        ("resolv.conf", ""),
        ("machine-id", ""),
        ("hosts", "127.0.0.1 localhost\n::1 localhost\n"),
    ):
        path = root / "etc" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        path.write_text(text)
        path.chmod(0o644)


def _make_python(recipe: Recipe, root: Path, folder: Path, apptainer: str, work: Work) -> None:
    """Make the virtual environment with the image's own Python, at the path that it will have in
    the image.

    The Debian layer is read-only; the folder of the environment is mounted over it at that path.
    """
    if recipe.python_prefix is None:
        return
    venv, scratch, downloads = folder / "root", folder / "scratch", get_cache_folder() / "downloads"
    for path in (venv, scratch, downloads):
        path.mkdir(exist_ok=True)
    (scratch / "constraints.txt").write_text(recipe.constraints)
    settings = _pip_settings()
    binds = [f"{venv}:{recipe.python_prefix}", f"{scratch}:{_SCRATCH}", f"{downloads}:{_DOWNLOADS}"]
    binds += [f"{path}:{path}:ro" for path in _local_paths(settings.values())]
    inside = [apptainer, "--quiet", "exec", "--containall", "--no-home", "--no-privs"]
    inside += [word for bind in binds for word in ("--bind", bind)] + [str(root)]
    env = {
        # pip's settings may contain a password, so they are not passed as arguments.
        **{f"APPTAINERENV_{name}": value for name, value in settings.items()},
        "APPTAINERENV_PIP_CACHE_DIR": _DOWNLOADS,
        "APPTAINER_CONFIGDIR": str(scratch / "apptainer"),
        "HOME": str(scratch),
    }
    work.report_step(f"Making the Python layer of {len(recipe.python)} packages and what they need")
    made = [*inside, "/usr/bin/python3", "-m", "venv", recipe.python_prefix]
    work.run(made, what="Making the virtual environment (Debian's python3-venv)", env=env)
    if recipe.python:
        pip = [*inside, f"{recipe.python_prefix}/bin/python", "-m", "pip", "install"]
        pip += ["--no-input", "--progress-bar", "off", "--disable-pip-version-check"]
        # pip compiles what it installs: without the compiled files a session starts in twice the time.
        pip += ["--prefer-binary", "--constraint", f"{_SCRATCH}/constraints.txt", *recipe.python]
        work.run(
            pip, what="Installing the Python packages", env=env, watch=_Counter(work).count_line
        )
    if recipe.wheels:
        wheel_paths = [
            f"{_SCRATCH}/{wheels.write_wheel(name, scratch).name}" for name in recipe.wheels
        ]
        pip = [*inside, f"{recipe.python_prefix}/bin/python", "-m", "pip", "install"]
        pip += [
            "--no-input",
            "--no-index",
            "--no-deps",
            "--disable-pip-version-check",
            *wheel_paths,
        ]
        work.run(pip, what="Installing this machine's wheels", env=env)
    with work.convert_errors("Cleaning the Python layer"):
        remove_tree(scratch)


class _Counter:
    """Reporter that counts packages in pip's output and reports their number to the user every few
    seconds.
    """

    def __init__(self, work: Work) -> None:
        self._work = work
        self._seen = 0
        self._last = time.monotonic()

    def count_line(self, line: str) -> None:
        """Process one line of pip's output."""
        self._seen += line.startswith("Collecting ")
        if line.startswith("Installing collected packages"):
            self._last = float("inf")
            self._work.report_step(f"Installing {line.count(',') + 1} Python packages")
        elif time.monotonic() - self._last > REPORT_EVERY_S:
            self._last = time.monotonic()
            self._work.report_step(f"Checked {self._seen} Python packages")


def _pip_settings() -> dict[str, str]:
    """Return pip's settings on this machine (configuration files, ``PIP_*`` variables and proxies)
    as environment variables for pip in the image.
    """
    variables = {}
    listed = subprocess.run(
        [sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True, check=False
    )
    if listed.returncode == 0:
        variables = parse_pip_settings(listed.stdout)
    for name, value in os.environ.items():
        if name.startswith("PIP_") or name.lower() in ("http_proxy", "https_proxy", "no_proxy"):
            variables[name] = value
    if CERTIFICATES.exists():
        variables.setdefault("PIP_CERT", str(CERTIFICATES))
    return variables


def parse_pip_settings(listed: str) -> dict[str, str]:
    """Convert the output of ``pip config list`` to environment variables (such as
    ``PIP_INDEX_URL``).

    Settings of commands other than install are omitted, and so are the cache folder, the target
    folder and ``require-virtualenv``.
    """
    variables = {}
    for line in listed.splitlines():
        key, equals, value = line.partition("=")
        section, _, name = key.rpartition(".")
        if not equals or section not in ("global", "install", ":env:") or not name:
            continue
        try:
            text = ast.literal_eval(value)
        except (ValueError, SyntaxError):
            continue
        if isinstance(text, str) and name not in ("cache-dir", "require-virtualenv", "target"):
            # Several values are on separate lines in a file, and on one line in a variable.
            variables[f"PIP_{name.upper().replace('-', '_')}"] = " ".join(text.split())
    return variables


def _local_paths(values: Iterable[str]) -> list[Path]:
    """Return the local folders and files that pip's settings name, such as wheels, a package index
    or certificates.

    For a local index, its parent folder is returned, because the pages of the index link to files
    beside it.
    """
    paths = []
    for word in " ".join(values).split():
        path = Path(word.removeprefix("file://"))
        if path.is_absolute() and path.exists():
            paths.append(path.parent if word.startswith("file://") else path)
    unique = sorted(set(paths))
    return [path for path in unique if not any(other in path.parents for other in unique)]


def _check_space(kind: str) -> None:
    folder = get_cache_folder()
    folder.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(folder).free
    if free < NEEDED_BYTES[kind]:
        raise SetupError(
            f"An image's layers need {describe_bytes(NEEDED_BYTES[kind])} in {folder}, where "
            f"{describe_bytes(free, 'down')} are free. Free some space, or set XDG_CACHE_HOME to "
            "another disk."
        )


def _compute_digest(*parts: str) -> str:
    return hashlib.sha256(json.dumps([FORMAT, *parts]).encode()).hexdigest()[:12]
