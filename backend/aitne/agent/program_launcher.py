"""Start of programs in a container, with datasets or with limits. Imported only for these; other
programs are started directly on the node."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
import threading
import time
from collections.abc import Callable, Mapping, Sequence

from aitne.agent import cgroup_enforcement, required_files
from aitne.agent.required_files import MissingRequirementError
from aitne.agent.spec import Spec

NOT_READY = 120
"""Exit code: a requirement of the program, such as a file, is missing; nothing was started."""
NOT_FOUND = 127

PASSED_NAMES = frozenset(
    {
        # Set by the batch script and the agent. No other AITNE_ of the node: some are secrets.
        "AITNE_JOB_ID",
        "AITNE_SESSION_ID",
        "AITNE_ATTEMPT",
        "AITNE_PROJECT",
        "AITNE_JOB_DIR",
        "AITNE_NODES",
        "AITNE_NODE_RANK",
        "AITNE_GPUS_PER_NODE",
        "AITNE_APP_HOST",
        "AITNE_APP_PORT",
        "AITNE_CHECKPOINTS",
        "AITNE_METRICS",
        "AITNE_PARAMS",
        # Distribution of a program's ranks, and settings of their runtime.
        "AITNE_RANKS_PER_NODE",
        "AITNE_RUN_DIR",
        "AITNE_HOSTFILE",
        "AITNE_SLURM_HOSTFILE",
        "AITNE_TOPOLOGY",
        "AITNE_RUN_RESTARTS",
        "AITNE_TRANSPORT",
        "AITNE_STRATEGY",
        "AITNE_COMPRESS",
        "AITNE_RANKS_FOLDER",
        "AITNE_RANK_GROUP",
        "AITNE_SESSION",
        "AITNE_RUNNER_ID",
        "SLURMD_NODENAME",
        # GPUs of the job.
        "CUDA_VISIBLE_DEVICES",
        "CUDA_DEVICE_ORDER",
        "ROCR_VISIBLE_DEVICES",
        "HIP_VISIBLE_DEVICES",
        "GPU_DEVICE_ORDINAL",
        # Rendezvous of the ranks.
        "MASTER_ADDR",
        "MASTER_PORT",
        "LANG",
        "LANGUAGE",
        "TZ",
        "TERM",
        "USER",
        "LOGNAME",
    }
)
PASSED_PREFIXES = (
    *("SLURM_", "NVIDIA_", "OMP_", "PMI_", "PMIX_", "LC_"),
    # How ranks use the network: a prolog or a module of the site sets it for its nodes.
    *("NCCL_", "UCX_", "FI_", "MV2_", "GLOO_"),
)
"""Prefixes of the only environment variables of the node, with those in ``PASSED_NAMES``, that a
program in a container inherits, apart from those of its job file."""
SECRETS = frozenset({"SLURM_JWT"})

_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_MARK = "AITNE_RUNNER_ID"
"""Variable by which the local scheduler finds the processes of a job whose runner was killed. The
container runtime's own processes have it too."""
_GPUS, _TMP, _PROGRAM = "{gpus}", "{tmp}", "{program}"
_FOLDERS = ("tmp", "var_tmp")
_BIN = "bin"
_LOCK = ".lock"
_PROBE_BYTES = 64 << 10
_STALE_S = 60.0
"""Minimum age in seconds from which a folder whose lock is free counts as left behind. The lock is
created shortly after the folder."""
_LOOK_EVERY_S = 0.25


class ProgramStartError(Exception):
    """Error: the program cannot be started; the message is a sentence without full stop."""

    def __init__(self, code: int, sentence: str) -> None:
        super().__init__(sentence)
        self.code = code
        self.sentence = sentence


