"""A control group of the job's own, below or beside the agent's: what nobody else holds, it does.

Version 2 where the agent's place is delegated to its account, else version 1. The program enters by
itself, before it becomes the user's (``ENTER``); the agent stays outside and sees what happens.
"""

from __future__ import annotations

import os
import signal
import time

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing costs as much time as the agent's own code
    from collections.abc import Iterator

MEMORY, CPU = "memory", "cpu"
ENTER = (
    'while [ "$1" != -- ]; do echo $$ > "$1" || exit 120; shift; done; shift; exec "$@"',
    "aitne-enter",
)
"""For ``/bin/sh -c``: the ``cgroup.procs`` to enter, ``--``, and the program."""

_NAME = "aitne-agent-"
_OWN = "aitne-platform"
"""Of version 2: where a service puts its own processes, for a group with children may hold none."""
_PERIOD_US = 100_000
_STALE_S = 60.0
"""A group without processes, of an agent that is gone, is removed after so long."""
_EMPTY_WITHIN_S = 2.0


class Cgroup:
    """One folder for version 2, one for each controller for version 1."""

    def __init__(self, folders: dict[str, str], unified: bool, home: dict[str, str]) -> None:
        self._folders = folders
        self._unified = unified
        self._home = home

    @property
    def holds(self) -> set[str]:
        """``memory``, ``cpu``."""
        return set(self._folders)

    def enter(self) -> list[str]:
        """What comes before the program's argument vector."""
        files = sorted({f"{folder}/cgroup.procs" for folder in self._folders.values()})
        return ["/bin/sh", "-c", *ENTER, *files, "--"]

    def oom_kills(self) -> int:
        """How many processes in it were ended because its memory was used up."""
        folder = self._folders.get(MEMORY)
        if folder is None:
            return 0
        name = "memory.events" if self._unified else "memory.oom_control"
        for line in _read(f"{folder}/{name}").splitlines():
            key, _, number = line.partition(" ")
            if key == "oom_kill":
                return int(number)
        return 0

    @property
    def empty(self) -> bool:
        """Whether every process in it has ended."""
        return not self._pids()

    def kill(self) -> None:
        """End everything in it, at once."""
        for pid in self._pids():
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                continue  # it has ended by itself

    def remove(self) -> None:
        """Let what is left in it (the scheduler ends that) into the agent's own, and remove it."""
        deadline = time.monotonic() + _EMPTY_WITHIN_S
        for controller, folder in set(self._folders.items()):
            while os.path.isdir(folder):
                for pid in _pids_in(folder):
                    _write(f"{self._home[controller]}/cgroup.procs", str(pid))
                try:
                    os.rmdir(folder)
                except OSError:
                    if time.monotonic() > deadline:
                        return  # somebody in it cannot be moved: the next agent sweeps
                    time.sleep(0.01)

    def _pids(self) -> set[int]:
        return {pid for folder in self._folders.values() for pid in _pids_in(folder)}


def make(memory_bytes: int | None, cpus: int | None) -> Cgroup | None:
    """A group with these limits, as far as this node lets its processes have one; None: it does not."""
    wanted: dict[str, list[tuple[str, str]]] = {}
    unified = _unified_base()
    if memory_bytes is not None:
        wanted[MEMORY] = _memory_settings(memory_bytes, unified is not None)
    if cpus is not None:
        wanted[CPU] = _cpu_settings(cpus, unified is not None)
    name = f"{_NAME}{os.getpid()}-{os.urandom(4).hex()}"
    if unified is not None:
        above, home, enabled = unified
        folders = _make_in(dict.fromkeys(enabled, above), wanted, name)
        return Cgroup(folders, True, dict.fromkeys(folders, home)) if folders else None
    bases = {each: base for each in wanted if (base := _v1_base(each)) is not None}
    folders = _make_in(bases, wanted, name)
    return Cgroup(folders, False, bases) if folders else None


def _memory_settings(limit: int, unified: bool) -> list[tuple[str, str]]:
    """The first must hold; the others are where the kernel has them."""
    if unified:
        return [
            ("memory.max", str(limit)),
            ("memory.swap.max", "0"),
            # All of it ends, as a scheduler would end it: half a program only hangs.
            ("memory.oom.group", "1"),
        ]
    return [
        ("memory.limit_in_bytes", str(limit)),
        ("memory.memsw.limit_in_bytes", str(limit)),
    ]


def _cpu_settings(cpus: int, unified: bool) -> list[tuple[str, str]]:
    quota = cpus * _PERIOD_US
    if unified:
        return [("cpu.max", f"{quota} {_PERIOD_US}")]
    return [("cpu.cfs_quota_us", str(quota))]


