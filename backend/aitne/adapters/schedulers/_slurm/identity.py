"""How a job of ours is known in Slurm: by its comment and its name, never by its id.

Slurm gives ids again to other jobs after a crash of slurmctld; UUID and attempt are ours alone. The
comment is what a record of the queue is recognised by; accounting keeps comments only where it is
told to (AccountingStoreFlags=job_comment), but names always.
"""

from __future__ import annotations

import re
from uuid import UUID

_UUID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_COMMENT = re.compile(rf"aitne:({_UUID}):([1-9][0-9]{{0,8}})")
_NAME = re.compile(rf"aitne-({_UUID})-([1-9][0-9]{{0,8}})")


def comment(job_id: UUID, attempt: int) -> str:
    """The comment of one attempt."""
    return f"aitne:{job_id}:{attempt}"


def name(job_id: UUID, attempt: int) -> str:
    """The name of one attempt in Slurm; what the user called the job never gets there."""
    return f"aitne-{job_id}-{attempt}"


def of_comment(text: str) -> tuple[UUID, int] | None:
    """Whose comment it is; None: not one of ours, down to the last character."""
    return _read(_COMMENT, text)


def of_name(text: str) -> tuple[UUID, int] | None:
    """Whose name it is; None: not one of ours."""
    return _read(_NAME, text)


def _read(pattern: re.Pattern[str], text: str) -> tuple[UUID, int] | None:
    match = pattern.fullmatch(text)
    return None if match is None else (UUID(match[1]), int(match[2]))
