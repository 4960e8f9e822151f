"""Numbers with which Slurm says that a value is unlimited, not set or not measured (slurm.h)."""

from __future__ import annotations

INFINITE = 0xFFFFFFFF
NO_VAL = 0xFFFFFFFE
INFINITE64 = (1 << 64) - 1
NO_VAL64 = (1 << 64) - 2

_NO_NUMBERS = frozenset({INFINITE, NO_VAL, INFINITE64, NO_VAL64})


def is_number(value: int) -> bool:
    """Return whether the value is a number, rather than one with another meaning."""
    return value >= 0 and value not in _NO_NUMBERS
