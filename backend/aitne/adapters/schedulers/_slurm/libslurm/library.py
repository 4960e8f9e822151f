"""Client of pyslurm, which runs in a process of its own (``worker.py``)."""

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


class Hello(Frozen):
    """First message of pyslurm's process: its versions and what it lacks."""

    pyslurm: str
    interface: int
    """The number of the libslurm that it uses, such as 45 in libslurm.so.45."""
    missing: tuple[str, ...]


class Library:
    """One process, started by the first query and, after its end, again by the next one."""

    def __init__(self, conf: Path | None) -> None:
        self._conf = {} if conf is None else {"SLURM_CONF": str(conf)}
        self._worker: _Worker | None = None
        self._turn = asyncio.Lock()

    async def hello(self) -> Hello:
        """Start the process anew and return its first message.

        Raises:
            SetupError: there is no pyslurm, or its process ends at once; with what was said.
        """
        async with self._turn:
            await self._end()
            return await self._begin()

    async def jobs(self, timeout_s: float) -> Sequence[bytes]:
        """Return the records of all of the platform's jobs that slurmctld holds, each as JSON.

        Raises:
            SchedulerUnavailable: slurmctld did not answer, or the process ended.
        """
        async with self._turn:
            if self._worker is None:
                try:
                    await self._begin()
                except SetupError as error:
                    raise SchedulerUnavailable(error.message) from error
            worker = self._worker
            assert worker is not None  # noqa: S101 - begun above
            try:
                async with asyncio.timeout(timeout_s):
                    records, end = await worker.ask()
            except TimeoutError as error:
                await self._end(grace_s=0)
                raise SchedulerUnavailable(
                    f"slurmctld did not answer pyslurm within {timeout_s:g} s."
                ) from error
            except (OSError, ValueError) as error:
                raise SchedulerUnavailable(f"pyslurm ended: {await self._end()}") from error
            except asyncio.CancelledError:
                # Half an answer may be on its way.
                await self._end(grace_s=0)
                raise
        if end is not None:
            raise SchedulerUnavailable(f"pyslurm says: {end}")
        return records

    async def close(self) -> None:
        """End the process of pyslurm."""
        async with self._turn:
            await self._end()

    async def _begin(self) -> Hello:
        # The way libslurm is told its file; and no end to the list of an array's tasks.
        env = {**os.environ, **self._conf, "SLURM_BITSTR_LEN": "0"}
        self._worker = _Worker(
            await asyncio.create_subprocess_exec(
                # -P: the worker's own folder is no place to look for modules.
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
                return Hello.model_validate_json(await self._worker.line())
        except (TimeoutError, ValueError) as error:
            raise SetupError(
                f"pyslurm cannot be used here: {await self._end()} It comes with no wheel, and fits "
                "Slurm 26.05 alone: scripts/pyslurm_on_sid.py builds it for a Debian with that. Or "
                'use scheduler = "slurm", which works with every release.'
            ) from error
        except asyncio.CancelledError:
            await self._end()
            raise

    async def _end(self, grace_s: float = _EXIT_S) -> str:
        worker, self._worker = self._worker, None
        return "" if worker is None else await worker.end(grace_s)


class _Worker:
    """The process while it lives."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._words = b""
        self._listener = asyncio.create_task(self._listen())

    async def _listen(self) -> None:
        """Keep the last of what libslurm writes to stderr, and keep the pipe empty."""
        stderr = self._process.stderr
        while stderr is not None and (more := await stderr.read(_LAST_WORDS)):
            self._words = (self._words + more)[-_LAST_WORDS:]

    async def line(self) -> bytes:
        """Return the next line of the process; empty: it has ended. Raises ``ValueError`` if a line
        is too long.
        """
        stdout = self._process.stdout
        return b"" if stdout is None else await stdout.readline()

    async def ask(self) -> tuple[list[bytes], str | None]:
        """Return the records, and why there are none. Raises ``OSError`` or ``ValueError``: the
        process has ended.
        """
        stdin = self._process.stdin
        if stdin is None or self._process.returncode is not None:
            raise BrokenPipeError
        stdin.write(b"jobs\n")
        await stdin.drain()
        records: list[bytes] = []
        while not (line := await self.line()).startswith(_END):
            if not line.endswith(b"\n"):
                raise BrokenPipeError
            records.append(line)
        end = json.loads(line)["end"]
        return records, None if end is None else str(end)

    async def end(self, grace_s: float) -> str:
        """End the process; return the last of what it wrote to stderr, or how it ended."""
        process = self._process
        try:
            async with asyncio.timeout(grace_s):
                if process.stdin is not None:
                    process.stdin.close()
                await process.wait()
        except TimeoutError:
            with suppress(ProcessLookupError):
                process.kill()  # it waits for slurmctld, and has nothing to lose
            await process.wait()
        await self._listener
        said = self._words.decode("utf-8", "replace").strip().splitlines()
        return said[-1] if said else f"its process ended with {process.returncode}."
