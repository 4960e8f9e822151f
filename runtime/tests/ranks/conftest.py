"""Ranks for the tests of the training runtime, which are skipped without torch."""

from __future__ import annotations

import importlib.util
import shutil
from collections.abc import Iterator

import pytest

from tests.support.ranks import MpiPool, Pool
from tests.support.requirements import lacking, skip_modules_without

pytest_pycollect_makemodule = skip_modules_without("torch")


@pytest.fixture(scope="session")
def pool() -> Iterator[Pool]:
    """Ranks that later calls use again."""
    ranks = Pool()
    yield ranks
    ranks.close()


@pytest.fixture(scope="session")
def mpi_pool() -> Iterator[MpiPool]:
    """Ranks that ``mpirun`` starts; those of each call are a complete MPI world."""
    if importlib.util.find_spec("mpi4py") is None or shutil.which("mpirun") is None:
        lacking(
            "mpi",
            "needs mpi4py and mpirun: make distrib; apt-get install openmpi-bin libopenmpi-dev",
        )
    ranks = MpiPool()
    yield ranks
    ranks.close()
