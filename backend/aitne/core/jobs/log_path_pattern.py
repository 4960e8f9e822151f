"""Wildcards in the paths of logs, as in the option ``--output`` of sbatch
(https://slurm.schedmd.com/sbatch.html#SECTION_FILENAME-PATTERN).
"""

from __future__ import annotations

import re
from collections.abc import Mapping

_WILDCARD = re.compile(r"%(?:(%)|([0-9]*)([A-Za-z]))")
_BRACE = re.compile(r"[{}]")
_MAX_WIDTH = 10
LETTERS = frozenset("AaJjNbnrstux")
"""Letters that are wildcards after ``%``."""
_TEXTS = frozenset("Nsux")

Values = Mapping[str, int | str]
"""Values of wildcards by their letters. Numbers are padded with zeros to the width in the
pattern.
"""


def fill_wildcards(pattern: str, values: Values) -> str:
    """Replace the wildcards that have a value in ``values``; the result is again a pattern."""

    def text(match: re.Match[str]) -> str:
        known = match[3] in values
        return _format_value(match, values).replace("%", "%%") if known else match[0]

    return _WILDCARD.sub(text, pattern)


def make_log_path(pattern: str, values: Values) -> str:
    """Return the path with all wildcards replaced. Other letters after ``%`` are left unchanged."""

    def text(match: re.Match[str]) -> str:
        if match[1]:
            return "%"
        return _format_value(match, values) if match[3] in values else match[0]

    return _WILDCARD.sub(text, pattern)


def list_wildcards(pattern: str) -> frozenset[str]:
    """Return the letters of the wildcards in the pattern."""
    return frozenset(match[3] for match in _WILDCARD.finditer(pattern) if match[3])


def to_format_string(pattern: str, values: Values) -> str:
    """Return the pattern as a format string for ``str.format``: known values are inserted, each
    other wildcard of ``LETTERS`` becomes a replacement field.
    """

    def text(match: re.Match[str]) -> str:
        letter = match[3]
        if letter in values or letter not in LETTERS:
            return "%" if match[1] else _escape_braces(make_log_path(match[0], values))
        width = _parse_width(match)
        return f"{{{letter}:0{width}d}}" if width and letter not in _TEXTS else f"{{{letter}}}"

    # The text between wildcards, too, may have braces.
    return _WILDCARD.sub(text, _escape_braces(pattern))


def remove_backslashes(pattern: str) -> str:
    """Return the pattern without backslashes; sbatch replaces no wildcards in a pattern that
    contains one.
    """
    return pattern.replace("\\", "").replace("%", "%%") if "\\" in pattern else pattern


def _format_value(match: re.Match[str], values: Values) -> str:
    value = values[match[3]]
    if isinstance(value, str):
        return value
    return f"{value:0{_parse_width(match)}d}"


def _parse_width(match: re.Match[str]) -> int:
    return min(int(match[2][:3] or 0), _MAX_WIDTH)


def _escape_braces(text: str) -> str:
    return _BRACE.sub(r"\g<0>\g<0>", text)
