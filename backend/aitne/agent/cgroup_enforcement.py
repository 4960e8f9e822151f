"""Control group (cgroup) of the job's programs, for limits that the scheduler does not enforce.

Version 2 is used if the agent's cgroup is delegated to its account, otherwise version 1. A shell
command (``ENTER``) moves itself into the group and then executes the user's command. The agent
stays outside of the group.
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
"""Arguments of ``/bin/sh -c``, followed by the ``cgroup.procs`` files of the groups to enter,
``--``, and the program to start in them."""

_NAME = "aitne-agent-"
_OWN = "aitne-platform"
"""Version 2: name of the subgroup for a service's own processes, because a group that has subgroups
must not contain processes."""
_PERIOD_US = 100_000
_STALE_S = 60.0
"""Age in seconds from which an empty group is removed if its agent no longer exists."""
_EMPTY_WITHIN_S = 2.0


class Cgroup:
    """Control group of the job's programs with limits of memory and CPUs.

    Version 2 has a single folder for all controllers, version 1 a folder for each controller.
    """

    def __init__(self, folders: dict[str, str], unified: bool, home: dict[str, str]) -> None:
        self._folders = folders
        self._unified = unified
        self._home = home

    @property
    def limited_controllers(self) -> set[str]:
        """Return the controllers whose limits are set, such as ``memory`` and ``cpu``."""
        return set(self._folders)

    def make_enter_command(self) -> list[str]:
        """Return a command prefix. Prepended to a command, it starts the command in the group."""
        files = sorted({f"{folder}/cgroup.procs" for folder in self._folders.values()})
        return ["/bin/sh", "-c", *ENTER, *files, "--"]

    def oom_kills(self) -> int:
        """Return the number of processes of the group that the kernel has killed for lack of
        memory; 0 if no memory limit is set."""
        folder = self._folders.get(MEMORY)
        if folder is None:
            return 0
        name = "memory.events" if self._unified else "memory.oom_control"
        for line in _read_file_or_empty(f"{folder}/{name}").splitlines():
            key, _, number = line.partition(" ")
            if key == "oom_kill":
                return int(number)
        return 0

    @property
    def is_empty(self) -> bool:
        """Return whether the group contains no processes."""
        return not self._list_pids()

    def kill(self) -> None:
        """Kill all processes of the group immediately."""
        for pid in self._list_pids():
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                continue  # it has ended by itself

    def remove(self) -> None:
        """Move the remaining processes to the agent's group, where the scheduler ends them, and
        remove this group. Gives up after ``_EMPTY_WITHIN_S`` seconds."""
        deadline = time.monotonic() + _EMPTY_WITHIN_S
        for controller, folder in set(self._folders.items()):
            while os.path.isdir(folder):
                for pid in _read_pids(folder):
                    _try_write_file(f"{self._home[controller]}/cgroup.procs", str(pid))
                try:
                    os.rmdir(folder)
                except OSError:
                    if time.monotonic() > deadline:
                        return  # a process in it cannot be moved: the next agent removes it
                    time.sleep(0.01)

    def _list_pids(self) -> set[int]:
        return {pid for folder in self._folders.values() for pid in _read_pids(folder)}


def make_group(memory_bytes: int | None, cpus: int | None) -> Cgroup | None:
    """Create a group with the limits that this account can set on this node; return None if it can
    set neither.

    Args:
        memory_bytes: memory limit in bytes; None: no limit.
        cpus: limit of CPU time, as a number of CPUs; None: no limit.
    """
    limits: dict[str, list[tuple[str, str]]] = {}
    unified = _unified_base()
    if memory_bytes is not None:
        limits[MEMORY] = _memory_settings(memory_bytes, unified is not None)
    if cpus is not None:
        limits[CPU] = _cpu_settings(cpus, unified is not None)
    name = f"{_NAME}{os.getpid()}-{os.urandom(4).hex()}"
    if unified is not None:
        above, home, enabled = unified
        folders = _make_group_below(dict.fromkeys(enabled, above), limits, name)
        return Cgroup(folders, True, dict.fromkeys(folders, home)) if folders else None
    bases = {
        controller: base for controller in limits if (base := _v1_base(controller)) is not None
    }
    folders = _make_group_below(bases, limits, name)
    return Cgroup(folders, False, bases) if folders else None


def _memory_settings(limit: int, unified: bool) -> list[tuple[str, str]]:
    """Return the files and values that set a memory limit, for version 2 if ``unified``. The first
    is mandatory; the others may be missing in the kernel."""
    if unified:
        return [
            ("memory.max", str(limit)),
            ("memory.swap.max", "0"),
            # The whole group is killed, as schedulers do: a part of a program would only hang.
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


def _make_group_below(
    bases: dict[str, str], limits: dict[str, list[tuple[str, str]]], name: str
) -> dict[str, str]:
    """Create the group ``name`` and set its limits. Return the folder of each controller whose
    limit could be set."""
    made: dict[str, str] = {}
    for controller, settings in limits.items():
        if controller not in bases:
            continue
        folder = os.path.join(bases[controller], name)
        _remove_leftover_groups(bases[controller])
        try:
            os.mkdir(folder)
        except FileExistsError:
            pass  # of version 2: one folder for both
        except OSError:
            continue
        if _try_write_file(f"{folder}/{settings[0][0]}", settings[0][1]):
            made[controller] = folder
            for file, value in settings[1:]:
                _try_write_file(f"{folder}/{file}", value)
        elif folder not in made.values():
            _remove_empty(folder)
    return made


def _remove_leftover_groups(base: str) -> None:
    """Remove the empty groups below ``base`` that killed agents have left."""
    for name in _list_folder(base):
        owner = name[len(_NAME) :].partition("-")[0]
        if name.startswith(_NAME) and owner.isdecimal() and not os.path.exists(f"/proc/{owner}"):
            folder = os.path.join(base, name)
            try:
                old = time.time() - os.stat(folder).st_mtime > _STALE_S
            except OSError:
                continue
            if old:
                _remove_empty(folder)


# --- place -----------------------------------------------------------------------------------------


def _v1_base(controller: str) -> str | None:
    """Return the folder of the agent's group for a controller of version 1; None if this node does
    not have the controller in version 1."""
    for line in _read_file_or_empty("/proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if controller in controllers.split(","):
            for kind, options, root, point in _list_mounts():
                if kind == "cgroup" and controller in options.split(","):
                    return _find_mounted_folder(point, root, path)
    return None


def _unified_base() -> tuple[str, str, list[str]] | None:
    """Return, for version 2, the folder in which groups can be created, the folder of the agent's
    group, and the available controllers. Return None if this account cannot create groups."""
    own_folder = _own_unified()
    if own_folder is None:
        return None
    parent = os.path.dirname(own_folder)
    for base in (own_folder, parent) if _is_delegated(parent) else (own_folder,):
        present = _read_file_or_empty(f"{base}/cgroup.controllers").split()
        names = [name for name in (MEMORY, CPU) if name in present]
        if not names or not os.access(base, os.W_OK):
            continue
        _try_write_file(f"{base}/cgroup.subtree_control", " ".join(f"+{name}" for name in names))
        enabled = _read_file_or_empty(f"{base}/cgroup.subtree_control").split()
        if controllers := [name for name in names if name in enabled]:
            return base, own_folder, controllers
    return None


def _own_unified() -> str | None:
    for line in _read_file_or_empty("/proc/self/cgroup").splitlines():
        if line.startswith("0::"):
            for kind, _, root, point in _list_mounts():
                if kind == "cgroup2":
                    return _find_mounted_folder(point, root, line[3:])
    return None


def _is_delegated(folder: str) -> bool:
    """Return whether systemd has delegated this cgroup to its unit (``Delegate=``), so that this
    account may create subgroups."""
    for name in ("user.delegate", "trusted.delegate"):
        try:
            if os.getxattr(folder, name) == b"1":
                return True
        except OSError:
            continue
    return False


def move_to_subgroup() -> None:
    """Move the processes of this process's group to a subgroup, if the group is delegated (version
    2)
    and groups for jobs cannot be created otherwise: a group that contains processes cannot have
    subgroups with controllers."""
    own_folder = _own_unified()
    if own_folder is None or not _is_delegated(own_folder) or _unified_base() is not None:
        return
    place = os.path.join(own_folder, _OWN)
    try:
        os.makedirs(place, exist_ok=True)
    except OSError:
        return
    for pid in _read_pids(own_folder):
        _try_write_file(f"{place}/cgroup.procs", str(pid))


def list_agent_groups(pid: int) -> list[str]:
    """Return the folders of the groups that an agent has created and that contain the process
    ``pid``."""
    folders = set()
    for line in _read_file_or_empty(f"/proc/{pid}/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if not os.path.basename(path).startswith(_NAME):
            continue
        controller = controllers.split(",")[0]
        for kind, options, root, point in _list_mounts():
            fits = controller in options.split(",") if controller else True
            if kind == ("cgroup" if controller else "cgroup2") and fits:
                folder = _find_mounted_folder(point, root, path)
                if folder is not None:
                    folders.add(folder)
    return sorted(folders)


def probe_controllers() -> list[str]:
    """Return the controllers (``cpu``, ``memory``) whose limits agents of this account can set on
    this machine. A group is created and removed to find out.

    The local scheduler calls it once when it starts.
    """
    move_to_subgroup()
    group = make_group(1 << 40, 1)
    if group is None:
        return []
    names = sorted(group.limited_controllers)
    group.remove()
    return names


# --- files -----------------------------------------------------------------------------------------


def _list_mounts() -> Iterator[tuple[str, str, str, str]]:
    """Yield the type, the options, the root within the file system and the mount point of each
    mount in ``/proc/self/mountinfo``."""
    for line in _read_file_or_empty("/proc/self/mountinfo").splitlines():
        before, _, after = line.partition(" - ")
        fields, kind = before.split(" "), after.split(" ")
        yield kind[0], kind[-1], fields[3], fields[4]


def _find_mounted_folder(point: str, root: str, path: str) -> str | None:
    """Return the folder of a group in a mounted cgroup file system; None if the mount does not
    contain the group.

    Args:
        point: mount point.
        root: root of the mount within the file system.
        path: path of the group, as in ``/proc/<pid>/cgroup``.
    """
    if root == "/":
        inside = path
    elif path == root or path.startswith(f"{root}/"):
        inside = path[len(root) :]
    else:
        return None
    return os.path.normpath(f"{point}/{inside}")


def _read_pids(folder: str) -> list[int]:
    return [int(text) for text in _read_file_or_empty(f"{folder}/cgroup.procs").split()]


def _read_file_or_empty(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def _try_write_file(path: str, text: str) -> bool:
    try:
        with open(path, "w", encoding="ascii") as file:
            file.write(text)
    except OSError:
        return False
    return True


def _list_folder(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _remove_empty(folder: str) -> None:
    try:
        os.rmdir(folder)
    except OSError:
        return  # it is in use after all
