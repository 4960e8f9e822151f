"""Checkpoints that are whole or not there, and a way back when one is neither.

A file is what ``torch.save`` makes, so ``torch.load`` reads it, and behind that ``_TRAILER``: how long it
is and its SHA-256. It is written under another name, brought to the disk and then renamed. A disk or a file
system that loses a part of it all the same is noticed on loading, and the checkpoint before it is used.
"""

from __future__ import annotations

import hashlib
import io
import os
import pickle
import re
import struct
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

import torch

from aitne.distrib import context
from aitne.distrib.functions import allgather_object, broadcast_object

_MAGIC = b"AITNECK1"
_TRAILER = struct.Struct("!8sQI32s")
"""Magic, length of what is before the trailer in bytes, number of ranks that have a part of their own, and
SHA-256 of everything before it, trailer included."""
_NAME = re.compile(r"step-(\d{12})(?:\.rank-(\d+))?\.ckpt")
_PIECE = 1 << 20


class CheckpointError(RuntimeError):
    """A checkpoint cannot be written or read; what was there before is still there."""


@dataclass(frozen=True)
class Checkpoint:
    """What ``load_latest`` found."""

    step: int
    state: Any
    """What was given to ``save`` on rank 0."""
    own: Any
    """What this rank gave; None: nothing, or the run had another number of ranks then."""


class Checkpointer:
    """Checkpoints of one run in one folder, which all nodes see.

    Args:
        folder: None: what ``AITNE_CHECKPOINTS`` names. It is made if it is not there.
        keep: how many to keep, at least 2, so that there is one before the last.

    Raises:
        ValueError: there is no folder, or ``keep`` is less than 2.
    """

    def __init__(self, folder: str | os.PathLike[str] | None = None, keep: int = 2) -> None:
        named = folder if folder is not None else os.environ.get("AITNE_CHECKPOINTS")
        if not named:
            raise ValueError("name a folder for checkpoints, or set AITNE_CHECKPOINTS")
        if keep < 2:
            raise ValueError(f"keep is {keep}: at least 2, so that there is one before the last")
        self.folder = Path(named)
        self._keep = keep

    def save(self, state: Any, step: int, own: Any = None) -> None:
        """Write a checkpoint. Every rank calls it after the same step; nobody waits for anybody.

        Args:
            state: what all ranks have alike, such as ``state_dict()`` of model and optimizer; rank 0 writes
                it.
            step: number of the step, 0 or more.
            own: what differs between ranks, such as ``resume.random_state()`` and the position in the
                data: each rank writes its own. All ranks give one, or none does.

        Raises:
            CheckpointError: it cannot be written; those before it are untouched.
        """
        if step < 0:
            raise ValueError(f"step is {step}, not a number from 0 up")
        rank, size = _who()
        parts = size if own is not None else 0
        if own is not None:
            self._write(_name(step, rank), own, parts)
            self._forget(step, rank)
        if rank == 0:
            self._write(_name(step), state, parts)
            self._forget(step)

    def load_latest(
        self, map_location: Any = "cpu", *, weights_only: bool = True
    ) -> Checkpoint | None:
        """The newest checkpoint that is whole on every rank, the same on all; None: there is none at all.

        Collective. A damaged one is named on stderr.

        Args:
            map_location: where tensors go, as for ``torch.load``.
            weights_only: False: also objects that run code when they are loaded. Only from who can be
                trusted.

        Raises:
            CheckpointError: there are some and none is whole, or it holds what ``weights_only`` forbids.
        """
        rank, size = _who()
        whole = self._whole(rank, size)
        if whole is None:
            return None
        if not whole:
            raise CheckpointError(f"no checkpoint in {self.folder} is whole on every rank")
        step, parts = whole[0]
        own = None
        if parts == size:
            own = self._read(_name(step, rank), map_location, weights_only)
        return Checkpoint(step, self._read(_name(step), map_location, weights_only), own)

    # Writing

    def _write(self, name: str, content: Any, parts: int) -> None:
        path = self.folder / name
        beside = path.with_name(f".{name}.tmp")
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            try:
                with beside.open("wb") as file:
                    digest = _Digest(file)
                    torch.save(content, digest)
                    file.write(digest.trailer(parts))
                    file.flush()
                    os.fsync(file.fileno())
                beside.replace(path)
            except BaseException:
                beside.unlink(missing_ok=True)
                raise
            _sync_folder(self.folder)
        except OSError as error:
            raise CheckpointError(
                f"{path} was not written: {error.strerror or error}; checkpoints before it are as they were"
            ) from error

    def _forget(self, step: int, rank: int | None = None) -> None:
        """Remove what is older than those to keep, and what an earlier process left half-written.

        Those to keep have all their files: else a run that is stopped between two files of a checkpoint,
        and again between those of the next, would be left with parts of several and none to go on from.
        """
        complete = (each for each in self._steps() if each <= step and self._complete(each))
        kept = list(islice(complete, self._keep))
        if len(kept) == self._keep:
            older = (each for each in self._steps(rank) if each < kept[-1])
            _remove(self.folder / _name(each, rank) for each in older)
        suffix = _name(0, rank).removeprefix(_name(0).removesuffix(".ckpt"))
        _remove(
            path
            for path in self.folder.glob(f".step-*{suffix}.tmp")
            if _NAME.fullmatch(path.name[1:-4]) and _rank_of(path.name[1:-4]) == rank
        )

    def _complete(self, step: int) -> bool:
        """Whether all its files are there; each has its name only once it was written."""
        try:
            parts = _parts(self.folder / _name(step))
        except (OSError, CheckpointError):
            return False
        return all((self.folder / _name(step, rank)).is_file() for rank in range(parts))

    # Reading

    def _steps(self, rank: int | None = None) -> list[int]:
        """Newest first."""
        if not self.folder.is_dir():
            return []
        names = (_NAME.fullmatch(name) for name in os.listdir(self.folder))
        found = (
            int(match[1]) for match in names if match is not None and _rank_of(match[0]) == rank
        )
        return sorted(found, reverse=True)

    def _whole(self, rank: int, size: int) -> list[tuple[int, int]] | None:
        """Steps, newest first, that are whole on all ranks, and how many parts each has; None: no file."""
        found: list[tuple[int, int]] = []
        there: list[int] = []
        if rank == 0:
            there = self._steps()
            for step in there:
                parts = self._checked(_name(step))
                if parts is not None:
                    found.append((step, parts))
        if size > 1:
            there, found = broadcast_object((there, found), 0, "aitne.checkpoint.found")
        if not there:
            return None
        mine = [
            step
            for step, parts in found
            if parts != size or self._checked(_name(step, rank)) is not None
        ]
        everywhere = set(mine)
        if size > 1:
            everywhere.intersection_update(*allgather_object(mine, "aitne.checkpoint.whole"))
        return [(step, parts) for step, parts in found if step in everywhere]

    def _checked(self, name: str) -> int | None:
        """How many parts a whole file says there are; None: it is not whole, which is said."""
        path = self.folder / name
        try:
            return _verify(path)
        except (OSError, CheckpointError) as error:
            why = error.strerror if isinstance(error, OSError) else str(error)
            sys.stderr.write(f"aitne: {path} is not used: {why}\n")
            return None

    def _read(self, name: str, map_location: Any, weights_only: bool) -> Any:
        path = self.folder / name
        try:
            if _who()[0] != 0:
                _verify(path)
            return torch.load(path, map_location=map_location, weights_only=weights_only)
        except OSError as error:
            raise CheckpointError(
                f"{path} cannot be read: {error.strerror}; all nodes must see the folder"
            ) from error
        except pickle.UnpicklingError as error:
            raise CheckpointError(
                f"{path} holds more than tensors, numbers, text and containers of them:"
                " load_latest(weights_only=False) reads it, if you trust who wrote it"
            ) from error


