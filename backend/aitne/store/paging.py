"""Pages of lists, and their cursors. A cursor contains the sort key of a page's last item, so that new
items do not shift the following pages.
"""

from __future__ import annotations

import json
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Generic, TypeVar

from aitne.core.errors import InvalidInput
from aitne.core.models.base import Frozen

T = TypeVar("T")
_NUMBER = re.compile(r"-?[0-9]{1,18}")


class Page(Frozen, Generic[T]):
    """Page of a list."""

    items: tuple[T, ...]
    next_cursor: str | None = None
    """Opaque text with which the next page is requested; None: this is the last page."""
    total: int
    """Number of matching items on all pages."""


def encode_cursor(kind: str, *key: str) -> str:
    """Return the cursor after an item with the sort key ``key``; ``kind`` names the kind of list."""
    text = json.dumps([kind, *key], separators=(",", ":"))
    return urlsafe_b64encode(text.encode()).decode().rstrip("=")


def decode_cursor(kind: str, cursor: str, parts: int) -> Sequence[str]:
    """Return the sort key in a cursor, which has ``parts`` elements. Raises ``InvalidInput`` if the
    cursor is not one of this kind of list.
    """
    try:
        raw = urlsafe_b64decode((cursor + "=" * (-len(cursor) % 4)).encode("ascii"))
        document = json.loads(raw)
    except ValueError as error:
        raise make_foreign_cursor_error(cursor) from error
    match document:
        case [str(of), *key] if of == kind and len(key) == parts:
            if all(isinstance(part, str) and _is_storable(part) for part in key):
                return key
    raise make_foreign_cursor_error(cursor)


def parse_time(text: str) -> datetime:
    """Convert an element of a cursor to a time. Raises ``ValueError``."""
    timestamp = datetime.fromisoformat(text)
    if timestamp.tzinfo is None:
        raise ValueError(f"{text} has no time zone")
    try:
        return timestamp.astimezone(UTC)
    except OverflowError as error:
        raise ValueError(f"{text} is out of range") from error


def parse_integer(text: str) -> int:
    """Convert an element of a cursor to an integer. Raises ``ValueError`` if it is none, or too
    large for the databases.
    """
    if not _NUMBER.fullmatch(text):
        raise ValueError(f"{text} is not a valid number")
    return int(text)


def decode_id_cursor(kind: str, cursor: str) -> int:
    """Return the ID in a cursor whose sort key is only an ID. Raises ``InvalidInput``."""
    (text,) = decode_cursor(kind, cursor, 1)
    try:
        return parse_integer(text)
    except ValueError as error:
        raise make_foreign_cursor_error(cursor) from error


def _is_storable(text: str) -> bool:
    """Return True if both databases can store the text."""
    return "\0" not in text and not any("\ud800" <= letter <= "\udfff" for letter in text)


def make_foreign_cursor_error(cursor: str) -> InvalidInput:
    """Return the error for a cursor that does not belong to this list."""
    return InvalidInput.field(
        "cursor",
        "is not a cursor of this list",
        value=cursor[:100],
        allowed="the next_cursor of the page before, unchanged, or none for the first page",
    )
