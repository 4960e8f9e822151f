"""Transport over the original Horovod, to compare behaviour and speed under one API.

Horovod has one world in a process, so it supports groups of all ranks only. Its controller is MPI
if MPI started the ranks, and that world lasts until the process ends; otherwise it is gloo, whose
world ends with its last transport. Gloo on several nodes needs ``HOROVOD_GLOO_IFACE``, the
interface's name.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import torch

from aitne_train.launcher.own_addresses import own_addresses, split_address
from aitne_train.transport.base import OF_BOOL, Group, Reduction, TransportError

_MPI = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE")
_SPIN_S, _PAUSE_S, _LONGEST_S = 200e-6, 50e-6, 1e-3
_NATIVE = frozenset({torch.float16, torch.float32, torch.float64, torch.int32, torch.int64})
# Unsupported types are sent as the next wider supported type.
_WIDER = {
    torch.bfloat16: torch.float32,
    torch.uint8: torch.int32,
    torch.int8: torch.int32,
    torch.int16: torch.int32,
}
_NAMES = {
    Reduction.SUM: "Sum",
    Reduction.MIN: "Min",
    Reduction.MAX: "Max",
    Reduction.PRODUCT: "Product",
}
_lock = threading.Lock()
_users: set[Horovod] = set()


class Horovod:
    """Process group of all ranks, through ``horovod.torch``."""

    name: ClassVar[str] = "horovod"
    devices: ClassVar[frozenset[str]] = frozenset({"cpu", "cuda"})

    def __init__(self, group: Group, hvd: Any) -> None:
        self.rank = group.rank
        self.size = group.size
        self._name = group.name
        self._hvd = hvd
        self._aborted = ""

    @classmethod
    def refusal(cls, nodes: Sequence[int], device: str) -> str | None:
        """Return why these ranks cannot be served; None if they can.

        Horovod is not on PyPI as a wheel, and its source needs changes to compile.
        """
        if device not in cls.devices:
            return f"it takes tensors on cpu and cuda, not on {device}"
        if importlib.util.find_spec("horovod") is None:
            return "horovod is not installed (in a checkout: scripts/horovod_wheel.py)"
        world = int(os.environ.get("HOROVOD_SIZE") or len(nodes))
        if len(nodes) != world:
            return f"it takes all {world} ranks, not {len(nodes)} of them"
        try:
            importlib.import_module("horovod.torch")
        except (ImportError, RuntimeError, OSError) as error:
            return f"horovod cannot be imported: {error}"
        return None

    @classmethod
    def connect(cls, group: Group, device: str) -> Horovod:
        """Start Horovod's world, or use the existing one."""
        if why := cls.refusal(group.nodes, device):
            raise TransportError(f"horovod: {why}")
        hvd: Any = importlib.import_module("horovod.torch")
        try:
            with _lock:
                if not hvd.is_initialized():
                    _start_horovod(hvd, group)
                transport = cls(group, hvd)
                _users.add(transport)
        except (RuntimeError, ValueError, ConnectionError, TimeoutError) as error:
            raise TransportError(f"horovod: it did not start: {error}") from error
        if (hvd.rank(), hvd.size()) != (group.rank, group.size):
            transport.close()
            raise TransportError(
                f"horovod: it takes this process for rank {hvd.rank()} of {hvd.size()}, "
                f"not {group.rank} of {group.size}"
            )
        return transport

    def reduces(self, dtype: torch.dtype, op: Reduction) -> bool:
        """Return whether the type is supported, directly or after conversion."""
        return dtype in _NATIVE or dtype in _WIDER or dtype == torch.bool

    def allreduce(self, flat: torch.Tensor, op: Reduction) -> None:
        """Reduce the values of all ranks in place."""
        if flat.dtype == torch.bool:
            self.allreduce(flat.view(torch.uint8), OF_BOOL[op])
        elif flat.dtype in _WIDER:
            wide = flat.to(_WIDER[flat.dtype])
            self.allreduce(wide, op)
            flat.copy_(wide)
        elif flat.numel():
            reduction = getattr(self._hvd, _NAMES[op])
            self._run_collective(
                f"allreduce.{flat.numel()}", flat, self._hvd.allreduce_async_, op=reduction
            )

    def reducescatter(
        self, out: torch.Tensor, flat: torch.Tensor, counts: Sequence[int], op: Reduction
    ) -> None:
        """Scatter sums of equal parts by Horovod; others by an allreduce."""
        if flat.dtype in _NATIVE and op is Reduction.SUM and len(set(counts)) == 1 and counts[0]:
            scatter = self._hvd.reducescatter_async
            out.copy_(
                self._run_collective(
                    f"reducescatter.{flat.numel()}", flat, scatter, op=self._hvd.Sum
                )
            )
        else:
            self.allreduce(flat, op)
            before = sum(counts[: self.rank])
            out.copy_(flat[before : before + counts[self.rank]])

    def allgather(self, out: torch.Tensor, flat: torch.Tensor, counts: Sequence[int]) -> None:
        """Gather the values of all ranks into ``out``. They are sent as bytes, so every dtype is
        supported.
        """
        if sum(counts):
            found = self._run_collective(
                f"allgather.{sum(counts)}", flat.view(torch.uint8), self._hvd.allgather_async
            )
            out.view(torch.uint8).copy_(found)

    def broadcast(self, flat: torch.Tensor, root: int) -> None:
        """Broadcast as bytes, which supports any dtype."""
        if flat.numel():
            data = flat.view(torch.uint8)
            self._run_collective(
                f"broadcast.{root}.{flat.numel()}", data, self._hvd.broadcast_async_, root_rank=root
            )

    def alltoall(
        self,
        out: torch.Tensor,
        flat: torch.Tensor,
        send_counts: Sequence[int],
        receive_counts: Sequence[int],
    ) -> None:
        """Exchange as bytes, which supports any dtype."""
        splits = torch.tensor(send_counts, dtype=torch.int32) * flat.element_size()
        data = flat.view(torch.uint8)
        found, _ = self._run_collective("alltoall", data, self._hvd.alltoall_async, splits=splits)
        out.view(torch.uint8).copy_(found)

    def barrier(self) -> None:
        """Wait by an allreduce of one element, as Horovod's own barrier cannot be aborted."""
        self.allreduce(torch.zeros(1), Reduction.SUM)

    def abort(self, reason: str) -> None:
        """End this rank's wait; Horovod itself has no abort."""
        self._aborted = self._aborted or reason

    def close(self) -> None:
        """Stop using Horovod, and shut it down when no other transport of this process uses it.

        Nothing is shut down after an abort, because that would wait for all ranks, or if MPI
        started Horovod.
        """
        with _lock:
            whole = not self._aborted
            self._aborted = self._aborted or "horovod: it was closed"
            if self in _users:
                _users.remove(self)
                if whole and not _users and not _by_mpi():
                    self._hvd.shutdown()

    def _run_collective(
        self, kind: str, tensor: torch.Tensor, start: Callable[..., Any], **arguments: Any
    ) -> Any:
        if self._aborted:
            raise TransportError(self._aborted)
        # Horovod caches negotiations by name, so there are only a few names.
        name = f"{self._name}.{kind}.{tensor.dtype}"
        try:
            handle = start(tensor, name=name, **arguments)
            self._wait(handle)
            return self._hvd.synchronize(handle)
        except (RuntimeError, ValueError) as error:
            if isinstance(error, TransportError):
                raise
            raise TransportError(f"horovod: {error}") from error

    def _wait(self, handle: Any) -> None:
        begun = time.perf_counter()
        pause = _PAUSE_S
        while not self._hvd.poll(handle):
            if self._aborted:
                raise TransportError(self._aborted)
            if time.perf_counter() - begun > _SPIN_S:
                time.sleep(pause)
                pause = min(pause * 1.2, _LONGEST_S)
            else:
                os.sched_yield()


