"""Persistent state of the scheduler: one folder for each job, which stays consistent after a crash
at any time.

::

    <root>/jobs/<number>/job.json              the request as accepted; a job is submitted when this file exists
    <root>/jobs/<number>/<task>/state.json     state outside the runs: requeues, and an end without a run
    <root>/jobs/<number>/<task>/run-<k>/       one folder for each start, also written by the runner

A job's number is never reused: the folder with the highest number is kept when old folders are
deleted.
"""

from __future__ import annotations

import logging
import os
import shutil
from pathlib import Path
from typing import TypeVar

from aitne.core.jobs.job_folder_layout import SCRIPT, get_file_mode
from aitne.core.jobs.states import TerminationReason
from aitne.core.models.base import Frozen, UtcTime
from aitne.core.ports.scheduler import SubmitRequest
from aitne.local_system.state_file_reader import DamagedState, read_state

JOB = "job.json"
STATE = "state.json"
LAUNCH = "launch.json"

_log = logging.getLogger(__name__)


class LocalJobRecord(Frozen):
    """Stored submission of a job to the ``local`` scheduler; only ``throttle`` can change later."""

    number: int
    """The job's number; for an array the number of its first task, from which the other tasks are
    numbered consecutively.
    """
    indices: tuple[int, ...] | None = None
    """Indices of the array's tasks; None: the job is not an array."""
    throttle: int | None = None
    """Maximum number of tasks that run at once; None: no maximum."""
    submitted_at: UtcTime
    """Time of submission."""
    request: SubmitRequest
    """The accepted request."""

    @property
    def last_number(self) -> int:
        """Return the highest number that the job uses; each task of an array has its own number."""
        return self.number + (len(self.indices) - 1 if self.indices else 0)


class TaskOutcome(Frozen):
    """Final outcome of a task."""

    reason: TerminationReason = TerminationReason.NODE_FAILED
    """Reason of the end; ``NODE_FAILED`` if a later release has stored one that this does not know."""
    message: str | None = None
    """Additional details about ``reason``, as text."""
    exit_code: int | None = None
    """Exit code of the script; None: a signal ended it, or it is unknown."""
    signal: int | None = None
    """Number of the signal that ended the script; None: no signal did."""
    started_at: UtcTime | None = None
    """Time at which the last run started; None: the task never started."""
    ended_at: UtcTime
    """Time at which the task ended."""


class TaskState(Frozen):
    """State of a task as it is stored on disk; its runs are stored separately."""

    restart_count: int = 0
    """Number of requeues."""
    closed_runs: int = 0
    """Number of runs that have ended and whose outcome has been processed."""
    ending: TaskOutcome | None = None
    """Final outcome; None: the task has not ended, or its last run records the outcome."""
    held: bool | None = None
    """Whether the task is held; None: as requested at submission."""


class RunGrant(Frozen):
    node: str
    gpus: tuple[int, ...] = ()


class LaunchFile(Frozen):
    """Content of ``launch.json`` in the folder of a run: the allocated resources."""

    grants: tuple[RunGrant, ...]


def job_files(request: SubmitRequest) -> dict[str, bytes]:
    """Return the contents of the files that the job folder must contain before the job starts, by
    name: the script, and the files of the request.
    """
    return {SCRIPT: request.script.encode("utf-8", "surrogateescape"), **request.files}


def write_job_files(request: SubmitRequest) -> None:
    """Write the files of a new job under this process's own account. Raises ``OSError``."""
    job_dir = Path(request.job_dir)
    _create_private_folder(job_dir)
    for name, content in job_files(request).items():
        write_atomically(job_dir / name, content, mode=get_file_mode(name))


