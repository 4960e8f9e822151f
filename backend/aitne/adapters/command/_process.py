"""Execution of one process with a minimal environment, a time limit and limited output."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import Mapping, Sequence
from contextlib import suppress

from aitne.core.errors import CommandTimeout, RateLimited, Unavailable
from aitne.core.ports.command import Completed

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
MAX_OUTPUT_BYTES = 256 << 20
"""Maximum size of stdout in bytes; ``squeue`` writes about 300 bytes per job, ``squeue --json`` ten
times that.
"""
_MAX_ERROR_BYTES = 1 << 20
_CHUNK = 1 << 18


async def run_process(
    argv: Sequence[str],
    *,
    name: str,
    stdin: bytes,
    env: Mapping[str, str] | None,
    timeout_s: float,
) -> Completed:
    """Run a program until it ends, in a session of its own and in the folder ``/``.

    Args:
        argv: program and arguments.
        name: name of the command in error messages.
        stdin: content of its standard input.
        env: environment variables in addition to ``PATH`` and ``LANG``; None: no others.
        timeout_s: seconds after which the process is killed.

    Raises:
        CommandTimeout: the process did not end within ``timeout_s``; its whole group was killed.
        Unavailable: the process could not be started, or exceeded the output limit.
    """
    try:
        process = await asyncio.create_subprocess_exec(
            *argv,
            stdin=asyncio.subprocess.PIPE if stdin else asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            cwd="/",
            env={"PATH": PATH, "LANG": "C.UTF-8", **(env or {})},
            start_new_session=True,
            limit=_CHUNK,
        )
    except (OSError, ValueError) as error:
        raise Unavailable(
            f"{name} could not be started: {error}. Install it here, or check slurm.command_prefix."
        ) from error
    try:
        async with asyncio.timeout(timeout_s):
            stdout, stderr, _ = await asyncio.gather(
                _read_limited(process.stdout, MAX_OUTPUT_BYTES),
                _read_limited(process.stderr, _MAX_ERROR_BYTES),
                _write_and_close(process.stdin, stdin),
            )
            returncode = await process.wait()
    except TimeoutError as error:
        raise CommandTimeout(
            f"{name} did not end within {timeout_s:g} s and was killed; what it did before that "
            "is unknown."
        ) from error
    except _TooMuch as error:
        raise Unavailable(f"{name} wrote more than {error} bytes and was killed.") from error
    finally:
        await _end_process_group(process)
    return Completed(returncode, stdout, stderr)


class _TooMuch(Exception):
    pass


async def _read_limited(stream: asyncio.StreamReader | None, max_bytes: int) -> bytes:
    parts: list[bytes] = []
    size = 0
    while stream is not None and (part := await stream.read(_CHUNK)):
        size += len(part)
        if size > max_bytes:
            raise _TooMuch(max_bytes)
        parts.append(part)
    return b"".join(parts)


async def _write_and_close(stream: asyncio.StreamWriter | None, data: bytes) -> None:
    if stream is None:
        return
    # The process may end without reading; its exit code tells whether that is a failure.
    with suppress(BrokenPipeError, ConnectionResetError):
        stream.write(data)
        await stream.drain()
    with suppress(BrokenPipeError, ConnectionResetError):
        stream.close()
        await stream.wait_closed()


async def _end_process_group(process: asyncio.subprocess.Process) -> None:
    """Kill the remaining processes of the group and close the pipes."""
    if process.returncode is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        with suppress(TimeoutError):  # in an uninterruptible sleep: the kernel ends it later
            async with asyncio.timeout(2.0):
                await process.wait()
    process._transport.close()  # type: ignore[attr-defined]


class ConnectedProcesses:
    """Starter of processes whose standard streams are a socket. It also waits for the end of each
    process, so callers do not have to.

    Args:
        maximum: maximum number of processes that run at the same time for one account.
    """

    def __init__(self, maximum: int) -> None:
        self._most = maximum
        self._running: dict[str | None, int] = {}
        self._waits: set[asyncio.Task[None]] = set()

    async def start(
        self, argv: Sequence[str], *, name: str, account: str | None, env: Mapping[str, str] | None
    ) -> socket.socket:
        """Start the process in a session of its own and return a socket connected to its standard
        streams.

        ``account`` is the account whose limit applies to the process; None: processes without an
        account share one limit.

        Raises:
            RateLimited: ``maximum`` processes of ``account`` are running already.
            Unavailable: the process could not be started.
        """
        if self._running.get(account, 0) >= self._most:
            raise RateLimited(
                f"{self._most} programs are attached to jobs of {account or 'this account'} already. "
                "Close a terminal or an SSH connection first.",
                10.0,
            )
        self._running[account] = self._running.get(account, 0) + 1
        ours, theirs = socket.socketpair()
        try:
            process = await asyncio.create_subprocess_exec(
                *argv,
                stdin=theirs.fileno(),
                stdout=theirs.fileno(),
                stderr=theirs.fileno(),
                cwd="/",
                env={"PATH": PATH, "LANG": "C.UTF-8", **(env or {})},
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            ours.close()
            self._release_process(account)
            raise Unavailable(f"{name} could not be started: {error}.") from error
        finally:
            theirs.close()
        wait = asyncio.create_task(self._wait_for_end(process, account), name=f"wait for {name}")
        self._waits.add(wait)
        wait.add_done_callback(self._waits.discard)
        return ours

    async def _wait_for_end(self, process: asyncio.subprocess.Process, account: str | None) -> None:
        try:
            await process.wait()
        finally:
            await _end_process_group(process)
            self._release_process(account)

    def _release_process(self, account: str | None) -> None:
        count = self._running.get(account, 1) - 1
        if count:
            self._running[account] = count
        else:
            self._running.pop(account, None)
