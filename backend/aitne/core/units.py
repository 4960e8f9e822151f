"""Conversion of quantities from and to the notations of users and of schedulers.

Memory follows Slurm's ``--mem`` (https://slurm.schedmd.com/sbatch.html#OPT_mem): suffixes are
powers of 1024. Durations are either in units (``90m``, ``1h30m``, ``2d``) or in Slurm's clock forms
(``minutes``, ``MM:SS``, ``HH:MM:SS``, ``D-HH``, ``D-HH:MM``, ``D-HH:MM:SS``). Every parser raises
``ValueError`` with the given text and the permitted forms.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache

from aitne.core.byte_size_format import MEMORY_UNITS

_MEMORY = re.compile(r"([0-9]{1,19}(?:\.[0-9]{1,6})?)\s*(?:([KMGTP])(?:i?B)?|(B))", re.IGNORECASE)
MEMORY_HINT = "a number with K, M, G or T, such as 512M or 16G"

_DURATION_UNITS = {"w": 604_800, "d": 86_400, "h": 3_600, "m": 60, "s": 1}
_WORDS = re.compile(
    r"(?:([0-9]+)w)?(?:([0-9]+)d)?(?:([0-9]+)h)?(?:([0-9]+)m)?(?:([0-9]+)s)?", re.IGNORECASE
)
_CLOCK = re.compile(r"(?:([0-9]+)-)?([0-9]+)(?::([0-9]{1,2}))?(?::([0-9]{1,2}))?")
_BARE = re.compile(r"[-+]?[0-9]*\.?[0-9]+(?:e[-+]?[0-9]+)?", re.IGNORECASE)
DURATION_HINT = "a duration such as 30m, 4h, 1h30m, 2d or Slurm's 1-12:00:00"


def parse_memory(text: str) -> int:
    """Return the number of bytes for a text such as ``"16G"``. Fractions are rounded to whole
    bytes.

    A number without a unit is an error: Slurm reads it as megabytes, other tools as bytes, so it is
    often a mistake.
    """
    match = _MEMORY.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text!r} is not an amount of memory: write {MEMORY_HINT}")
    number, unit = match[1], match[2] or match[3]
    scale = MEMORY_UNITS[unit.upper()]
    return int(number) * scale if "." not in number else round(float(number) * scale)


def format_memory(amount_bytes: int) -> str:
    """Return the shortest exact text for a number of bytes (``17179869184`` -> ``"16G"``), which
    ``parse_memory`` can read.
    """
    if amount_bytes < 0:
        raise ValueError(f"{amount_bytes} is not an amount of memory: it is negative")
    for unit in reversed(MEMORY_UNITS):
        scale = MEMORY_UNITS[unit]
        if amount_bytes % scale == 0 and (amount_bytes or unit == "B"):
            return f"{amount_bytes // scale}{unit}"
    raise AssertionError("every number is a multiple of one byte")


def parse_duration(text: str) -> int:
    """Return the number of seconds for ``"1h30m"`` or a Slurm clock form. A number without a unit
    means minutes, as in Slurm.
    """
    duration = text.strip()
    words = _WORDS.fullmatch(duration)
    if words and any(words.groups()):
        return sum(
            int(count) * unit
            for count, unit in zip(words.groups(), _DURATION_UNITS.values(), strict=True)
            if count
        )
    clock = _CLOCK.fullmatch(duration)
    if clock is None:
        raise ValueError(f"{text!r} is not a duration: write {DURATION_HINT}")
    days, first, second, third = (None if part is None else int(part) for part in clock.groups())
    if days is not None:
        return days * 86_400 + (first or 0) * 3_600 + (second or 0) * 60 + (third or 0)
    if second is None:
        return (first or 0) * 60
    if third is None:
        return (first or 0) * 60 + second
    return (first or 0) * 3_600 + second * 60 + third


def parse_written_duration(text: str) -> int:
    """Return the number of seconds for a duration in what users write for the platform.

    A number without a unit is an error: Slurm reads it as minutes, other tools as seconds, so it is
    often a mistake.
    """
    if _BARE.fullmatch(text.strip()):
        raise ValueError(f"{text!r} has no unit: write {DURATION_HINT}")
    return parse_duration(text)


def format_duration(seconds: int) -> str:
    """Return the text of a number of seconds with units (``5400`` -> ``"1h30m"``), which
    ``parse_duration`` can read.
    """
    return "".join(f"{count}{unit}" for count, unit in _split_duration(seconds)) or "0s"


def describe_duration(seconds: int) -> str:
    """Return the text of a number of seconds for messages (``5400`` -> ``"1 h 30 min"``)."""
    names = {"m": "min"}
    parts = (f"{count} {names.get(unit, unit)}" for count, unit in _split_duration(seconds))
    return " ".join(parts) or "0 s"


def _split_duration(seconds: int) -> Iterator[tuple[int, str]]:
    """Yield the counts of days, hours, minutes and seconds that are not 0, with their units."""
    if seconds < 0:
        raise ValueError(f"{seconds} is not a duration: it is negative")
    for unit in ("d", "h", "m", "s"):
        count, seconds = divmod(seconds, _DURATION_UNITS[unit])
        if count:
            yield count, unit


def format_slurm_time(seconds: int) -> str:
    """Return a number of seconds in the form ``D-HH:MM:SS``, which ``--time`` accepts in every
    release of Slurm.
    """
    days, rest = divmod(seconds, 86_400)
    hours, rest = divmod(rest, 3_600)
    return f"{days}-{hours:02}:{rest // 60:02}:{rest % 60:02}"


@dataclass(frozen=True, slots=True)
class Gres:
    """One generic resource: ``gpu:a100:4`` has kind ``gpu``, type ``a100``, count 4."""

    kind: str
    type: str | None
    count: int

    @property
    def name(self) -> str:
        """Kind with the type, such as ``gpu:a100``."""
        return self.kind if self.type is None else f"{self.kind}:{self.type}"

    def __str__(self) -> str:
        return f"{self.name}:{self.count}"


GPU_TYPE = r"[A-Za-z0-9](?:[A-Za-z0-9_.+ -]{0,78}[A-Za-z0-9_.+-])?"
"""Pattern of a type of GPUs or other GRES, as vendors name models and MIG profiles (``1g.10gb+me``),
as Slurm finds them (``nvidia_rtx_pro_6000_blackwell_server_edition``), and as sites name them
(``NVIDIA A100``).
"""
GRES_KIND = r"[A-Za-z][A-Za-z0-9_.-]{0,39}"
_AMOUNT = r"[0-9]+(?:\.[0-9]+)?[KMGTPkmgtp]?"
_GRES = re.compile(
    rf"(?:gres[/:])?(?P<kind>{GRES_KIND})"
    rf"(?::(?=:)|:(?!{_AMOUNT}$|no_consume(?::|$))(?P<type>{GPU_TYPE}))?(?::no_consume)?"
    r"(?:[:=](?P<count>[0-9]{1,18})(?P<unit>[KMGTPkmgtp]?))?",
    re.ASCII,
)
_NOTES = re.compile(r"\([^()]*(?:\)|$)")
"""Notes of Slurm in parentheses; the end of a text may be cut off."""


def parse_gres(text: str) -> tuple[Gres, ...]:
    """Return the generic resources in a text of Slurm such as ``gpu:a100:4(S:0-1),shard:8`` or
    ``gres/gpu:a100=4``; the parts in parentheses and ``no_consume`` are ignored.

    An empty text, ``none``, ``(null)`` and ``N/A`` mean none. A missing count is 1; suffixes of a
    count are powers of 1024. In ``gpu:1080`` and ``gpu:2k``, as in Slurm, 1080 and 2k are counts.
    """
    return tuple(_parse_gres_part(part) for part in _split_gres(text))


def parse_slurm_gres(text: str) -> tuple[Gres, ...]:
    """Return what ``parse_gres`` returns, without the parts that it refuses, for answers of Slurm."""
    resources = []
    for part in _split_gres(text):
        with suppress(ValueError):
            resources.append(_parse_gres_part(part))
    return tuple(resources)


def parse_slurm_tres(text: str) -> tuple[Gres, ...]:
    """Return the generic resources in a list of Slurm's trackable resources, such as
    ``cpu=4,mem=8G,gres/gpu:a100=2``.
    """
    return parse_slurm_gres(",".join(part for part in text.split(",") if part.startswith("gres/")))


def _split_gres(text: str) -> list[str]:
    plain = _NOTES.sub("", text.strip())
    return [] if plain.lower() in ("", "none", "n/a") else plain.split(",")


def _parse_gres_part(part: str) -> Gres:
    match = _GRES.fullmatch(part)
    # Without a count, "4 a100" would be a type.
    if match is None or (match["count"] is None and " " in (match["type"] or "")):
        raise ValueError(f"{part!r} is not a generic resource: write kind:count or kind:type:count")
    scale = MEMORY_UNITS[(match["unit"] or "B").upper()]
    count = 1 if match["count"] is None else int(match["count"]) * scale
    return Gres(match["kind"], match["type"], count)


@dataclass(frozen=True, slots=True)
class ArrayRange:
    """Indices of an array job's tasks, and the maximum number of tasks that run at once (None: no
    maximum).
    """

    indices: tuple[int, ...]
    throttle: int | None = None

    @classmethod
    def from_indices(cls, indices: Iterable[int], throttle: int | None = None) -> ArrayRange:
        """Return the array range of these indices, which may be in any order."""
        return cls(tuple(sorted(indices)), throttle)

    def __str__(self) -> str:
        text = ",".join(_split_into_ranges(self.indices))
        return text if self.throttle is None else f"{text}%{self.throttle}"


def _split_into_ranges(indices: Sequence[int]) -> Iterator[str]:
    """Yield parts with a constant step, such as ``3``, ``0-9`` and ``10-90:10``."""
    start = 0
    while start < len(indices):
        end = start + 1
        if end < len(indices):
            step = indices[end] - indices[start]
            while end < len(indices) and indices[end] - indices[end - 1] == step:
                end += 1
        first, last = indices[start], indices[end - 1]
        if end - start == 1 or (end - start == 2 and step > 1):
            yield str(first)
            end = start + 1
        else:
            yield f"{first}-{last}" if step == 1 else f"{first}-{last}:{step}"
        start = end


MAX_ARRAY_TASKS = 10_000
ARRAY_HINT = "indices such as 0-9, 1,3,5 or 0-99:10, and %N for at most N at once"


@lru_cache(maxsize=64)
def parse_array(text: str) -> ArrayRange:
    """Return the indices in a text in the form of Slurm's ``--array`` (``"0-9%2"``, ``"1,3,5"``,
    ``"0-99:10"``), sorted and without duplicates.
    """
    body, percent, throttle = text.strip().partition("%")
    if percent and not re.fullmatch(r"[1-9][0-9]{0,6}", throttle):
        raise ValueError(f"{text!r} is not an array: write {ARRAY_HINT}")
    all_indices: set[int] = set()
    for piece in body.split(","):
        match = re.fullmatch(r"([0-9]{1,9})(?:-([0-9]{1,9})(?::([1-9][0-9]{0,8}))?)?", piece)
        if match is None or (match[2] is not None and int(match[2]) < int(match[1])):
            raise ValueError(f"{text!r} is not an array: write {ARRAY_HINT}")
        indices = range(int(match[1]), int(match[2] or match[1]) + 1, int(match[3] or 1))
        if len(indices) + len(all_indices) > MAX_ARRAY_TASKS:
            raise ValueError(f"an array of more than {MAX_ARRAY_TASKS} tasks is refused")
        all_indices.update(indices)
    return ArrayRange.from_indices(all_indices, int(throttle) if percent else None)