def _start_horovod(hvd: Any, group: Group) -> None:
    """Start Horovod by MPI, or by gloo with its own rendezvous server on the first rank."""
    if not _by_mpi():
        os.environ.update(_prepare_gloo_variables(group))
    hvd.init()


def _by_mpi() -> bool:
    return any(name in os.environ for name in _MPI)


def _prepare_gloo_variables(group: Group) -> dict[str, str]:
    """Return the variables that Horovod's launcher sets for its gloo ranks."""
    key = f"{group.name}/horovod"
    nodes = len(set(group.nodes))
    if group.rank == 0:
        server = importlib.import_module("horovod.runner.http.http_server").RendezvousServer()
        port = server.start()
        server.init([])
        addresses = own_addresses(port, os.environ, nodes)
        group.store.set(key, json.dumps(addresses).encode())
    address, port = split_address(json.loads(group.store.get(key, group.timeout_s))[0])
    found = {
        "HOROVOD_CONTROLLER": "gloo",
        "HOROVOD_CPU_OPERATIONS": "gloo",
        "HOROVOD_GLOO_RENDEZVOUS_ADDR": address,
        "HOROVOD_GLOO_RENDEZVOUS_PORT": str(port),
        "HOROVOD_GLOO_TIMEOUT_SECONDS": str(max(1, int(group.timeout_s))),
        "HOROVOD_HOSTNAME": f"node{group.nodes[group.rank]}",
    }
    if nodes == 1:
        found["HOROVOD_GLOO_IFACE"] = "lo"
    return found
