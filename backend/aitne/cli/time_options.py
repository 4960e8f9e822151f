"""Parsing of times on the command line."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone


def parse_time(option: str, text: str | None) -> datetime | None:
    """Return the time of an option: ``2026-03-01 08:00`` in the local time zone, an ISO time with
    its own zone, or ``2h`` from now; None if ``text`` is None.

    Raises:
        InvalidInput: the text has none of these formats.
    """
    if text is None:
        return None
    from aitne.core.errors import InvalidInput
    from aitne.core.units import parse_written_duration

    try:
        return datetime.fromisoformat(text).astimezone()
    except ValueError:
        pass
    try:
        delay = timedelta(seconds=parse_written_duration(text.removeprefix("+")))
        return datetime.now(timezone.utc) + delay  # noqa: UP017
    except (ValueError, OverflowError) as error:
        raise InvalidInput.field(
            option, "is not a time", value=text, allowed="2026-03-01 08:00, or 2h from now"
        ) from error


def to_utc(day: datetime) -> datetime:
    """Return the start of a day in UTC, given as a datetime without a time zone."""
    return day.replace(tzinfo=timezone.utc)  # noqa: UP017 - the command line runs on older Pythons
