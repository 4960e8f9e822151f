"""Escaping of cells for files that users open in a spreadsheet."""

from __future__ import annotations

_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def cell(value: object) -> str:
    """Return a cell that a spreadsheet reads as a number or a text, and never as a formula."""
    text = "" if value is None else str(value)
    return f"'{text}" if isinstance(value, str) and text.startswith(_FORMULA) else text
