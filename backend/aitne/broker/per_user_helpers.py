"""Per-user helpers: processes that access files under a user's account, so that root never does.
They are kept while they are in use.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from select import select
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import from_json

from aitne.adapters.unix_account_mapping import UnixUser
from aitne.broker.request_guard import Guard
from aitne.broker.zygote import LENGTH, MAX_FRAME_BYTES, Zygote
from aitne.core.broker.error_conversion import error_from_wire
from aitne.core.broker.protocol import VERBS, JobLocationArgs, ReadLogResult
from aitne.core.errors import Unavailable

IDLE_S = 60.0
MOST_HELPERS = 500
_MARGIN_S = 2.0
"""Seconds by which the timeout of a per-user helper process is shorter than the timeout of the verb
that it executes, so that the broker answers before the caller gives up.
"""
_END_S = 1.0

A = TypeVar("A", bound=BaseModel)
_Key = tuple[str, str]
"""Account, and purpose of the helper: files of jobs, storage areas, or files of the user's own."""


class Helpers:
    """The broker's per-user helpers, which execute verbs that access files. A helper is forked when
    it is needed.

    ``adapters.broker_scheduler.FilesByVerb`` makes this an implementation of ``JobFiles``.
    """

    def __init__(self, zygote: Zygote, guard: Guard) -> None:
        self._zygote = zygote
        self._guard = guard
        self._helpers: dict[_Key, _Helper] = {}
        self._forking = asyncio.Lock()

    async def call(self, verb: str, args: dict[str, Any], answer: type[A]) -> A:
        """Execute a verb on a job's folder in the per-user helper for job files; return its result,
        of the type ``answer``.

        Raises:
            NotAllowed: the account or the folder is not permitted.
            Unavailable: the file system does not answer.
            AitneError: the error that the helper reported.
        """
        place = JobLocationArgs.model_validate({"place": args["place"]}).place
        user = await asyncio.to_thread(self._guard.check_job_folder, place)
        return await self._call_helper(user, "files", verb, args, answer)

    async def read_outside_log(
        self, user: UnixUser, verb: str, args: dict[str, Any]
    ) -> ReadLogResult:
        """Read the log of a job that was not submitted through the platform: execute ``verb`` with
        ``args`` in the user's helper for job files.

        Raises:
            Unavailable: the file system does not answer.
            AitneError: the error that the helper reported.
        """
        return await self._call_helper(user, "files", verb, args, ReadLogResult)

    async def call_for_storage(
        self, user: UnixUser, verb: str, args: dict[str, Any], answer: type[A]
    ) -> A:
        """Execute a verb in the user's second helper, for storage areas; return its result. This
        helper may hang without blocking the files of jobs.

        Raises:
            Unavailable: the helper does not answer.
            AitneError: the error that the helper reported.
        """
        return await self._call_helper(user, "areas", verb, args, answer)

    async def _call_helper(
        self, user: UnixUser, purpose: str, verb: str, args: dict[str, Any], answer: type[A]
    ) -> A:
        body = json.dumps({"verb": verb, "args": args}).encode()
        for last in (False, True):
            helper, fresh = await self._get_helper(user, purpose)
            try:
                response = await helper.send_request(body, VERBS[verb].timeout_s - _MARGIN_S)
                break
            except _Gone as error:
                # An idle helper may have been ended by its user: the request is executed once or
                # repeated without harm.
                if fresh or last:
                    raise Unavailable(
                        f"The process that reads the files of {user.name} ended without an answer. "
                        "Try again; if this persists, find out what ends its processes."
                    ) from error
                await helper.wait_for_end()
        if "error" in response:
            raise error_from_wire(response["error"])
        try:
            return answer.model_validate(response.get("ok"))
        except ValidationError as error:
            raise Unavailable(f"The helper of {user.name} gave an invalid answer.") from error

    async def call_for_files(
        self, user: UnixUser, verb: str, args: dict[str, Any], answer: type[A]
    ) -> A:
        """Execute a verb in the user's third helper, for files of the user's own; return its
        result. A file system that hangs, or a long transfer, hides no log and no storage area.

        Raises:
            Unavailable: the helper does not answer.
            AitneError: the error that the helper reported.
        """
        return await self._call_helper(user, "own files", verb, args, answer)

    async def close_idle(self) -> None:
        """Close the helpers that have not been used for some time, and remove those that have
        ended.
        """
        for name, helper in list(self._helpers.items()):
            if helper.may_be_closed(IDLE_S):
                del self._helpers[name]
                await helper.close()

    async def close(self) -> None:
        """Close the connections to all helpers."""
        for helper in self._helpers.values():
            await helper.close()
        self._helpers.clear()

    async def _get_helper(self, user: UnixUser, purpose: str) -> tuple[_Helper, bool]:
        """Return the account's helper for the purpose, and True if it has just been started. Raises
        ``Unavailable`` if too many helpers are in use.
        """
        async with self._forking:
            key = (user.name, purpose)
            existing = self._helpers.get(key)
            if existing is not None and existing.user == user and not existing.has_ended:
                return existing, False
            if existing is not None:
                del self._helpers[key]
                await existing.close()
            await self._make_room()
            connection, pid = await asyncio.to_thread(
                self._zygote.fork_helper, user.uid, user.gid, user.groups
            )
            connection.setblocking(False)
            reader, writer = await asyncio.open_unix_connection(
                sock=connection, limit=MAX_FRAME_BYTES
            )
            helper = _Helper(user, pid, reader, writer)
            self._helpers[key] = helper
            return helper, True

    async def _make_room(self) -> None:
        if len(self._helpers) < MOST_HELPERS:
            return
        idle = [item for item in self._helpers.items() if item[1].may_be_closed(0.0)]
        if not idle:
            raise Unavailable("Too many accounts access their files at once. Try again.")
        name, helper = max(idle, key=lambda item: item[1].idle_s)
        del self._helpers[name]
        await helper.close()


