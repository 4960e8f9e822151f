"""Futures of functions that run in jobs. They behave like those of ``concurrent.futures``."""

from __future__ import annotations

import asyncio
import concurrent.futures
import json
import sys
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast, overload

from aitne.client.errors import WaitTimeout
from aitne.client.function_errors import (
    FunctionRefused,
    RemoteError,
    RemoteTraceback,
    ResultUnusable,
    make_end_error,
)
from aitne.client.pickling import loads
from aitne.client.records import Job
from aitne.client.thread_calls import call_in_thread
from aitne.core.errors import AitneError, Conflict, NotFound

if TYPE_CHECKING:
    from collections.abc import Generator

    from aitne.client.jobs import Jobs

T = TypeVar("T")
FORMAT = 1
LOG_BYTES = 1 << 20
QUOTED_BYTES, QUOTED_LINES = 8_192, 20
"""Maximum size and number of lines of the end of a log that an error quotes."""

_OTHER_PYTHON = (
    'The job\'s Python does not have it. Submit the function with python="/path/to/venv/bin/python", or image="NAME"; '
    'sync="FOLDER" sends the modules of a folder with it.'
)


class Future(concurrent.futures.Future[T]):
    """Result of a function that runs in a job.

    It supports ``concurrent.futures.wait``, ``as_completed`` and ``await``. It is done when the job
    has ended (a job in the state UNKNOWN has not ended). Callbacks run in the thread that watches
    the jobs and must not wait for other futures.
    """

    def __init__(self, jobs: Jobs, job_id: str) -> None:
        super().__init__()
        self.job_id = job_id
        """Id of the job, or of the array job's task. ``aitne.future(job_id)`` returns an equal
        future, also in another process."""
        self._jobs = jobs
        self._lock = threading.Lock()
        self._outcome: _Outcome | None = None

    def __repr__(self) -> str:
        ended = self._get_ended()
        state = "pending" if ended is None else ended.state if isinstance(ended, Job) else "unknown"
        return f"<Future of job {self.job_id}: {state}>"

    def job(self) -> Job:
        """Return the present record of the job: its state, nodes, times, reason for waiting."""
        return self._jobs.get(self.job_id)

    def result(self, timeout: float | None = None) -> T:
        """Wait until the job has ended, and return the return value of the function. If the
        function runs on several ranks, the value of rank 0 is returned.

        An exception of the function is raised again here; its ``__cause__`` is the traceback in the
        job.

        Raises:
            WaitTimeout: the job has not ended within ``timeout`` seconds (None: no limit). It is also a
                ``TimeoutError``. The job continues.
            JobNotCompleted: the job ended in another way; the subclass states how.
            ResultUnusable: the result cannot be loaded in this process.
        """
        outcome = self._wait_for_outcome(timeout)
        if outcome.error is not None:
            raise outcome.error
        return cast(T, outcome.value)

    def results(self, timeout: float | None = None) -> list[T]:
        """Wait as ``result`` does, and return what the function returned on each rank."""
        first = self.result(timeout)
        job = cast(Job, self._get_ended())
        ranks = int((job.distributed or {}).get("ranks_per_node") or 1) * job.resources.nodes
        others = (
            _parse_result(self._jobs.result(self.job_id, rank=rank)).get_value()
            for rank in range(1, ranks)
        )
        return [first, *others]

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Wait like ``result``, and return the exception that ``result`` would raise; None if the
        function returned a value. Raises ``WaitTimeout``.
        """
        return self._wait_for_outcome(timeout).error

    def log(self, max_bytes: int = LOG_BYTES) -> str:
        """Return the last ``max_bytes`` bytes of the job's log as text."""
        chunks = self._jobs.logs(self.job_id, tail=max_bytes)
        return b"".join(chunks).decode("utf-8", "replace")

    def cancel(self) -> bool:
        """Request cancellation of the job, which may be running. The job ends shortly afterwards.
        Return False if it has already ended.
        """
        return not self._jobs.cancel(self.job_id).ended

    def cancelled(self) -> bool:
        """Return whether the job has ended because it was cancelled."""
        ended = self._get_ended()
        return isinstance(ended, Job) and ended.state == "CANCELLED"

    def running(self) -> bool:
        """Return whether the job runs now, according to the platform."""
        return not self.done() and self.job().state == "RUNNING"

    def __await__(self) -> Generator[Any, None, T]:
        return self._wait_async().__await__()

    async def _wait_async(self) -> T:
        loop = asyncio.get_running_loop()
        ended = asyncio.Event()

        def tell(_: object) -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(ended.set)

        self.add_done_callback(tell)
        await ended.wait()
        return await call_in_thread(self.result)

    def _set_outcome(self, outcome: Job | AitneError) -> None:
        """Record that the job has ended, or why it can no longer be watched."""
        # The base class keeps the job's record; the function's result is read when it is wanted.
        self.set_result(cast(T, outcome))

    def _get_ended(self) -> Job | AitneError | None:
        return cast(Job | AitneError, super().result()) if self.done() else None

    def _wait_for_outcome(self, timeout: float | None) -> _Outcome:
        try:
            ended = cast(Job | AitneError, super().result(timeout))
        except TimeoutError:
            raise WaitTimeout(
                f"Job {self.job_id} has not ended after {timeout:g} s. It continues."
            ) from None
        with self._lock:
            if self._outcome is None:
                if isinstance(ended, AitneError):
                    self._outcome = _Outcome(error=ended)
                else:
                    self._outcome = self._load_outcome(ended)
            return self._outcome

    def _load_outcome(self, job: Job) -> _Outcome:
        if job.state in ("COMPLETED", "FAILED"):
            try:
                outcome = _parse_result(self._jobs.result(job.id), job)
            except NotFound:
                pass
            except Conflict as error:
                return _Outcome(error=error)
            else:
                if outcome.complete:
                    return outcome
        return _Outcome(error=make_end_error(job, self._last_lines()))

    def _last_lines(self) -> str:
        try:
            lines = self.log(QUOTED_BYTES).splitlines()
        except AitneError as error:
            return f"(it cannot be read: {error.message})"
        return "\n".join(lines[-QUOTED_LINES:])


