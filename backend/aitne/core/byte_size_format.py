"""Texts for sizes in bytes, in a module of its own because the quick commands of the CLI load it."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal

    Rounding = Literal["down", "nearest", "up"]

MEMORY_UNITS = {"B": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40, "P": 1 << 50}
"""Number of bytes of each unit, smallest first."""


def describe_bytes(amount_bytes: int, rounding: Rounding = "nearest") -> str:
    """Return a rounded text for a number of bytes with a binary unit (``1610612736`` -> ``"1.5
    GiB"``), like the portal: with at most one decimal place, and none from 100 on. ``units.parse_memory``
    can read it.

    A limit should be rounded down and an amount that exceeds it up, so that a sentence with both is
    true. A negative number results in 0.
    """
    amount = max(0, amount_bytes)
    for unit, scale in MEMORY_UNITS.items():
        tenths = _divide(amount * 10, scale, rounding)
        if tenths >= 1_000:
            tenths = _divide(amount, scale, rounding) * 10
        if tenths < 10_240 or unit == "P":
            break
    whole, tenth = divmod(tenths, 10)
    number = f"{whole}.{tenth}" if tenth else str(whole)
    return f"{number} B" if unit == "B" else f"{number} {unit}iB"


def _divide(amount: int, scale: int, rounding: Rounding) -> int:
    added = {"down": 0, "nearest": scale // 2, "up": scale - 1}[rounding]
    return (amount + added) // scale
