"""Description of the job for the agent, from the files of the job and the scheduler's environment
variables."""

from __future__ import annotations

import contextlib
import json
import os
import socket
from collections.abc import Mapping

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing costs as much time as the agent's own code
    from typing import Any

VERSION = 1
_TOKEN = "token"  # noqa: S105 - a file's name


class App:
    """App of a session: an entry of ``apps`` in ``agent.json``."""

    def __init__(self, facts: Mapping[str, Any]) -> None:
        self.name = str(facts["name"])
        self.kind = str(facts["kind"])
        self.argv = [str(part) for part in facts["argv"]]
        self.readiness_path = str(facts.get("readiness_path") or "/")
        self.timeout_s = float(facts.get("timeout_s") or 120)


class Need:
    """File or folder that must exist before a program starts: an entry of ``needs`` in
    ``agent.json``."""

    def __init__(self, facts: Mapping[str, Any]) -> None:
        self.what = str(facts["what"])
        self.path = str(facts["path"])
        self.folder = facts.get("kind") == "folder"
        self.within = [str(folder) for folder in facts.get("within") or ()]
        self.size_bytes: int | None = facts.get("size_bytes")
        self.mtime_ns: int | None = facts.get("mtime_ns")
        self.sha256: str | None = facts.get("sha256")


class LaunchSpec:
    """Configuration for starting programs through the container runtime: ``launch`` in
    ``agent.json``, as in ``core.ports.runtime.RuntimeLaunch``."""

    def __init__(self, facts: Mapping[str, Any]) -> None:
        self.prefix = [str(part) for part in facts.get("prefix") or ()]
        self.gpu_options = {
            str(vendor): [str(part) for part in options]
            for vendor, options in (facts.get("gpu_options") or {}).items()
        }
        self.env = {str(name): str(value) for name, value in (facts.get("env") or {}).items()}
        self.env_prefix: str | None = facts.get("env_prefix")
        self.helpers = {
            str(name): str(script) for name, script in (facts.get("helpers") or {}).items()
        }
        self.program: str | None = facts.get("program")
        self.forwards_signals = bool(facts.get("forwards_signals"))
        self.own_endings = [
            (int(ending["exit_code"]), str(ending["words"]), str(ending["reason"]))
            for ending in facts.get("own_endings") or ()
        ]


class SweepSetting:
    """Parameter values of one task of a sweep, and the environment variables that pass them to the
    program."""

    def __init__(self, facts: Mapping[str, Any]) -> None:
        self.values: dict[str, Any] = dict(facts.get("values") or {})
        self.env = {str(name): str(value) for name, value in (facts.get("env") or {}).items()}


class TreeSpec:
    """Source of the folder in which the job runs: an uploaded working tree (``digest``) or, if
    ``digest`` is None, a git repository (``url``, ``ref``, ``subdir``)."""

    def __init__(self, facts: Mapping[str, Any]) -> None:
        self.path = str(facts["path"])
        self.digest: str | None = facts.get("digest")
        self.url = str(facts.get("url") or "")
        self.ref = str(facts.get("ref") or "")
        self.subdir: str | None = facts.get("subdir")


class RanksSpec:
    """Distributed program of a job: numbers of nodes and of ranks on each node, environment
    variables of the ranks, and the command that starts an agent on a node."""

    def __init__(self, facts: Mapping[str, Any]) -> None:
        self.nodes = int(facts["nodes"])
        self.per_node = int(facts["ranks_per_node"])
        self.agent = [str(part) for part in facts["agent"]]
        self.env = {str(name): str(value) for name, value in (facts.get("env") or {}).items()}


