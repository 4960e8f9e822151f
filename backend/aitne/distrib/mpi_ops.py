"""Module with the contents of ``horovod.torch.mpi_ops``, from which some libraries import."""

from aitne.distrib.basics import *  # noqa: F403
from aitne.distrib.errors import HorovodInternalError
from aitne.distrib.ops import *  # noqa: F403
from aitne.distrib.process_sets import (
    ProcessSet,
    add_process_set,
    global_process_set,
    remove_process_set,
)

__all__ = [
    "HorovodInternalError",
    "ProcessSet",
    "add_process_set",
    "global_process_set",
    "remove_process_set",
]
