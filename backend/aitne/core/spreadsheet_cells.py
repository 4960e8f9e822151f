"""Escaping of table cells in files that users may open in a spreadsheet."""

from __future__ import annotations

_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def escape_cell(value: object) -> str:
    """Return the value as text of a cell that a spreadsheet never evaluates as a formula."""
    text = "" if value is None else str(value)
    return f"'{text}" if isinstance(value, str) and text.startswith(_FORMULA) else text
