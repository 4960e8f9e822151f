"""Transport for ranks of one node and tensors in main memory, over shared memory at about its
speed."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from typing import ClassVar

import torch

from aitne.distrib.transport import _shm_kernel as kernel
from aitne.distrib.transport import _shm_memory as memories
from aitne.distrib.transport._shm_layout import MOST_RANKS
from aitne.distrib.transport._shm_pure import PureExchange
from aitne.distrib.transport.base import Group, Reduction, TransportError

_log = logging.getLogger(__name__)


class ShmTransport:
    """Transport over shared memory, for ranks of one node; see ``base.Transport``.

    Uses the compiled kernel if built, else the pure version.

    Every rank gets the same bits. A sum of 16-bit floats is rounded once; a sum of bool is "any".
    """

    name: ClassVar[str] = "shm"
    devices: ClassVar[frozenset[str]] = frozenset({"cpu"})

    def __init__(
        self,
        memory: memories.SharedMemory,
        exchange: kernel.KernelExchange | PureExchange,
    ) -> None:
        self.rank = memory.rank
        self.size = memory.layout.size
        self._memory = memory
        self._exchange = exchange
        self._busy = threading.RLock()
        self._inside = False

    @classmethod
    def refusal(cls, nodes: Sequence[int], device: str) -> str | None:
        """Return why this transport cannot serve ranks on these nodes; None if it can."""
        if device != "cpu":
            return f"shared memory carries tensors of the CPU, not of {device}"
        if len(set(nodes)) > 1:
            return f"the ranks are on {len(set(nodes))} nodes, which share no memory"
        if len(nodes) > MOST_RANKS:
            return f"{len(nodes)} ranks are more than the {MOST_RANKS} that it can connect"
        return None

    @classmethod
    def connect(cls, group: Group, device: str) -> ShmTransport:
        """Connect by shared memory.

        Raises ``TransportError`` if it is refused, has no memory, or a member does not connect.
        """
        refused = cls.refusal(group.nodes, device)
        if refused:
            raise TransportError(f"The shm transport cannot be used: {refused}.")
        reason = kernel.missing()
        memory, native, connections = memories.share(group, able=reason is None)
        if native:
            for connection in connections:
                connection.close()
            return cls(memory, kernel.KernelExchange(memory))
        if group.rank == 0:
            _log.warning(
                "The shm transport runs without its compiled kernel, several times slower: %s.",
                reason or "another rank has none",
            )
        return cls(memory, PureExchange(memory, connections))

    @property
    def native(self) -> bool:
        """Return whether the compiled kernel is used."""
        return isinstance(self._exchange, kernel.KernelExchange)

    @property
    def spins(self) -> bool:
        """Return whether a waiting rank spins before it sleeps: the ranks have a processor each."""
        return self._memory.spins

    def reduces(self, dtype: torch.dtype, op: Reduction) -> bool:
        """Return whether the type is supported: floats, integers of both signs, uint8 and bool.

        Integers have up to 64 bits; every operation is supported.
        """
        return dtype in kernel.DTYPES

    def allreduce(self, flat: torch.Tensor, op: Reduction) -> None:
        """Reduce the values of all ranks in place."""
        self._check(flat)
        self._check_reduces(flat.dtype)
        self._do(self._exchange.allreduce, flat, op)

    def reducescatter(
        self, out: torch.Tensor, flat: torch.Tensor, counts: Sequence[int], op: Reduction
    ) -> None:
        """Reduce and write this rank's part to ``out``."""
        self._check(flat, sum(counts))
        self._check(out, counts[self.rank], flat)
        self._check_reduces(flat.dtype)
        self._do(self._exchange.reducescatter, out, flat, counts, op)

    def allgather(self, out: torch.Tensor, flat: torch.Tensor, counts: Sequence[int]) -> None:
        """Gather the values of all ranks in ``out``."""
        self._check(flat, counts[self.rank])
        self._check(out, sum(counts), flat)
        self._do(self._exchange.allgather, out, flat, counts)

    def broadcast(self, flat: torch.Tensor, root: int) -> None:
        """Broadcast the values of ``root`` in place."""
        self._check(flat)
        self._do(self._exchange.broadcast, flat, root)

    def alltoall(
        self,
        out: torch.Tensor,
        flat: torch.Tensor,
        send_counts: Sequence[int],
        receive_counts: Sequence[int],
    ) -> None:
        """Exchange one part with each rank."""
        self._check(flat, sum(send_counts))
        self._check(out, sum(receive_counts), flat)
        self._do(self._exchange.alltoall, out, flat, send_counts, receive_counts)

    def barrier(self) -> None:
        """Wait until all ranks have called it."""
        self._do(self._exchange.barrier)

    def abort(self, reason: str) -> None:
        """Abort the group on all ranks."""
        self._memory.abort(reason)

    def close(self) -> None:
        """Close the transport; ranks that still wait for this one get an error."""
        self._memory.close()
        self._exchange.hang_up()
        with self._busy:
            self._release()

    def _do(self, act: Callable[..., None], *arguments: object) -> None:
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
                    self._release()

    def _release(self) -> None:
        """Release the memory, unless a call uses it: a signal handler may close during a call."""
        if not self._inside:
            self._exchange.close()
            self._memory.release()

    def _check(
        self, row: torch.Tensor, count: int | None = None, like: torch.Tensor | None = None
    ) -> None:
        """Check device, layout, length and dtype, which the kernel does not know.

        A wrong length would make it write outside of the tensor.
        """
        if row.device.type != "cpu" or not row.is_contiguous():
            raise ValueError("The shm transport takes contiguous tensors in main memory only.")
        if count is not None and row.numel() != count:
            raise ValueError(f"The tensor has {row.numel()} elements instead of {count}.")
        if like is not None and row.dtype != like.dtype:
            raise ValueError(f"The output is {row.dtype}, but the input is {like.dtype}.")

    def _check_reduces(self, dtype: torch.dtype) -> None:
        if dtype not in kernel.DTYPES:
            raise ValueError(f"The shm transport does not reduce {dtype}.")
