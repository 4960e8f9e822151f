"""Environment of a job's running program, and how another process, such as a terminal's shell,
enters it: variables, folder, control groups and, for a program in a container, its namespaces.

A user owns the user namespace of an unprivileged container that runs as this user, and may enter it
(https://man7.org/linux/man-pages/man7/user_namespaces.7.html).
"""

from __future__ import annotations

import ctypes
import json
import os
import pwd
import signal

from aitne.agent import cgroup_enforcement
from aitne.agent.program_supervisor import EVERY_SIGNAL
from aitne.agent.sampler import list_descendants
from aitne.agent.spec import Spec

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing costs as much time as the agent's own code
    from collections.abc import Callable, Sequence
    from typing import NoReturn

MARK = "AITNE_TERMINAL"
"""Environment variable of all processes that a terminal has started, by which they are found when
it ends."""
NOT_FOUND, NOT_STARTED = 127, 126

_SHELLS = ("/bin/bash", "/usr/bin/bash", "/bin/sh")
_NAMESPACES = (("user", 0x10000000), ("mnt", 0x00020000), ("ipc", 0x08000000), ("pid", 0x20000000))
"""Namespaces of a container in the order in which they can be entered (CLONE_NEW* of sched.h)."""
_NETWORK = ("net", 0x40000000)
_PR_SET_NO_NEW_PRIVS, _PR_CAPBSET_DROP = 38, 24
_MOST_CAPABILITIES = 64
_NOT_PASSED = ("JUPYTERHUB_", "JPY_", "PS1", "PROMPT_COMMAND", "OLDPWD", "SHLVL", "_=", "SSH_")
"""Prefixes of environment variables that a new program does not get: secrets of the session's app,
and variables that a shell sets itself."""


