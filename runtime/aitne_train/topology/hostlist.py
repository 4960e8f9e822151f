"""Host lists in Slurm's notation (https://slurm.schedmd.com/scontrol.html, `show hostnames`), and the
natural order of names.

Parsers raise ``ValueError`` with the given text and the permitted forms.
"""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing costs as much time as the launcher's own code
    from collections.abc import Sequence

MAX_HOSTS = 65_536
"""Maximum number of names in a host list; a longer list is probably a typing error or an attack."""

_HOST_PART = re.compile(r"([^\[\],]*)\[([^\[\]]*)\]")
_HOST_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_PIECE = re.compile(r"([^0-9]*)([0-9]*)", re.ASCII)


def expand_hostlist(text: str) -> list[str]:
    """Return the names in a host list such as ``"node[01-03,7],gpu1"``, in its order. Several pairs
    of brackets result in all combinations.
    """
    names: list[str] = []
    for part in split_outside_brackets(text.strip(), "[]") if text.strip() else []:
        names.extend(_expand_one(part))
        if len(names) > MAX_HOSTS:
            raise ValueError(f"a host list of more than {MAX_HOSTS} names is refused")
    return names


def compress_hostlist(names: Sequence[str]) -> str:
    """Return a host list that expands to the same names in the same order.

    Consecutive names that differ only in their last number, with the same number of digits and a
    difference of one, are combined to a range.
    """
    parts: list[str] = []
    prefix, width, runs = "", 0, list[tuple[int, int]]()

    def add_range() -> None:
        if not runs:
            return
        if len(runs) == 1 and runs[0][0] == runs[0][1]:
            parts.append(f"{prefix}{runs[0][0]:0{width}}")
        else:
            inner = ",".join(
                f"{a:0{width}}" if a == b else f"{a:0{width}}-{b:0{width}}" for a, b in runs
            )
            parts.append(f"{prefix}[{inner}]")
        runs.clear()

    for name in names:
        if not _HOST_NAME.fullmatch(name):
            raise ValueError(f"{name!r} is not a host name")
        match = re.fullmatch(r"(.*?)([0-9]{1,18})", name)
        if match is None:
            add_range()
            parts.append(name)
            prefix = ""
            continue
        here, digits = match.groups()
        number = int(digits)
        # A width of its own counts only where it is visible: 9 and 10 share "n[9-10]", 09 and 9 do not.
        fits = here == prefix and runs and _has_same_width(digits, width)
        if not fits:
            add_range()
            prefix, width = here, len(digits) if digits.startswith("0") else 0
            runs.append((number, number))
        elif number == runs[-1][1] + 1:
            runs[-1] = (runs[-1][0], number)
        else:
            runs.append((number, number))
    add_range()
    return ",".join(parts)


def _has_same_width(digits: str, width: int) -> bool:
    return len(digits) == width if width else not digits.startswith("0") or digits == "0"


def _expand_one(part: str) -> list[str]:
    names, rest = [""], part
    while match := _HOST_PART.match(rest):
        before, numbers = match[1], _expand_range(match[2])
        if len(names) * len(numbers) > MAX_HOSTS:
            raise ValueError(f"a host list of more than {MAX_HOSTS} names is refused")
        names = [name + before + number for name in names for number in numbers]
        rest = rest[match.end() :]
    names = [name + rest for name in names]
    for name in names:
        if not _HOST_NAME.fullmatch(name):
            raise ValueError(f"{name!r} is not a host name")
    return names


def _expand_range(inner: str) -> list[str]:
    numbers: list[str] = []
    for piece in inner.split(","):
        match = re.fullmatch(r"([0-9]{1,18})(?:-([0-9]{1,18}))?", piece)
        if match is None:
            raise ValueError(f"{piece!r} is not a number or a range such as 01-04")
        low, high = match[1], match[2] or match[1]
        if int(high) < int(low) or int(high) - int(low) >= MAX_HOSTS:
            raise ValueError(f"the range {piece!r} runs backwards or is too long")
        numbers.extend(f"{value:0{len(low)}}" for value in range(int(low), int(high) + 1))
        if len(numbers) > MAX_HOSTS:
            raise ValueError(f"a host list of more than {MAX_HOSTS} names is refused")
    return numbers


def make_natural_key(name: str) -> tuple[tuple[str, int, int], ...]:
    """Return the sort key of the natural order of names, in which ``n9`` is before ``n10``."""
    return tuple((text, int(digits or 0), len(digits)) for text, digits in _PIECE.findall(name))


def split_outside_brackets(text: str, brackets: str) -> list[str]:
    """Split ``text`` at the commas outside brackets.

    Args:
        text: the text.
        brackets: the opening and the closing bracket, for example ``[]``.

    Raises:
        ValueError: a bracket is not opened or not closed.
    """
    opening, closing = brackets[0], brackets[1]
    parts, depth, start = [], 0, 0
    for index, char in enumerate(text):
        if char == opening:
            depth += 1
        elif char == closing:
            depth -= 1
            if depth < 0:
                raise ValueError(f"{text!r} has a bracket without its partner")
        elif char == "," and depth == 0:
            parts.append(text[start:index])
            start = index + 1
    if depth:
        raise ValueError(f"{text!r} has a bracket without its partner")
    return [*parts, text[start:]]
