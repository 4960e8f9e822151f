"""Collectives over shared memory without compiled code: PyTorch's operations compute, sockets
synchronize.

To synchronize, each rank sends rank 0 a message, and rank 0 answers when all messages have arrived.
The data itself is in the shared memory. The sockets also guarantee that other processors see data
written before, which Python alone could not guarantee. Each rank uses two slots in turn, so that
one synchronization in each round is enough.
"""

from __future__ import annotations

import contextlib
import selectors
import socket
import time
import zlib
from collections.abc import Sequence

import numpy as np
import torch

from aitne_train.transport import _shm_layout
from aitne_train.transport._shm_memory import DISAGREE, SharedMemory
from aitne_train.transport.base import Reduction, TransportError

_LOOK_S = 0.1
_SPIN_S = 50e-6
_AT_ONCE_BYTES = 16 << 10
"""Maximum bytes for which every rank reduces all data itself, with one synchronization instead of
two."""
_HALF = (torch.float16, torch.bfloat16)


class PureExchange:
    """Collectives of one rank over shared memory, executed by PyTorch's operations. Callers must
    check device, type and length of the tensors before.
    """

    def __init__(self, memory: SharedMemory, connections: Sequence[socket.socket]) -> None:
        self._memory = memory
        self._layout = memory.layout
        self._rank = memory.rank
        self._size = memory.layout.size
        self._shared = torch.frombuffer(memory.map, dtype=torch.uint8)
        lines = memory.bytes[_shm_layout.HEADER_BYTES : _shm_layout.SLOTS_AT].view(np.int64)
        self._came = lines[:: _shm_layout.LINE_BYTES // 8]
        """Number of synchronizations that each rank has reached. It is used only to find ranks that
        have ended, so it need not be exact."""
        self._connections = connections
        self._peers = list(range(1, self._size)) if memory.rank == 0 else [0]
        self._round = 0
        self._selector = selectors.DefaultSelector()
        for peer, connection in zip(self._peers, connections, strict=True):
            connection.setblocking(False)
            self._selector.register(connection, selectors.EVENT_READ, peer)

    def allreduce(self, flat: torch.Tensor, op: Reduction) -> None:
        """Reduce the values of all ranks in place."""
        local = _view_bytes(flat)
        if 0 < local.numel() <= _AT_ONCE_BYTES:
            self._view_slot(self._rank, local.numel()).copy_(local)
            self._wait_for_all_ranks("allreduce", flat.dtype, op, local.numel())
            every = [
                self._view_slot(rank, local.numel()).view(flat.dtype) for rank in range(self._size)
            ]
            local.view(flat.dtype).copy_(_reduce_rows(every, op))
            self._round += 1
            return
        for begin, end in _shm_layout.split_pieces(local.numel(), self._layout.chunk):
            chunk = local[begin:end]
            parts = _shm_layout.divide_chunk(chunk.numel(), self._size)
            here, after = parts[self._rank]
            self._view_slot(self._rank, chunk.numel()).copy_(chunk)
            self._wait_for_all_ranks("allreduce", flat.dtype, op, local.numel())
            part = chunk[here:after].view(flat.dtype)
            rows = [
                self._view_slot(rank, chunk.numel())[here:after].view(flat.dtype)
                for rank in range(self._size)
            ]
            part.copy_(_reduce_rows(rows, op))
            self._view_second_slot(self._rank, after - here).copy_(chunk[here:after])
            self._wait_for_all_ranks("allreduce", flat.dtype, op, local.numel())
            for rank, (first, last) in enumerate(parts):
                if rank != self._rank:
                    chunk[first:last].copy_(self._view_second_slot(rank, last - first))
            self._round += 1

    def reducescatter(
        self, out: torch.Tensor, flat: torch.Tensor, counts: Sequence[int], op: Reduction
    ) -> None:
        """Reduce the values of all ranks and write this rank's part to ``out``. ``counts`` contains
        the number of elements for each rank.
        """
        width = flat.element_size()
        sizes = [count * width for count in counts]
        source, taken = _view_bytes(flat), _view_bytes(out)
        share = self._layout.share
        for number in range(_shm_layout.count_rounds(sizes, share)):
            self._copy_to_slots(source, sizes, number)
            self._wait_for_all_ranks("reducescatter", flat.dtype, op, sizes)
            begin, end = _shm_layout.locate_piece(sizes[self._rank], number, share)
            at = self._rank * share
            rows = [
                self._view_slot(rank, at + end - begin)[at:].view(flat.dtype)
                for rank in range(self._size)
            ]
            taken[begin:end].view(flat.dtype).copy_(_reduce_rows(rows, op))
            self._round += 1

    def allgather(self, out: torch.Tensor, flat: torch.Tensor, counts: Sequence[int]) -> None:
        """Write the values of all ranks to ``out``, in the order of the ranks. ``counts`` contains
        the number of elements of each rank.
        """
        width = flat.element_size()
        sizes = [count * width for count in counts]
        starts = _shm_layout.compute_offsets(sizes)
        source, taken = _view_bytes(flat), _view_bytes(out)
        for number in range(_shm_layout.count_rounds(sizes, self._layout.chunk)):
            begin, end = _shm_layout.locate_piece(sizes[self._rank], number, self._layout.chunk)
            self._view_slot(self._rank, end - begin).copy_(source[begin:end])
            self._wait_for_all_ranks("allgather", sizes)
            for rank, start in enumerate(starts[:-1]):
                begin, end = _shm_layout.locate_piece(sizes[rank], number, self._layout.chunk)
                taken[start + begin : start + end].copy_(self._view_slot(rank, end - begin))
            self._round += 1

    def broadcast(self, flat: torch.Tensor, root: int) -> None:
        """Replace the values of ``flat`` on all ranks by those of the rank ``root``."""
        local = _view_bytes(flat)
        for begin, end in _shm_layout.split_pieces(local.numel(), self._layout.chunk):
            if self._rank == root:
                self._view_slot(root, end - begin).copy_(local[begin:end])
            self._wait_for_all_ranks("broadcast", root, local.numel())
            if self._rank != root:
                local[begin:end].copy_(self._view_slot(root, end - begin))
            self._round += 1

    def alltoall(
        self, out: torch.Tensor, flat: torch.Tensor, sent: Sequence[int], received: Sequence[int]
    ) -> None:
        """Send one part of ``flat`` to each rank and write the parts received to ``out``. ``sent``
        and ``received`` contain the number of elements for and from each rank.
        """
        width = flat.element_size()
        share = self._layout.share
        out_sizes = [count * width for count in sent]
        in_sizes = [count * width for count in received]
        starts = _shm_layout.compute_offsets(in_sizes)
        source, taken = _view_bytes(flat), _view_bytes(out)
        for number in range(self._agree_on_maximum(_shm_layout.count_rounds(out_sizes, share))):
            self._copy_to_slots(source, out_sizes, number)
            self._wait_for_all_ranks("alltoall")
            at = self._rank * share
            for rank, start in enumerate(starts[:-1]):
                begin, end = _shm_layout.locate_piece(in_sizes[rank], number, share)
                taken[start + begin : start + end].copy_(
                    self._view_slot(rank, at + end - begin)[at:]
                )
            self._round += 1

    def barrier(self) -> None:
        """Wait until all ranks have called this method."""
        self._wait_for_all_ranks("barrier")

    def disconnect(self) -> None:
        """Close the connections, so that ranks waiting for this one, here and in other processes,
        wake up.
        """
        for connection in self._connections:
            with contextlib.suppress(OSError):  # the peer has closed it already
                connection.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Release the sockets and tensors; no collective may be called after this."""
        for name in ("_shared", "_came"):
            vars(self).pop(name, None)
        self._selector.close()
        for connection in self._connections:
            connection.close()

    def _copy_to_slots(self, source: torch.Tensor, sizes: Sequence[int], number: int) -> None:
        """Copy the piece with index ``number`` for each rank from ``source`` into this rank's slot.
        ``sizes`` contains the bytes for each rank.
        """
        share = self._layout.share
        for rank, start in enumerate(_shm_layout.compute_offsets(sizes)[:-1]):
            begin, end = _shm_layout.locate_piece(sizes[rank], number, share)
            place = self._view_slot(self._rank, rank * share + end - begin)[rank * share :]
            place.copy_(source[start + begin : start + end])

    def _agree_on_maximum(self, number: int) -> int:
        """Return the maximum of ``number`` over all ranks; a rank does not know how much two other
        ranks exchange.
        """
        self._view_slot(self._rank, 8).view(torch.int64).fill_(number)
        self._wait_for_all_ranks("alltoall")
        numbers = [int(self._view_slot(rank, 8).view(torch.int64)) for rank in range(self._size)]
        self._round += 1
        return max(numbers)

    def _view_slot(self, rank: int, length: int) -> torch.Tensor:
        begin = self._layout.compute_slot_offset(rank, self._round % 2)
        return self._shared[begin : begin + length]

    def _view_second_slot(self, rank: int, length: int) -> torch.Tensor:
        begin = self._layout.compute_second_slot_offset(rank, self._round % 2)
        return self._shared[begin : begin + length]

    def _wait_for_all_ranks(self, *what: object) -> None:
        """Wait until all ranks have called this with the same description ``what`` of their
        operation.

        Raises ``TransportError`` if descriptions differ or a rank has ended.
        """
        self._came[self._rank] += 1
        word = zlib.crc32(repr(what).encode()).to_bytes(4, "big")
        if self._rank:
            self._send_word(word)
            self._receive_word(word)
        else:
            self._receive_word(word)
            self._send_word(word)

    def _send_word(self, word: bytes) -> None:
        for peer, connection in zip(self._peers, self._connections, strict=True):
            try:
                connection.send(word)
            except OSError:
                self._handle_gone(peer)

    def _receive_word(self, word: bytes) -> None:
        """Receive the message of each peer and compare it with ``word``, a hash of the operation's
        description. A peer sends its next message only after an answer.

        Raises ``TransportError`` if a message differs or a peer has ended.
        """
        missing = set(self._peers)
        spin_until = time.perf_counter() + (_SPIN_S if self._memory.spins else 0)
        while missing:
            spins = time.perf_counter() < spin_until
            events = self._selector.select(0 if spins else _LOOK_S)
            if not events and not spins:
                self._memory.check_ranks(self._find_absent())
            for key, _ in events:
                try:
                    heard = self._connections[self._peers.index(key.data)].recv(len(word))
                except OSError:
                    heard = b""
                if not heard:
                    self._handle_gone(key.data)
                if heard != word:
                    raise TransportError(DISAGREE)
                missing.discard(key.data)

    def _find_absent(self) -> int:
        """Return a number with one bit for each rank that has not reached the current
        synchronization. All such ranks must be checked, because rank 0, which answers, may itself
        wait for another.
        """
        count = self._came[self._rank]
        return sum(1 << rank for rank in range(self._size) if self._came[rank] < count)

    def _handle_gone(self, peer: int) -> None:
        # It may have stored the reason before it left.
        self._memory.check()
        self._memory.check_ranks(1 << peer)
        raise TransportError(f"Rank {self._memory.ranks[peer]} left the group.")


def _view_bytes(flat: torch.Tensor) -> torch.Tensor:
    return flat.detach().reshape(-1).view(torch.uint8)


def _reduce_rows(rows: Sequence[torch.Tensor], op: Reduction) -> torch.Tensor:
    """Return the reduction of the tensors ``rows``, computed in their order.

    16-bit floats are added as 32-bit floats and rounded only once.
    """
    half = rows[0].dtype in _HALF
    result = rows[0].float() if half else rows[0].clone()
    for row in rows[1:]:
        other = row.float() if half else row
        if result.dtype == torch.bool:
            more = op in (Reduction.SUM, Reduction.MAX)
            torch.logical_or(result, other, out=result) if more else torch.logical_and(
                result, other, out=result
            )
        elif op == Reduction.SUM:
            result += other
        elif op == Reduction.PRODUCT:
            result *= other
        else:
            torch.minimum(result, other, out=result) if op == Reduction.MIN else torch.maximum(
                result, other, out=result
            )
    return result.to(rows[0].dtype)
