"""Layout of the shared memory, and division of messages into pieces; arithmetic only.

The regions are:

header      abort flag and reason, and a random number of each rank's process
lines       counters of each rank, used by the compiled kernel
slots       for rank 0, then rank 1 and so on: DEPTH slots, followed by DEPTH second slots
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

MOST_RANKS = 64
DEPTH = 4
"""Number of rounds by which a rank may be ahead of the others; must equal the value in the compiled
kernel."""
LINE_BYTES = 128
"""Bytes reserved for the counters of each rank; must equal the value in the compiled kernel."""
ALIGN = 64
HEADER_BYTES = 4096
SLOTS_AT = HEADER_BYTES + MOST_RANKS * LINE_BYTES
_PAGE = 4096


@dataclass(frozen=True)
class Layout:
    """Layout of the shared memory: offsets and sizes of the slots through which each rank passes
    its data to the others.
    """

    size: int
    chunk: int
    """Size of a slot in bytes: the data that a rank passes on in one round."""

    @property
    def part(self) -> int:
        """Return the size in bytes of a second slot, in which a rank publishes the part of a chunk
        that it has reduced.
        """
        return _round_up(-(-self.chunk // self.size), ALIGN)

    @property
    def total(self) -> int:
        """Return the size of the whole shared memory in bytes."""
        return _round_up(SLOTS_AT + self.size * self.per_rank, _PAGE)

    @property
    def per_rank(self) -> int:
        """Return the size of all slots of one rank in bytes."""
        return DEPTH * (self.chunk + self.part)

    @property
    def share(self) -> int:
        """Return the size, in bytes, of each rank's share of a slot that is divided among all
        receiving ranks.
        """
        return self.chunk // self.size // ALIGN * ALIGN

    def compute_slot_offset(self, rank: int, round_number: int) -> int:
        """Return the offset in bytes of the slot that a rank uses in this round."""
        return SLOTS_AT + rank * self.per_rank + round_number % DEPTH * self.chunk

    def compute_second_slot_offset(self, rank: int, round_number: int) -> int:
        """Return the offset in bytes of the slot in which a rank publishes the part that it has
        reduced in this round.
        """
        return (
            self.compute_slot_offset(rank, 0)
            + DEPTH * self.chunk
            + round_number % DEPTH * self.part
        )


def choose_layout(size: int, native: bool) -> Layout:
    """Return the layout for ``size`` ranks; ``native`` states whether the compiled kernel or
    PyTorch's operations use it.

    Slots for the kernel are small enough for the processor's caches. Slots for PyTorch are larger,
    because each of its calls costs more than a cache saves.
    """
    few = size <= _FEW
    if native:
        return Layout(size, _CHUNK_FEW if few else _CHUNK_MANY)
    return Layout(size, _PURE_CHUNK_FEW if few else _CHUNK_MANY)


_FEW = 8
_CHUNK_FEW = 256 << 10
_CHUNK_MANY = 128 << 10
_PURE_CHUNK_FEW = 1 << 20


def split_pieces(total: int, maximum: int) -> Iterator[tuple[int, int]]:
    """Divide ``total`` bytes into pieces of at most ``maximum`` bytes; yield the start and end of
    each piece.
    """
    for begin in range(0, total, maximum):
        yield begin, min(begin + maximum, total)


def locate_piece(total: int, number: int, maximum: int) -> tuple[int, int]:
    """Return the start and end of the piece with index ``number`` that ``split_pieces`` yields; an empty
    range if there are fewer pieces.
    """
    begin = min(number * maximum, total)
    return begin, min(begin + maximum, total)


def divide_chunk(chunk: int, size: int) -> list[tuple[int, int]]:
    """Return, for each of ``size`` ranks, the range of a chunk's bytes that the rank reduces; the
    last ranges may be empty.
    """
    length = _round_up(-(-chunk // size), ALIGN)
    return [(min(rank * length, chunk), min((rank + 1) * length, chunk)) for rank in range(size)]


def compute_offsets(counts: Sequence[int]) -> list[int]:
    """Return the offset at which each rank's values start, followed by the total of ``counts``."""
    offsets = [0]
    for count in counts:
        offsets.append(offsets[-1] + count)
    return offsets


def count_rounds(sizes: Sequence[int], maximum: int) -> int:
    """Return the number of rounds for the largest of ``sizes``, in bytes, with at most ``maximum``
    bytes in each.
    """
    return -(-max(sizes, default=0) // maximum)


def _round_up(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple
