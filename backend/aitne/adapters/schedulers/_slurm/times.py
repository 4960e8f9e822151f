"""Parsing of Slurm's times, durations and exit statuses as text (with ``SLURM_TIME_FORMAT=%s``)."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from aitne.core.units import parse_duration

ENVIRONMENT = {"SLURM_TIME_FORMAT": "%s", "TZ": "UTC", "SLURM_BITSTR_LEN": "0"}
"""Environment variables that make Slurm print times in seconds since 1970, and the indices of an
array's tasks without truncation.
"""

_HIGHEST_SIGNAL = 31
_FAR = 253_402_300_799  # the last second of the year 9999
_STATUS = re.compile(r"([0-9]{1,10})(?::([0-9]{1,5}))?")


def parse_time(text: str) -> datetime | None:
    """Convert a time that Slurm printed as seconds since 1970; None for ``N/A``, ``Unknown``,
    ``None``, ``0`` and similar.
    """
    if not (text.isascii() and text.isdigit()):
        return None
    seconds = int(text)
    return datetime.fromtimestamp(seconds, UTC) if 0 < seconds <= _FAR else None


def parse_limit(text: str) -> int | None:
    """Convert a duration such as ``1-00:30:00`` to seconds; None for ``UNLIMITED``, ``NOT_SET``,
    ``NONE`` and similar.
    """
    try:
        return parse_duration(text)
    except ValueError:
        return None


def parse_minutes(text: str) -> int | None:
    """Convert sacct's TimelimitRaw, a number of minutes, to seconds; None for any other text."""
    return int(text) * 60 if text.isascii() and text.isdigit() else None


def parse_exit(text: str) -> tuple[int | None, int | None]:
    """Parse a script's exit status to (exit code, signal), at most one of them not None.

    Newer releases of squeue (and all releases of sacct) print ``code:signal``, older ones the
    status of wait(2).
    """
    match = _STATUS.fullmatch(text)
    if match is None:
        return None, None
    if match[2] is not None:
        code, signal = int(match[1]), int(match[2])
    else:
        code, signal = int(match[1]) >> 8, int(match[1]) & 0x7F
    if signal == 0:
        return (code, None) if code <= 255 else (None, None)
    return None, to_signal_number(signal)


def to_signal_number(number: int | None) -> int | None:
    """Return the number if it is a real signal; None otherwise.

    Slurm reports codes of its own as signals above the real ones (53: the log could not be opened;
    125: out of memory).
    """
    return number if number is not None and 0 < number <= _HIGHEST_SIGNAL else None
