"""Execution, on this rank, of the collectives that rank 0 has decided on, one after another."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch

from aitne_train import collective_arithmetic
from aitne_train.collective_record import Recorder
from aitne_train.collective_request import Kind, ReduceOp, Request, RequestMetadata, find_dtype
from aitne_train.failure_aware_rendezvous_store import RunStore
from aitne_train.record_ring import WAIT
from aitne_train.solo_transport import SoloTransport
from aitne_train.timeline import MEMCPY_IN_FUSION_BUFFER, MEMCPY_OUT_FUSION_BUFFER, TIMELINE
from aitne_train.transport.base import Group, Store, Transport, TransportError

Tensors = tuple[torch.Tensor, ...]


@dataclass
class ExecutableResponse:
    """Response of the coordinator together with this rank's own requests, ready for execution."""

    kind: str
    set_id: int
    """Number of the process set."""
    requests: list[Request | None]
    """This rank's requests; an item is None if this rank has joined and takes part with zeros."""
    asks: list[RequestMetadata]
    """Metadata of the requests that are None in ``requests``, in the same order."""
    data: Any = None
    """Data of the response; see ``Response.data`` in ``coordinator``."""
    rows: list[str] = field(default_factory=list)
    """Names of the requests in Horovod's timeline; empty if the timeline is not recorded."""

    def get_own_request(self) -> Request:
        """Return this rank's only request. Used for kinds that are never fused and in which joined
        ranks take no part.

        Raises ``TypeError`` if this rank has no such request.
        """
        (request,) = self.requests
        if request is None:
            raise TypeError(f"{self.kind} without a request of this rank")
        return request


@contextmanager
def mark_timeline(rows: Sequence[str], event: str) -> Iterator[None]:
    """Record in the timeline, for each of the request names ``rows``, the event that lasts as long
    as the ``with`` block.
    """
    for row in rows:
        TIMELINE.begin_event(row, event)
    yield
    for row in rows:
        TIMELINE.end_event(row)


