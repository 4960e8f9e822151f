"""Transport by PyTorch's own collectives: gloo for tensors in main memory, NCCL for those on GPUs.

Process groups are created directly, not by ``torch.distributed.init_process_group``, so that the
program can have a default group of its own. Operations that gloo lacks (parts of different sizes,
16-bit integers, a scatter that sends each part once) are composed of others. The part for NCCL
follows PyTorch's documentation and has not been tested on GPUs: its tests use substitutes for
PyTorch's classes.

The program chooses how PyTorch handles errors and timeouts of NCCL (``TORCH_NCCL_*``). By default
PyTorch's watchdog ends the process after an error of NCCL.
"""

from __future__ import annotations

import ctypes
import json
import os
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from datetime import timedelta
from functools import partial
from typing import Any, ClassVar

import torch
import torch.distributed as dist

from aitne_train.failure_aware_rendezvous_store import LOOK_S
from aitne_train.gpu_stream_sync import QUEUED
from aitne_train.launcher import held_ports
from aitne_train.launcher.own_addresses import (
    LOCAL,
    find_chosen_interface,
    own_addresses,
    split_address,
)
from aitne_train.transport._connect_thread import ConnectThread
from aitne_train.transport._torch_store_adapter import TorchStore
from aitne_train.transport.base import OF_BOOL, Group, Reduction, TransportError

_OPS = {
    Reduction.SUM: dist.ReduceOp.SUM,
    Reduction.MIN: dist.ReduceOp.MIN,
    Reduction.MAX: dist.ReduceOp.MAX,
    Reduction.PRODUCT: dist.ReduceOp.PRODUCT,
}
_NATIVE = frozenset(
    {
        torch.float16,
        torch.bfloat16,
        torch.float32,
        torch.float64,
        torch.uint8,
        torch.int8,
        torch.int32,
        torch.int64,
    }
)
# The transport does not limit how long a rank computes between two collectives.
_FOREVER = timedelta(days=365)
_PROBE_S = 3.0
_LOOK = timedelta(seconds=LOOK_S)
_LEFT = "torch_pg: a rank left while the ranks connected"


