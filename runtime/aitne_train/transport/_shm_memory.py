"""Shared memory of the ranks on a node, and detection of ranks that have ended.

The memory is a memfd: it has no name, so that nothing is left behind however the ranks end, and it
does not depend on the size of /dev/shm. Rank 0 of the group creates it and sends its descriptor to
the others over a UNIX socket.

Each rank locks the byte of it whose offset is the rank's number. The kernel releases such locks
when a process ends in any way, forked children do not inherit them, and they are visible from other
containers.
"""

from __future__ import annotations

import contextlib
import fcntl
import mmap
import os
import socket
import threading
from collections.abc import Iterator

import numpy as np

from aitne_train.transport import _shm_rendezvous
from aitne_train.transport._shm_layout import HEADER_BYTES, Layout, choose_layout
from aitne_train.transport.base import Group, TransportError

DISAGREE = "The ranks called different collectives, or with different types or sizes."
_ABORTED = 0
_REASON = 8
_REASON_BYTES = 1000
_PROCESSES = 1024
_LOCK_OF_REASON = 1 << 20
"""Offset of the lock that protects the reason of an abort. A locked byte need not exist."""


class _Process:
    """Random number of this process. By comparing it, ranks that are threads of one process know
    that they cannot see each other's locks.
    """

    number = 0

    @classmethod
    def identify_own(cls) -> None:
        cls.number = int.from_bytes(os.urandom(7), "big") + 1


_Process.identify_own()
os.register_at_fork(after_in_child=_Process.identify_own)


class SharedMemory:
    """The shared memory of a group as one rank uses it, with the flags by which ranks detect that
    another rank has ended.

    A waiting rank must call ``check_ranks`` regularly; it raises an error if a rank that is waited for has
    ended.
    """

    def __init__(self, group: Group, fd: int, layout: Layout, processors: int) -> None:
        self.layout = layout
        self.spins = processors >= layout.size
        """Whether there is at least one processor for each rank, so that a waiting rank spins
        before it sleeps."""
        self.rank = group.rank
        self.ranks = group.ranks
        self._fd = fd
        flags = mmap.MAP_SHARED | getattr(mmap, "MAP_POPULATE", 0)
        self.map = mmap.mmap(fd, layout.total, flags=flags)
        self.bytes = np.frombuffer(self.map, dtype=np.uint8)
        self._processes = self.bytes[_PROCESSES:HEADER_BYTES].view(np.int64)
        self._reason = ""
        self.closed = False
        self._mutex = threading.Lock()
        self._processes[self.rank] = _Process.number
        fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, self.rank)

    def check(self) -> None:
        """Raise ``TransportError`` if the group was aborted or this transport was closed.

        Called before each operation.
        """
        if self.closed:
            raise TransportError("The shared-memory transport was closed.")
        if self.map[_ABORTED]:
            raise TransportError(self.read_abort_reason())

    def check_ranks(self, waits_for: int) -> None:
        """Check, during a wait, that the ranks are alive whose bits are set in ``waits_for``.

        Raises ``TransportError`` if one has ended, or the group was aborted.
        """
        self.check()
        for rank, world_rank in enumerate(self.ranks):
            if waits_for >> rank & 1 and not self._is_alive(rank):
                self.abort(f"Rank {world_rank} is gone: its process ended or left the group.")
                self.check()

    def read_abort_reason(self) -> str:
        """Return the reason for which the group was aborted."""
        text = self.bytes[_REASON : _REASON + _REASON_BYTES].tobytes()
        return text.rstrip(b"\0").decode(errors="replace")

    def abort(self, reason: str) -> None:
        """Abort the group for all ranks; of several reasons, the first is kept."""
        with self._mutex:
            if self.closed or self.map[_ABORTED]:
                return
            try:
                fcntl.lockf(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, _LOCK_OF_REASON)
            except BlockingIOError:
                return  # another rank is writing its reason now
            text = reason.encode()[: _REASON_BYTES - 1]
            self.map[_REASON : _REASON + len(text)] = text
            self.map[_ABORTED] = 1
            fcntl.lockf(self._fd, fcntl.LOCK_UN, 1, _LOCK_OF_REASON)

    def close(self) -> None:
        """Leave the group: other ranks that wait for this one then raise an error."""
        with self._mutex:
            if not self.closed:
                self.closed = True
                os.close(self._fd)

    def release(self) -> None:
        """Release the memory; called when no operation of this process uses it any more."""
        with self._mutex:
            for name in ("_processes", "bytes", "map"):
                vars(self).pop(name, None)

    def _is_alive(self, rank: int) -> bool:
        with self._mutex:
            if self.closed or rank == self.rank or self._processes[rank] == _Process.number:
                return True
            try:
                fcntl.lockf(self._fd, fcntl.LOCK_SH | fcntl.LOCK_NB, 1, rank)
            except BlockingIOError:
                return True
            fcntl.lockf(self._fd, fcntl.LOCK_UN, 1, rank)
            return False


def share_memory(group: Group, able: bool) -> tuple[SharedMemory, bool, list[socket.socket]]:
    """Create the shared memory (on rank 0) or receive it from rank 0, and wait until every rank has
    mapped it.

    Args:
        group: ranks that share the memory.
        able: whether this rank can use the compiled kernel, which is used only if all ranks can.

    Returns:
        The memory, whether the kernel is used, and connections that stay open: on rank 0 to ranks
            1, 2 and so on; on the others to rank 0.

    Raises:
        TransportError: the memory cannot be created, or a rank did not connect.
    """
    if group.rank:
        connection, fd, use, processors = _shm_rendezvous.receive_descriptor(group, able)
        try:
            memory = _map_memory(group, fd, choose_layout(group.size, use), processors)
        except BaseException:
            connection.close()
            raise
        with _release_on_failure(memory):
            _shm_rendezvous.confirm_mapping(group, connection)
        return memory, use, [connection]
    with _shm_rendezvous.RendezvousHost(group) as host:
        use, processors = host.gather_ranks(able)
        layout = choose_layout(group.size, use)
        try:
            memory = _map_memory(group, _reserve_memory(layout.total), layout, processors)
        except TransportError as error:
            host.refuse_ranks(str(error))
            raise
        with _release_on_failure(memory):
            host.send_descriptor(memory._fd, use, processors)
        return memory, use, host.take_connections()


@contextlib.contextmanager
def _release_on_failure(memory: SharedMemory) -> Iterator[None]:
    """Release the memory if the ``with`` block fails, so that it is available to a later attempt in
    this process, as in elastic training.
    """
    try:
        yield
    except BaseException:
        memory.close()
        memory.release()
        raise


def _reserve_memory(total: int) -> int:
    """Return the descriptor of a memfd whose ``total`` bytes are reserved, because a later write
    without available memory would end the process.
    """
    try:
        fd = os.memfd_create("aitne-shm", os.MFD_CLOEXEC)
    except OSError as error:
        raise TransportError(f"Shared memory cannot be allocated: {error}.") from error
    try:
        os.posix_fallocate(fd, 0, total)
    except OSError as error:
        os.close(fd)
        raise TransportError(
            f"Shared memory of {total / (1 << 20):.1f} MiB cannot be allocated: {error}. "
            "Give the job more memory, or choose another transport (AITNE_TRANSPORT)."
        ) from error
    return fd


def _map_memory(group: Group, fd: int, layout: Layout, processors: int) -> SharedMemory:
    try:
        return SharedMemory(group, fd, layout, processors)
    except (OSError, ValueError) as error:
        os.close(fd)
        raise TransportError(f"Shared memory cannot be mapped: {error}.") from error
