"""Transport over shared memory, for ranks on one node and tensors in main memory; its bandwidth is
close to that of the memory.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from typing import ClassVar

import torch

from aitne_train.transport import _shm_kernel, _shm_memory
from aitne_train.transport._shm_layout import MOST_RANKS
from aitne_train.transport._shm_pure import PureExchange
from aitne_train.transport.base import Group, Reduction, TransportError

_log = logging.getLogger(__name__)


class ShmTransport:
    """Transport over shared memory, for ranks on one node; see ``base.Transport``.

    It uses the compiled kernel if it was built, otherwise PyTorch's operations. Results are equal
    bit by bit on every rank. A sum of 16-bit floats is rounded only once; a sum of booleans is
    their logical or.
    """

    name: ClassVar[str] = "shm"
    devices: ClassVar[frozenset[str]] = frozenset({"cpu"})

    def __init__(
        self,
        memory: _shm_memory.SharedMemory,
        exchange: _shm_kernel.KernelExchange | PureExchange,
    ) -> None:
        self.rank = memory.rank
        self.size = memory.layout.size
        self._memory = memory
        self._exchange = exchange
        self._busy = threading.RLock()
        self._inside = False

    @classmethod
    def refusal(cls, nodes: Sequence[int], device: str) -> str | None:
        """Return why this transport cannot be used for these ranks; None if it can. ``nodes``
        contains the number of each rank's node.
        """
        if device != "cpu":
            return f"shared memory carries tensors of the CPU, not of {device}"
        if len(set(nodes)) > 1:
            return f"the ranks are on {len(set(nodes))} nodes, which share no memory"
        if len(nodes) > MOST_RANKS:
            return f"{len(nodes)} ranks are more than the {MOST_RANKS} that it can connect"
        return None

    @classmethod
    def connect(cls, group: Group, device: str) -> ShmTransport:
        """Create or receive the shared memory of the group, and connect to the other ranks.

        Raises ``TransportError`` if ``refusal`` has a reason, if there is no memory, or if a rank
        does not connect.
        """
        refused = cls.refusal(group.nodes, device)
        if refused:
            raise TransportError(f"The shm transport cannot be used: {refused}.")
        reason = _shm_kernel.get_unavailable_reason()
        memory, native, connections = _shm_memory.share_memory(group, able=reason is None)
        if native:
            for connection in connections:
                connection.close()
            return cls(memory, _shm_kernel.KernelExchange(memory))
        if group.rank == 0:
            _log.warning(
                "The shm transport runs without its compiled kernel, several times slower: %s.",
                reason or "another rank has none",
            )
        return cls(memory, PureExchange(memory, connections))

    @property
    def is_native(self) -> bool:
        """Return whether the collectives are executed by the compiled kernel."""
        return isinstance(self._exchange, _shm_kernel.KernelExchange)

    @property
    def is_spinning(self) -> bool:
        """Return whether a waiting rank spins before it sleeps, as it does if there is a processor
        for each rank.
        """
        return self._memory.spins

    def reduces(self, dtype: torch.dtype, op: Reduction) -> bool:
        """Return whether this element type can be reduced: floats, integers of up to 64 bits, and
        bool. Every operation is supported.
        """
        return dtype in _shm_kernel.DTYPES

    def allreduce(self, flat: torch.Tensor, op: Reduction) -> None:
        """Reduce the values of all ranks in place."""
        self._check_tensor(flat)
        self._check_reduces(flat.dtype)
        self._run_collective(self._exchange.allreduce, flat, op)

    def reducescatter(
        self, out: torch.Tensor, flat: torch.Tensor, counts: Sequence[int], op: Reduction
    ) -> None:
        """Reduce the values of all ranks and write this rank's part to ``out``."""
        self._check_tensor(flat, sum(counts))
        self._check_tensor(out, counts[self.rank], flat)
        self._check_reduces(flat.dtype)
        self._run_collective(self._exchange.reducescatter, out, flat, counts, op)

    def allgather(self, out: torch.Tensor, flat: torch.Tensor, counts: Sequence[int]) -> None:
        """Write the values of all ranks to ``out``, in the order of the ranks."""
        self._check_tensor(flat, counts[self.rank])
        self._check_tensor(out, sum(counts), flat)
        self._run_collective(self._exchange.allgather, out, flat, counts)

    def broadcast(self, flat: torch.Tensor, root: int) -> None:
        """Replace the values of ``flat`` on all ranks by those of the rank ``root``."""
        self._check_tensor(flat)
        self._run_collective(self._exchange.broadcast, flat, root)

    def alltoall(
        self,
        out: torch.Tensor,
        flat: torch.Tensor,
        send_counts: Sequence[int],
        receive_counts: Sequence[int],
    ) -> None:
        """Send one part of ``flat`` to each rank and write the parts received to ``out``."""
        self._check_tensor(flat, sum(send_counts))
        self._check_tensor(out, sum(receive_counts), flat)
        self._run_collective(self._exchange.alltoall, out, flat, send_counts, receive_counts)

    def barrier(self) -> None:
        """Wait until all ranks have called this method."""
        self._run_collective(self._exchange.barrier)

    def abort(self, reason: str) -> None:
        """Make current and later collectives raise ``TransportError`` on all ranks, with ``reason``
        as the message.
        """
        self._memory.abort(reason)

    def close(self) -> None:
        """Close the transport; other ranks that still wait for this one raise an error."""
        self._memory.close()
        self._exchange.disconnect()
        with self._busy:
            self._release_memory()

    def _run_collective(self, act: Callable[..., None], *arguments: object) -> None:
        with self._busy:
            self._memory.check()
            if self._inside:
                raise TransportError(
                    "A signal handler cannot start a collective during another one."
                )
            self._inside = True
            try:
                act(*arguments)
            except TransportError as error:
                self._memory.abort(str(error))
                raise
            except BaseException as error:
                # Such as a KeyboardInterrupt: the others must not wait for the rest.
                rank = self._memory.ranks[self.rank]
                self._memory.abort(f"Rank {rank} interrupted a collective: {error!r}.")
                raise
            finally:
                self._inside = False
                if self._memory.closed:
                    self._release_memory()

    def _release_memory(self) -> None:
        """Release the memory unless a collective is using it, which is possible because a signal
        handler may close the transport during a call.
        """
        if not self._inside:
            self._exchange.close()
            self._memory.release()

    def _check_tensor(
        self, row: torch.Tensor, count: int | None = None, like: torch.Tensor | None = None
    ) -> None:
        """Check device, layout, number of elements and dtype of a tensor before it is passed to the
        compiled kernel, which cannot check them: with a wrong length it would write outside of the
        tensor. ``count`` and ``like`` are the expected length and a tensor of the expected dtype,
        if given.

        Raises ``ValueError`` if a check fails.
        """
        if row.device.type != "cpu" or not row.is_contiguous():
            raise ValueError("The shm transport takes contiguous tensors in main memory only.")
        if count is not None and row.numel() != count:
            raise ValueError(f"The tensor has {row.numel()} elements instead of {count}.")
        if like is not None and row.dtype != like.dtype:
            raise ValueError(f"The output is {row.dtype}, but the input is {like.dtype}.")

    def _check_reduces(self, dtype: torch.dtype) -> None:
        if dtype not in _shm_kernel.DTYPES:
            raise ValueError(f"The shm transport does not reduce {dtype}.")
