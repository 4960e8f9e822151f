"""Snapshot of the software that a job uses: commit and changes of its folder, Python packages,
node. It is taken while the job runs, with limits of time and size; nothing here can delay or fail
the job."""

from __future__ import annotations

import contextlib
import glob
import json
import os
import re
import threading
import time

from aitne.agent.program_supervisor import Programs
from aitne.agent.reporter import Reporter
from aitne.agent.spec import Spec

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing costs as much time as the agent's own code
    from collections.abc import Iterator
    from typing import Any

MOST_BYTES = 600 << 10
"""Maximum size of the snapshot in bytes; the platform accepts slightly more."""
MOST_DIFF = 256 << 10
MOST_NAMES = 1_000
MOST_PACKAGES = 5_000
_GIT_S = 10.0
"""Time limit of each git command in seconds. The job does not wait for it."""
_COUNTED = 64 << 20
"""Number of bytes up to which the length of a diff is counted."""
_GIT_ENV = {"GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}
_QUIET = ("-c", "core.fsmonitor=false", "-c", "core.quotePath=false")
"""Options of git that prevent it from starting programs that a repository configures."""


class SnapshotTaker:
    """Thread that takes one snapshot of the job's code and environment, and reports it."""

    def __init__(self, spec: Spec, programs: Programs, reporter: Reporter, workdir: str) -> None:
        self._spec = spec
        self._workdir = workdir
        self._programs = programs
        self._reporter = reporter
        self._thread = threading.Thread(target=self._queue_snapshot, name="snapshot", daemon=True)

    def start(self) -> None:
        """Start the thread that takes the snapshot."""
        self._thread.start()

    def wait(self, timeout_s: float) -> None:
        """Wait until the snapshot is taken, at most ``timeout_s`` seconds."""
        self._thread.join(timeout_s)

    def _queue_snapshot(self) -> None:
        self._reporter.queue_document(
            "snapshot", take_snapshot(self._spec, self._programs, self._workdir)
        )


def take_snapshot(spec: Spec, programs: Programs, workdir: str) -> dict[str, Any]:
    """Return the snapshot of the code in ``workdir``, the packages and the node, in the format of
    ``core.models.job_snapshot.Taken``."""
    notes: list[str] = []
    document: dict[str, Any] = {
        "schema": 1,
        "taken_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "workdir": _replace_invalid_bytes(workdir),
        "host": describe_node_system(spec.node),
        "notes": notes,
    }
    with contextlib.suppress(OSError):
        document["environment"] = list_packages(spec)
    try:
        if spec.tree is None or spec.tree.digest is None:  # a tree is no working copy of git
            document["git"] = Git(programs, notes).state(workdir)
    except FileNotFoundError:
        notes.append(f"git is not installed on node {spec.node}, so the commit is not known")
    except OSError as error:
        notes.append(f"git cannot be started: {error.strerror}")
    return _shorten_snapshot(document)


def _shorten_snapshot(document: dict[str, Any]) -> dict[str, Any]:
    """Shorten the diff, the lists of names and the packages until the snapshot has at most
    ``MOST_BYTES``."""
    while len(json.dumps(document)) > MOST_BYTES:
        git, packages = document.get("git"), document.get("environment")
        if git and len(git["diff"]) > 1_000:
            git["diff"], git["diff_cut"] = (
                _drop_partial_line(git["diff"][: len(git["diff"]) // 2]),
                True,
            )
        elif git and git["untracked"]:
            git["untracked"], git["untracked_cut"] = (
                git["untracked"][: -(len(git["untracked"]) // 2 + 1)],
                True,
            )
        elif packages and packages.get("packages"):
            names = sorted(packages["packages"])[: len(packages["packages"]) // 2]
            packages["packages"] = {name: packages["packages"][name] for name in names}
            packages["cut"] = True
        else:
            break
    return document


# --- git -------------------------------------------------------------------------------------------


class Git:
    """Git queries about a folder, with limits of time and output."""

    def __init__(self, programs: Programs, notes: list[str]) -> None:
        self._programs = programs
        self._notes = notes
        self._late = False

    def state(self, folder: str) -> dict[str, Any] | None:
        """Return commit and changes of the working tree that contains the folder; None if it is in
        none.

        Raises ``OSError`` if git cannot be started.
        """
        if not _is_below_git(folder):
            return None
        root = self._query_line(folder, "rev-parse", "--show-toplevel")
        if not root:
            if not self._late:
                self._notes.append(
                    "git does not answer for this folder: does it belong to another user?"
                )
            return None
        commit = self._query_line(root, "rev-parse", "--verify", "--quiet", "HEAD")
        has_commit = bool(re.fullmatch(r"[0-9a-f]{40,64}", commit))
        state: dict[str, Any] = {
            "root": _replace_invalid_bytes(root),
            "commit": commit if has_commit else None,
            "branch": _replace_invalid_bytes(
                self._query_line(root, "symbolic-ref", "--quiet", "--short", "HEAD")
            )[:300]
            or None,
            "remote": self._get_remote_url(root),
        }
        state.update(self._read_changes(root) if has_commit else {"diff": ""})
        state.update(self._list_untracked_files(root))
        return state

    def _read_changes(self, root: str) -> dict[str, Any]:
        options = ("--no-ext-diff", "--no-textconv", "--no-color", "--no-renames")
        prefixes = ("--src-prefix=a/", "--dst-prefix=b/")
        data, length = self._run_git(root, "diff", *options, *prefixes, "HEAD", max_bytes=MOST_DIFF)
        text = data.decode("utf-8", "replace")
        cut = length > len(data)
        return {
            "dirty": length > 0,
            "diff": _drop_partial_line(text) if cut else text[:MOST_DIFF],
            "diff_bytes": length,
            "diff_cut": cut,
        }

    def _list_untracked_files(self, root: str) -> dict[str, Any]:
        data, length = self._run_git(
            root, "ls-files", "--others", "--exclude-standard", "-z", max_bytes=MOST_DIFF
        )
        names = data.split(b"\0")[:-1]
        return {
            "untracked": [_replace_invalid_bytes(os.fsdecode(name)) for name in names[:MOST_NAMES]],
            "untracked_cut": length > len(data) or len(names) > MOST_NAMES,
        }

    def _get_remote_url(self, root: str) -> str | None:
        remotes = (
            self._run_git(root, "remote", max_bytes=4_096)[0].decode("utf-8", "replace").split()
        )
        if not remotes:
            return None
        name = "origin" if "origin" in remotes else remotes[0]
        url = self._query_line(root, "config", "--get", f"remote.{name}.url")
        return without_secrets(_replace_invalid_bytes(url))[:2_000] or None

    def _query_line(self, folder: str, *question: str) -> str:
        output, _ = self._run_git(folder, *question, max_bytes=8_192)
        return os.fsdecode(output).strip("\n")

    def _run_git(self, folder: str, *question: str, max_bytes: int) -> tuple[bytes, int]:
        if self._late:
            return b"", 0
        output, length, whole = self._programs.run_helper(
            ["git", "-C", folder, *_QUIET, *question],
            {**os.environ, **_GIT_ENV},
            timeout_s=_GIT_S,
            most_bytes=max_bytes,
            counted_bytes=_COUNTED,
        )
        if not whole:
            self._late = True
            self._notes.append(f"git took longer than {_GIT_S:.0f} s for `git {question[0]}`")
        return output, length


def without_secrets(url: str) -> str:
    """Return the URL of a remote repository without user, password and query."""
    scheme, mark, rest = url.partition("://")
    if not mark:
        user, at, host = url.partition("@")
        return host if at and ":" in user else url
    authority, slash, path = rest.partition("/")
    path = re.split(r"[?#]", path, maxsplit=1)[0]
    return f"{scheme}://{authority.rpartition('@')[2]}{slash}{path}"


def _is_below_git(folder: str) -> bool:
    while True:
        if os.path.exists(os.path.join(folder, ".git")):
            return True
        above = os.path.dirname(folder)
        if above == folder:
            return False
        folder = above


# --- packages --------------------------------------------------------------------------------------


def list_packages(spec: Spec) -> dict[str, Any] | None:
    """Return the Python packages that the job's programs can import; None if they are unknown. They
    are read from metadata files, without starting a program."""
    if spec.launch.prefix:
        return {"kind": "image"}  # its digest identifies the packages
    if spec.conda is not None:
        kind, prefix = "conda", _find_conda_environment(spec.conda)
    elif spec.venv is not None:
        kind, prefix = "venv", os.path.expanduser(spec.venv)
    else:
        kind, prefix = _find_environment()
    if prefix is None or not os.path.isdir(prefix):
        return None
    folders = _list_package_folders(prefix, system=kind == "system")
    packages: dict[str, str] = {}
    for folder in folders:
        for name, version in _list_folder_packages(folder):
            packages.setdefault(name, version)
    for record in glob.glob(f"{glob.escape(prefix)}/conda-meta/*.json"):
        name, dash, version = (
            os.path.basename(record)[: -len(".json")].rpartition("-")[0].rpartition("-")
        )
        if dash:
            packages.setdefault(name, version)
    names = sorted(packages)
    return {
        "kind": kind,
        "path": _replace_invalid_bytes(prefix),
        "python": _find_python_version(prefix, folders),
        "packages": {
            _replace_invalid_bytes(name): _replace_invalid_bytes(packages[name])
            for name in names[:MOST_PACKAGES]
        },
        "cut": len(names) > MOST_PACKAGES,
    }


def _find_environment() -> tuple[str, str | None]:
    """Return kind and folder of the Python environment that is active: venv, conda, or the node's
    own Python."""
    for name, kind in (("VIRTUAL_ENV", "venv"), ("CONDA_PREFIX", "conda")):
        if os.environ.get(name):
            return kind, os.environ[name]
    for folder in (os.environ.get("PATH") or os.defpath).split(os.pathsep):
        for name in ("python3", "python"):
            program = os.path.join(folder, name)
            if os.access(program, os.X_OK) and os.path.isfile(program):
                prefix = os.path.dirname(os.path.abspath(folder))
                if os.path.exists(f"{prefix}/pyvenv.cfg"):
                    return "venv", prefix
                return "system", os.path.dirname(os.path.dirname(os.path.realpath(program)))
    return "system", None


def _find_conda_environment(name: str) -> str | None:
    """Return the folder of the conda environment with this name or path; None if there is none."""
    if "/" in name:
        return os.path.expanduser(name)
    home = os.path.expanduser("~")
    bases = [os.path.dirname(os.path.dirname(os.environ.get("CONDA_EXE", "")))]
    for place in (home, "/opt", "/usr/local"):
        bases += [
            f"{place}/{folder}"
            for folder in ("miniconda3", "miniforge3", "mambaforge", "anaconda3", "conda")
        ]
    places = [base if name == "base" else f"{base}/envs/{name}" for base in bases if base]
    with (
        contextlib.suppress(OSError),
        open(f"{home}/.conda/environments.txt", encoding="utf-8", errors="replace") as file,
    ):
        places += [line.strip() for line in file if os.path.basename(line.strip()) == name]
    return next((place for place in places if os.path.isdir(f"{place}/conda-meta")), None)


def _list_package_folders(prefix: str, *, system: bool) -> list[str]:
    below = glob.escape(prefix)
    folders = glob.glob(f"{below}/lib*/python3*/site-packages")
    if system:
        home = glob.escape(os.path.expanduser("~"))
        folders += glob.glob(f"{home}/.local/lib/python3*/site-packages")
        folders += glob.glob("/usr/local/lib/python3*/dist-packages")
        folders += glob.glob(f"{below}/lib/python3*/dist-packages")
    return [
        folder for folder in dict.fromkeys(map(os.path.realpath, folders)) if os.path.isdir(folder)
    ]


def _list_folder_packages(folder: str) -> Iterator[tuple[str, str]]:
    for entry in os.listdir(folder):
        stem, dot, kind = entry.rpartition(".")
        if dot and kind in ("dist-info", "egg-info"):
            name, dash, version = stem.partition("-")
            if dash and name:
                yield re.sub(r"[-_.]+", "-", name).lower(), version.split("-py")[0]


def _find_python_version(prefix: str, folders: list[str]) -> str | None:
    path = f"{prefix}/pyvenv.cfg"
    with contextlib.suppress(OSError), open(path, encoding="utf-8", errors="replace") as config:
        for line in config:
            name, _, value = line.partition("=")
            if name.strip() in ("version", "version_info"):
                return _replace_invalid_bytes(value.strip())[:40]
    for folder in folders:
        name = os.path.basename(os.path.dirname(folder))
        if re.fullmatch(r"python3\.[0-9]+", name):
            return name[len("python") :]
    return None


# --- the node --------------------------------------------------------------------------------------


def describe_node_system(node: str) -> dict[str, str]:
    """Return a description of the node: system, kernel, CPU and GPU driver."""
    system = _find_match("/etc/os-release", r'^PRETTY_NAME="?([^"\n]*)')
    facts = {
        "node": node,
        "system": system or os.uname().sysname,
        "kernel": os.uname().release,
        "cpu": _find_match("/proc/cpuinfo", r"^model name\s*:\s*(.*)$"),
        "gpu_driver": _find_match(
            "/proc/driver/nvidia/version", r"Kernel Module\s+(?:for \S+\s+)?([0-9.]+)"
        )
        or _find_match("/sys/module/amdgpu/version", r"^(\S+)"),
    }
    return {name: _replace_invalid_bytes(value)[:300] for name, value in facts.items() if value}


def _find_match(path: str, pattern: str) -> str | None:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            match = re.search(pattern, file.read(65_536), re.MULTILINE)
    except OSError:
        return None
    return match[1].strip() if match else None


def _drop_partial_line(text: str) -> str:
    """Return the text up to the end of its last complete line."""
    return text[: text.rfind("\n") + 1] or text


def _replace_invalid_bytes(text: str) -> str:
    """Return a file name as text in which bytes that are not UTF-8 are replaced."""
    return text.encode("utf-8", "replace").decode()
