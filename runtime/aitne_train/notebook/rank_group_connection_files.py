"""Connection files, with which a session's kernel and the ranks of a rank group find each other.

The files of a rank group are in the folder ``~/.aitne/ranks/<job id>``. All nodes and containers
share the home folder, and only its owner can read this folder. ``AITNE_RANKS_FOLDER`` selects
another folder. ``engine.json`` and ``client.json`` contain the addresses and keys for engines and
kernels, ``status.json`` the state of the group. All three are removed when the group ends.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import stat
import time
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, TypeVar

FOLDER = "AITNE_RANKS_FOLDER"
"""Environment variable: folder of the rank group to which this process belongs."""
SESSION = "AITNE_SESSION"
"""Environment variable with the id of the session to which a kernel or rank belongs."""
GROUP = "AITNE_RANK_GROUP"
"""Environment variable with the id of the job whose ranks a rank, or the notebook of a job, uses."""
ENDED = "AITNE_RANKS_ENDED"
"""Environment variable of what runs beside ranks: file that exists as soon as they have ended."""
ENGINE, CLIENT, STATUS = "engine.json", "client.json", "status.json"
_LOOK_S = 0.05
_MOST_BYTES = 4 << 20
_JSON_TYPES: Mapping[Any, tuple[type, ...]] = {
    "str": (str,),
    "int": (int,),
    "float": (int, float),
    "float | None": (int, float, type(None)),
    "tuple[int, ...]": (list,),
    "Mapping[str, str]": (dict,),
}
"""Types of a field's value in JSON, by the type of the field."""
T = TypeVar("T")


class ConnectionFilesError(Exception):
    """Error: the connection files of a rank group cannot be used; the message states the reason."""


@dataclass(frozen=True)
class Rank:
    """One rank of a group, as ``client.json`` describes it."""

    rank: int
    """Number of the rank."""
    node: str
    """Name of its node."""
    local_rank: int
    """Number of the rank on its node."""
    pid: int
    """Process ID on its node."""
    gpu: str = ""
    """Index and name of its GPU, such as ``0: NVIDIA H100``; empty if it has none."""
    started_at: float = 0.0
    """Unix time at which it started, in seconds."""
    python: str = ""
    """Version of Python, such as ``3.11.4``."""
    versions: Mapping[str, str] = field(default_factory=dict)
    """Versions of the installed packages that should be the same in kernel and ranks, by name."""


@dataclass(frozen=True)
class Status:
    """State of a rank group, as ``status.json`` describes it."""

    group: str
    """ID of the group, which is the ID of its job."""
    session: str
    """ID of the session to which the group belongs; empty: none."""
    state: str
    """``starting``, ``ready`` or ``ending``."""
    size: int
    """Number of ranks of the group."""
    registered: int
    """Number of ranks that have started."""
    busy: tuple[int, ...] = ()
    """Ranks that execute a request, in increasing order."""
    release_at: float | None = None
    """Unix time at which the group is released if no cell is executed until then; None: there is no
    limit, or the group is busy, starting or ending."""
    message: str = ""
    """Reason for the end of the group; empty while the group is not ending."""


def find_own_folder(environ: Mapping[str, str]) -> Path | None:
    """Return the folder of the rank group to which a process with these environment variables
    belongs; None if it belongs to none."""
    chosen, job = environ.get(FOLDER), environ.get("AITNE_JOB_ID")
    if chosen:
        return Path(chosen).expanduser()
    return locate_groups_folder() / job if job else None


def is_notebook_job(environ: Mapping[str, str]) -> bool:
    """Return whether a kernel with these environment variables runs a notebook as a job."""
    return bool(environ.get("AITNE_JOB_ID") and environ.get(FOLDER)) and not environ.get(SESSION)


def find_job_ranks(environ: Mapping[str, str]) -> tuple[Path, Path] | None:
    """Return the folder of the ranks of a job that runs a notebook, and the path of the file that
    is created when these ranks have ended. Return None if this process does not belong to such a
    job, or the job has no ranks."""
    folder, ended = environ.get(FOLDER), environ.get(ENDED)
    if not is_notebook_job(environ) or not environ.get(GROUP) or not folder or not ended:
        return None
    return Path(folder).expanduser(), Path(ended)


def locate_groups_folder() -> Path:
    """Return ``~/.aitne/ranks``, which contains one folder for each rank group of this user."""
    return Path.home() / ".aitne" / "ranks"


def create_folder(folder: Path) -> None:
    """Create the folder of a group, with access for its owner only. Connection files of an earlier
    attempt of the same job are removed.

    Raises:
        ConnectionFilesError: the folder cannot be created, or exists and belongs to another account
            or contains other files.
    """
    if folder.is_dir() and not all(_is_group_file(path.name) for path in folder.iterdir()):
        raise ConnectionFilesError(f"{folder} contains other files. Name a folder that is empty")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(exist_ok=True, mode=0o700)
        folder.chmod(0o700)
    except OSError as error:
        raise ConnectionFilesError(
            f"{folder} cannot be created: {error.strerror}. Make the home folder writable on the nodes"
        ) from error
    _check_access(folder)