class TorchProcessGroup:
    """Transport over a process group of PyTorch, with gloo for CPUs and NCCL for GPUs."""

    name: ClassVar[str] = "torch_pg"
    devices: ClassVar[frozenset[str]] = frozenset({"cpu", "cuda"})

    def __init__(self, group: Group, pg: Any, store: Any, device: torch.device) -> None:
        self.rank = group.rank
        self.size = group.size
        self._ranks = group.ranks
        self._pg = pg
        self._store = store
        self._device = device
        self._backend = "NCCL" if device.type == "cuda" else "gloo"
        self._aborted = ""
        self._in_progress: list[Any] | None = []
        """Operations that this thread has left to the threads of PyTorch, if they have not ended;
        None: one is about to begin.
        """

    @classmethod
    def refusal(cls, nodes: Sequence[int], device: str) -> str | None:
        """Return why this transport cannot be used for these ranks; None if it can. ``nodes``
        contains the number of each rank's node.

        PyTorch may have been built without gloo or NCCL.
        """
        if device not in cls.devices:
            return f"it takes tensors on cpu and cuda, not on {device}"
        if not dist.is_available():
            return "this PyTorch was built without torch.distributed"
        if device == "cpu" and not dist.is_gloo_available():
            return "this PyTorch was built without gloo"
        if device == "cuda" and not dist.is_nccl_available():
            return "this PyTorch was built without NCCL"
        return None

    @classmethod
    def connect(cls, group: Group, device: str) -> TorchProcessGroup:
        """Connect the ranks of the group by the run's rendezvous store, which requires the run's
        token. On ``cuda:1``, for example, NCCL connects this GPU and supports only tensors on it;
        ``cuda`` means the current GPU.

        Raises ``TransportError`` if the ranks cannot be connected.
        """
        store = TorchStore(group)
        place = torch.device(device)
        if place.type == "cuda" and place.index is None:
            place = torch.device("cuda", torch.cuda.current_device())

        made: list[TorchProcessGroup] = []

        def connect() -> TorchProcessGroup:
            if place.type == "cuda":
                return cls(group, _connect_nccl(store, group, place), store, place)
            with _publish_address(group) as address:
                transport = cls(group, _connect_gloo(store, group, address), store, place)
            made.append(transport)
            try:
                if thread.left:
                    raise TransportError(_LEFT)
                # Gloo returns before the others have connected to this rank: if this one closed
                # then, they would take it for dead.
                transport.barrier()
            except BaseException:
                transport.abort_and_close()
                raise
            return transport

        thread = ConnectThread(connect, cls.abort_and_close)
        try:
            return thread.wait_for_result(group)
        except TransportError:
            raise
        except (RuntimeError, TimeoutError, ConnectionError, ValueError) as error:
            raise TransportError(
                f"torch_pg: the ranks {_format_ranks(group.ranks)} did not all connect within "
                f"{group.timeout_s:g} s: {_first_line(error)}"
            ) from error
        finally:
            if thread.left:
                for transport in made:  # it may wait for other ranks
                    transport.abort(_LEFT)

    def reduces(self, dtype: torch.dtype, op: Reduction) -> bool:
        """Return whether this element type can be reduced: all usual types of PyTorch except
        complex numbers, also 16-bit integers and booleans.
        """
        return dtype in _NATIVE or dtype in (torch.int16, torch.bool)

    def allreduce(self, flat: torch.Tensor, op: Reduction) -> None:
        """Reduce the values of all ranks in place; 16-bit integers are sent as 32-bit integers."""
        if flat.dtype == torch.bool:
            self.allreduce(flat.view(torch.uint8), OF_BOOL[op])
        elif flat.dtype == torch.int16:
            wide = flat.to(torch.int32)
            self.allreduce(wide, op)
            flat.copy_(wide)
        else:
            self._run_collective(flat, lambda pg: [pg.allreduce([flat], _OPS[op])])

    def reducescatter(
        self, out: torch.Tensor, flat: torch.Tensor, counts: Sequence[int], op: Reduction
    ) -> None:
        """Reduce the values of all ranks and write this rank's part to ``out``.

        Over gloo each rank gets its part from every other rank and reduces it itself. NCCL has a
        function for parts of equal size; for other parts, one reduction to each rank is started,
        all as one NCCL operation.
        """
        if flat.dtype == torch.bool:
            self.reducescatter(out.view(torch.uint8), flat.view(torch.uint8), counts, OF_BOOL[op])
        elif self._backend == "gloo":
            count = counts[self.rank]
            parts = torch.empty(count * self.size, dtype=flat.dtype)
            self.alltoall(parts, flat, counts, [count] * self.size)
            _reduce_parts(out, parts.view(self.size, count), op)
        elif flat.dtype in _NATIVE and len(set(counts)) == 1:
            options = dist.ReduceScatterOptions()
            options.reduceOp = _OPS[op]
            self._run_collective(flat, lambda pg: [pg._reduce_scatter_base(out, flat, options)])
        elif flat.dtype in _NATIVE:
            parts = flat.split(list(counts))
            self._run_collective(
                flat,
                lambda pg: _start_as_group(
                    pg,
                    [
                        partial(pg.reduce, [part], _build_reduce_options(op, root))
                        for root, part in enumerate(parts)
                        if part.numel()
                    ],
                ),
            )
            out.copy_(parts[self.rank])
        else:
            self.allreduce(flat, op)
            out.copy_(flat.split(list(counts))[self.rank])

    def allgather(self, out: torch.Tensor, flat: torch.Tensor, counts: Sequence[int]) -> None:
        """Gather the elements of all ranks. If ``counts`` differ, each rank broadcasts its own
        elements, all concurrently (with NCCL as one operation).
        """
        out, flat = out.view(-1).view(torch.uint8), flat.view(-1).view(torch.uint8)
        if len(set(counts)) == 1:
            self._run_collective(flat, lambda pg: [pg._allgather_base(out, flat)])
            return
        width = out.numel() // sum(counts)
        parts = out.split([count * width for count in counts])
        parts[self.rank].copy_(flat)

        def start(pg: Any) -> list[Any]:
            calls = [
                partial(pg.broadcast, part, root) for root, part in enumerate(parts) if part.numel()
            ]
            return (
                _start_as_group(pg, calls)
                if self._backend == "NCCL"
                else [call() for call in calls]
            )

        self._run_collective(flat, start)

    def broadcast(self, flat: torch.Tensor, root: int) -> None:
        """Broadcast the elements of ``root``, sent as bytes, so that any dtype is supported."""
        self._run_collective(flat, lambda pg: [pg.broadcast(flat.view(torch.uint8), root)])

    def alltoall(
        self,
        out: torch.Tensor,
        flat: torch.Tensor,
        send_counts: Sequence[int],
        receive_counts: Sequence[int],
    ) -> None:
        """Exchange one part with each rank; elements are sent as bytes, so that any dtype is
        supported.
        """
        width = flat.element_size()
        sent = [count * width for count in send_counts]
        received = [count * width for count in receive_counts]
        to, of = out.view(torch.uint8), flat.view(torch.uint8)
        self._run_collective(flat, lambda pg: [pg.alltoall_base(to, of, received, sent)])

    def barrier(self) -> None:
        """Wait until all ranks have called this, by an allreduce of one element on the device.

        With NCCL the call may return earlier, and work queued later on the GPU waits instead.
        """
        self.allreduce(torch.zeros(1, device=self._device), Reduction.SUM)

    def abort(self, reason: str) -> None:
        """Close the connections, so that current and later collectives of this rank and of ranks
        that wait for it raise ``TransportError``.
        """
        self._aborted = self._aborted or reason
        pg = self._pg
        if pg is None or self.size == 1:
            return
        if self._backend == "NCCL":
            pg.abort()
            return
        # gloo's own abort does nothing. An operation that times out does end the others: gloo
        # then closes every connection of the group. That to a peer which has closed its side fails
        # at once, and closes no other.
        for peer in range(self.size):
            if peer != self.rank:
                with suppress(RuntimeError):
                    pg.recv([torch.empty(1)], peer, 0).wait(timedelta(milliseconds=1))

    def close(self) -> None:
        """Release the process group; PyTorch ends it when the last reference is gone, unless an
        operation of gloo is still in progress.
        """
        if self._in_progress != []:
            self.abort("torch_pg: it was closed")
        pg, self._pg = self._pg, None
        if pg is not None and self._backend == "gloo" and _have_ended(self._in_progress):
            ctypes.pythonapi.Py_DecRef(ctypes.py_object(pg))
        self._in_progress = []  # operations of gloo keep its connections open
        self._store = None

    def abort_and_close(self) -> None:
        """Close the connections and release the process group, while other ranks still connect."""
        self.abort(_LEFT)
        self.close()

    def _run_collective(self, flat: torch.Tensor, start: Callable[[Any], list[Any]]) -> None:
        if self._aborted:
            raise TransportError(self._aborted)
        pg = self._pg
        if pg is None:
            raise TransportError("torch_pg: it was closed")
        if flat.device != self._device:
            # NCCL would connect this one too, and wait for ranks that do not.
            raise TransportError(
                f"torch_pg: the ranks {_format_ranks(self._ranks)} are connected for tensors on {self._device}, and a tensor "
                f"is on {flat.device}: keep all tensors of a rank on one device"
            )
        try:
            with QUEUED.record_queued(self._device) if self._backend == "NCCL" else nullcontext():
                self._in_progress = None
                self._in_progress = works = start(pg)
                for work in works:
                    self._wait_for_work(work)
                self._in_progress = []
        except RuntimeError as error:
            raise TransportError(
                self._aborted or f"torch_pg: {self._backend} failed: {_first_line(error)}"
            ) from error

    def _wait_for_work(self, work: Any) -> None:
        """Wait for an operation. One of gloo is left after an abort if it does not end: gloo loses an
        operation if the other side closes at the moment in which it is sent.
        """
        if self._backend == "NCCL":
            work.wait()
            return
        while True:
            has_ended, aborted = work.is_completed(), self._aborted
            try:
                work.wait(_LOOK)
            except RuntimeError:
                if has_ended or (aborted and not work.is_completed()):
                    raise
            else:
                return


