"""Checkpoints that are either complete or absent, with a fallback to the previous one.

A file is the output of ``torch.save``, so that ``torch.load`` can read it, followed by a trailer
with the length and SHA-256 of the content. The file is written under a temporary name, synchronized
to the disk and then renamed. If a part of it is lost nevertheless, loading detects that and uses
the previous checkpoint.
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

from aitne_train import context
from aitne_train.abandoned_collectives import mark_collective
from aitne_train.functions import allgather_object, broadcast_object

_MAGIC = b"AITNECK1"
_TRAILER = struct.Struct("!8sQI32s")
"""Format of the end of a file: a magic value, the number of bytes before the trailer, the number of
ranks that stored state of their own, and the SHA-256 of the content and of the preceding fields of
the trailer."""
_NAME = re.compile(r"step-(\d{12})(?:\.rank-(\d+))?\.ckpt")
_PIECE = 1 << 20


class CheckpointError(RuntimeError):
    """Error: a checkpoint cannot be written or read; existing checkpoints are unchanged."""


@dataclass(frozen=True)
class Checkpoint:
    """A loaded checkpoint: the number of training steps, the state common to all ranks, and this
    rank's own state.
    """

    step: int
    """Number of training steps before the checkpoint."""
    state: Any
    """State common to all ranks, which rank 0 passed to ``save``."""
    own: Any
    """State that this rank passed to ``save``; None if none was passed, or the number of ranks has
    changed."""


class Checkpointer:
    """Writer and reader of the checkpoints of one run, in a folder shared by all nodes.

    Args:
        folder: folder, which is created if missing; None for the value of the environment variable
            ``AITNE_CHECKPOINTS``.
        keep: number of checkpoints to keep, at least 2, so that a previous one always exists.

    Raises:
        ValueError: no folder is given, or ``keep`` is less than 2.
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
        """Write a checkpoint. Every rank must call this after the same step; no rank waits for
        another.

        Args:
            state: state that is equal on all ranks, such as the ``state_dict()`` of model and
                optimizer; rank 0 writes it.
            step: number of the step, 0 or more.
            own: state that differs between ranks, such as ``resume.random_state()`` and the
                position in the data; each rank writes its own. Either all ranks pass one, or none
                does.

        Raises:
            CheckpointError: the checkpoint cannot be written; earlier ones are unchanged.
        """
        if step < 0:
            raise ValueError(f"step is {step}, not a number of at least 0")
        rank, size = _find_rank_and_size()
        parts = size if own is not None else 0
        if own is not None:
            self._write_file(_name_file(step, rank), own, parts)
            self._remove_old_files(step, rank)
        if rank == 0:
            self._write_file(_name_file(step), state, parts)
            self._remove_old_files(step)

    @mark_collective("load_latest()")
    def load_latest(
        self, map_location: Any = "cpu", *, weights_only: bool = True
    ) -> Checkpoint | None:
        """Load the newest checkpoint that is complete on every rank; return None if the folder has
        no checkpoint.

        Every rank must call this, and all get the same step. Damaged checkpoints are reported on
        stderr.

        Args:
            map_location: device for the tensors, as in ``torch.load``.
            weights_only: False permits objects that execute code when they are loaded; use it for
                trusted files only.

        Raises:
            CheckpointError: checkpoints exist, but none is complete, or the file contains objects
                that ``weights_only`` forbids.
        """
        rank, size = _find_rank_and_size()
        checkpoints = self._list_complete_steps(rank, size)
        if checkpoints is None:
            return None
        if not checkpoints:
            raise CheckpointError(f"no checkpoint in {self.folder} is complete on every rank")
        step, parts = checkpoints[0]
        rank_state = None
        if parts == size:
            rank_state = self._read_file(_name_file(step, rank), map_location, weights_only)
        return Checkpoint(
            step, self._read_file(_name_file(step), map_location, weights_only), rank_state
        )

    # Writing

    def _write_file(self, name: str, content: Any, parts: int) -> None:
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
                f"{path} was not written: {error.strerror or error}; earlier checkpoints are unchanged"
            ) from error

    def _remove_old_files(self, step: int, rank: int | None = None) -> None:
        """Remove checkpoints older than the ones to keep, and incomplete files left by an earlier
        process. With ``rank``, remove that rank's own files only.

        Only checkpoints with all their files count as kept. Otherwise a run that is repeatedly
        stopped between writing two files of a checkpoint would keep several incomplete checkpoints
        and none to resume from.
        """
        complete = (
            candidate
            for candidate in self._list_steps()
            if candidate <= step and self._is_complete(candidate)
        )
        newest = list(islice(complete, self._keep))
        if len(newest) == self._keep:
            older = (candidate for candidate in self._list_steps(rank) if candidate < newest[-1])
            _remove_files(self.folder / _name_file(candidate, rank) for candidate in older)
        suffix = _name_file(0, rank).removeprefix(_name_file(0).removesuffix(".ckpt"))
        _remove_files(
            path
            for path in self.folder.glob(f".step-*{suffix}.tmp")
            if _NAME.fullmatch(path.name[1:-4]) and _parse_rank(path.name[1:-4]) == rank
        )

    def _is_complete(self, step: int) -> bool:
        """Return whether all files of the checkpoint exist.

        A file is renamed to its final name only when it is complete.
        """
        try:
            parts = _read_part_count(self.folder / _name_file(step))
        except (OSError, CheckpointError):
            return False
        return all((self.folder / _name_file(step, rank)).is_file() for rank in range(parts))

    # Reading

    def _list_steps(self, rank: int | None = None) -> list[int]:
        """Return the steps of the existing checkpoints, newest first; with ``rank``, of that rank's
        own files.
        """
        if not self.folder.is_dir():
            return []
        names = (_NAME.fullmatch(name) for name in os.listdir(self.folder))
        steps = (
            int(match[1]) for match in names if match is not None and _parse_rank(match[0]) == rank
        )
        return sorted(steps, reverse=True)

    def _list_complete_steps(self, rank: int, size: int) -> list[tuple[int, int]] | None:
        """Return the checkpoints that are complete on all ranks, newest first, as pairs of the step
        and the number of ranks with state of their own. Return None if the folder contains no
        checkpoint. Every rank must call this.
        """
        complete: list[tuple[int, int]] = []
        there: list[int] = []
        if rank == 0:
            there = self._list_steps()
            for step in there:
                parts = self._check_file(_name_file(step))
                if parts is not None:
                    complete.append((step, parts))
        if size > 1:
            there, complete = broadcast_object((there, complete), 0, "aitne.checkpoint.found")
        if not there:
            return None
        local_steps = [
            step
            for step, parts in complete
            if parts != size or self._check_file(_name_file(step, rank)) is not None
        ]
        everywhere = set(local_steps)
        if size > 1:
            everywhere.intersection_update(*allgather_object(local_steps, "aitne.checkpoint.whole"))
        return [(step, parts) for step, parts in complete if step in everywhere]

    def _check_file(self, name: str) -> int | None:
        """Verify a file. Return the number of ranks with state of their own that it states; if the
        file is incomplete, report the reason on stderr and return None.
        """
        path = self.folder / name
        try:
            return _verify_file(path)
        except (OSError, CheckpointError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            sys.stderr.write(f"aitne: {path} is not used: {reason}\n")
            return None

    def _read_file(self, name: str, map_location: Any, weights_only: bool) -> Any:
        path = self.folder / name
        try:
            if _find_rank_and_size()[0] != 0:
                _verify_file(path)
            return torch.load(path, map_location=map_location, weights_only=weights_only)
        except OSError as error:
            raise CheckpointError(
                f"{path} cannot be read: {error.strerror}; all nodes must see the folder"
            ) from error
        except pickle.UnpicklingError as error:
            raise CheckpointError(
                f"{path} contains more than tensors, numbers, text and containers of them:"
                " load_latest(weights_only=False) reads it; use it for trusted files only"
            ) from error


class _Digest(io.RawIOBase):
    """File object that writes to ``file`` and computes the digest and length of the data.

    ``torch.save`` replaces an error of a write by an error of its own. So the original error is
    kept, and ``trailer`` raises it.
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
        return _write_sealed(self._sum, self._length, parts)


def _write_sealed(of: Any, length: int, parts: int) -> bytes:
    head = _TRAILER.pack(_MAGIC, length, parts, b"")[:-32]
    of.update(head)
    return head + of.digest()


def _verify_file(path: Path) -> int:
    """Verify length and SHA-256 of a file; return the number of ranks with state of their own that
    it states.

    Raises ``CheckpointError`` if the file is damaged, or ``OSError`` if it cannot be read.
    """
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        length = size - _TRAILER.size
        if length <= 0:
            raise CheckpointError(f"it has only {size} bytes")
        summed = hashlib.sha256()
        remaining = length
        while remaining:
            piece = file.read(min(_PIECE, remaining))
            if not piece:
                raise CheckpointError("it was truncated while it was read")
            summed.update(piece)
            remaining -= len(piece)
        trailer = file.read(_TRAILER.size)
    magic, recorded, parts, _sum = _TRAILER.unpack(trailer)
    if magic != _MAGIC or recorded != length:
        raise CheckpointError("its end is missing")
    if _write_sealed(summed, recorded, parts) != trailer:
        raise CheckpointError("its checksum does not match: its content has changed")
    return int(parts)


def _read_part_count(path: Path) -> int:
    """Return the number of ranks with state of their own that a file states, without verifying its
    content.

    Raises ``CheckpointError`` if the trailer is missing, or ``OSError`` if the file cannot be read.
    """
    with path.open("rb") as file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - _TRAILER.size))
        trailer = file.read()
    if len(trailer) != _TRAILER.size or not trailer.startswith(_MAGIC):
        raise CheckpointError("its end is missing")
    return int(_TRAILER.unpack(trailer)[2])


def _find_rank_and_size() -> tuple[int, int]:
    """Return the rank of this process and the number of ranks; 0 and 1 if ``init`` was not called."""
    if not context.is_initialized():
        return 0, 1
    world = context.require_context().world
    return world.rank, world.size


def _name_file(step: int, rank: int | None = None) -> str:
    return f"step-{step:012d}{'' if rank is None else f'.rank-{rank}'}.ckpt"


def _parse_rank(name: str) -> int | None:
    match = _NAME.fullmatch(name)
    return int(match[2]) if match is not None and match[2] is not None else None


def _remove_files(paths: Iterable[Path]) -> None:
    for path in paths:
        path.unlink(missing_ok=True)


def _sync_folder(folder: Path) -> None:
    """Synchronize a folder to the disk, so that a renamed file in it survives a crash."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