class ProgramLauncher:
    """Launcher of the job's programs through the container runtime. ``prepare`` creates temporary
    folders and the cgroup, and ``close`` removes them."""

    def __init__(self, spec: Spec) -> None:
        self._spec = spec
        self._launch = spec.launch
        self._tmp: str | None = None
        self._lock: int | None = None
        self._program: str | None = None
        self._vendor: str | None = None
        self._cgroup: cgroup_enforcement.Cgroup | None = None
        self._ended_for_memory = False

    def prepare(self, stopped: Callable[[], bool], report_reading: Callable[[], None]) -> None:
        """Check the requirements of the programs, and create temporary folders and the cgroup.

        ``stopped`` returns whether the job was asked to end. ``report_reading`` is called before files are
        read completely, which can take minutes.

        Raises:
            ProgramStartError: nothing can be started.
            needs.StopRequested: the job was asked to end meanwhile.
        """
        spec, node = self._spec, self._spec.node
        try:
            required_files.check_needs(spec.needs, node, stopped, report_reading)
        except MissingRequirementError as error:
            raise ProgramStartError(NOT_READY, str(error)) from None
        self._find_program(node)
        launch = self._launch
        if spec.datasets or launch.helpers or _mentions_temporary_folder(launch.prefix, launch.env):
            try:
                self._make_tmp()
            except OSError as error:
                raise ProgramStartError(
                    NOT_READY,
                    f"the temporary folder cannot be created below {spec.tmp_dir} on node {node}: "
                    f"{error.strerror or error}. Ask the site's support to free space there, or "
                    "try another node",
                ) from None
        if _GPUS in self._launch.prefix:
            self._vendor = gpu_vendor()
        if spec.memory_bytes is not None or spec.cpus is not None:
            self._cgroup = cgroup_enforcement.make_group(spec.memory_bytes, spec.cpus)

    def argv(self, command: Sequence[str]) -> list[str]:
        """Return the argument vector that starts ``command`` through the container runtime.

        Raises:
            OSError: the runtime's program does not exist, or cannot be run.
        """
        arguments: list[str] = []
        for part in self._launch.prefix:
            if part == _GPUS:
                arguments += self._launch.gpu_options.get(self._vendor or "", ())
            else:
                arguments.append(self._fill_placeholders(part))
        if arguments and self._program is not None:
            arguments[0] = self._program
        arguments += command
        if self._cgroup is None:
            return arguments
        # /bin/sh comes first and would report a missing program too late.
        arguments[0] = find_program(arguments[0], self.environment().get("PATH", os.defpath))
        return [*self._cgroup.make_enter_command(), *arguments]

    def environment(self) -> dict[str, str]:
        """Return the environment variables with which the programs are started."""
        launch_env = {
            name: self._fill_placeholders(value) for name, value in self._launch.env.items()
        }
        prefix = self._launch.env_prefix
        if prefix is None:
            return {**os.environ, **launch_env, **self._make_dataset_variables()}
        home = os.environ.get("HOME", "/")
        path = f"{self._tmp}/{_BIN}:{_PATH}" if self._launch.helpers else _PATH
        base = {"PATH": path, "LANG": "C.UTF-8", "HOME": home}
        if _MARK in os.environ:
            base[_MARK] = os.environ[_MARK]
        passed = {
            **select_inherited_variables(os.environ),
            **self._spec.env,
            **self._make_dataset_variables(),
        }
        return {**base, **launch_env, **{prefix + name: value for name, value in passed.items()}}

    def _make_dataset_variables(self) -> dict[str, str]:
        return {"AITNE_DATASETS": f"{self._tmp}/datasets"} if self._spec.datasets else {}

    def _fill_placeholders(self, text: str) -> str:
        return text if self._tmp is None else text.replace(_TMP, self._tmp)

    # --- the parts -----------------------------------------------------------------------------

    def _find_program(self, node: str) -> None:
        program = self._launch.program
        if program is None:
            return
        path = os.environ.get("PATH", os.defpath) if self._launch.env_prefix is None else _PATH
        try:
            executable = find_program(program, path)
        except OSError:
            location = "" if "/" in program else f" in {path}"
            name = os.path.basename(program).capitalize()
            raise ProgramStartError(
                NOT_FOUND,
                f"{name} is not installed on node {node}: there is no program {program}{location}. "
                "Ask the site's support to install it there, or use another image or node",
            ) from None
        if self._launch.prefix and self._launch.prefix[0] == program:
            self._program = executable

    def _make_tmp(self) -> None:
        """Create the temporary folder for the programs. Raises ``OSError``, also if the disk is
        full."""
        _remove_leftover_folders(self._spec.tmp_dir)
        name = f"aitne-{os.geteuid()}-{os.urandom(8).hex()}"
        self._tmp = os.path.join(self._spec.tmp_dir, name)
        os.mkdir(self._tmp, 0o700)
        self._lock = os.open(f"{self._tmp}/{_LOCK}", os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        os.posix_fallocate(self._lock, 0, _PROBE_BYTES)
        os.ftruncate(self._lock, 0)
        for name in _FOLDERS:
            os.mkdir(f"{self._tmp}/{name}", 0o700)
        if self._launch.helpers:
            self._make_helpers(f"{self._tmp}/{_BIN}")
        if self._spec.datasets:
            os.mkdir(f"{self._tmp}/datasets", 0o700)
            for name, folder in self._spec.datasets.items():
                os.symlink(folder, f"{self._tmp}/datasets/{os.path.basename(name)}")

    def _make_helpers(self, folder: str) -> None:
        os.mkdir(folder, 0o700)
        for name, script in self._launch.helpers.items():
            try:
                program = find_program(name, _PATH)
            except OSError:
                continue
            with open(f"{folder}/{name}", "w", encoding="utf-8") as file:
                os.fchmod(file.fileno(), 0o700)
                file.write(script.replace(_PROGRAM, program))

    @property
    def pids_file(self) -> str | None:
        """Return the path of the file in which the container runtime lists processes of the job
        that are children of its daemon; None if there is no such file."""
        return None if self._tmp is None else f"{self._tmp}/pids"

    # --- the watch and the end -----------------------------------------------------------------

    def ran_out_of_memory(self, code: int) -> bool:
        """Return whether a program that ended with the exit code ``code`` ended for lack of
        memory."""
        if self._ended_for_memory:
            # A shell whose last child is killed before itself may end with 0.
            return True
        return code != 0 and self._cgroup is not None and self._cgroup.oom_kills() > 0

    def watch_memory(self) -> None:
        """Start a thread that ends the whole program after the kernel has killed one of its
        processes for lack of memory, because the others might hang."""
        if (
            self._cgroup is not None
            and cgroup_enforcement.MEMORY in self._cgroup.limited_controllers
        ):
            threading.Thread(target=self._run_memory_watch, name="memory", daemon=True).start()

    def _run_memory_watch(self) -> None:
        while (group := self._cgroup) is not None:
            if group.oom_kills():
                self._ended_for_memory = not group.is_empty
                group.kill()
                return
            time.sleep(_LOOK_EVERY_S)

    def close(self) -> None:
        """Remove the temporary folders and the cgroup. Never raises."""
        group, self._cgroup = self._cgroup, None
        if group is not None:
            group.remove()
        if self._tmp is not None:
            remove_tree(self._tmp)
        if self._lock is not None:
            os.close(self._lock)


def select_inherited_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """Return those of the node's environment variables that a program in a container may
    inherit."""
    return {
        name: value
        for name, value in environ.items()
        if (name in PASSED_NAMES or name.startswith(PASSED_PREFIXES)) and name not in SECRETS
    }


def gpu_vendor(root: str = "/") -> str | None:
    """Return the vendor of this node's GPUs according to the driver's files; None if it is
    unknown."""
    for vendor, marks in (
        ("nvidia", ("dev/nvidiactl", "proc/driver/nvidia")),
        ("amd", ("dev/kfd",)),
    ):
        if any(os.path.exists(os.path.join(root, mark)) for mark in marks):
            return vendor
    return None


def find_program(name: str, path: str) -> str:
    """Return the path of the program ``name``, searched in ``path`` as ``execvp`` does.

    Raises:
        OSError: there is none, or it cannot be run.
    """
    places = (
        [name] if "/" in name else [os.path.join(part or ".", name) for part in path.split(":")]
    )
    code = errno.ENOENT
    for place in places:
        if os.path.isfile(place):
            if os.access(place, os.X_OK):
                return place
            code = errno.EACCES
    raise OSError(code, os.strerror(code))


def remove_tree(folder: str) -> None:
    """Remove a folder, including subfolders without permissions. Files that cannot be removed are
    left."""
    for place, folders, _ in os.walk(folder):
        for name in folders:
            path = os.path.join(place, name)
            if not os.path.islink(path):
                with contextlib.suppress(OSError):
                    os.chmod(path, stat.S_IRWXU)
    for place, folders, files in os.walk(folder, topdown=False):
        for name in (*folders, *files):
            path = os.path.join(place, name)
            own_folder = name in folders and not os.path.islink(path)
            with contextlib.suppress(OSError):
                (os.rmdir if own_folder else os.unlink)(path)
    with contextlib.suppress(OSError):
        os.rmdir(folder)


def _mentions_temporary_folder(prefix: Sequence[str], env: Mapping[str, str]) -> bool:
    return any(_TMP in text for text in (*prefix, *env.values()))


def _remove_leftover_folders(folder: str) -> None:
    """Remove temporary folders that killed agents of this account have left, which are those whose
    lock is free."""
    for name in os.listdir(folder):
        place = os.path.join(folder, name)
        if not name.startswith(f"aitne-{os.geteuid()}-"):
            continue
        try:
            status = os.lstat(place)
            if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
                continue
            lock = os.open(f"{place}/{_LOCK}", os.O_RDWR | os.O_NOFOLLOW)
        except OSError:
            continue
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            continue  # its agent runs
        else:
            if time.time() - status.st_mtime > _STALE_S:
                remove_tree(place)
        finally:
            os.close(lock)