def _is_group_file(name: str) -> bool:
    """Return whether ``name`` is a file name that rank groups use."""
    return name in (ENGINE, CLIENT, STATUS) or name.startswith(
        ("node-", "profile-", ".node-", ".engine.", ".client.", ".status.")
    )


def _check_access(folder: Path) -> None:
    """Raise ``ConnectionFilesError`` if other accounts can read or replace files in ``folder``."""
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o077:
        raise ConnectionFilesError(
            f"{folder} is not a folder that only this account can read. Remove it, and start the ranks again"
        )


def write_file(folder: Path, name: str, content: Mapping[str, Any]) -> None:
    """Write ``content`` as JSON to a file of a group. The file is replaced atomically, and only its
    owner can read it. Raises ``OSError``."""
    part = folder / f".{name}.{os.getpid()}"
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
        json.dump(content, stream)
    part.replace(folder / name)


def read_file(folder: Path, name: str) -> dict[str, Any]:
    """Return the content of a file of a group.

    Raises:
        FileNotFoundError: the file does not exist, because the group has not started or has ended.
        ConnectionFilesError: another account may have written the file, or it is damaged.
    """
    _check_access(folder)
    descriptor = os.open(folder / name, os.O_RDONLY | os.O_NOFOLLOW)
    with os.fdopen(descriptor, encoding="utf-8") as stream:
        text = stream.read(_MOST_BYTES)
    try:
        content = json.loads(text)
    except ValueError as error:
        raise ConnectionFilesError(f"{folder / name} is damaged: {error}") from error
    if not isinstance(content, dict):
        raise ConnectionFilesError(f"{folder / name} is damaged: it is not a JSON object")
    return content


def wait_for_file(folder: Path, name: str, timeout_s: float) -> dict[str, Any]:
    """Return the content of a file of a group as soon as it exists.

    Raises:
        ConnectionFilesError: it did not appear within ``timeout_s`` seconds.
    """
    give_up = time.monotonic() + timeout_s
    while True:
        # Listing a folder makes NFS look at the server again; opening a name alone may not.
        with contextlib.suppress(FileNotFoundError):
            if name in os.listdir(folder):
                return read_file(folder, name)
        if time.monotonic() >= give_up:
            raise ConnectionFilesError(
                f"{folder / name} did not appear within {timeout_s:.0f} s: the first node of the rank group has not "
                "started, or does not share the home folder"
            )
        time.sleep(_LOOK_S)


def remove_folder(folder: Path) -> None:
    """Remove the folder of a group that has ended. Errors are ignored."""
    shutil.rmtree(folder, ignore_errors=True)


def write_status(folder: Path, status: Status) -> None:
    """Write ``status.json``. Raises ``OSError``."""
    write_file(folder, STATUS, asdict(status))


def read_status(folder: Path) -> Status:
    """Return the state of a group.

    Raises:
        FileNotFoundError: the group has not started or has ended.
        ConnectionFilesError: the file is damaged.
    """
    try:
        return _build_record(Status, read_file(folder, STATUS))
    except ValueError as error:
        raise ConnectionFilesError(f"{folder / STATUS} is damaged: {error}") from error


def read_ranks(client: Mapping[str, Any]) -> list[Rank]:
    """Return the ranks in the content of ``client.json``, in increasing order.

    Raises:
        ConnectionFilesError: the content is damaged.
    """
    try:
        ranks = [_build_record(Rank, rank) for rank in client["ranks"]]
    except (KeyError, TypeError, ValueError) as error:
        raise ConnectionFilesError(f"{CLIENT} is damaged: {error}") from error
    return sorted(ranks, key=lambda rank: rank.rank)


def list_folders() -> Iterator[Path]:
    """Yield the folders of this user's rank groups: first the folder in ``AITNE_RANKS_FOLDER``, if
    it is set, then the folders in ``~/.aitne/ranks``. The latter are omitted if
    ``AITNE_RANKS_FOLDER`` is set outside a session."""
    chosen = os.environ.get(FOLDER)
    own = Path(chosen).expanduser() if chosen else None
    if own is not None:
        yield own
        if not os.environ.get(SESSION):
            return
    with contextlib.suppress(OSError):
        for path in sorted(locate_groups_folder().iterdir()):
            if path.is_dir() and path != own:
                yield path


def _build_record(kind: type[T], document: object) -> T:
    """Return the dataclass ``kind`` in the values of a JSON object. Fields that it does not have are
    those of another release, and ignored. Raises ``ValueError`` if a value is missing or of another
    type."""
    if not isinstance(document, dict):
        raise ValueError("it is not an object")
    values: dict[str, Any] = {}
    for each in fields(kind):  # type: ignore[arg-type]
        if each.name in document:
            value = document[each.name]
            if isinstance(value, bool) or not isinstance(value, _JSON_TYPES[each.type]):
                raise ValueError(f"{each.name} is {value!r}, not of the type {each.type}")
            values[each.name] = tuple(value) if isinstance(value, list) else value
        elif each.default is MISSING and each.default_factory is MISSING:
            raise ValueError(f"{each.name} is missing")
    return kind(**values)