@contextmanager
def _publish_address(group: Group) -> Iterator[str]:
    """Yield the address at which the other ranks of the group can reach this machine. Every rank
    must enter this context.

    If there are several nodes, rank 0 of the group listens, and the others connect to it only to
    see which local address is used; no data is sent over these connections. On a single node the
    address is loopback, because gloo does not authenticate.
    """
    if len(set(group.nodes)) == 1:
        yield LOCAL
        return
    met, address_key = f"{group.name}/torch_pg", f"{group.name}/torch_pg/seen"
    if group.rank == 0:
        with held_ports.open_listener("0.0.0.0") as listener:  # noqa: S104 - other nodes connect
            addresses = own_addresses(listener.getsockname()[1], os.environ, len(set(group.nodes)))
            group.store.set(met, json.dumps(addresses).encode())
            yield group.store.get(address_key, group.timeout_s).decode()
        return
    addresses = json.loads(group.store.get(met, group.timeout_s))
    theirs, ours = _find_reachable(addresses, group.timeout_s)
    if group.rank == next((r for r, node in enumerate(group.nodes) if node != group.nodes[0]), 0):
        group.store.set(address_key, theirs.encode())
    yield ours


def _find_reachable(addresses: Sequence[str], timeout_s: float) -> tuple[str, str]:
    """Return the host of the first address that accepts a connection, and the local address of this
    connection.

    Raises ``TimeoutError`` if none accepts one within ``timeout_s`` seconds.
    """
    until = time.monotonic() + timeout_s
    while (remaining_s := until - time.monotonic()) > 0:
        for address in addresses:
            try:
                with socket.create_connection(
                    split_address(address), min(_PROBE_S, remaining_s)
                ) as probe:
                    return probe.getpeername()[0], probe.getsockname()[0]
            except OSError:
                continue  # one of them is enough
        time.sleep(min(0.05, remaining_s))
    raise TimeoutError(f"none of {', '.join(addresses)} accepted a connection")


