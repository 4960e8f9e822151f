"""Training runtime for PyTorch on several ranks: the API of ``horovod.torch`` 0.28.

A script for Horovod needs one changed line to run::

    import aitne_train as hvd

docs/reference/horovod-api.md lists what is the same, what is added and what differs. Training
programs need torch and NumPy. Neither is imported before a name of the API is used, so that the
launcher (``aitne_train.launcher``) and topologies (``aitne_train.topology``) need the standard
library only.
"""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from aitne_train import elastic, mpi_ops
    from aitne_train.basics import (
        ccl_built,
        check_extension,
        cross_rank,
        cross_size,
        cuda_built,
        ddl_built,
        gloo_built,
        gloo_enabled,
        init,
        is_homogeneous,
        is_initialized,
        local_rank,
        local_size,
        mpi_built,
        mpi_enabled,
        mpi_threads_supported,
        nccl_built,
        rank,
        rocm_built,
        shutdown,
        size,
        start_timeline,
        stop_timeline,
    )
    from aitne_train.collectives import (
        Adasum,
        Average,
        Max,
        Min,
        Product,
        Sum,
        allgather,
        allgather_async,
        allreduce,
        allreduce_,
        allreduce_async,
        allreduce_async_,
        alltoall,
        alltoall_async,
        barrier,
        broadcast,
        broadcast_,
        broadcast_async,
        broadcast_async_,
        grouped_allgather,
        grouped_allgather_async,
        grouped_allreduce,
        grouped_allreduce_,
        grouped_allreduce_async,
        grouped_allreduce_async_,
        grouped_reducescatter,
        grouped_reducescatter_async,
        join,
        poll,
        reducescatter,
        reducescatter_async,
        sparse_allreduce_async,
        synchronize,
    )
    from aitne_train.compression import Compression
    from aitne_train.errors import HorovodInternalError, HostsUpdatedInterrupt
    from aitne_train.functions import (
        allgather_object,
        broadcast_object,
        broadcast_optimizer_state,
        broadcast_parameters,
    )
    from aitne_train.optimizer import DistributedOptimizer
    from aitne_train.process_sets import (
        ProcessSet,
        add_process_set,
        global_process_set,
        remove_process_set,
    )
    from aitne_train.run_function import run
    from aitne_train.sync_batch_norm import SyncBatchNorm

__all__ = [
    "Adasum",
    "Average",
    "Compression",
    "DistributedOptimizer",
    "HorovodInternalError",
    "HostsUpdatedInterrupt",
    "Max",
    "Min",
    "ProcessSet",
    "Product",
    "Sum",
    "SyncBatchNorm",
    "__version__",
    "add_process_set",
    "allgather",
    "allgather_async",
    "allgather_object",
    "allreduce",
    "allreduce_",
    "allreduce_async",
    "allreduce_async_",
    "alltoall",
    "alltoall_async",
    "barrier",
    "broadcast",
    "broadcast_",
    "broadcast_async",
    "broadcast_async_",
    "broadcast_object",
    "broadcast_optimizer_state",
    "broadcast_parameters",
    "ccl_built",
    "check_extension",
    "cross_rank",
    "cross_size",
    "cuda_built",
    "ddl_built",
    "elastic",
    "global_process_set",
    "gloo_built",
    "gloo_enabled",
    "grouped_allgather",
    "grouped_allgather_async",
    "grouped_allreduce",
    "grouped_allreduce_",
    "grouped_allreduce_async",
    "grouped_allreduce_async_",
    "grouped_reducescatter",
    "grouped_reducescatter_async",
    "init",
    "is_homogeneous",
    "is_initialized",
    "join",
    "local_rank",
    "local_size",
    "mpi_built",
    "mpi_enabled",
    "mpi_ops",
    "mpi_threads_supported",
    "nccl_built",
    "poll",
    "rank",
    "reducescatter",
    "reducescatter_async",
    "remove_process_set",
    "rocm_built",
    "run",
    "shutdown",
    "size",
    "sparse_allreduce_async",
    "start_timeline",
    "stop_timeline",
    "synchronize",
]

__version__ = "0.1.0"

_SUBMODULES = ("elastic", "mpi_ops")
"""Modules that are part of the API."""
_MODULES = (
    *("basics", "collectives", "functions", "compression", "errors", "process_sets", "optimizer"),
    *("run_function", "sync_batch_norm"),
)
"""Modules that define the other names of the API."""


def __getattr__(name: str) -> object:
    """Return a name of the API, and import what defines it at its first use."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        for module in (*_SUBMODULES, *_MODULES):
            import_module(f"{__name__}.{module}")
    except ModuleNotFoundError as error:
        if error.name not in ("torch", "numpy"):
            raise
        raise ModuleNotFoundError(
            f"aitne_train.{name} needs PyTorch and NumPy, and {error.name} is not installed: "
            "pip install 'aitne-train[torch]'",
            name=error.name,
        ) from error
    for module in _MODULES:
        defined = vars(import_module(f"{__name__}.{module}"))
        globals().update({each: defined[each] for each in __all__ if each in defined})
    return globals()[name]


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