class Execution:
    """Executor of responses on this rank; it owns the transports of all process sets.

    Only one call of ``run`` may be active at a time.
    """

    def __init__(
        self,
        rank: int,
        nodes: Sequence[int],
        store: Store,
        prefix: str,
        recorder: Recorder,
    ) -> None:
        self.sets: dict[int, tuple[int, ...]] = {0: tuple(range(len(nodes)))}
        self.join_device = "cpu"
        """Device on which zeros are created while this rank has joined."""
        self._rank = rank
        self._nodes = nodes
        self._store = RunStore(store, self._check_aborted)
        self._prefix = prefix
        self._recorder = recorder
        self._transports: dict[tuple[int, str], Transport] = {}
        self._opened: list[Transport] = []
        self._aborted: str | None = None
        self._lock = threading.Lock()
        self._fusion = collective_arithmetic.FusionBuffer()

    def run(self, item: ExecutableResponse) -> list[Any]:
        """Execute a response; return one result for each request: a tuple of tensors, or other
        data.

        Raises:
            TransportError: the connection to a rank is lost.
            reduction.UnsupportedError: the transport does not support the request; nothing was
                exchanged.
        """
        return _HOW[Kind(item.kind)](self, item)

    def connect_transport(self, name: str, set_id: int, device: str) -> Transport:
        """Connect a new transport between the ranks of a process set for tensors on ``device``,
        such as ``cuda:1``. All these ranks must call this, and must connect their transports in the
        same order, which rank 0 determines.

        Raises ``TransportError`` if the ranks cannot be connected.
        """
        members = self.sets[set_id]
        nodes = tuple(self._nodes[rank] for rank in members)
        place = members.index(self._rank)
        group = Group(f"{self._prefix}/{name}", place, members, nodes, self._store)
        transport: Transport
        if len(members) == 1:
            transport = SoloTransport.connect(group, device)
        else:
            from aitne_train import transport_choice  # a single rank needs none of them

            kind = device.partition(":")[0]
            chosen = transport_choice.choose_transport(
                nodes, kind, os.environ.get("AITNE_TRANSPORT", "auto")
            )
            transport = chosen.connect(group, device)
        with self._lock:
            self._opened.append(transport)
            aborted = self._aborted
        if aborted is not None:
            transport.abort(aborted)
        return transport

    def close_transport(self, transport: Transport) -> None:
        """Close a transport that is no longer used."""
        with self._lock:
            if transport not in self._opened:
                return
            self._opened.remove(transport)
        transport.close()

    def abort(self, reason: str) -> None:
        """Make all current and later waits raise ``TransportError(reason)``.

        May be called from any thread.
        """
        with self._lock:
            self._aborted = self._aborted or reason
            opened = list(self._opened)
        for transport in opened:
            transport.abort(reason)

    def close(self) -> None:
        """Close all transports of this rank."""
        with self._lock:
            opened, self._opened = self._opened, []
        for transport in opened:
            transport.close()
        self._transports.clear()

    def _find_transport(self, set_id: int, device: torch.device) -> Transport:
        # By type: ranks of a node use different GPUs, and each rank one.
        transport = self._transports.get((set_id, device.type))
        if transport is None:
            self._check_aborted()
            transport = self.connect_transport(f"set{set_id}.{device.type}", set_id, str(device))
            self._transports[set_id, device.type] = transport
        return transport

    def _check_aborted(self) -> None:
        if self._aborted is not None:
            raise TransportError(self._aborted)

    def record_wait(self, begun_ns: int) -> None:
        """Record that a thread of the program has waited for collectives from ``begun_ns``
        (``time.monotonic_ns()``) until now.
        """
        self._recorder.add(WAIT, 0, len(self._nodes), begun_ns, time.monotonic_ns())

    def _record_call(self, op: str, nbytes: int, ranks: int, call: Callable[[], None]) -> None:
        begun = time.monotonic_ns()
        call()
        self._recorder.add(op, nbytes, ranks, begun, time.monotonic_ns())

    def _run_allreduce(self, item: ExecutableResponse) -> list[Any]:
        inputs: list[torch.Tensor] = []
        outputs: list[torch.Tensor] = []
        results: list[Any] = []
        asks = iter(item.asks)
        head: Request | RequestMetadata | None = None
        for request in item.requests:
            if request is None:
                ask = next(asks)
                head = head or ask
                zeros = [
                    torch.zeros(shape, dtype=find_dtype(dtype), device=self._zeros_on(ask.device))
                    for dtype, shape in zip(ask.dtypes, ask.shapes, strict=True)
                ]
                inputs += zeros
                outputs += zeros
                results.append(None)
                continue
            head = head or request
            made = request.outputs
            if made is None:
                made = [torch.empty_like(tensor) for tensor in request.tensors]
            inputs += request.tensors
            outputs += made
            results.append(tuple(made))
        if head is None or not inputs:
            return results
        transport = self._find_transport(item.set_id, inputs[0].device)
        op = ReduceOp(head.op)
        for dtype in dict.fromkeys(tensor.dtype for tensor in inputs):
            chosen = [at for at, tensor in enumerate(inputs) if tensor.dtype == dtype]
            self._run_reduction(
                transport,
                [inputs[at] for at in chosen],
                [outputs[at] for at in chosen],
                op,
                head.prescale,
                head.postscale,
                item.rows,
            )
        return results

    def _run_reduction(
        self,
        transport: Transport,
        inputs: list[torch.Tensor],
        outputs: list[torch.Tensor],
        op: ReduceOp,
        prescale: float,
        postscale: float,
        rows: list[str],
    ) -> None:
        alone = len(inputs) == 1
        if alone:
            row = outputs[0].detach().view(-1)
            if outputs[0] is not inputs[0]:
                row.copy_(inputs[0].detach().view(-1))
        else:
            with mark_timeline(rows, MEMCPY_IN_FUSION_BUFFER):
                row = self._fusion.fuse(inputs)
        counts = [tensor.numel() for tensor in inputs]

        def call() -> None:
            if op == ReduceOp.ADASUM:
                collective_arithmetic.reduce_by_adasum(transport, row, counts, prescale, postscale)
            else:
                collective_arithmetic.reduce_fused(transport, row, op, prescale, postscale)

        self._record_call("allreduce", row.nbytes, transport.size, call)
        if not alone:
            with mark_timeline(rows, MEMCPY_OUT_FUSION_BUFFER):
                collective_arithmetic.unfuse_tensors(row, outputs)

    def _run_allgather(self, item: ExecutableResponse) -> list[Any]:
        request = item.get_own_request()
        gathered = []
        for tensor, rows in zip(request.tensors, item.data, strict=True):
            flat = tensor.detach().view(-1)
            later = tensor.shape[1:]
            row = later.numel()
            out = flat.new_empty(sum(rows) * row)
            transport = self._find_transport(item.set_id, tensor.device)
            if out.numel():
                counts = [count * row for count in rows]
                call = partial(transport.allgather, out, flat, counts)
                self._record_call("allgather", flat.nbytes, transport.size, call)
            gathered.append(out.view(sum(rows), *later))
        return [tuple(gathered)]

    def _run_broadcast(self, item: ExecutableResponse) -> list[Any]:
        request = item.get_own_request()
        root = self.sets[item.set_id].index(request.root)
        outputs = request.outputs
        if outputs is None:
            outputs = [torch.empty_like(tensor) for tensor in request.tensors]
        for tensor, output in zip(request.tensors, outputs, strict=True):
            row = output.detach().view(-1)
            if request.root == self._rank and output is not tensor:
                row.copy_(tensor.detach().view(-1))
            transport = self._find_transport(item.set_id, row.device)
            if row.numel():
                self._record_call(
                    "broadcast",
                    row.nbytes,
                    transport.size,
                    partial(transport.broadcast, row, root),
                )
        return [tuple(outputs)]

    def _run_alltoall(self, item: ExecutableResponse) -> list[Any]:
        request = item.get_own_request()
        (tensor,) = request.tensors
        transport = self._find_transport(item.set_id, tensor.device)
        flat = tensor.detach().view(-1)
        later = tensor.shape[1:]
        row = later.numel()
        rows = tensor.shape[0] if tensor.dim() else 1
        sent = request.splits
        if sent is None:
            sent = [rows // transport.size] * transport.size
        out = flat.new_empty(sum(item.data) * row)
        going, coming = [count * row for count in sent], [count * row for count in item.data]
        call = partial(transport.alltoall, out, flat, going, coming)
        self._record_call("alltoall", flat.nbytes, transport.size, call)
        received = torch.tensor(item.data, dtype=torch.int32)
        return [(out.view(sum(item.data), *later), received)]

    def _run_reducescatter(self, item: ExecutableResponse) -> list[Any]:
        request = item.get_own_request()
        results = []
        for tensor in request.tensors:
            transport = self._find_transport(item.set_id, tensor.device)

            def call(tensor: torch.Tensor = tensor, transport: Transport = transport) -> None:
                results.append(
                    collective_arithmetic.reduce_and_scatter(
                        transport, tensor, request.op, request.prescale, request.postscale
                    )
                )

            self._record_call("reducescatter", tensor.nbytes, transport.size, call)
        return [tuple(results)]

    def _run_barrier(self, item: ExecutableResponse) -> list[Any]:
        transport = self._find_transport(item.set_id, torch.device("cpu"))
        self._record_call("barrier", 0, transport.size, transport.barrier)
        return [()]

    def _run_join(self, item: ExecutableResponse) -> list[Any]:
        return [item.data]

    def _add_set(self, item: ExecutableResponse) -> list[Any]:
        request = item.get_own_request()
        if item.data is not None:
            self.sets[item.data] = tuple(int(rank) for rank in request.extra.split(","))
        return [item.data]

    def _remove_set(self, item: ExecutableResponse) -> list[Any]:
        if item.data is not None:
            self.sets.pop(item.data, None)
            for key in [key for key in self._transports if key[0] == item.data]:
                self.close_transport(self._transports.pop(key))
        return [item.data]

    def _open_channel(self, item: ExecutableResponse) -> list[Any]:
        if item.data is None:
            return [None]
        request = item.get_own_request()
        return [
            (item.data, self.connect_transport(f"channel{item.data}", item.set_id, request.device))
        ]

    def _zeros_on(self, device: str) -> str:
        return self.join_device if self.join_device.startswith(device) else device


_HOW: dict[Kind, Callable[[Execution, ExecutableResponse], list[Any]]] = {
    Kind.ALLREDUCE: Execution._run_allreduce,
    Kind.ALLGATHER: Execution._run_allgather,
    Kind.BROADCAST: Execution._run_broadcast,
    Kind.ALLTOALL: Execution._run_alltoall,
    Kind.REDUCESCATTER: Execution._run_reducescatter,
    Kind.BARRIER: Execution._run_barrier,
    Kind.JOIN: Execution._run_join,
    Kind.ADD_SET: Execution._add_set,
    Kind.REMOVE_SET: Execution._remove_set,
    Kind.CHANNEL: Execution._open_channel,
}