class _Digest(io.RawIOBase):
    """Writes into a file, and knows the sum and the length of what it wrote.

    torch turns an error of a write into one of its own; so it is kept for ``trailer``, which raises it.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._sum = hashlib.sha256()
        self._length = 0
        self._failure: OSError | None = None

    def writable(self) -> bool:
        return True

    def write(self, piece: Any) -> int:
        if self._failure is None:
            try:
                self._sum.update(piece)
                self._file.write(piece)
                self._length += len(piece)
            except OSError as error:
                self._failure = error
        return len(piece)

    def trailer(self, parts: int) -> bytes:
        if self._failure is not None:
            raise self._failure
        return _sealed(self._sum, self._length, parts)


def _sealed(of: Any, length: int, parts: int) -> bytes:
    head = _TRAILER.pack(_MAGIC, length, parts, b"")[:-32]
    of.update(head)
    return head + of.digest()


def _verify(path: Path) -> int:
    """The number of parts a whole file says there are. Raises ``CheckpointError`` or ``OSError``."""
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        length = size - _TRAILER.size
        if length <= 0:
            raise CheckpointError(f"it has only {size} bytes")
        summed = hashlib.sha256()
        left = length
        while left:
            piece = file.read(min(_PIECE, left))
            if not piece:
                raise CheckpointError("it grew shorter while it was read")
            summed.update(piece)
            left -= len(piece)
        trailer = file.read(_TRAILER.size)
    magic, written, parts, _sum = _TRAILER.unpack(trailer)
    if magic != _MAGIC or written != length:
        raise CheckpointError("its end is missing")
    if _sealed(summed, written, parts) != trailer:
        raise CheckpointError("its checksum is another: bytes in it have changed")
    return int(parts)


def _parts(path: Path) -> int:
    """The number of parts a file says there are, unchecked. Raises ``CheckpointError`` or ``OSError``."""
    with path.open("rb") as file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - _TRAILER.size))
        trailer = file.read()
    if len(trailer) != _TRAILER.size or not trailer.startswith(_MAGIC):
        raise CheckpointError("its end is missing")
    return int(_TRAILER.unpack(trailer)[2])


def _who() -> tuple[int, int]:
    """This rank and how many there are; without ``init`` the only one."""
    if not context.is_initialized():
        return 0, 1
    world = context.current().world
    return world.rank, world.size


def _name(step: int, rank: int | None = None) -> str:
    return f"step-{step:012d}{'' if rank is None else f'.rank-{rank}'}.ckpt"


def _rank_of(name: str) -> int | None:
    match = _NAME.fullmatch(name)
    return int(match[2]) if match is not None and match[2] is not None else None


def _remove(paths: Iterable[Path]) -> None:
    for path in paths:
        path.unlink(missing_ok=True)


def _sync_folder(folder: Path) -> None:
    """Bring a rename to the disk."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
