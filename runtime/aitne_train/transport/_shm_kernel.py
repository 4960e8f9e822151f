"""Collectives over shared memory by compiled C code (the kernel). ``_shm_pure`` has the same
methods without compiled code.
"""

from __future__ import annotations

import ctypes
import functools
import os
from collections.abc import Generator, Sequence
from typing import Any

import torch

from aitne_train._native.kernel_build import BuildError, find_or_build_library
from aitne_train.transport._shm_layout import DEPTH, HEADER_BYTES, LINE_BYTES, SLOTS_AT
from aitne_train.transport._shm_memory import DISAGREE, SharedMemory
from aitne_train.transport.base import Reduction, TransportError

SWITCH = "AITNE_SHM_KERNEL"
"""Name of the environment variable that, set to ``off``, selects the version without compiled code,
as if the kernel was not built."""
DTYPES = {
    torch.float32: 0,
    torch.float64: 1,
    torch.float16: 2,
    torch.bfloat16: 3,
    torch.int8: 4,
    torch.int16: 5,
    torch.int32: 6,
    torch.int64: 7,
    torch.uint8: 8,
    torch.bool: 9,
}
"""Number of each element type that the kernel can reduce, as in ``reduce.h``."""
_SPIN_S = 50e-6
"""Seconds for which a waiting rank spins before it sleeps, about as long as waking a sleeping rank
takes."""
_AT_ONCE_BYTES = 16 << 10
"""Maximum bytes for which, with up to four ranks, every rank reduces all data itself, which saves a
synchronization."""
_OK, _STOPPED = 0, 1
_LOOK = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_uint64)
_POINTER, _INT, _LONG = ctypes.c_void_p, ctypes.c_int, ctypes.c_uint64
_ARGUMENTS = {
    "aitne_barrier": [_POINTER],
    "aitne_allreduce": [_POINTER, _POINTER, _LONG, _INT, _INT],
    "aitne_reducescatter": [_POINTER, _POINTER, _POINTER, _POINTER, _INT, _INT],
    "aitne_allgather": [_POINTER, _POINTER, _POINTER, _POINTER],
    "aitne_broadcast": [_POINTER, _POINTER, _LONG, _INT],
    "aitne_alltoall": [_POINTER, _POINTER, _POINTER, _POINTER, _POINTER],
}


@functools.cache
def _load_library() -> ctypes.CDLL | str:
    """Return the kernel's library, or a sentence that states why it cannot be used."""
    try:
        path = find_or_build_library()
        library = ctypes.CDLL(str(path))
    except (BuildError, OSError) as error:
        return str(error)
    library.aitne_line_bytes.restype = ctypes.c_size_t
    if (library.aitne_line_bytes(), library.aitne_depth()) != (LINE_BYTES, DEPTH):
        return f"{path} has a different memory layout"
    library.aitne_open.restype = _POINTER
    library.aitne_open.argtypes = [
        *(_POINTER, _POINTER, _INT, _INT),
        *(ctypes.c_size_t, ctypes.c_size_t, ctypes.c_size_t, ctypes.c_int64, _LOOK),
    ]
    library.aitne_close.argtypes = [_POINTER]
    library.aitne_close.restype = None
    for name, arguments in _ARGUMENTS.items():
        getattr(library, name).argtypes = arguments
    return library


def get_unavailable_reason() -> str | None:
    """Return why this process cannot use the kernel; None if it can."""
    if os.environ.get(SWITCH) == "off":
        return f"{SWITCH} is off"
    library = _load_library()
    return library if isinstance(library, str) else None


