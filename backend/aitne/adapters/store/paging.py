"""Opaque cursors: the sort key of the last item shown, so that new items move nobody's next page."""

from __future__ import annotations

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from aitne.core.errors import InvalidInput
from aitne.core.models.job import Job


def encode(kind: str, *key: str) -> str:
    """A cursor of one kind of list; ``key`` is where the page ended."""
    text = json.dumps([kind, *key], separators=(",", ":"))
    return urlsafe_b64encode(text.encode()).decode().rstrip("=")


def decode(kind: str, cursor: str, parts: int) -> Sequence[str]:
    """The key in a cursor. Raises ``InvalidInput`` if it is not one of this kind of list."""
    try:
        raw = urlsafe_b64decode((cursor + "=" * (-len(cursor) % 4)).encode("ascii"))
        found = json.loads(raw)
    except ValueError as error:
        raise _not_ours(cursor) from error
    match found:
        case [str(of), *key] if of == kind and len(key) == parts:
            if all(isinstance(part, str) for part in key):
                return key
    raise _not_ours(cursor)


def job_cursor(job: Job) -> str:
    """The cursor of the page that ended with this job."""
    return encode("jobs", job.created_at.isoformat(), job.id.hex)


def job_key(cursor: str) -> tuple[datetime, UUID]:
    """The sort key in a cursor of a job list. Raises ``InvalidInput``."""
    time, hexadecimal = decode("jobs", cursor, 2)
    try:
        created_at, job_id = datetime.fromisoformat(time), UUID(hexadecimal)
    except ValueError as error:
        raise _not_ours(cursor) from error
    if created_at.tzinfo is None:
        raise _not_ours(cursor)
    return created_at, job_id


def _not_ours(cursor: str) -> InvalidInput:
    return InvalidInput.field(
        "cursor",
        "is not a cursor of this list",
        value=cursor[:100],
        allowed="the next_cursor of the page before, unchanged, or none for the first page",
    )
