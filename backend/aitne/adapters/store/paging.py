"""Opaque cursors: the sort key of the last item shown, so that new items shift no other page."""

from __future__ import annotations

import json
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Sequence
from datetime import UTC, datetime

from aitne.core.errors import InvalidInput

_NUMBER = re.compile(r"-?[0-9]{1,18}")


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
        raise not_ours(cursor) from error
    match found:
        case [str(of), *key] if of == kind and len(key) == parts:
            if all(isinstance(part, str) and _storable(part) for part in key):
                return key
    raise not_ours(cursor)


def moment(text: str) -> datetime:
    """A time in a cursor. Raises ``ValueError``."""
    found = datetime.fromisoformat(text)
    if found.tzinfo is None:
        raise ValueError(f"{text} has no time zone")
    try:
        return found.astimezone(UTC)
    except OverflowError as error:
        raise ValueError(f"{text} is before or after all time") from error


def number(text: str) -> int:
    """A whole number in a cursor, one that both databases can compare with. Raises ``ValueError``."""
    if not _NUMBER.fullmatch(text):
        raise ValueError(f"{text} is no number of ours")
    return int(text)


def after_id(kind: str, cursor: str) -> int:
    """The id in a cursor that is nothing else. Raises ``InvalidInput``."""
    (text,) = decode(kind, cursor, 1)
    try:
        return number(text)
    except ValueError as error:
        raise not_ours(cursor) from error


def _storable(text: str) -> bool:
    """Return whether both databases accept the text."""
    return "\0" not in text and not any("\ud800" <= letter <= "\udfff" for letter in text)


def not_ours(cursor: str) -> InvalidInput:
    """Return the error about a cursor that is of another list, or of none."""
    return InvalidInput.field(
        "cursor",
        "is not a cursor of this list",
        value=cursor[:100],
        allowed="the next_cursor of the page before, unchanged, or none for the first page",
    )