def _make_in(
    bases: dict[str, str], wanted: dict[str, list[tuple[str, str]]], name: str
) -> dict[str, str]:
    """The folder of each controller whose limit could be set."""
    made: dict[str, str] = {}
    for controller, settings in wanted.items():
        if controller not in bases:
            continue
        folder = os.path.join(bases[controller], name)
        _sweep(bases[controller])
        try:
            os.mkdir(folder)
        except FileExistsError:
            pass  # of version 2: one folder for both
        except OSError:
            continue
        if _write(f"{folder}/{settings[0][0]}", settings[0][1]):
            made[controller] = folder
            for file, value in settings[1:]:
                _write(f"{folder}/{file}", value)
        elif folder not in made.values():
            _remove_empty(folder)
    return made


def _sweep(base: str) -> None:
    """Remove what agents left that were killed."""
    for name in _listed(base):
        owner = name[len(_NAME) :].partition("-")[0]
        if name.startswith(_NAME) and owner.isdecimal() and not os.path.exists(f"/proc/{owner}"):
            folder = os.path.join(base, name)
            try:
                old = time.time() - os.stat(folder).st_mtime > _STALE_S
            except OSError:
                continue
            if old:
                _remove_empty(folder)


# --- where -----------------------------------------------------------------------------------------


def _v1_base(controller: str) -> str | None:
    """The agent's own group of a version 1 controller, where it may make others."""
    for line in _read("/proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if controller in controllers.split(","):
            for kind, options, root, point in _mounts():
                if kind == "cgroup" and controller in options.split(","):
                    return _below(point, root, path)
    return None


def _unified_base() -> tuple[str, str, list[str]] | None:
    """Of version 2: where a group can be made, the agent's own, and the controllers it would have."""
    own = _own_unified()
    if own is None:
        return None
    parent = os.path.dirname(own)
    for base in (own, parent) if _delegated(parent) else (own,):
        present = _read(f"{base}/cgroup.controllers").split()
        names = [name for name in (MEMORY, CPU) if name in present]
        if not names or not os.access(base, os.W_OK):
            continue
        _write(f"{base}/cgroup.subtree_control", " ".join(f"+{name}" for name in names))
        enabled = _read(f"{base}/cgroup.subtree_control").split()
        if found := [name for name in names if name in enabled]:
            return base, own, found
    return None


def _own_unified() -> str | None:
    for line in _read("/proc/self/cgroup").splitlines():
        if line.startswith("0::"):
            for kind, _, root, point in _mounts():
                if kind == "cgroup2":
                    return _below(point, root, line[3:])
    return None


def _delegated(folder: str) -> bool:
    """Whether systemd left this part of the tree to its unit (``Delegate=``)."""
    for name in ("user.delegate", "trusted.delegate"):
        try:
            if os.getxattr(folder, name) == b"1":
                return True
        except OSError:
            continue
    return False


def settle() -> None:
    """Of version 2, in a service of one's own: let its processes make room for groups of jobs."""
    own = _own_unified()
    if own is None or not _delegated(own) or _unified_base() is not None:
        return
    place = os.path.join(own, _OWN)
    try:
        os.makedirs(place, exist_ok=True)
    except OSError:
        return
    for pid in _pids_in(own):
        _write(f"{place}/cgroup.procs", str(pid))


def own_groups(pid: int) -> list[str]:
    """The folders of the groups that an agent has made and that the process is in."""
    found = set()
    for line in _read(f"/proc/{pid}/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if not os.path.basename(path).startswith(_NAME):
            continue
        wanted = controllers.split(",")[0]
        for kind, options, root, point in _mounts():
            fits = wanted in options.split(",") if wanted else True
            if kind == ("cgroup" if wanted else "cgroup2") and fits:
                folder = _below(point, root, path)
                if folder is not None:
                    found.add(folder)
    return sorted(found)


def probe() -> list[str]:
    """What the agents of this account could hold here: makes a group, and removes it.

    The local scheduler asks once, as it starts.
    """
    settle()
    found = make(1 << 40, 1)
    if found is None:
        return []
    names = sorted(found.holds)
    found.remove()
    return names


# --- files -----------------------------------------------------------------------------------------


def _mounts() -> Iterator[tuple[str, str, str, str]]:
    """File system, its options, the part of it that is mounted, and where."""
    for line in _read("/proc/self/mountinfo").splitlines():
        before, _, after = line.partition(" - ")
        fields, kind = before.split(" "), after.split(" ")
        yield kind[0], kind[-1], fields[3], fields[4]


def _below(point: str, root: str, path: str) -> str | None:
    """Where a group is seen; None: outside what is mounted here."""
    if root == "/":
        inside = path
    elif path == root or path.startswith(f"{root}/"):
        inside = path[len(root) :]
    else:
        return None
    return os.path.normpath(f"{point}/{inside}")


def _pids_in(folder: str) -> list[int]:
    return [int(text) for text in _read(f"{folder}/cgroup.procs").split()]


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def _write(path: str, text: str) -> bool:
    try:
        with open(path, "w", encoding="ascii") as file:
            file.write(text)
    except OSError:
        return False
    return True


def _listed(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _remove_empty(folder: str) -> None:
    try:
        os.rmdir(folder)
    except OSError:
        return  # it is in use after all