def _connect_gloo(store: Any, group: Group, address: str) -> Any:
    make = dist.ProcessGroupGloo
    interface = os.environ.get("GLOO_SOCKET_IFNAME")
    if not interface and len(set(group.nodes)) > 1:
        chosen = find_chosen_interface(os.environ)
        interface = None if chosen is None else chosen[0]
    options = make._Options()
    options._devices = [
        make.create_device(interface=interface)
        if interface
        else make.create_device(hostname=address)
    ]
    options._threads = 2
    options._timeout = timedelta(seconds=group.timeout_s)
    pg = make(store, group.rank, group.size, options)
    # Its end waits for the operations in progress, and gloo may have lost one: this reference is
    # released by `close` alone, not by a garbage collection after an interrupt.
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(pg))
    pg._set_default_timeout(_FOREVER)
    return pg


def _connect_nccl(store: Any, group: Group, device: torch.device) -> Any:
    options = dist.ProcessGroupNCCL.Options()
    options._timeout = timedelta(seconds=group.timeout_s)
    # This thread may be one of the runtime, whose current GPU is the first.
    with torch.cuda.device(device):
        pg = dist.ProcessGroupNCCL(store, group.rank, group.size, options)
        pg.eager_connect_single_device(device)
    pg._set_default_timeout(_FOREVER)
    return pg


def _start_as_group(pg: Any, calls: Sequence[Callable[[], Any]]) -> list[Any]:
    """Start the calls as a single NCCL operation, so that they run concurrently; return the objects
    to wait for.
    """
    pg._start_coalescing()
    try:
        for call in calls:
            call()
    finally:
        work = pg._end_coalescing()
    return [work]


def _have_ended(works: Sequence[Any] | None) -> bool:
    """Return whether all of the operations of gloo have ended or do so soon; False for None."""
    for work in works or ():
        with suppress(RuntimeError):  # its own error, or that of the time
            work.wait(_LOOK)
    return works is not None and all(work.is_completed() for work in works)


def _build_reduce_options(op: Reduction, root: int) -> Any:
    options = dist.ReduceOptions()
    options.reduceOp = _OPS[op]
    options.rootRank = root
    return options


def _reduce_parts(out: torch.Tensor, parts: torch.Tensor, op: Reduction) -> None:
    if op is Reduction.SUM:
        out.copy_(parts.sum(0, dtype=None if parts.is_floating_point() else parts.dtype))
    elif op is Reduction.MIN:
        out.copy_(parts.amin(0))
    elif op is Reduction.MAX:
        out.copy_(parts.amax(0))
    else:
        out.copy_(parts.prod(0, dtype=None if parts.is_floating_point() else parts.dtype))


def _first_line(error: BaseException) -> str:
    # gloo puts the name of its source file in brackets before the message, and advice after it.
    line = str(error).strip().partition("\n")[0]
    message = line.partition("] ")[2] if line.startswith("[") and "] " in line else line
    return message.partition(". This is typically")[0]


def _format_ranks(ranks: Sequence[int]) -> str:
    shown = ", ".join(map(str, ranks[:8]))
    return shown if len(ranks) <= 8 else f"{shown}, ... ({len(ranks)} in all)"