class ProgramEnvironment:
    """Environment (variables, folder, container) of the job's running program, in which further
    programs such as a terminal's shell are started.
    """

    def __init__(self, spec: Spec, node: str | None, task: str | None) -> None:
        """Find the job's running program on this node.

        ``node`` is the node's name, and ``task`` the scheduler's id of this job, which differs
        between array tasks.
        """
        self._spec = spec
        agent = _find_agent_pid(spec.job_dir, node, task)
        pids = [] if agent is None else list_descendants(agent)
        self._host = _read_namespaces(os.getpid())
        self._program = _find_program_pid(spec, pids, self._host)
        self.contained = False
        """Whether the program runs in a container that can be entered."""
        if self._program is not None:
            self.contained = _read_namespaces(self._program)["mnt"] != self._host["mnt"]

    @property
    def is_outside_container(self) -> bool:
        """Return whether the job runs in a container that cannot be entered, so that other programs
        start outside of it."""
        return bool(self._spec.launch.prefix) and not self.contained

    def make_environment(self, extra: dict[str, str]) -> dict[str, str]:
        """Return the environment variables of the running program, or those with which it would be
        started, together with ``extra``."""
        environ = None if self._program is None else _read_environment(self._program)
        if environ is None:
            environ = dict(os.environ)
            environ["PATH"] = os.pathsep.join([*self._spec.path, environ.get("PATH") or os.defpath])
            environ.update(self._spec.env)
        variables = {
            name: value for name, value in environ.items() if not f"{name}=".startswith(_NOT_PASSED)
        }
        return {**variables, **extra}

    def has_file(self, path: str) -> bool:
        """Return whether the file exists in the program's container."""
        return os.path.exists(f"/proc/{self._program}/root{path}")

    def workdir(self) -> str:
        """Return the folder in which the program was started."""
        return os.path.expanduser(self._spec.workdir)

    def replace_process(
        self,
        argv: Sequence[str] | None,
        shell_command: str | None,
        extra: dict[str, str],
        prepare: Callable[[], None],
    ) -> NoReturn:
        """Replace this process by the program ``argv``, or by the user's shell if it is None, in
        the job's environment. Call it in a child process.

        ``shell_command`` is a command for that shell; None: it is interactive. ``prepare`` is
        called in the process that becomes the program, for example to become a session leader.
        """
        environment = self.make_environment(extra)
        self._enter_cgroups()
        if self.contained:
            self._enter_namespaces()
        for number in EVERY_SIGNAL:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, [])
        prepare()
        for folder in (self.workdir(), environment.get("HOME", "/"), "/"):
            try:
                os.chdir(folder)
            except OSError:
                continue
            environment["PWD"] = folder
            break
        shell = _find_shell(environment)
        environment["SHELL"] = shell
        if shell_command is not None:
            argv = [shell, "-c", shell_command]
        try:
            os.execvpe(argv[0] if argv else shell, list(argv or [shell]), environment)  # noqa: S606
        except OSError as error:
            name = argv[0] if argv else shell
            os.write(2, f"aitne: {name} cannot be started: {error.strerror}\r\n".encode())
            os._exit(NOT_FOUND if isinstance(error, FileNotFoundError) else NOT_STARTED)

    def _enter_cgroups(self) -> None:
        if self._program is not None:
            for folder in cgroup_enforcement.list_agent_groups(self._program):
                try:
                    with open(f"{folder}/cgroup.procs", "w", encoding="ascii") as file:
                        file.write(str(os.getpid()))
                except OSError:
                    continue  # it has ended, or the group is the scheduler's: this process is in it

    def _enter_namespaces(self) -> None:
        """Join the namespaces of the container, without gaining privileges that its own programs
        lack.

        A process cannot change its own PID namespace, only the PID namespace of its later children,
        so this function forks once more.
        """
        libc = ctypes.CDLL(None, use_errno=True)
        theirs = _read_namespaces(self._program or 0)
        files = []
        for name, kind in (*_NAMESPACES, _NETWORK):
            if theirs.get(name) != self._host.get(name):
                files.append((os.open(f"/proc/{self._program}/ns/{name}", os.O_RDONLY), kind))
        for file, kind in files:
            if libc.setns(file, kind) != 0:
                code = ctypes.get_errno()
                os.write(
                    2, f"aitne: the container cannot be entered: {os.strerror(code)}\r\n".encode()
                )
                os._exit(NOT_STARTED)
            os.close(file)
        libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
        for number in range(_MOST_CAPABILITIES):
            libc.prctl(_PR_CAPBSET_DROP, number, 0, 0, 0)
        child = os.fork()
        if child:
            follow_child(child)


def follow_child(child: int) -> NoReturn:
    """Wait for a child, forward signals to it and exit with its exit code."""
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, lambda number, _: os.kill(child, number))
    while True:
        pid, status = os.waitpid(child, 0)
        if pid == child:
            code = os.waitstatus_to_exitcode(status)
            os._exit(code if code >= 0 else 128 - code)


def run_session_command(folder: str) -> NoReturn:
    """Run a shell or command for a session of the job's SSH server, which starts this program as
    ``--inside FOLDER``.

    The folder's ``place.json`` contains what the SSH server does not pass on: the identification of
    the terminal, and the environment variables with which the server was started.
    """
    with open(os.path.join(folder, "place.json"), encoding="utf-8") as file:
        facts = json.load(file)
    command = os.environ.get("SSH_ORIGINAL_COMMAND")
    extra = {MARK: str(facts["terminal"])}
    for name, value in os.environ.items():
        if name in ("TERM", "LANG") or name.startswith(("SSH_", "LC_")):
            extra[name] = value
    extra.pop("SSH_ORIGINAL_COMMAND", None)
    os.environ.clear()
    os.environ.update(facts["environ"])
    spec = Spec(facts["job_dir"], os.environ)
    place = ProgramEnvironment(spec, facts["node"], os.environ.get("SLURM_JOB_ID"))
    sftp = str(facts["sftp"])
    if command == sftp and place.contained and not place.has_file(sftp):
        place.contained = False  # then the node's files are shown
    if command is None and place.is_outside_container:
        os.write(2, f"This shell is on the node {spec.node}, beside the container.\r\n".encode())
    child = os.fork()
    if child:
        follow_child(child)
    try:
        place.replace_process(None, command, extra, lambda: None)
    finally:
        os._exit(NOT_STARTED)


