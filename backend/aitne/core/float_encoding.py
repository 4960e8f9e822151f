"""Infinite numbers and NaN in JSON, which has none: ``{"$float": "inf"}``, ``"-inf"`` or ``"nan"``."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

KEY = "$float"
_TEXTS = frozenset({"inf", "-inf", "nan"})


def encode_floats(value: Any) -> Any:
    """Return a JSON value with its infinite numbers and NaN encoded, at any depth."""
    if isinstance(value, float) and not math.isfinite(value):
        return {KEY: str(value)}
    return _convert_parts(value, encode_floats)


def decode_floats(value: Any) -> Any:
    """Return a JSON value with its encoded numbers as numbers, at any depth."""
    number = decode_float(value)
    return _convert_parts(value, decode_floats) if number is value else number


def decode_float(value: Any) -> Any:
    """Return the number that a value encodes; other values are returned unchanged."""
    if isinstance(value, dict) and value.keys() == {KEY}:
        text = value[KEY]
        return float(text) if isinstance(text, str) and text in _TEXTS else value
    return value


def _convert_parts(value: Any, change: Callable[[Any], Any]) -> Any:
    if isinstance(value, dict):
        return {name: change(part) for name, part in value.items()}
    return [change(part) for part in value] if isinstance(value, list | tuple) else value
