"""Client of pyslurm, which runs in a separate process (``worker.py``)."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from aitne.core.errors import SchedulerUnavailable, SetupError
from aitne.core.models.base import Frozen

_WORKER = Path(__file__).with_name("worker.py")
_LONGEST_LINE = 16 << 20
_END = b'{"end": '
_LAST_WORDS = 2_000
_START_S = 30.0
_EXIT_S = 1.0


class WorkerHello(Frozen):
    """First message of the process with pyslurm: versions, and the names that the platform needs
    but this pyslurm lacks.
    """

    pyslurm: str
    interface: int
    """Interface number of the libslurm that pyslurm uses, such as 45 for libslurm.so.45."""
    missing: tuple[str, ...]


class Library:
    """Client of a process that runs pyslurm. The first query starts the process; if it has ended,
    the next query restarts it.
    """

    def __init__(self, conf: Path | None) -> None:
        self._conf = {} if conf is None else {"SLURM_CONF": str(conf)}
        self._worker: _Worker | None = None
        self._turn = asyncio.Lock()

    async def restart(self) -> WorkerHello:
        """Restart the process and return its first message.

        Raises:
            SetupError: pyslurm is missing, or its process ends immediately; the message contains
                the process's error output.
        """
        async with self._turn:
            await self._terminate_worker()
            return await self._start_worker()

    async def query_jobs(self, timeout_s: float) -> Sequence[bytes]:
        """Return the records of all of the platform's jobs that slurmctld holds, each as JSON.

        Raises:
            SchedulerUnavailable: slurmctld did not answer, or the process ended.
        """
        async with self._turn:
            if self._worker is None:
                try:
                    await self._start_worker()
                except SetupError as error:
                    raise SchedulerUnavailable(error.message) from error
            worker = self._worker
            assert worker is not None  # noqa: S101 - started above
            try:
                async with asyncio.timeout(timeout_s):
                    records, end = await worker.query_jobs()
            except TimeoutError as error:
                await self._terminate_worker(grace_s=0)
                raise SchedulerUnavailable(
                    f"slurmctld did not answer pyslurm within {timeout_s:g} s."
                ) from error
            except (OSError, ValueError) as error:
                raise SchedulerUnavailable(
                    f"pyslurm ended: {await self._terminate_worker()}"
                ) from error
            except asyncio.CancelledError:
                # A part of an answer may be in transit.
                await self._terminate_worker(grace_s=0)
                raise
        if end is not None:
            raise SchedulerUnavailable(f"pyslurm says: {end}")
        return records

    async def close(self) -> None:
        """Terminate the process of pyslurm."""
        async with self._turn:
            await self._terminate_worker()

    async def _start_worker(self) -> WorkerHello:
        # The path of slurm.conf for libslurm, and no limit to the list of an array's tasks.
        env = {**os.environ, **self._conf, "SLURM_BITSTR_LEN": "0"}
        self._worker = _Worker(
            await asyncio.create_subprocess_exec(
                # -P: do not import modules from the worker's folder.
                *(sys.executable, "-P", str(_WORKER)),
                stdin=PIPE,
                stdout=PIPE,
                stderr=PIPE,
                env=env,
                limit=_LONGEST_LINE,
            )
        )
        try:
            async with asyncio.timeout(_START_S):
                return WorkerHello.model_validate_json(await self._worker.read_line())
        except (TimeoutError, ValueError) as error:
            raise SetupError(
                f"pyslurm cannot be used here: {await self._terminate_worker()} It has no wheel: install pyslurm "
                "25.11.2 into the platform's environment, built with the headers of Slurm 26.05. Or "
                'use scheduler = "slurm", which works with every release.'
            ) from error
        except asyncio.CancelledError:
            await self._terminate_worker()
            raise

    async def _terminate_worker(self, grace_s: float = _EXIT_S) -> str:
        worker, self._worker = self._worker, None
        return "" if worker is None else await worker.terminate(grace_s)


class _Worker:
    """Connection to a running process with pyslurm."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._words = b""
        self._listener = asyncio.create_task(self._read_stderr())

    async def _read_stderr(self) -> None:
        """Read the process's stderr continuously, so that its pipe does not fill up, and keep the
        last part.
        """
        stderr = self._process.stderr
        while stderr is not None and (more := await stderr.read(_LAST_WORDS)):
            self._words = (self._words + more)[-_LAST_WORDS:]

    async def read_line(self) -> bytes:
        """Return the next line of the process's stdout; an empty one if the process has ended.
        Raises ``ValueError`` if a line is too long.
        """
        stdout = self._process.stdout
        return b"" if stdout is None else await stdout.readline()

    async def query_jobs(self) -> tuple[list[bytes], str | None]:
        """Query all jobs: return their records and None, or an empty list and the reason why the
        query failed. Raises ``OSError`` or ``ValueError`` if the process has ended.
        """
        stdin = self._process.stdin
        if stdin is None or self._process.returncode is not None:
            raise BrokenPipeError
        stdin.write(b"jobs\n")
        await stdin.drain()
        records: list[bytes] = []
        while not (line := await self.read_line()).startswith(_END):
            if not line.endswith(b"\n"):
                raise BrokenPipeError
            records.append(line)
        end = json.loads(line)["end"]
        return records, None if end is None else str(end)

    async def terminate(self, grace_s: float) -> str:
        """Terminate the process, with a kill after ``grace_s`` seconds; return the last line of its
        stderr, or its exit status.
        """
        process = self._process
        try:
            async with asyncio.timeout(grace_s):
                if process.stdin is not None:
                    process.stdin.close()
                await process.wait()
        except TimeoutError:
            with suppress(ProcessLookupError):
                process.kill()  # it waits for slurmctld and holds no state
            await process.wait()
        await self._listener
        lines = self._words.decode("utf-8", "replace").strip().splitlines()
        return lines[-1] if lines else f"its process ended with {process.returncode}."
