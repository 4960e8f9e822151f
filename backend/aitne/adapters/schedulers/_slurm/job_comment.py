"""Identification of the platform's jobs in Slurm: by comment and name, never by ID.

Slurm reuses IDs for other jobs after a crash of slurmctld; UUID and attempt are unique to the
platform. A record of the queue is recognised by its comment. Accounting stores comments only if it
is configured to (AccountingStoreFlags=job_comment), but always stores names.
"""

from __future__ import annotations

import re
from uuid import UUID

_UUID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_COMMENT = re.compile(rf"aitne:({_UUID}):([1-9][0-9]{{0,8}})")
_NAME = re.compile(rf"aitne-({_UUID})-([1-9][0-9]{{0,8}})")


def make_comment(job_id: UUID, attempt: int) -> str:
    """Return the Slurm comment by which the platform recognizes an attempt of a job."""
    return f"aitne:{job_id}:{attempt}"


def make_job_name(job_id: UUID, attempt: int) -> str:
    """Return the Slurm job name of an attempt. It does not contain the name that the user gave the
    job.
    """
    return f"aitne-{job_id}-{attempt}"


def parse_comment(text: str) -> tuple[UUID, int] | None:
    """Parse a Slurm comment: return the job's UUID and the attempt, or None if it is not exactly a
    comment of the platform.
    """
    return _parse_identity(_COMMENT, text)


def parse_job_name(text: str) -> tuple[UUID, int] | None:
    """Parse a Slurm job name: return the job's UUID and the attempt, or None if it is not a name of
    the platform.
    """
    return _parse_identity(_NAME, text)


def _parse_identity(pattern: re.Pattern[str], text: str) -> tuple[UUID, int] | None:
    match = pattern.fullmatch(text)
    return None if match is None else (UUID(match[1]), int(match[2]))