@asynccontextmanager
async def _acquire_within(lock: asyncio.Lock, timeout_s: float) -> AsyncIterator[None]:
    async with asyncio.timeout(timeout_s):
        await lock.acquire()
    try:
        yield
    finally:
        lock.release()


class _Gone(Exception):
    """Error: the helper has closed its connection."""


class _Helper:
    """Connection to one per-user helper. If a file system hangs, only requests for this helper's
    account wait.
    """

    def __init__(
        self,
        user: UnixUser,
        pid: int,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        self.user = user
        self._reader = reader
        self._writer = writer
        self._turn = asyncio.Lock()
        self._queued = 0
        self._used_at = time.monotonic()
        self._stuck = False
        self._process: int | None = None
        with suppress(ProcessLookupError):
            self._process = os.pidfd_open(pid)

    @property
    def idle_s(self) -> float:
        """Seconds since the helper was last used; 0 while it is in use."""
        return 0.0 if self._queued else time.monotonic() - self._used_at

    def may_be_closed(self, after_s: float) -> bool:
        """Return whether the helper can be closed: it has ended, or it has been idle for more than
        ``after_s`` seconds and is not blocked in the kernel.
        """
        return self.has_ended or (self.idle_s > after_s and not self._stuck)

    @property
    def has_ended(self) -> bool:
        """Return True if the helper has closed its connection or its process has ended."""
        if self._stuck:
            return self._process is None or bool(select([self._process], [], [], 0)[0])
        return self._reader.at_eof() or self._writer.is_closing()

    async def wait_for_end(self) -> None:
        """Wait briefly for the end of the helper's process, because the kernel closes the
        connection shortly before it.
        """
        if self._process is not None:
            # A concurrent request may have noticed the end first and closed the descriptor.
            with suppress(OSError):
                await asyncio.to_thread(select, [self._process], [], [], _END_S)

    async def send_request(self, body: bytes, timeout_s: float) -> dict[str, Any]:
        """Send a request to the helper and return its answer.

        Raises:
            Unavailable: the helper does not answer within ``timeout_s`` seconds.
            _Gone: the helper has closed the connection.
        """
        if self._stuck:
            raise self._make_hang_error()
        self._queued += 1
        try:
            async with _acquire_within(self._turn, timeout_s / 2):
                return await self._exchange_frames(body, timeout_s / 2)
        except TimeoutError:
            raise self._make_hang_error() from None
        finally:
            self._queued -= 1
            self._used_at = time.monotonic()

    async def close(self) -> None:
        """Close the connection, which makes the helper exit."""
        self._writer.close()
        with suppress(OSError):
            await self._writer.wait_closed()
        if self._process is not None:
            os.close(self._process)
            self._process = None

    async def _exchange_frames(self, body: bytes, timeout_s: float) -> dict[str, Any]:
        whole = False
        try:
            async with asyncio.timeout(timeout_s):
                self._writer.write(LENGTH.pack(len(body)) + body)
                await self._writer.drain()
                (size,) = LENGTH.unpack(await self._reader.readexactly(LENGTH.size))
                if size > MAX_FRAME_BYTES:
                    raise _Gone("a frame of absurd length")
                answer = from_json(await self._reader.readexactly(size))
            whole = isinstance(answer, dict)
            if not whole:
                raise _Gone("no answer")
            return answer  # type: ignore[no-any-return]
        except TimeoutError:
            raise
        except (OSError, EOFError, ValueError) as error:
            raise _Gone(str(error)) from error
        finally:
            if not whole:
                # It may sleep in the kernel until the file system is back: it cannot be killed,
                # and no second one is started for the account before it is gone.
                self._stuck = True
                self._kill()

    def _kill(self) -> None:
        if self._process is not None:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._process, signal.SIGKILL)

    def _make_hang_error(self) -> Unavailable:
        return Unavailable(
            f"The file system with the jobs of {self.user.name} does not answer. No failure is "
            "known; ask an administrator to check the file system."
        )