class FutureArray(Sequence[Future[T]], Generic[T]):
    """Futures of the tasks of an array job, in the order of the items."""

    def __init__(self, jobs: Jobs, job_id: str, futures: Sequence[Future[T]]) -> None:
        self.job_id = job_id
        """Id of the array job. ``aitne.futures(job_id)`` returns equal futures."""
        self._jobs = jobs
        self._futures = list(futures)

    @overload
    def __getitem__(self, index: int) -> Future[T]: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Future[T]]: ...

    def __getitem__(self, index: int | slice) -> Future[T] | Sequence[Future[T]]:
        return self._futures[index]

    def __len__(self) -> int:
        return len(self._futures)

    def __repr__(self) -> str:
        done = sum(future.done() for future in self)
        return f"<FutureArray of job {self.job_id}: {done} of {len(self)} done>"

    def results(self, timeout: float | None = None) -> list[T]:
        """Wait until all tasks have ended, and return the results in the order of the items.

        ``timeout`` is the maximum time in seconds; None: no limit. If tasks failed, the error of
        the failed task with the lowest index is raised. Raises ``WaitTimeout``.
        """
        pending = concurrent.futures.wait(self, timeout).not_done
        if pending:
            raise WaitTimeout(
                f"{len(pending)} of {len(self)} tasks of job {self.job_id} have not ended after "
                f"{timeout:g} s. They continue."
            )
        return [future.result() for future in self]

    def cancel(self) -> bool:
        """Request cancellation of all tasks that have not ended; return False if all have."""
        return not self._jobs.cancel(self.job_id).ended


class _Outcome:
    """Value or exception of a function. ``complete`` is False if the result file is truncated or
    invalid.
    """

    def __init__(
        self, value: object = None, error: BaseException | None = None, *, complete: bool = True
    ) -> None:
        self.value = value
        self.error = error
        self.complete = complete

    def get_value(self) -> Any:
        """Return the value or raise the error."""
        if self.error is not None:
            raise self.error
        return self.value


def _parse_result(content: bytes, job: Job | None = None) -> _Outcome:
    """Parse a result file. ``job`` is the job that wrote it."""
    line, _, data = content.partition(b"\n")
    try:
        header = json.loads(line)
        complete = header["format"] == FORMAT and len(data) == header["bytes"]
        kind, python = header["kind"], list(header["python"])
    except (ValueError, KeyError, TypeError):
        return _Outcome(complete=False)
    if not complete:
        return _Outcome(complete=False)
    if kind == "refused" and job is not None:
        return _Outcome(error=FunctionRefused(str(header.get("message")), job))
    here = list(sys.version_info[:2])
    if python != here:
        return _Outcome(
            error=ResultUnusable(
                f"The job's result was written by Python {python[0]}.{python[1]}, and this is "
                f"Python {here[0]}.{here[1]}. Read it with an equal version."
            )
        )
    if kind == "exception":
        return _Outcome(error=_make_exception(header, data))
    try:
        return _Outcome(loads(data))
    except Exception as error:  # noqa: BLE001 - a value's own code may raise anything
        unusable = ResultUnusable(
            f"The job's result cannot be loaded here: {type(error).__name__}: {error}."
        )
        unusable.__cause__ = error
        return _Outcome(error=unusable)


def _make_exception(header: dict[str, Any], data: bytes) -> BaseException:
    name, message = str(header.get("type")), str(header.get("message"))
    error: BaseException
    try:
        error = loads(data) if data else RemoteError(f"{name}: {message}", name)
    except Exception as failure:  # noqa: BLE001 - an exception's own code may raise anything
        error = RemoteError(f"{name}: {message} (it cannot be loaded here: {failure})", name)
    error.__cause__ = RemoteTraceback(str(header.get("traceback")))
    if isinstance(error, ModuleNotFoundError):
        error.add_note(_OTHER_PYTHON)
    return error