class Spec:
    """Description of the job: the content of ``agent.json`` and of the file with the job token, and
    values of the scheduler's environment variables.

    Unknown fields are ignored, because the platform may be newer than the agent.

    Args:
        job_dir: folder of the job's attempt.
        environ: environment variables of the agent.
    """

    def __init__(self, job_dir: str, environ: Mapping[str, str]) -> None:
        with open(os.path.join(job_dir, "agent.json"), encoding="utf-8") as file:
            facts = json.load(file)
        self.job_dir = job_dir
        self.job_id = str(facts["job_id"])
        self.attempt = int(facts["attempt"])
        self.platform_url: str | None = facts.get("platform_url")
        self.authority: str | None = facts.get("authority")
        """Certificate of the platform's CA (PEM). If it is set, apps of sessions serve TLS; None
        means plain HTTP."""
        self.commands = [[str(part) for part in argv] for argv in facts.get("commands", ())]
        self.leader = [str(part) for part in facts.get("leader") or ()]
        """Command of the first node that runs a notebook beside the ranks of the node; empty for
        other jobs, and on other nodes."""
        self.explains_failure = bool(facts.get("explains_failure"))
        """Whether the program writes why it fails to a file in the job's folder."""
        self.apps = [App(app) for app in facts.get("apps", ())]
        self.env = {str(name): str(value) for name, value in facts.get("env", {}).items()}
        self.secrets = bool(facts.get("secrets"))
        self.path = [str(folder) for folder in facts.get("path", ())]
        self.workdir = str(facts["workdir"])
        tree = facts.get("tree")
        self.tree = None if tree is None else TreeSpec(tree)
        self.listen = str(facts.get("listen") or "127.0.0.1")
        self.launch = LaunchSpec(facts.get("launch") or {})
        self.needs = [Need(need) for need in facts.get("needs") or ()]
        self.datasets = {
            str(name): str(folder) for name, folder in (facts.get("datasets") or {}).items()
        }
        limits = facts.get("limits") or {}
        self.memory_bytes: int | None = limits.get("memory_bytes")
        self.cpus: int | None = limits.get("cpus")
        self.tmp_dir = str(facts.get("tmp_dir") or "/tmp")  # noqa: S108 - the platform names it
        self.sample_interval_s = max(0.05, float(facts.get("sample_interval_s", 2.0)))
        self.venv: str | None = facts.get("venv")
        self.conda: str | None = facts.get("conda")
        self.log_files = [str(path) for path in facts.get("log_files") or ()]
        self.script_signal: str | None = facts.get("script_signal")
        self.settings = [SweepSetting(setting) for setting in facts.get("settings") or ()]
        inactivity_s = facts.get("inactivity_duration_s")
        self.inactivity_s = None if inactivity_s is None else float(inactivity_s)
        """Seconds without activity after which the platform ends the session; None means never."""
        ranks = facts.get("ranks")
        self.ranks = None if ranks is None else RanksSpec(ranks)
        placement = facts.get("placement") or {}
        self.order = str(placement.get("order") or "auto")
        """Order of the nodes: ``auto``, ``given`` or ``file:PATH``."""
        self.mesh = [int(size) for size in placement.get("mesh") or ()]
        """Sizes of the dimensions of the mesh of ranks, innermost first; empty: one ring."""
        nodes = environ.get("AITNE_NODES", "")
        alone = int(nodes) if nodes.isdecimal() else 1
        self.nodes = alone if self.ranks is None else self.ranks.nodes
        """Number of nodes of the job."""
        self.node_rank: int | None = None
        """Number of this node among the job's nodes, if the first node's agent has started this
        agent; otherwise None."""
        self.run_dir: str | None = None
        """Folder of the ranks of the present command; None: there are none yet."""
        self.token = _read_token(job_dir)
        task = environ.get("SLURM_ARRAY_TASK_ID", "")
        self.task = int(task) if task.isdecimal() else None
        count = environ.get("SLURM_RESTART_COUNT", "")
        self.restart_count = int(count) if count.isdecimal() else 0
        self.owner = _scheduler_id(environ, self.task)
        self.node = environ.get("SLURMD_NODENAME") or socket.gethostname()

    @property
    def restarts(self) -> int:
        """Number of earlier starts of the job: earlier attempts, plus requeues of this attempt by
        the scheduler."""
        return self.attempt - 1 + self.restart_count

    @property
    def is_placed(self) -> bool:
        """Return whether the job's placement is reported: it has ranks or several nodes."""
        return self.ranks is not None or self.nodes > 1

    @property
    def runs_app_with_ranks(self) -> bool:
        """Return whether this agent runs an app or a notebook together with ranks."""
        return self.ranks is not None and bool(self.apps or self.leader)

    @property
    def checkpoints_folder(self) -> str:
        """Folder for checkpoints, from which later attempts resume."""
        folder = os.path.join(os.path.dirname(self.job_dir), "checkpoints")
        return folder if self.task is None else os.path.join(folder, str(self.task))

    @property
    def sweep_setting(self) -> SweepSetting | None:
        """Parameter values of this task, if it belongs to a sweep; otherwise None."""
        has_setting = self.task is not None and self.task < len(self.settings)
        return self.settings[self.task or 0] if has_setting else None

    @property
    def metrics_folder(self) -> str:
        """Folder to which the programs write their metrics."""
        folder = os.path.join(os.path.dirname(self.job_dir), "metrics")
        return folder if self.task is None else os.path.join(folder, str(self.task))

    def remove_token(self) -> None:
        """Remove the file with the job token. Later starts of this attempt do not need it."""
        with contextlib.suppress(OSError):
            os.unlink(os.path.join(self.job_dir, _TOKEN))

    @property
    def starts_directly(self) -> bool:
        """Return whether programs start directly on the node: without a container, required files,
        datasets and limits.
        """
        limited = self.memory_bytes is not None or self.cpus is not None
        launch = self.launch.prefix or self.launch.env or self.launch.env_prefix is not None
        return not (launch or self.needs or self.datasets or limited)


def _scheduler_id(environ: Mapping[str, str], task: int | None) -> str:
    """Return the scheduler's ID of this job: ``<array job ID>_<index>`` for an array task,
    otherwise ``SLURM_JOB_ID``. Without these variables it is ``<host name>:<PID of the parent
    process>``."""
    array = environ.get("SLURM_ARRAY_JOB_ID")
    if array and task is not None:
        return f"{array}_{task}"
    return environ.get("SLURM_JOB_ID") or f"{socket.gethostname()}:{os.getppid()}"


def _read_token(job_dir: str) -> str:
    try:
        with open(os.path.join(job_dir, _TOKEN), encoding="utf-8") as file:
            return file.read().strip()
    except FileNotFoundError:
        return ""
