"""Range requests for one part of a resource (RFC 9110, section 14)."""

from __future__ import annotations

import re

_RANGE = re.compile(r"bytes=\s*(?:([0-9]{1,18})-([0-9]{0,18})|-([0-9]{1,18}))\s*")


class RangeNotSatisfiable(Exception):
    """Error: no byte of the resource is in the requested range."""


def parse_range(
    header: str | None, if_range: str | None, *, etag: str, size: int
) -> tuple[int, int] | None:
    """Return the first byte that the headers ``Range`` and ``If-Range`` request, and the byte after
    the last one; None if the whole resource must be sent: no range or several ranges are requested,
    the header is invalid, or ``If-Range`` names another version.

    Args:
        etag: entity tag of the resource as it is sent, with its quotes.
        size: size of the resource in bytes.

    Raises ``RangeNotSatisfiable``.
    """
    match = None if header is None else _RANGE.fullmatch(header)
    if match is None or (if_range is not None and if_range.strip() != etag):
        return None
    first, last, suffix = match.groups()
    if suffix is not None:
        start, end = max(0, size - int(suffix)), size
    else:
        start, end = int(first), min(int(last) + 1, size) if last else size
        if last and int(last) < start:
            return None
    if start >= end:
        raise RangeNotSatisfiable
    return start, end
