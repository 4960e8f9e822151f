"""What the agent has to do: the job's files, and what the scheduler says in the environment."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Mapping

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing costs as much time as the agent's own code
    from typing import Any

VERSION = 1


class App:
    """One app of a session."""

    def __init__(self, facts: Mapping[str, Any]) -> None:
        self.name = str(facts["name"])
        self.kind = str(facts["kind"])
        self.argv = [str(part) for part in facts["argv"]]
        self.readiness_path = str(facts.get("readiness_path") or "/")
        self.timeout_s = float(facts.get("timeout_s") or 120)


class Spec:
    """``agent.json`` and ``token`` of a job's folder, read leniently: the platform may be newer."""

    def __init__(self, job_dir: str, environ: Mapping[str, str]) -> None:
        with open(os.path.join(job_dir, "agent.json"), encoding="utf-8") as file:
            facts = json.load(file)
        self.job_dir = job_dir
        self.job_id = str(facts["job_id"])
        self.attempt = int(facts["attempt"])
        self.platform_url: str | None = facts.get("platform_url")
        self.commands = [[str(part) for part in argv] for argv in facts.get("commands", ())]
        self.apps = [App(app) for app in facts.get("apps", ())]
        self.env = {str(name): str(value) for name, value in facts.get("env", {}).items()}
        self.path = [str(folder) for folder in facts.get("path", ())]
        self.workdir = str(facts["workdir"])
        self.listen = str(facts.get("listen") or "127.0.0.1")
        self.sample_interval_s = max(0.05, float(facts.get("sample_interval_s", 2.0)))
        self.token = _token(job_dir)
        task = environ.get("SLURM_ARRAY_TASK_ID", "")
        self.task = int(task) if task.isdecimal() else None
        count = environ.get("SLURM_RESTART_COUNT", "")
        self.restart_count = int(count) if count.isdecimal() else 0
        self.owner = _owner(environ, self.task)
        self.node = environ.get("SLURMD_NODENAME") or socket.gethostname()


def _owner(environ: Mapping[str, str], task: int | None) -> str:
    """The scheduler's id as the platform knows it: a task's is its array's with its own index."""
    array = environ.get("SLURM_ARRAY_JOB_ID")
    if array and task is not None:
        return f"{array}_{task}"
    return environ.get("SLURM_JOB_ID") or f"{socket.gethostname()}:{os.getppid()}"


def _token(job_dir: str) -> str:
    try:
        with open(os.path.join(job_dir, "token"), encoding="utf-8") as file:
            return file.read().strip()
    except FileNotFoundError:
        return ""
