"""Start of programs inside the allocation of a running job, requested from the job's runner over a
socket in the run's folder.

Such a program is a child of the runner like the job itself: it has the job's environment, counts
towards its memory limit, and ends with the job.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import time
from pathlib import Path
from threading import Lock

from aitne.adapters.schedulers._local import runner
from aitne.adapters.schedulers._local.job_records import JOB, LocalJobRecord, write_atomically
from aitne.core.errors import SchedulerRejected, Unavailable
from aitne.core.ports.attacher import AttachTarget
from aitne.core.ports.scheduler_dependencies import Tools
from aitne.core.settings import Settings
from aitne.local_system.state_file_reader import read_state

_CONNECT_WITHIN_S = 5.0
_ASK_AGAIN_S = 0.05


class LocalAttacher:
    """Implementation of ``core.ports.attacher.Attacher`` for the ``local`` scheduler, usable in any
    process of the scheduler's account.
    """

    def __init__(self, settings: Settings, tools: Tools | None = None) -> None:
        self._jobs = settings.data_dir / "local" / "jobs"
        self._as_users = tools is not None and not tools.command.alone
        self._writing = Lock()

    async def attach(self, target: AttachTarget) -> socket.socket:
        """Start the agent in the job's allocation, which is always on this machine; return the
        socket connected to its standard streams.

        Raises:
            SchedulerRejected: the job is not running.
            Unavailable: the job's runner does not answer.
        """
        return await asyncio.to_thread(self._connect_when_ready, target)

    def _connect_when_ready(self, target: AttachTarget) -> socket.socket:
        folder = self._run_dir(target)
        if self._as_users:
            self._write_agent(folder, target)
        give_up = time.monotonic() + _CONNECT_WITHIN_S
        while True:
            try:
                return _connect_to_runner(folder)
            except (FileNotFoundError, ConnectionRefusedError) as error:
                # A runner opens its socket after it has started the job.
                if (folder / runner.EXIT).exists() or time.monotonic() >= give_up:
                    raise SchedulerRejected(
                        f"Nothing can be started beside job {target.run.scheduler_id}: it no longer "
                        "runs, or it was started by an earlier release of the platform."
                    ) from error
                time.sleep(_ASK_AGAIN_S)
            except OSError as error:
                raise Unavailable(
                    f"The supervisor of job {target.run.scheduler_id} does not answer: {error}."
                ) from error

    def _run_dir(self, target: AttachTarget) -> Path:
        """Return the folder of the latest run of the job or task. Raises ``SchedulerRejected`` if
        there is none.
        """
        run = target.run
        number, _, task = (run.scheduler_id or "").partition("_")
        folder = self._jobs / (number if number.isdecimal() else "unknown")
        if _is_record_of(folder / JOB, target):
            runs = (folder / (f"task-{task}" if task else "task")).glob("run-*")
            latest = max(runs, key=lambda path: int(path.name.partition("-")[2]), default=None)
            if latest is not None:
                return latest
        raise SchedulerRejected(
            f"Job {run.scheduler_id} does not run, so nothing can be started beside it."
        )

    def _write_agent(self, folder: Path, target: AttachTarget) -> None:
        """Write the agent's command line for the runner of a job under another account, which
        cannot read root's installation of the agent.
        """
        try:
            with self._writing:
                write_atomically(folder / runner.AGENT, json.dumps(target.agent).encode())
        except OSError as error:
            raise Unavailable(
                f"Nothing was started beside job {target.run.scheduler_id}: {error}."
            ) from error

    async def close(self) -> None:
        """Do nothing: no resources are held."""


def _connect_to_runner(folder: Path) -> socket.socket:
    """Connect to the runner's socket. Raises ``OSError``."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.settimeout(_CONNECT_WITHIN_S)
        # Through a descriptor of the folder: the path of a socket has at most 107 bytes.
        place = os.open(folder, os.O_PATH | os.O_DIRECTORY)
        try:
            connection.connect(f"/proc/self/fd/{place}/{runner.DOOR}")
        finally:
            os.close(place)
        connection.settimeout(None)
    except OSError:
        connection.close()
        raise
    return connection


def _is_record_of(path: Path, target: AttachTarget) -> bool:
    try:
        request = read_state(LocalJobRecord, path).request
    except (OSError, ValueError):
        return False
    run = target.run
    return (request.job_id, request.attempt, request.account) == (
        run.job_id,
        run.attempt,
        run.account,
    )
