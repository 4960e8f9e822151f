"""Fence: a file that ensures that the program of each attempt runs only once.

It names the scheduler job that runs the attempt. When the program ends, its outcome is stored
beside the fence, because a scheduler may lose it.
"""

from __future__ import annotations

import errno
import json
import os
import time

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing costs as much time as the agent's own code
    from collections.abc import Sequence

_RESERVED = ".reserved"
_RESERVED_BYTES = 4_096
_NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EMLINK)


class DuplicateRunError(Exception):
    """Error: the program must not be started, because another scheduler job runs or has run this
    attempt."""


class RunEndedError(Exception):
    """Error: the program was already started by this scheduler job and has ended, with the exit
    code ``code``."""

    def __init__(self, code: int) -> None:
        super().__init__(f"it has ended before, with exit code {code}")
        self.code = code


def take_fence(job_dir: str, task: int | None, owner: str, restart_count: int) -> None:
    """Create the fence, or take it over from an earlier start of the same scheduler job.

    A scheduler that has lost the outcome of a job starts the job again under the same ID.

    Args:
        job_dir: folder of the job's attempt.
        task: index of the array task; None: the job is not an array.
        owner: the scheduler's ID of this job.
        restart_count: number of requeues of the scheduler job.

    Raises:
        RunEndedError: the program has been run before and has ended.
        DuplicateRunError: the fence belongs to another scheduler job, or was created by this
            same start.
        OSError: the fence can neither be created nor read.
    """
    path = os.path.join(job_dir, "fence" if task is None else f"fence-{task}")
    content = json.dumps({"owner": owner, "restart_count": restart_count}).encode()
    temporary = f"{path}.{os.urandom(8).hex()}"
    try:
        write_private_file(temporary, content, os.O_TRUNC)
        try:
            _write_atomically(temporary, path, content)
        except FileExistsError:
            _check_run_ended(job_dir, task, owner)
            _take_over(temporary, path, owner, restart_count)
    finally:
        if os.path.exists(temporary):
            os.unlink(temporary)


def reserve_outcome(job_dir: str, task: int | None) -> None:
    """Reserve space for the outcome, which must be recorded also if the program fills the disk."""
    try:
        with open(f"{_outcome_path(job_dir, task)}{_RESERVED}", "wb") as file:
            file.write(b" " * _RESERVED_BYTES)
    except OSError:
        return  # on a full disk the job may still succeed


def write_outcome(
    job_dir: str,
    task: int | None,
    owner: str,
    restart_count: int,
    exit_code: int,
    *,
    interrupted: bool,
    reason: str | None = None,
    message: str | None = None,
    lost_nodes: Sequence[str] = (),
) -> None:
    """Write the outcome of the program to a file beside the fence.

    Args:
        job_dir: folder of the job's attempt.
        task: index of the array task; None: the job is not an array.
        owner: the scheduler's ID of this job.
        restart_count: number of requeues of the scheduler job.
        exit_code: exit code of the program.
        interrupted: whether the scheduler had asked the program to end. The scheduler may then
            start it again, regardless of the exit code.
        reason: reason if the agent ended the program or did not start it; otherwise None.
        message: message for the user; None: none.
        lost_nodes: names of the nodes whose agents were lost.

    Raises:
        OSError: the file cannot be written.
    """
    path = _outcome_path(job_dir, task)
    reserved = f"{path}{_RESERVED}"
    temporary = reserved if os.path.exists(reserved) else f"{path}.{os.urandom(8).hex()}"
    facts = {
        "owner": owner,
        "restart_count": restart_count,
        "exit_code": exit_code,
        "interrupted": interrupted,
        "reason": reason,
        "message": message,
        "lost_nodes": list(lost_nodes),
        "ended_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }
    try:
        write_private_file(temporary, json.dumps(facts).encode(), 0)
        os.replace(temporary, path)
    finally:
        if os.path.exists(temporary):
            os.unlink(temporary)


def _write_atomically(temporary: str, path: str, content: bytes) -> None:
    try:
        os.link(temporary, path)  # appears whole: a crash leaves no empty fence
    except FileExistsError:
        # NFS: the reply to a successful link can be lost, and the request be repeated.
        if not os.path.samefile(temporary, path):
            raise
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        write_private_file(path, content, os.O_EXCL)


def _check_run_ended(job_dir: str, task: int | None, owner: str) -> None:
    try:
        with open(_outcome_path(job_dir, task), encoding="utf-8") as file:
            outcome = json.load(file)
        code, holder = int(outcome["exit_code"]), str(outcome["owner"])
        interrupted = bool(outcome["interrupted"])
    except FileNotFoundError:
        return
    except (ValueError, KeyError, TypeError) as error:
        raise DuplicateRunError(f"the outcome beside it cannot be read: {error!r}") from None
    if holder == owner and not interrupted:
        raise RunEndedError(code)


def _outcome_path(job_dir: str, task: int | None) -> str:
    return os.path.join(job_dir, "outcome" if task is None else f"outcome-{task}")


def _take_over(temporary: str, path: str, owner: str, restart_count: int) -> None:
    with open(path, encoding="utf-8") as file:
        text = file.read()
    try:
        record = json.loads(text)
        holder, count = str(record["owner"]), int(record["restart_count"])
    except (ValueError, KeyError, TypeError):
        raise DuplicateRunError(
            f"{path} is taken, by an owner that cannot be read: {text[:100]!r}"
        ) from None
    if holder != owner:
        raise DuplicateRunError(f"{path} is taken by scheduler job {holder}; this is {owner}")
    if restart_count <= count:
        raise DuplicateRunError(
            f"{path} is taken by start {count} of scheduler job {owner}; this is start {restart_count}"
        )
    os.replace(temporary, path)


def write_private_file(path: str, content: bytes, flags: int) -> None:
    """Write a file that only its owner can read, and flush it to the disk (``fsync``). Raises
    ``OSError``."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT | flags, 0o600)
    try:
        os.write(file, content)
        os.ftruncate(file, len(content))
        os.fsync(file)
    finally:
        os.close(file)
