"""Transport over MPI, through mpi4py, for programs started by ``mpirun`` or ``srun --mpi=pmix``.

An MPI library spins while it waits, and its waits cannot be interrupted. So the ranks first wait in
a nonblocking barrier, which this module polls, at first without pauses, then with growing ones.
Only then do they enter the collective itself, in which all take part. Thus waiting for a late rank
uses no processor and ends with ``abort``. ``abort`` cannot end a collective during which a rank
stops; then MPI's own launcher ends all ranks, as it does whenever one dies.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, ClassVar

import torch

from aitne_train.transport.base import OF_BOOL, Group, Reduction, TransportError

_HOW = "start the ranks with mpirun or srun --mpi=pmix"
_SIZES = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE")
_SPIN_S, _YIELD_S, _PAUSE_S, _LONGEST_S = 50e-6, 1e-3, 50e-6, 1e-3
_TAGS = 32767  # every MPI has at least as many
_NATIVE: Mapping[torch.dtype, str] = {
    torch.float32: "FLOAT",
    torch.float64: "DOUBLE",
    torch.uint8: "UINT8_T",
    torch.int8: "INT8_T",
    torch.int16: "INT16_T",
    torch.int32: "INT32_T",
    torch.int64: "INT64_T",
}
# MPI has no types for these; they are sent as two bytes and reduced by ``_get_operation``.
_HALVES = (torch.float16, torch.bfloat16)
_CARRIERS: Mapping[int, tuple[torch.dtype, str]] = {
    1: (torch.uint8, "BYTE"),
    2: (torch.int16, "INT16_T"),
    4: (torch.int32, "INT32_T"),
    8: (torch.int64, "INT64_T"),
    16: (torch.complex128, "C_DOUBLE_COMPLEX"),
}
_NAMES = {
    Reduction.SUM: "SUM",
    Reduction.MIN: "MIN",
    Reduction.MAX: "MAX",
    Reduction.PRODUCT: "PROD",
}


class Mpi:
    """Transport over an MPI communicator whose members are the ranks of the group."""

    name: ClassVar[str] = "mpi"
    devices: ClassVar[frozenset[str]] = frozenset({"cpu"})

    def __init__(self, group: Group, mpi: Any, comm: Any) -> None:
        self.rank = group.rank
        self.size = group.size
        self._mpi = mpi
        self._comm = comm
        self._aborted = ""

    @classmethod
    def refusal(cls, nodes: Sequence[int], device: str) -> str | None:
        """Return why this transport cannot be used for these ranks; None if it can. ``nodes``
        contains the number of each rank's node.

        MPI must have started the ranks, because otherwise it would see only one.
        """
        if device not in cls.devices:
            return f"it takes tensors on cpu, not on {device}"
        if importlib.util.find_spec("mpi4py") is None:
            return "mpi4py is not installed"
        mpi_size = _read_launched_size(os.environ)
        if mpi_size is None:
            return f"MPI did not start this process: {_HOW}"
        world = int(os.environ.get("HOROVOD_SIZE") or max(mpi_size, len(nodes)))
        if mpi_size not in (world, 0):
            return f"MPI's world has {mpi_size} ranks, not {world}: {_HOW}"
        try:
            importlib.import_module("mpi4py.MPI")
        except (ImportError, RuntimeError) as error:
            return f"mpi4py finds no MPI library: {error}"
        return None

    @classmethod
    def connect(cls, group: Group, device: str) -> Mpi:
        """Create the communicator when all ranks of the group are ready.

        Raises ``TransportError`` if a rank is not ready in time.
        """
        if reason := cls.refusal(group.nodes, device):
            raise TransportError(f"mpi: {reason}")
        mpi: Any = importlib.import_module("mpi4py.MPI")
        if mpi.Query_thread() < mpi.THREAD_MULTIPLE:
            raise TransportError("mpi: this MPI does not take calls from several threads at once")
        world = mpi.COMM_WORLD
        if world.rank != group.ranks[group.rank] or world.size <= group.ranks[-1]:
            raise TransportError(
                f"mpi: this is rank {world.rank} of MPI's {world.size}, but rank "
                f"{group.ranks[group.rank]} of the program: {_HOW}"
            )
        _wait_for_all(group)
        members = world.group.Incl(list(group.ranks))
        try:
            comm = world.Create_group(members, zlib.crc32(group.name.encode()) % _TAGS)
        except mpi.Exception as error:
            raise TransportError(f"mpi: {error}") from error
        finally:
            members.Free()
        return cls(group, mpi, comm)

    def reduces(self, dtype: torch.dtype, op: Reduction) -> bool:
        """Return whether this element type can be reduced.

        This includes the two 16-bit float types and booleans, which MPI itself does not support.
        """
        return dtype in _NATIVE or dtype in _HALVES or dtype == torch.bool

    def allreduce(self, flat: torch.Tensor, op: Reduction) -> None:
        """Reduce the values of all ranks in place; MPI needs no copy of them."""
        array, operation = self._view_reducible(flat, op)
        self._run_collective(lambda comm: comm.Allreduce(self._mpi.IN_PLACE, array, operation))

    def reducescatter(
        self, out: torch.Tensor, flat: torch.Tensor, counts: Sequence[int], op: Reduction
    ) -> None:
        """Reduce the values of all ranks and write this rank's part to ``out``, by MPI's own
        function, which supports parts of different sizes.
        """
        array, operation = self._view_reducible(flat, op)
        local, _ = self._view_reducible(out, op)
        self._run_collective(
            lambda comm: comm.Reduce_scatter(array, local, list(counts), operation)
        )

    def allgather(self, out: torch.Tensor, flat: torch.Tensor, counts: Sequence[int]) -> None:
        """Gather the elements of all ranks, sent as integers of the same width."""
        array, kind = self._view_as_integers(flat)
        into, _ = self._view_as_integers(out)
        self._run_collective(
            lambda comm: comm.Allgatherv([array, kind], [into, list(counts), kind])
        )

    def broadcast(self, flat: torch.Tensor, root: int) -> None:
        """Broadcast the elements of ``root``, sent as integers of the same width."""
        array, kind = self._view_as_integers(flat)
        self._run_collective(lambda comm: comm.Bcast([array, kind], root))

    def alltoall(
        self,
        out: torch.Tensor,
        flat: torch.Tensor,
        send_counts: Sequence[int],
        receive_counts: Sequence[int],
    ) -> None:
        """Exchange one part with each rank; elements are sent as integers of the same width."""
        array, kind = self._view_as_integers(flat)
        into, _ = self._view_as_integers(out)
        self._run_collective(
            lambda comm: comm.Alltoallv(
                [array, list(send_counts), kind], [into, list(receive_counts), kind]
            )
        )

    def barrier(self) -> None:
        """Wait until all ranks have called this, in the nonblocking barrier that also precedes
        every other collective.
        """
        self._run_collective(lambda comm: None)

    def abort(self, reason: str) -> None:
        """Make this rank's current and later waits raise ``TransportError``; has no effect on other
        ranks.
        """
        self._aborted = self._aborted or reason

    def close(self) -> None:
        """Free the communicator, unless it was aborted and a barrier is still pending on it.

        In practice this does not wait for other ranks.
        """
        comm, self._comm = self._comm, None
        if comm is not None and not self._aborted and not self._mpi.Is_finalized():
            comm.Free()

    def _view_reducible(self, flat: torch.Tensor, op: Reduction) -> tuple[Any, Any]:
        if flat.dtype == torch.bool:
            flat, op = flat.view(torch.uint8), OF_BOOL[op]
        if flat.dtype in _HALVES:
            kind = self._mpi.INT16_T
            return [flat.view(torch.int16).numpy(), kind], _get_operation(flat.dtype, op)
        kind = getattr(self._mpi, _NATIVE[flat.dtype])
        return [flat.numpy(), kind], getattr(self._mpi, _NAMES[op])

    def _view_as_integers(self, flat: torch.Tensor) -> tuple[Any, Any]:
        carrier, name = _CARRIERS[flat.element_size()]
        return flat.view(carrier).numpy(), getattr(self._mpi, name)

    def _run_collective(self, collective: Callable[[Any], None]) -> None:
        if self._aborted:
            raise TransportError(self._aborted)
        comm = self._comm
        if comm is None:
            raise TransportError("mpi: it was closed")
        try:
            if self.size > 1:
                self._wait_for_request(comm.Ibarrier())
            collective(comm)
        except self._mpi.Exception as error:
            raise TransportError(f"mpi: {error}") from error

    def _wait_for_request(self, request: Any) -> None:
        begun = time.perf_counter()
        pause = _PAUSE_S
        while not request.Test():
            if self._aborted:
                raise TransportError(self._aborted)
            waited = time.perf_counter() - begun
            if waited > _YIELD_S:
                time.sleep(pause)
                pause = min(pause * 1.2, _LONGEST_S)
            elif waited > _SPIN_S:
                os.sched_yield()


def _read_launched_size(environ: Mapping[str, str]) -> int | None:
    """Return the number of ranks that MPI's launcher states in ``environ``; 0 if it states none,
    None if no MPI launcher started this process.
    """
    for name in _SIZES:
        if name in environ:
            return int(environ[name])
    return 0 if "PMIX_RANK" in environ or "PMI_RANK" in environ else None


def _wait_for_all(group: Group) -> None:
    """Wait until all ranks are present, with a time limit, because creating an MPI communicator
    waits without a limit.
    """
    key = f"{group.name}/mpi/"
    try:
        if group.rank > 0:
            group.store.set(f"{key}{group.rank}", b"")
            group.store.get(f"{key}all", group.timeout_s)
            return
        until = time.monotonic() + group.timeout_s
        for rank in range(1, group.size):
            group.store.get(f"{key}{rank}", max(0.0, until - time.monotonic()))
        group.store.set(f"{key}all", b"")
    except (TimeoutError, ConnectionError) as error:
        raise TransportError(
            f"mpi: not all of {group.size} ranks connected within {group.timeout_s:g} s: {error}"
        ) from error


@cache
def _get_operation(dtype: torch.dtype, op: Reduction) -> Any:
    """Return the MPI operation for a reduction of this element type.

    MPI calls it with two buffers of bytes and expects the result in the second.
    """
    mpi: Any = importlib.import_module("mpi4py.MPI")
    reduce: Callable[..., torch.Tensor] = {
        Reduction.SUM: torch.add,
        Reduction.MIN: torch.minimum,
        Reduction.MAX: torch.maximum,
        Reduction.PRODUCT: torch.mul,
    }[op]

    def reduce_elements(theirs: Any, ours: Any, _kind: Any) -> None:
        if not len(ours):
            return
        result = torch.frombuffer(ours, dtype=dtype)
        reduce(torch.frombuffer(theirs, dtype=dtype), result, out=result)

    return mpi.Op.Create(reduce_elements, commute=True)
