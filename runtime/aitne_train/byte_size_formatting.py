"""Texts for sizes in bytes."""

from __future__ import annotations

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


def describe_bytes(amount_bytes: int) -> str:
    """Return a rounded text for a number of bytes with a binary unit (``1610612736`` -> ``"1.5
    GiB"``), with at most one decimal place, and none from 100 on.
    """
    for power, unit in enumerate(_UNITS):
        tenths = _format_tenths(amount_bytes, 1 << 10 * power)
        if tenths < 10_240 or unit == _UNITS[-1]:
            break
    whole, tenth = divmod(tenths, 10)
    return f"{whole}.{tenth} {unit}" if tenth else f"{whole} {unit}"


def _format_tenths(amount: int, scale: int) -> int:
    """Return an amount in tenths of a scale, of whole ones from 100 on."""
    tenths = (amount * 10 + scale // 2) // scale
    return (amount + scale // 2) // scale * 10 if tenths >= 1_000 else tenths