class Records:
    """The files in which the ``local`` scheduler stores its jobs, tasks and runs. Every method may
    raise ``OSError``.
    """

    def __init__(self, root: Path) -> None:
        self.jobs = root / "jobs"

    def prepare(self) -> None:
        """Create the folder that contains all jobs."""
        _create_private_folder(self.jobs)

    def load(self) -> tuple[list[LocalJobRecord], int]:
        """Return all jobs in the order of their numbers, and the highest number ever assigned.

        A folder without a record was never accepted and is deleted.
        """
        records, highest = [], 0
        for folder in self.jobs.iterdir():
            if not folder.name.isdecimal():
                continue
            try:
                record = read_state(LocalJobRecord, folder / JOB)
            except FileNotFoundError:
                shutil.rmtree(folder, ignore_errors=True)
            except DamagedState as error:
                # Perhaps another version of the platform wrote it; its job may still run.
                _log.error("%s; it is left unchanged.", error)
                highest = max(highest, int(folder.name))
            else:
                records.append(record)
                highest = max(highest, record.last_number)
        return sorted(records, key=lambda record: record.number), highest

    def create(self, record: LocalJobRecord) -> None:
        """Write the record of a new job. If this raises, the job does not exist."""
        folder = self.jobs / str(record.number)
        try:
            folder.mkdir(0o700)
            text = record.model_dump_json(exclude={"request": {"files"}})
            write_atomically(folder / JOB, text.encode(), sync=True)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise

    def write_throttle(self, number: int, throttle: int | None) -> None:
        """Store how many tasks of an array may run at once; None: no maximum."""
        path = self.jobs / str(number) / JOB
        record = read_state(LocalJobRecord, path)
        changed = record.model_copy(update={"throttle": throttle})
        text = changed.model_dump_json(exclude={"request": {"files"}})
        write_atomically(path, text.encode(), sync=True)

    def delete(self, number: int) -> None:
        """Delete the folder of a job. Its record is deleted first, so that after a crash the
        remaining folder is not taken for a job.
        """
        folder = self.jobs / str(number)
        (folder / JOB).unlink(missing_ok=True)
        shutil.rmtree(folder, ignore_errors=True)

    def task_dir(self, number: int, index: int | None) -> Path:
        """Return the folder of a task's state and runs."""
        return self.jobs / str(number) / ("task" if index is None else f"task-{index}")

    def run_dir(self, number: int, index: int | None, run: int) -> Path:
        """Return the folder of one run of a task."""
        return self.task_dir(number, index) / f"run-{run}"

    def create_run(self, number: int, index: int | None, run: int, launch: LaunchFile) -> Path:
        """Create the folder of a run with its launch record, and return its path."""
        folder = self.run_dir(number, index, run)
        _create_private_folder(folder)
        write_atomically(folder / LAUNCH, launch.model_dump_json().encode())
        return folder

    def read_state(self, number: int, index: int | None) -> TaskState:
        """Return the stored state of the task; the initial state if none is stored."""
        return _read_state_or_none(TaskState, self.task_dir(number, index) / STATE) or TaskState()

    def write_state(self, number: int, index: int | None, state: TaskState) -> None:
        """Replace the stored state of a task."""
        folder = self.task_dir(number, index)
        _create_private_folder(folder)
        write_atomically(folder / STATE, state.model_dump_json().encode())

    def read_launch(self, run_dir: Path) -> LaunchFile | None:
        """Return the launch record of a run; None if it was never written because the start failed
        earlier.
        """
        return _read_state_or_none(LaunchFile, run_dir / LAUNCH)


_Model = TypeVar("_Model", bound=Frozen)


def _read_state_or_none(model: type[_Model], path: Path) -> _Model | None:
    try:
        return read_state(model, path)
    except (FileNotFoundError, DamagedState):
        return None


def write_atomically(path: Path, content: bytes, *, sync: bool = False, mode: int = 0o600) -> None:
    """Replace a file atomically. With ``sync`` it is also synchronized to disk, so
    that it survives a power failure.
    """
    temporary = path.with_name(f".{path.name}.new")
    try:
        with open(temporary, "wb", opener=lambda name, flags: os.open(name, flags, mode)) as file:
            file.write(content)
            if sync:
                file.flush()
                os.fsync(file.fileno())
        temporary.replace(path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
    if sync:
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _create_private_folder(folder: Path) -> None:
    """Create the folder and its missing parents, accessible only to this account."""
    if not folder.is_dir():
        _create_private_folder(folder.parent)
        folder.mkdir(0o700, exist_ok=True)
