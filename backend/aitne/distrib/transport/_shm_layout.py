"""Where everything lies in the shared memory, and how messages are cut: arithmetic only.

header      abort flag and reason, a number of each rank's process
lines       each rank's counters (of the kernel)
slots       of rank 0, of rank 1, ...: DEPTH slots, then DEPTH second slots
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

MOST_RANKS = 64
DEPTH = 4
"""Rounds that a rank may be ahead of the others; the kernel's own number."""
LINE_BYTES = 128
"""Of a rank's counters; the kernel's own number."""
ALIGN = 64
HEADER_BYTES = 4096
SLOTS_AT = HEADER_BYTES + MOST_RANKS * LINE_BYTES
_PAGE = 4096


@dataclass(frozen=True)
class Layout:
    """The memory of so many ranks."""

    size: int
    chunk: int
    """Bytes of a slot: what a rank gives in one round."""

    @property
    def part(self) -> int:
        """Bytes of a second slot: a rank's part of a chunk, once reduced."""
        return _up(-(-self.chunk // self.size), ALIGN)

    @property
    def total(self) -> int:
        """Bytes of it all."""
        return _up(SLOTS_AT + self.size * self.per_rank, _PAGE)

    @property
    def per_rank(self) -> int:
        """Bytes of one rank's slots."""
        return DEPTH * (self.chunk + self.part)

    @property
    def share(self) -> int:
        """Bytes of a slot for one reader, where each rank has its own."""
        return self.chunk // self.size // ALIGN * ALIGN

    def slot(self, rank: int, round_number: int) -> int:
        """Where a slot begins."""
        return SLOTS_AT + rank * self.per_rank + round_number % DEPTH * self.chunk

    def second_slot(self, rank: int, round_number: int) -> int:
        """Where a second slot begins."""
        return self.slot(rank, 0) + DEPTH * self.chunk + round_number % DEPTH * self.part


def layout_for(size: int, native: bool) -> Layout:
    """The kernel's slots stay in the processor's caches; PyTorch's calls cost more than a cache saves."""
    few = size <= _FEW
    if native:
        return Layout(size, _CHUNK_FEW if few else _CHUNK_MANY)
    return Layout(size, _PURE_CHUNK_FEW if few else _CHUNK_MANY)


_FEW = 8
_CHUNK_FEW = 256 << 10
_CHUNK_MANY = 128 << 10
_PURE_CHUNK_FEW = 1 << 20


def pieces(total: int, most: int) -> Iterator[tuple[int, int]]:
    """``total`` bytes cut into pieces of at most ``most``: begin and end of each."""
    for begin in range(0, total, most):
        yield begin, min(begin + most, total)


def piece(total: int, number: int, most: int) -> tuple[int, int]:
    """One of ``pieces``; an empty one where there are fewer."""
    begin = min(number * most, total)
    return begin, min(begin + most, total)


def parts(chunk: int, size: int) -> list[tuple[int, int]]:
    """A chunk's bytes divided among the ranks that reduce it; the last ones may get none."""
    each = _up(-(-chunk // size), ALIGN)
    return [(min(rank * each, chunk), min((rank + 1) * each, chunk)) for rank in range(size)]


def starts(counts: Sequence[int]) -> list[int]:
    """Where each rank's values begin, and where the last one's end."""
    found = [0]
    for count in counts:
        found.append(found[-1] + count)
    return found


def rounds(sizes: Sequence[int], most: int) -> int:
    """How many pieces the largest needs."""
    return -(-max(sizes, default=0) // most)


def _up(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple
