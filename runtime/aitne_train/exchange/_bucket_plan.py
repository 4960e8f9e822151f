"""Assignment of gradients to buckets, and the order of the buckets.

Pure functions, so that all ranks get equal results.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

EDGE_BYTES = 1 << 20
"""Maximum bytes of the first and of the last bucket. A small first bucket lets the exchange start
early in backward; a small last bucket keeps short the part of the exchange that no computation
overlaps."""
DEFAULT_BYTES = 64 << 20
"""Default of ``HOROVOD_FUSION_THRESHOLD`` in bytes, as in Horovod."""


@dataclass(frozen=True, slots=True)
class PlannedGradient:
    """Properties of a gradient that determine its bucket: its size in bytes, and its kind, which
    all gradients of a bucket share.
    """

    nbytes: int
    kind: Hashable
    """Kind of the gradient (dtype and device); a bucket contains gradients of one kind only."""


@dataclass(slots=True)
class _Open:
    members: list[int] = field(default_factory=list)
    nbytes: int = 0
    atoms: list[tuple[int, ...]] = field(default_factory=list)

    def add(self, atom: tuple[int, ...], nbytes: int) -> None:
        self.members.extend(atom)
        self.atoms.append(atom)
        self.nbytes += nbytes


def group_gradients(
    order: Sequence[int], groups: Sequence[Sequence[int]] | int | None
) -> list[list[int]]:
    """Convert Horovod's argument ``groups`` to lists of gradient numbers; the gradients of a list
    must be in one bucket.

    If ``groups`` is a number, ``order`` is divided into that many consecutive parts of nearly equal
    length. A gradient without a group gets a list of its own.
    """
    if groups is None or groups == 0:
        return [[number] for number in order]
    if isinstance(groups, int):
        count = min(groups, len(order))
        short, longer = divmod(len(order), count) if count else (0, 0)
        ends = [(k + 1) * short + min(k + 1, longer) for k in range(count)]
        return [list(order[begin:end]) for begin, end in zip([0, *ends], ends, strict=False)]
    known_numbers = set(order)
    known_groups = [[number for number in members if number in known_numbers] for members in groups]
    named = {number for members in known_groups for number in members}
    return [members for members in known_groups if members] + [
        [number] for number in order if number not in named
    ]


def plan_buckets(
    items: Sequence[PlannedGradient],
    order: Sequence[int],
    cap: int = DEFAULT_BYTES,
    groups: Sequence[Sequence[int]] | int | None = None,
    edge: int = EDGE_BYTES,
) -> list[list[int]]:
    """Divide the gradients into buckets: lists of gradient numbers, in the order in which the
    buckets become complete during backward.

    Args:
        items: all gradients; their numbers are the indices in this sequence.
        order: gradient numbers in the order in which backward computes them, without duplicates.
            Gradients that are not in it are omitted.
        cap: maximum bytes of a bucket, which a group may exceed; 0: only the gradients of a group
            share a bucket.
        groups: see the function ``group_gradients``.
        edge: maximum bytes of the first and of the last bucket, if there is more than one.
    """
    place = {number: position for position, number in enumerate(order)}
    atoms = [
        tuple(part)
        for members in group_gradients(order, groups)
        for part in _split_by_kind(sorted(members, key=place.__getitem__), items)
    ]
    atoms.sort(key=lambda atom: place[atom[-1]])
    edge = min(edge, cap)
    closed: list[_Open] = []
    open_of: dict[Hashable, _Open] = {}
    for atom in atoms:
        kind = items[atom[0]].kind
        nbytes = sum(items[number].nbytes for number in atom)
        bucket = open_of.get(kind)
        if bucket is not None and bucket.nbytes + nbytes > (cap if closed else edge):
            closed.append(open_of.pop(kind))
            bucket = None
        if bucket is None:
            bucket = open_of[kind] = _Open()
        bucket.add(atom, nbytes)
    closed.extend(open_of.values())

    def close_bucket(bucket: _Open) -> int:
        return max(place[number] for number in bucket.members)

    # The first half of a split bucket may be complete before a bucket of another kind.
    closed = sorted(
        _shorten_last_bucket(sorted(closed, key=close_bucket), items, edge), key=close_bucket
    )
    return [bucket.members for bucket in closed]


def _split_by_kind(members: Sequence[int], items: Sequence[PlannedGradient]) -> list[list[int]]:
    kinds: dict[Hashable, list[int]] = {}
    for number in members:
        kinds.setdefault(items[number].kind, []).append(number)
    return list(kinds.values())


def _shorten_last_bucket(
    buckets: list[_Open], items: Sequence[PlannedGradient], edge: int
) -> list[_Open]:
    """Split the last bucket in two, the second of at most ``edge`` bytes, if it is larger and
    divisible.
    """
    if not buckets or buckets[-1].nbytes <= edge or len(buckets[-1].atoms) < 2:
        return buckets
    head, tail = _Open(), _Open()
    for atom in reversed(buckets[-1].atoms):
        nbytes = sum(items[number].nbytes for number in atom)
        fits = not head.atoms and tail.nbytes + nbytes <= edge
        (tail if fits else head).add(atom, nbytes)
    if not tail.atoms or not head.atoms:
        return buckets
    for half in (head, tail):
        half.atoms.reverse()
        half.members = [number for atom in half.atoms for number in atom]
    return [*buckets[:-1], head, tail]
