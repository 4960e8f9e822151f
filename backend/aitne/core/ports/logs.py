"""A job's log: what its program wrote, stdout and stderr merged, as bytes with offsets."""

from __future__ import annotations

from typing import Protocol
from uuid import UUID

from aitne.core.models.base import Frozen


class LogChunk(Frozen):
    """``data`` starts at byte ``offset``; the log holds ``size`` bytes at this moment."""

    data: bytes
    offset: int
    size: int


class Logs(Protocol):
    """Reads logs wherever they lie."""

    async def read(
        self, job_id: UUID, attempt: int, task: int | None, *, offset: int, limit: int
    ) -> LogChunk:
        """Up to ``limit`` bytes from ``offset``; a negative offset counts from the end.

        A log that does not exist yet is empty. Raises ``Unavailable`` when it cannot be read.
        """
        ...