class KernelExchange:
    """Collectives of one rank over shared memory, executed by the compiled kernel. Callers must
    check device, type and length of the tensors before.
    """

    def __init__(self, memory: SharedMemory) -> None:
        library = _load_library()
        if isinstance(library, str):
            raise TransportError(f"The shared-memory kernel cannot be used: {library}.")
        layout = memory.layout
        self._library = library
        self._failure: list[BaseException] = []
        self._look = _make_callback(memory, self._failure)
        base = memory.bytes.ctypes.data
        self._team = library.aitne_open(
            base + HEADER_BYTES,
            base + SLOTS_AT,
            memory.rank,
            layout.size,
            layout.chunk,
            layout.part,
            min(_AT_ONCE_BYTES * 4 // max(layout.size, 4), layout.chunk),
            int(_SPIN_S * 1e9) if memory.spins else 0,
            self._look,
        )
        if not self._team:
            raise TransportError("There is no memory for the shared-memory transport.")

    def allreduce(self, flat: torch.Tensor, op: Reduction) -> None:
        """Reduce the values of all ranks in place."""
        dtype = DTYPES[flat.dtype]
        self._call_kernel("aitne_allreduce", flat.data_ptr(), flat.numel(), dtype, op)

    def reducescatter(
        self, out: torch.Tensor, flat: torch.Tensor, counts: Sequence[int], op: Reduction
    ) -> None:
        """Reduce the values of all ranks and write this rank's part to ``out``. ``counts`` contains
        the number of elements for each rank.
        """
        sizes = _to_sizes(counts, flat)
        dtype = DTYPES[flat.dtype]
        self._call_kernel("aitne_reducescatter", out.data_ptr(), flat.data_ptr(), sizes, dtype, op)

    def allgather(self, out: torch.Tensor, flat: torch.Tensor, counts: Sequence[int]) -> None:
        """Write the values of all ranks to ``out``, in the order of the ranks. ``counts`` contains
        the number of elements of each rank.
        """
        self._call_kernel(
            "aitne_allgather", out.data_ptr(), flat.data_ptr(), _to_sizes(counts, flat)
        )

    def broadcast(self, flat: torch.Tensor, root: int) -> None:
        """Replace the values of ``flat`` on all ranks by those of the rank ``root``."""
        self._call_kernel(
            "aitne_broadcast", flat.data_ptr(), flat.numel() * flat.element_size(), root
        )

    def alltoall(
        self, out: torch.Tensor, flat: torch.Tensor, sent: Sequence[int], received: Sequence[int]
    ) -> None:
        """Send one part of ``flat`` to each rank and write the parts received to ``out``. ``sent``
        and ``received`` contain the number of elements for and from each rank.
        """
        self._call_kernel(
            "aitne_alltoall",
            out.data_ptr(),
            flat.data_ptr(),
            _to_sizes(sent, flat),
            _to_sizes(received, flat),
        )

    def barrier(self) -> None:
        """Wait until all ranks have called this method."""
        self._call_kernel("aitne_barrier")

    def disconnect(self) -> None:
        """Do nothing, because ranks that wait in the kernel check by themselves if the group was
        aborted.
        """

    def close(self) -> None:
        """Release the kernel's resources; no collective may be called after this."""
        team, self._team = self._team, None
        if team:
            self._library.aitne_close(team)

    def _call_kernel(self, name: str, *arguments: Any) -> None:
        status = getattr(self._library, name)(self._team, *arguments)
        if status == _OK:
            return
        if status == _STOPPED:
            raise self._failure[0]
        raise TransportError(DISAGREE)


def _make_callback(memory: SharedMemory, failure: list[BaseException]) -> Any:
    """Return the callback that the kernel calls ten times a second while it waits. It checks that
    the other ranks are alive, and Python's signal handlers run in it.

    It is implemented as a generator. If a signal handler raises an exception on entry to a
    function, this happens before any ``try`` in the function, and C code would not receive the
    exception. A resumed generator is already inside its ``try``.
    """
    looking = _check_memory(memory, failure)
    next(looking)
    return _LOOK(looking.send)


def _check_memory(memory: SharedMemory, failure: list[BaseException]) -> Generator[int, int, None]:
    answer = 0
    while True:
        try:
            memory.check_ranks((yield answer))
        except GeneratorExit:
            return
        except BaseException as error:  # noqa: BLE001 - C cannot pass it on: ``_call_kernel`` raises it
            failure.append(error)
            answer = 1


def _to_sizes(counts: Sequence[int], of: torch.Tensor) -> ctypes.Array[ctypes.c_uint64]:
    width = of.element_size()
    return (ctypes.c_uint64 * len(counts))(*(count * width for count in counts))
