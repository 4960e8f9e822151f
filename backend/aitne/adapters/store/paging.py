"""Opaque cursors with the sort key of the last item of a page, so that new items shift no page."""

from __future__ import annotations

import json
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Sequence
from datetime import UTC, datetime

from aitne.core.errors import InvalidInput

_NUMBER = re.compile(r"-?[0-9]{1,18}")


def encode(kind: str, *key: str) -> str:
    """Return the cursor of one kind of list; ``key`` is the sort key of the page's last item."""
    text = json.dumps([kind, *key], separators=(",", ":"))
    return urlsafe_b64encode(text.encode()).decode().rstrip("=")


def decode(kind: str, cursor: str, parts: int) -> Sequence[str]:
    """Return the key in a cursor. Raises ``InvalidInput`` if it is not one of this kind of list."""
    try:
        raw = urlsafe_b64decode((cursor + "=" * (-len(cursor) % 4)).encode("ascii"))
        document = json.loads(raw)
    except ValueError as error:
        raise not_ours(cursor) from error
    match document:
        case [str(of), *key] if of == kind and len(key) == parts:
            if all(isinstance(part, str) and _storable(part) for part in key):
                return key
    raise not_ours(cursor)


def moment(text: str) -> datetime:
    """Return the time that a cursor contains as ``text``. Raises ``ValueError``."""
    timestamp = datetime.fromisoformat(text)
    if timestamp.tzinfo is None:
        raise ValueError(f"{text} has no time zone")
    try:
        return timestamp.astimezone(UTC)
    except OverflowError as error:
        raise ValueError(f"{text} is out of range") from error


def number(text: str) -> int:
    """Return the integer that a cursor contains as ``text``, if it fits both databases. Raises
    ``ValueError``.
    """
    if not _NUMBER.fullmatch(text):
        raise ValueError(f"{text} is not a valid number")
    return int(text)


def after_id(kind: str, cursor: str) -> int:
    """Return the ID in a cursor that consists of an ID. Raises ``InvalidInput``."""
    (text,) = decode(kind, cursor, 1)
    try:
        return number(text)
    except ValueError as error:
        raise not_ours(cursor) from error


def _storable(text: str) -> bool:
    """Return whether both databases accept the text."""
    return "\0" not in text and not any("\ud800" <= letter <= "\udfff" for letter in text)


def not_ours(cursor: str) -> InvalidInput:
    """Return the error for a cursor that does not belong to this list."""
    return InvalidInput.field(
        "cursor",
        "is not a cursor of this list",
        value=cursor[:100],
        allowed="the next_cursor of the page before, unchanged, or none for the first page",
    )
