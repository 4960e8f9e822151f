"""Layout of the shared memory, and division of messages into pieces: arithmetic only.

header      abort flag and reason, a number of each rank's process
lines       each rank's counters (of the kernel)
slots       of rank 0, of rank 1, ...: DEPTH slots, then DEPTH second slots
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

MOST_RANKS = 64
DEPTH = 4
"""Number of rounds that a rank may be ahead of the others; equal to the kernel's."""
LINE_BYTES = 128
"""Bytes of a rank's counters; equal to the kernel's."""
ALIGN = 64
HEADER_BYTES = 4096
SLOTS_AT = HEADER_BYTES + MOST_RANKS * LINE_BYTES
_PAGE = 4096


@dataclass(frozen=True)
class Layout:
    """Layout of the shared memory: the offsets and sizes of the slots of each rank."""

    size: int
    chunk: int
    """Bytes of a slot: the data of a rank in one round."""

    @property
    def part(self) -> int:
        """Size in bytes of a second slot, which holds a rank's part of a chunk after it was
        reduced.
        """
        return _up(-(-self.chunk // self.size), ALIGN)

    @property
    def total(self) -> int:
        """Bytes of the whole memory."""
        return _up(SLOTS_AT + self.size * self.per_rank, _PAGE)

    @property
    def per_rank(self) -> int:
        """Bytes of one rank's slots."""
        return DEPTH * (self.chunk + self.part)

    @property
    def share(self) -> int:
        """Bytes of a slot for one reader, if it is divided among all ranks."""
        return self.chunk // self.size // ALIGN * ALIGN

    def slot(self, rank: int, round_number: int) -> int:
        """Return the offset of a slot in bytes."""
        return SLOTS_AT + rank * self.per_rank + round_number % DEPTH * self.chunk

    def second_slot(self, rank: int, round_number: int) -> int:
        """Return the offset of a second slot in bytes."""
        return self.slot(rank, 0) + DEPTH * self.chunk + round_number % DEPTH * self.part


def layout_for(size: int, native: bool) -> Layout:
    """Return the layout for ``size`` ranks, with the kernel (``native``) or in PyTorch.

    The kernel's slots stay in the processor's caches; PyTorch's calls cost more than a cache saves.
    """
    few = size <= _FEW
    if native:
        return Layout(size, _CHUNK_FEW if few else _CHUNK_MANY)
    return Layout(size, _PURE_CHUNK_FEW if few else _CHUNK_MANY)


_FEW = 8
_CHUNK_FEW = 256 << 10
_CHUNK_MANY = 128 << 10
_PURE_CHUNK_FEW = 1 << 20


def pieces(total: int, maximum: int) -> Iterator[tuple[int, int]]:
    """Divide ``total`` bytes into pieces of at most ``maximum`` bytes; yield begin and
    end of each.
    """
    for begin in range(0, total, maximum):
        yield begin, min(begin + maximum, total)


def piece(total: int, number: int, maximum: int) -> tuple[int, int]:
    """Return begin and end of the piece ``number`` that ``pieces`` yields; an empty one beyond the
    last.
    """
    begin = min(number * maximum, total)
    return begin, min(begin + maximum, total)


def parts(chunk: int, size: int) -> list[tuple[int, int]]:
    """Return for each rank the range of a chunk's bytes that it reduces; the last ranges may be
    empty.
    """
    length = _up(-(-chunk // size), ALIGN)
    return [(min(rank * length, chunk), min((rank + 1) * length, chunk)) for rank in range(size)]


def starts(counts: Sequence[int]) -> list[int]:
    """Return the offset of each rank's values, and the end of all values."""
    offsets = [0]
    for count in counts:
        offsets.append(offsets[-1] + count)
    return offsets


def rounds(sizes: Sequence[int], maximum: int) -> int:
    """Return the number of pieces of at most ``maximum`` bytes that the largest of
    ``sizes`` needs.
    """
    return -(-max(sizes, default=0) // maximum)


def _up(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple
