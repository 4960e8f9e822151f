"""Queries of the scheduler that concurrent callers share, and the changes since each caller's last
poll.
"""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Generic, TypeVar

from aitne.core.broker.protocol import PollResult
from aitne.core.errors import AitneError
from aitne.core.ports.scheduler import SchedulerJob

_MAX_GONE = 200_000
"""Maximum number of ended jobs that are remembered; a caller whose generation is older gets all
records.
"""

T = TypeVar("T")


class SharedQuery(Generic[T]):
    """Query of the scheduler whose answer, or error, is shared by all callers for ``fresh_s``
    seconds. ``ask`` performs the query.
    """

    def __init__(self, ask: Callable[[], Awaitable[T]], fresh_s: float) -> None:
        self._ask = ask
        self._fresh_s = fresh_s
        self._busy = asyncio.Lock()
        self._begun_at = float("-inf")
        self._changed_at = float("-inf")
        self._result: T | None = None
        self._error: AitneError | None = None

    async def get(self) -> T:
        """Return the shared answer. If its query began more than ``fresh_s`` seconds ago, query the
        scheduler first. Raises the query's error.
        """
        clock = asyncio.get_running_loop().time
        earliest = clock() - self._fresh_s
        async with self._busy:
            if self._begun_at < max(earliest, self._changed_at):
                begun_at = clock()
                self._result = self._error = None
                try:
                    self._result = await self._ask()
                except AitneError as error:
                    self._error = error
                self._begun_at = begun_at
            if self._error is not None:
                raise self._error
            assert self._result is not None  # noqa: S101 - a query sets one of the two
            return self._result

    @contextmanager
    def invalidate_around(self) -> Iterator[None]:
        """Wrap an action, such as a submission, that changes what the query returns.

        When the ``with`` block ends, the shared answer becomes invalid: later calls of ``get``
        query the scheduler again.
        """
        try:
            yield
        finally:
            self._changed_at = asyncio.get_running_loop().time()


class Generations:
    """List of the scheduler's jobs with numbered versions (generations). A caller that names the
    generation it already has gets only the records that have changed since then.

    The scheduler adapter returns the same object for an unchanged record, so two polls are compared
    by object identity, with one lookup for each record.
    """

    def __init__(self) -> None:
        # Generations of another broker are never accepted.
        self._origin = os.urandom(6).hex()
        self._generation = 0
        self._next = 1
        self._live: dict[int, SchedulerJob] = {}
        self._born: dict[int, int] = {}
        self._numbers: dict[int, int] = {}
        self._gone: deque[tuple[int, int]] = deque()
        self._forgotten_before = 0

    def update(self, records: Sequence[SchedulerJob]) -> None:
        """Store the records of a poll. If they differ from the previous ones, a new generation
        begins.
        """
        present: dict[int, int] = {}
        fresh: list[SchedulerJob] = []
        for record in records:
            number = self._numbers.get(id(record))
            if number is None:
                fresh.append(record)
            else:
                present[id(record)] = number
        departed = [key for key in self._numbers if key not in present]
        if not fresh and not departed:
            return
        self._generation += 1
        for key in departed:
            number = self._numbers.pop(key)
            del self._live[number], self._born[number]
            self._gone.append((self._generation, number))
        for record in fresh:
            if id(record) in self._numbers:
                continue  # the same object twice in one poll
            number, self._next = self._next, self._next + 1
            self._live[number] = record
            self._born[number] = self._generation
            self._numbers[id(record)] = number
        while len(self._gone) > _MAX_GONE:
            self._forgotten_before = self._gone.popleft()[0]

    def list_changes_since(self, caller_generation: str | None) -> PollResult:
        """Return the changes since ``caller_generation``. All records are returned if it is None,
        too old, or from another broker process.
        """
        generation = f"{self._origin}:{self._generation}"
        base = self._parse_generation(caller_generation)
        if base is None:
            return PollResult(
                generation=generation, full=True, gone=[], new=list(self._live.items())
            )
        removed_numbers = []
        for at, number in reversed(self._gone):
            if at <= base:
                break
            removed_numbers.append(number)
        new = []
        for number in reversed(self._live):
            if self._born[number] <= base:
                break
            new.append((number, self._live[number]))
        return PollResult(generation=generation, full=False, gone=removed_numbers, new=new)

    def _parse_generation(self, caller_generation: str | None) -> int | None:
        origin, _, number = (caller_generation or "").partition(":")
        if origin != self._origin or not number.isdecimal():
            return None
        generation = int(number)
        return generation if self._forgotten_before <= generation <= self._generation else None
