"""Module with the contents of ``horovod.torch.mpi_ops``, from which some libraries import."""

from aitne_train.basics import *  # noqa: F403
from aitne_train.collectives import *  # noqa: F403
from aitne_train.errors import HorovodInternalError
from aitne_train.process_sets import (
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