def signal_terminal_processes(terminal: str, number: int) -> int:
    """Send the signal ``number`` to all processes that a terminal has started, including detached
    ones, and return how many there were."""
    mark = os.fsencode(f"{MARK}={terminal}")
    own_pids = {os.getpid(), os.getppid()}
    pids = set(list_descendants(os.getpid()))
    for name in os.listdir("/proc"):
        if name.isdecimal() and int(name) not in own_pids:
            try:
                with open(f"/proc/{name}/environ", "rb") as file:
                    if mark in file.read().split(b"\0"):
                        pids.add(int(name))
            except OSError:
                continue
    for pid in pids:
        try:
            os.kill(pid, number)
        except OSError:
            continue
    return len(pids)


# --- looking ---------------------------------------------------------------------------------------


def _find_agent_pid(job_dir: str, node: str | None, task: str | None) -> int | None:
    """Return the PID of this job's agent on the node ``node``; None if there is none. With the
    local scheduler all nodes are the same machine."""
    candidates: list[tuple[bool, int]] = []
    for name in os.listdir("/proc"):
        if not name.isdecimal():
            continue
        words = _read_words(f"/proc/{name}/cmdline")
        if len(words) < 3 or words[-1] != os.fsencode(job_dir) or b"--attach" in words:
            continue
        if not any(word == b"aitne.agent" or word.endswith(b".pyz") for word in words):
            continue
        environ = _read_environment(int(name)) or {}
        if task is None or environ.get("SLURM_JOB_ID") == task:
            candidates.append(
                (environ.get("SLURMD_NODENAME") == node and b"--node" in words, int(name))
            )
    # Among several the one whose node was named; else the first node's.
    return (
        max(candidates, key=lambda candidate: (candidate[0], -candidate[1]))[1]
        if candidates
        else None
    )


def _find_program_pid(spec: Spec, pids: list[int], host: dict[str, str]) -> int | None:
    """Return the PID of the agent's descendant whose environment is joined, in the container if
    there is one; None if there is none."""
    for pid in sorted(pids):
        environ = _read_environment(pid) or {}
        if MARK in environ or "AITNE_JOB_ID" not in environ:
            continue
        if not spec.launch.prefix or _read_namespaces(pid).get("mnt") != host["mnt"]:
            return pid
    return None


def _read_namespaces(pid: int) -> dict[str, str]:
    namespaces = {}
    for name, _ in (*_NAMESPACES, _NETWORK):
        try:
            namespaces[name] = os.readlink(f"/proc/{pid}/ns/{name}")
        except OSError:
            namespaces[name] = ""
    return namespaces


def _read_words(path: str) -> list[bytes]:
    try:
        with open(path, "rb") as file:
            return [word for word in file.read().split(b"\0") if word]
    except OSError:
        return []


def _read_environment(pid: int) -> dict[str, str] | None:
    pairs = (os.fsdecode(word).partition("=") for word in _read_words(f"/proc/{pid}/environ"))
    return {name: value for name, _, value in pairs if name} or None


def _find_shell(environment: dict[str, str]) -> str:
    try:
        login_shell = pwd.getpwuid(os.getuid()).pw_shell
    except KeyError:
        login_shell = ""
    for shell in (login_shell, *_SHELLS):
        if (
            shell
            and os.access(shell, os.X_OK)
            and os.path.basename(shell) not in ("nologin", "false")
        ):
            return shell
    return environment.get("SHELL", _SHELLS[-1])
