"""Functions that describe this rank and the installation, and those that start and stop the
runtime, with Horovod's names.
"""

from __future__ import annotations

import importlib.util
import os
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import torch

from aitne_train import _collective_submission, context, lifecycle, timeline
from aitne_train.process_sets import ProcessSet


def init(comm: Any = None, process_sets: Sequence[ProcessSet] | str | None = None) -> None:
    """Connect this rank to the other ranks. Has no effect if they are connected already.

    Args:
        comm: None, a list of all rank numbers, or an mpi4py communicator of all ranks. Use process
            sets for a subset of the ranks.
        process_sets: process sets to create, the same on every rank; or ``"dynamic"`` to allow
            adding sets later.

    Raises:
        ValueError: ``comm`` does not contain all ranks, or a set occurs twice. Nothing is
            initialized then.
        HorovodInternalError: the ranks could not be connected.
    """
    if context.is_initialized():
        return
    _collective_submission.discard_handles()
    lifecycle.init(process_sets)
    ranks = _ranks_of(comm)
    if ranks is not None and ranks != list(range(size())):
        of_all = size()
        lifecycle.shutdown()
        raise ValueError(
            f"comm has {len(ranks)} of {of_all} ranks: use process sets for collectives of some ranks."
        )


def shutdown() -> None:
    """Disconnect from the other ranks. ``init`` may be called again."""
    lifecycle.shutdown()
    _collective_submission.discard_handles()


def is_initialized() -> bool:
    """Return whether ``init`` was called without a later ``shutdown``."""
    return context.is_initialized()


def rank() -> int:
    """Return the rank of this process, from 0.

    Raises ``ValueError`` if ``init`` was not called, as all functions of this module about ranks
    do.
    """
    return context.require_context().world.rank


def size() -> int:
    """Return the number of ranks in the run. Raises ``ValueError`` if ``init`` was not called."""
    return context.require_context().world.size


def local_rank() -> int:
    """Return the rank of this process among the processes on its node, usually also the number of
    its GPU.
    """
    return context.require_context().world.local_rank


def local_size() -> int:
    """Return the number of ranks on this node."""
    return context.require_context().world.local_size


def cross_rank() -> int:
    """Return the position of this node, from 0, among the nodes that have a process with this
    process's ``local_rank``.
    """
    return context.require_context().world.cross_rank


def cross_size() -> int:
    """Return the number of nodes that have a process with this process's ``local_rank``."""
    return context.require_context().world.cross_size


def is_homogeneous() -> bool:
    """Return whether every node has the same number of ranks."""
    return len(set(Counter(context.require_context().nodes).values())) == 1


def mpi_threads_supported() -> bool:
    """Return whether several threads may call MPI.

    Raises:
        ValueError: this run does not use MPI for its tensors.
    """
    if not mpi_enabled():
        raise ValueError("Horovod MPI is not enabled; ranks exchange without it.")
    from mpi4py import MPI

    return bool(MPI.Query_thread() == MPI.THREAD_MULTIPLE)


def mpi_enabled() -> bool:
    """Return whether this run uses MPI to exchange tensors; False before ``init``."""
    return _get_transport_name() == "mpi"


def mpi_built() -> bool:
    """Return whether mpi4py is installed, so that MPI can be used."""
    return importlib.util.find_spec("mpi4py") is not None


def gloo_enabled() -> bool:
    """Return whether the ranks are connected without MPI, for which Horovod uses gloo; False before
    ``init``.
    """
    return is_initialized() and not mpi_enabled()


def gloo_built() -> bool:
    """Return True, because ranks can always connect without MPI."""
    return True


def nccl_built() -> int:
    """Return the version of NCCL in PyTorch as one number, such as 22703 for 2.27.3; 0 if PyTorch
    was built without NCCL.
    """
    if not torch.distributed.is_available() or not torch.distributed.is_nccl_available():
        return 0
    major, minor, patch = torch.cuda.nccl.version()[:3]
    return int(major * 10000 + minor * 100 + patch)


def ddl_built() -> bool:
    """Return False, because IBM's DDL library is never used."""
    return False


def ccl_built() -> bool:
    """Return False, because Intel's oneCCL library is never used."""
    return False


def cuda_built() -> bool:
    """Return whether torch was built for Nvidia's GPUs."""
    return torch.version.cuda is not None


def rocm_built() -> bool:
    """Return whether torch was built for AMD's GPUs."""
    return torch.version.hip is not None


def check_extension(ext_name: str, ext_env_var: str, pkg_path: str, *args: str) -> None:
    """Do nothing if ``ext_name`` names the PyTorch extension, which needs no compilation here;
    otherwise raise ``ImportError``.
    """
    if ext_name not in ("horovod.torch", "aitne_train"):
        raise ImportError(
            f"Extension {ext_name} has not been built: there is only one for PyTorch."
        )


def start_timeline(file_path: str, mark_cycles: bool = False) -> None:
    """Start writing Horovod's timeline to a file on rank 0.

    Args:
        file_path: path of the file; an existing file is overwritten.
        mark_cycles: whether to record also when rank 0 checks for ready collectives.

    Raises:
        ValueError: ``init`` was not called, or ``HOROVOD_TIMELINE`` is not set; it should be
            ``DYNAMIC``.
        OSError: the file cannot be written.
    """
    timeline.start_timeline(file_path, mark_cycles, rank=rank())


def stop_timeline() -> None:
    """Stop writing the timeline and complete its file.

    Raises ``ValueError`` if ``init`` was not called.
    """
    context.require_context()
    timeline.stop_timeline()


def _get_transport_name() -> str:
    """Return the name of the transport that exchanges CPU tensors; empty before ``init``."""
    if not is_initialized():
        return ""
    now = context.require_context()
    if now.world.size == 1:
        return "solo"
    from aitne_train import transport_choice

    transport_name = os.environ.get("AITNE_TRANSPORT", "auto")
    return transport_choice.choose_transport(now.nodes, "cpu", transport_name).name


def _ranks_of(comm: Any) -> list[int] | None:
    if comm is None:
        return None
    if isinstance(comm, Iterable):
        return sorted(int(number) for number in comm) or None
    if not hasattr(comm, "allgather"):
        raise ValueError("comm is a list of ranks or an mpi4py communicator.")
    return sorted(comm.allgather(rank()))
